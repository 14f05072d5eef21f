"""An application that works only while its sidecar, `tenure run --no-work`, leads.

    REPORT_URL=http://127.0.0.1:9000/report python3 poller.py
"""

import http.client
import json
import os
import signal
import sys
import threading
import time
import urllib.request
from contextlib import closing
from datetime import datetime
from urllib.parse import urlsplit

WATCH_URL = os.environ.get("WATCH_URL", "http://127.0.0.1:8080/watch")
REPORT_URL = urlsplit(os.environ["REPORT_URL"])
REPORT_PATH = REPORT_URL._replace(scheme="", netloc="").geturl() or "/"
SILENCE = 30  # seconds; the sidecar sends at least a comment every 10 s
UNIT = 1  # seconds; a "no" of the sidecar is obeyed after the running unit


class Permission:
    """The right to act under a term, for a limited time."""

    def __init__(self, status):
        self.deadline = time.monotonic() + status["valid_for_ms"] / 1000
        until = datetime.fromisoformat(status["valid_until"].replace("Z", "+00:00"))
        self.valid_until = until.timestamp()
        self.term = status["leader"]["term"]
        self.headers = {
            "content-type": "application/json",
            "tenure-election": status["election"],
            "tenure-term": str(self.term),
        }
        self.candidate = status["candidate"]

    def left(self):
        """Returns the seconds left. By the wall clock an event that was read late is over, and by
        the monotonic clock a permission ends even if the wall clock was set back."""
        return min(self.deadline - time.monotonic(), self.valid_until - time.time())


permission = None  # the newest one, or None


def watch():
    """Follows the stream. Without events, the last permission expires by itself."""
    global permission
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while True:
        try:
            with direct.open(WATCH_URL, timeout=SILENCE) as stream:
                for line in stream:
                    if not line.startswith(b"data: "):
                        continue
                    status = json.loads(line.removeprefix(b"data: "))
                    if status["version"] != 1:
                        raise ValueError(f"version {status['version']} is unknown")
                    permission = Permission(status) if status["leading"] else None
            problem = "the stream has ended"
        except Exception as error:  # No error may end this thread.
            problem = error
        print(f"{WATCH_URL}: {problem}", file=sys.stderr, flush=True)
        time.sleep(1)


def act(current):
    """Does one unit of work: one POST request."""
    left = current.left()
    if left <= 0:
        return
    https = REPORT_URL.scheme == "https"
    connect = http.client.HTTPSConnection if https else http.client.HTTPConnection
    with closing(connect(REPORT_URL.netloc, timeout=min(left, UNIT))) as connection:
        connection.connect()
        # The time-out limits each operation, so the permission may be over by now.
        if current.left() <= 0:
            return
        body = json.dumps({"candidate": current.candidate})
        connection.request("POST", REPORT_PATH, body, current.headers)
        print(f"term {current.term}: {connection.getresponse().status}", flush=True)


# Without a handler, the first process of a container ignores SIGTERM.
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
threading.Thread(target=watch, daemon=True).start()
while True:
    if current := permission:
        try:
            act(current)
        except (OSError, http.client.HTTPException) as error:
            print(f"{REPORT_URL.geturl()}: {error}", file=sys.stderr, flush=True)
    time.sleep(1)
