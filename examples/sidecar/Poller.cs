// An application that works only while its sidecar, `tenure run --no-work`, leads. Not compiled here.
//
// In a project of `dotnet new worker --name application` (.NET 8 or newer). A project called Poller would not compile. In
// Program.cs, in place of the template's Worker: builder.Services.AddHostedService<Poller>();

using System.Diagnostics;
using System.Net.Http.Json;
using System.Text.Json.Nodes;

public sealed class Poller(IConfiguration configuration, ILogger<Poller> logger) : BackgroundService
{
    static readonly TimeSpan Silence = TimeSpan.FromSeconds(30); // The sidecar sends at least a comment every 10 s.
    static readonly TimeSpan Unit = TimeSpan.FromSeconds(1); // A "no" of the sidecar is obeyed after the running unit.

    // The variables of the environment are part of the configuration.
    readonly string watchUrl = configuration["WATCH_URL"] ?? "http://127.0.0.1:8080/watch";
    readonly string reportUrl =
        configuration["REPORT_URL"] ?? throw new InvalidOperationException("REPORT_URL is missing");
    readonly HttpClient watcher =
        new(new SocketsHttpHandler { UseProxy = false }) { Timeout = Timeout.InfiniteTimeSpan };
    readonly HttpClient reporter = new();

    /// <summary>The newest right to act, or null.</summary>
    volatile Permission? permission;

    /// <summary>The right to act under a term, for a limited time.</summary>
    sealed record Permission(
        string Candidate, string Election, ulong Term, long ReceivedAt, TimeSpan ValidFor, DateTimeOffset ValidUntil)
    {
        /// <summary>
        /// The time left. By the wall clock an event that was read late is over, and by the monotonic clock a
        /// permission ends even if the wall clock was set back.
        /// </summary>
        public TimeSpan Left
        {
            get
            {
                var monotonic = ValidFor - Stopwatch.GetElapsedTime(ReceivedAt);
                var wall = ValidUntil - DateTimeOffset.UtcNow;
                return monotonic < wall ? monotonic : wall;
            }
        }

        public static Permission? Parse(string json)
        {
            var status = JsonNode.Parse(json)!;
            var version = status["version"]!.GetValue<int>();
            if (version != 1) throw new FormatException($"version {version} is unknown");
            if (!status["leading"]!.GetValue<bool>()) return null;
            return new Permission(
                status["candidate"]!.GetValue<string>(),
                status["election"]!.GetValue<string>(),
                status["leader"]!["term"]!.GetValue<ulong>(),
                Stopwatch.GetTimestamp(),
                TimeSpan.FromMilliseconds(status["valid_for_ms"]!.GetValue<long>()),
                status["valid_until"]!.GetValue<DateTimeOffset>());
        }
    }

    protected override Task ExecuteAsync(CancellationToken stopping) =>
        Task.WhenAll(WatchAsync(stopping), WorkAsync(stopping));

    /// <summary>Follows the stream. Without events, the last permission expires by itself.</summary>
    async Task WatchAsync(CancellationToken stopping)
    {
        while (true)
        {
            try
            {
                await ReadStreamAsync(stopping);
                logger.LogWarning("{Url}: the stream has ended", watchUrl);
            }
            catch (Exception error) when (!stopping.IsCancellationRequested)
            {
                logger.LogWarning("{Url}: {Error}", watchUrl, error.Message);
            }
            await Task.Delay(TimeSpan.FromSeconds(1), stopping);
        }
    }

    /// <summary>Reads the stream until it ends, breaks or is silent.</summary>
    async Task ReadStreamAsync(CancellationToken stopping)
    {
        using var silence = CancellationTokenSource.CreateLinkedTokenSource(stopping);
        silence.CancelAfter(Silence);
        using var reader = new StreamReader(await watcher.GetStreamAsync(watchUrl, silence.Token));
        while (await reader.ReadLineAsync(silence.Token) is { } line)
        {
            silence.CancelAfter(Silence);
            const string data = "data: ";
            if (line.StartsWith(data, StringComparison.Ordinal)) permission = Permission.Parse(line[data.Length..]);
        }
    }

    async Task WorkAsync(CancellationToken stopping)
    {
        while (true)
        {
            try
            {
                if (permission is { } current) await ActAsync(current, stopping);
            }
            catch (Exception error) when (!stopping.IsCancellationRequested)
            {
                logger.LogWarning("{Url}: {Error}", reportUrl, error.Message);
            }
            await Task.Delay(TimeSpan.FromSeconds(1), stopping);
        }
    }

    /// <summary>Does one unit of work: one POST request, which ends before the permission does.</summary>
    async Task ActAsync(Permission current, CancellationToken stopping)
    {
        var left = current.Left;
        if (left <= TimeSpan.Zero) return;
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(stopping);
        limit.CancelAfter(left < Unit ? left : Unit);
        using var request = new HttpRequestMessage(HttpMethod.Post, reportUrl)
        {
            Content = JsonContent.Create(new { candidate = current.Candidate }),
        };
        request.Headers.Add("tenure-election", current.Election);
        request.Headers.Add("tenure-term", current.Term.ToString());
        using var answer = await reporter.SendAsync(request, limit.Token);
        logger.LogInformation("term {Term}: {Status}", current.Term, (int)answer.StatusCode);
    }
}
