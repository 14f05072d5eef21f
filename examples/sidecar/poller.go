// An application that works only while its sidecar, `tenure run --no-work`, leads.
//
//	REPORT_URL=http://127.0.0.1:9000/report go run poller.go
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	silence = 30 * time.Second // The sidecar sends at least a comment every 10 s.
	unit    = time.Second      // A "no" of the sidecar is obeyed after the running unit.
)

// permission is the right to act under a term, for a limited time: an event of a leader.
type permission struct {
	Version    int
	Election   string
	Candidate  string
	Leading    bool
	Leader     struct{ Term uint64 }
	ValidForMS int64     `json:"valid_for_ms"`
	ValidUntil time.Time `json:"valid_until"`
	deadline   time.Time // by the monotonic clock
}

// newest is the newest permission, or nil.
var newest atomic.Pointer[permission]

// left returns the time left. By the wall clock an event that was read late is over, and by the
// monotonic clock a permission ends even if the wall clock was set back.
func (p *permission) left() time.Duration {
	monotonic, wall := time.Until(p.deadline), time.Until(p.ValidUntil)
	if monotonic < wall {
		return monotonic
	}
	return wall
}

// take obeys an event.
func take(data []byte) error {
	var event permission
	if err := json.Unmarshal(data, &event); err != nil {
		return err
	}
	if event.Version != 1 {
		return fmt.Errorf("version %d is unknown", event.Version)
	}
	if !event.Leading {
		newest.Store(nil)
		return nil
	}
	event.deadline = time.Now().Add(time.Duration(event.ValidForMS) * time.Millisecond)
	newest.Store(&event)
	return nil
}

// readStream reads the stream until it ends, breaks or is silent.
func readStream(url string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	watchdog := time.AfterFunc(silence, cancel)
	defer watchdog.Stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the answer is %s", response.Status)
	}
	lines, prefix := bufio.NewScanner(response.Body), []byte("data: ")
	for lines.Scan() {
		watchdog.Reset(silence)
		if !bytes.HasPrefix(lines.Bytes(), prefix) {
			continue
		}
		if err := take(bytes.TrimPrefix(lines.Bytes(), prefix)); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return errors.New("the stream has ended")
}

// act does one unit of work: one POST request, which ends before the permission does.
func act(ctx context.Context, url string, current *permission) error {
	limit := current.left()
	if limit <= 0 {
		return nil
	}
	if limit > unit {
		limit = unit
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	body, err := json.Marshal(map[string]string{"candidate": current.Candidate})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("content-type", "application/json")
	request.Header.Set("tenure-election", current.Election)
	request.Header.Set("tenure-term", strconv.FormatUint(current.Leader.Term, 10))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	log.Printf("term %d: %d", current.Leader.Term, response.StatusCode)
	return response.Body.Close()
}

func main() {
	watchURL, found := os.LookupEnv("WATCH_URL")
	if !found {
		watchURL = "http://127.0.0.1:8080/watch"
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	go func() {
		// Without events, the last permission expires by itself.
		for {
			log.Printf("%s: %v", watchURL, readStream(watchURL))
			time.Sleep(time.Second)
		}
	}()
	for ctx.Err() == nil {
		if current := newest.Load(); current != nil {
			if err := act(ctx, os.Getenv("REPORT_URL"), current); err != nil {
				log.Print(err)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}
