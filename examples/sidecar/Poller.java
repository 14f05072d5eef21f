import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.HttpURLConnection;
import java.net.Proxy;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Pattern;

/**
 * An application that works only while its sidecar, `tenure run --no-work`, leads.
 *
 * <pre>REPORT_URL=http://127.0.0.1:9000/report java Poller.java</pre>
 */
public class Poller {
    static final URI WATCH_URL = URI.create(
            System.getenv().getOrDefault("WATCH_URL", "http://127.0.0.1:8080/watch"));
    static final URI REPORT_URL = URI.create(System.getenv("REPORT_URL"));
    static final int SILENCE_MS = 30_000; // The sidecar sends at least a comment every 10 s.
    static final Duration UNIT = Duration.ofSeconds(1); // A "no" is obeyed after the running unit.

    /** The newest right to act, or null. */
    static volatile Permission permission;

    /** The right to act under a term, for a limited time. */
    record Permission(
            String candidate, String election, String term, long deadline, Instant validUntil) {
        /**
         * Returns the time left. By the wall clock an event that was read late is over, and by the
         * monotonic clock a permission ends even if the wall clock was set back.
         */
        Duration left() {
            var monotonic = Duration.ofNanos(deadline - System.nanoTime());
            var wall = Duration.between(Instant.now(), validUntil);
            return monotonic.compareTo(wall) < 0 ? monotonic : wall;
        }
    }

    /** Reads an event. The JDK has no JSON parser; take that of your application. */
    static Permission permissionOf(String status) throws IOException {
        var version = field(status, "\"version\":(\\d+)");
        if (!version.equals("1")) throw new IOException("version " + version + " is unknown");
        if (!field(status, "\"leading\":(\\w+)").equals("true")) return null;
        var validForMs = Long.parseLong(field(status, "\"valid_for_ms\":(\\d+)"));
        return new Permission(
                field(status, "\"candidate\":\"([^\"]*)\""),
                field(status, "\"election\":\"([^\"]*)\""),
                field(status, "\"leader\":\\{.*?\"term\":(\\d+)"),
                System.nanoTime() + validForMs * 1_000_000,
                Instant.parse(field(status, "\"valid_until\":\"([^\"]*)\"")));
    }

    static String field(String json, String pattern) throws IOException {
        var found = Pattern.compile(pattern).matcher(json);
        if (!found.find()) throw new IOException("the event lacks " + pattern);
        return found.group(1);
    }

    /** Reads the stream until it ends, breaks or is silent. */
    static void readStream() throws IOException {
        var connection = (HttpURLConnection) WATCH_URL.toURL().openConnection(Proxy.NO_PROXY);
        connection.setConnectTimeout(SILENCE_MS);
        connection.setReadTimeout(SILENCE_MS);
        try (var lines = new BufferedReader(
                new InputStreamReader(connection.getInputStream(), StandardCharsets.UTF_8))) {
            for (String line; (line = lines.readLine()) != null; ) {
                if (line.startsWith("data: ")) permission = permissionOf(line);
            }
        } finally {
            connection.disconnect();
        }
    }

    /** Follows the stream. Without events, the last permission expires by itself. */
    static void watch() {
        try {
            while (true) {
                try {
                    readStream();
                    System.err.println(WATCH_URL + ": the stream has ended");
                } catch (IOException | RuntimeException error) { // No error may end this thread.
                    System.err.println(WATCH_URL + ": " + error);
                }
                Thread.sleep(1_000);
            }
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    /** Does one unit of work: one POST request, which ends before the permission does. */
    static void act(HttpClient client, Permission current) throws Exception {
        var left = current.left();
        if (left.isNegative() || left.isZero()) return;
        var limit = left.compareTo(UNIT) < 0 ? left : UNIT;
        var body = "{\"candidate\":\"" + current.candidate() + "\"}";
        var request = HttpRequest.newBuilder(REPORT_URL)
                .timeout(limit) // of all but the answer's body
                .header("content-type", "application/json")
                .header("tenure-election", current.election())
                .header("tenure-term", current.term())
                .POST(HttpRequest.BodyPublishers.ofString(body))
                .build();
        var sent = client.sendAsync(request, HttpResponse.BodyHandlers.discarding());
        var answer = sent.get(limit.toNanos(), TimeUnit.NANOSECONDS);
        System.out.println("term " + current.term() + ": " + answer.statusCode());
    }

    public static void main(String[] arguments) throws Exception {
        var watcher = new Thread(Poller::watch);
        watcher.setDaemon(true);
        watcher.start();
        var client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
        while (true) {
            var current = permission;
            try {
                if (current != null) act(client, current);
            } catch (ExecutionException | TimeoutException error) {
                System.err.println(REPORT_URL + ": " + error);
            }
            Thread.sleep(1_000);
        }
    }
}
