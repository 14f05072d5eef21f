//! `tenure run`.

use super::StorageArguments;
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

const RUN_HELP: &str = "\
Instead of --handler, any program can be the work; it is started anew for each turn:

  tenure run --election jobs/backup --cron '0 3 * * *' -- /usr/local/bin/backup --all

It sees this environment without AZURE_*, IDENTITY_*, MSI_* and TENURE_*, what --env adds, and \
TENURE_TERM, TENURE_SLOT, TENURE_ATTEMPT, TENURE_VALUE (of --on-start) and TENURE_DEADLINE, the \
time at which it is killed unless a renewal puts that off, as most do. Exit code 0 is success. It \
and all that it started are told to end (SIGTERM) the stop time before the leadership ends, and \
killed half a second before it; what it leaves running when it ends is killed too. A turn that \
was told to end counts as cut off, or timed out, whatever its exit code. Give the term to \
whatever it writes to.

Or each turn is one POST to a URL, with the turn as JSON:

  tenure run --election jobs/report --every 1h --webhook https://example.com/tick

Any 2xx is success; everything else, redirects too, is a failed turn, and nothing but --delivery \
at-least-once repeats it. The headers tenure-term and idempotency-key tell the term, and the turn \
across its attempts. When the leadership ends the connection is cut, but what the receiver has \
begun goes on: nobody here can stop it. So it must refuse a term smaller than one that it has \
seen. Names of this machine are allowed, for a sidecar at http://localhost:3000/.

Durations are written with their unit: 500ms, 15s, 1h30m.

Every option that names a variable can be set by it; the command line wins. The storage account \
and its credential come from the variables that Azure's own tools know, never from an argument: \
AZURE_STORAGE_CONNECTION_STRING; or AZURE_STORAGE_ACCOUNT with AZURE_STORAGE_KEY, \
AZURE_STORAGE_SAS_TOKEN, AZURE_STORAGE_AUTH_TOKEN, an application (AZURE_CLIENT_SECRET), or else \
the identity of the workload or the machine. The first of these that is set is used, and the log \
begins with which; TENURE_CREDENTIAL forces one. NAME_FILE instead of a secret's NAME names a \
file that holds it, and is read again every few seconds.

On SIGTERM, SIGINT or SIGHUP it begins no new turn, lets the running one end within the grace or stops \
it, releases the lease and ends; a second signal does not wait for that. On SIGUSR1 it writes to \
standard error what it is at the moment. systemd is told when it is ready, what it is, and that \
it still makes progress (Type=notify, WatchdogSec=).

Exit codes: 0 the candidate left; 1 a second signal ended it; 2 something was wrong with the \
settings, and nothing was sent. Nothing else ends it: what goes wrong later is told, and tried \
again.";

#[derive(Args)]
#[command(after_help = RUN_HELP)]
pub(crate) struct RunArguments {
    /// A file that says what these options say, for one election or for several; see docs/configuration.md. The
    /// command line and variables win [env: TENURE_CONFIG]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The election: a container and a blob in it, both made when missing [env: TENURE_ELECTION]
    #[arg(long, value_name = "CONTAINER/BLOB")]
    pub election: Option<String>,
    /// The interval between turns, aligned to the epoch: 1h is each full hour, UTC
    /// [env: TENURE_EVERY]
    #[arg(long, value_name = "DURATION")]
    pub every: Option<String>,
    /// The times of the turns: five fields, or six with the second first, like '0 9 * * MON-FRI'
    /// [env: TENURE_CRON]
    #[arg(long, value_name = "EXPRESSION")]
    pub cron: Option<String>,
    /// Instead of a timer: the work is started when this candidate wins, and may run as long as it leads.
    /// When it ends by itself the leadership does too, so that another candidate starts it
    /// [env: TENURE_WHILE_LEADING]
    #[arg(long)]
    pub while_leading: bool,
    /// The time zone of --cron by its IANA name, like Europe/Berlin; default UTC
    /// [env: TENURE_TIME_ZONE]
    #[arg(long, value_name = "ZONE")]
    pub time_zone: Option<String>,
    /// Spreads the turns of all elections over this long, so that not all work begins on the hour;
    /// the turns of one election all come equally late. Less than the interval; default 0s
    /// [env: TENURE_JITTER]
    #[arg(long, value_name = "DURATION")]
    pub jitter: Option<String>,
    /// at-most-once: a turn that went wrong is not repeated. at-least-once: it is, by whoever
    /// leads. Default at-most-once [env: TENURE_DELIVERY]
    #[arg(long, value_name = "RULE")]
    pub delivery: Option<String>,
    /// At-least-once: after so many turns a slot is abandoned, 1 to 100; default 5
    /// [env: TENURE_MAX_ATTEMPTS]
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true)]
    pub max_attempts: Option<String>,
    /// What becomes of turns that nobody could run in time. skip: they do not run. once: one turn
    /// stands for all. 'all N': each runs, of more than N the newest. Default once
    /// [env: TENURE_MISSED]
    #[arg(long, value_name = "RULE")]
    pub missed: Option<String>,
    /// A turn for this value, the release for example, once for ever and before all others
    /// [env: TENURE_ON_START]
    #[arg(long, value_name = "VALUE")]
    pub on_start: Option<String>,
    /// The work of the leader: a component that exports tenure:election/leader-handler
    #[arg(long, value_name = "FILE")]
    pub handler: Option<PathBuf>,
    /// The work of the leader in the place of --handler: each turn is one POST to this URL, http:// or https://,
    /// with the turn as JSON. A secret in it is better put into the variable: other users can read arguments
    /// [env: TENURE_HANDLER_URL]
    #[arg(long, value_name = "URL")]
    pub webhook: Option<String>,
    /// The longest that a call of --webhook may take: then it is a failed turn. Default: it may take as long
    /// as the turn [env: TENURE_HANDLER_TIMEOUT]
    #[arg(long, value_name = "DURATION")]
    pub webhook_timeout: Option<String>,
    /// Certificates in PEM form that are trusted beside the platform's, for --webhook alone
    /// [env: TENURE_HANDLER_CA_FILE]
    #[arg(long, value_name = "FILE")]
    pub webhook_ca_file: Option<PathBuf>,
    /// How long before the end of the leadership a command is told to end, 1s or more; the lease must have
    /// room for it beside the margin and a renewal; default 3s [env: TENURE_STOP_TIME]
    #[arg(long, value_name = "DURATION")]
    pub stop_time: Option<String>,
    /// How others see this candidate; default: machine and process [env: TENURE_NAME]
    #[arg(long)]
    pub name: Option<String>,
    /// How long a lease lasts without a renewal, 15s to 60s; default 15s [env: TENURE_LEASE]
    #[arg(long, value_name = "DURATION")]
    pub lease: Option<String>,
    /// How long before the end of the lease the work is stopped, at least 2.5s; default a fifth of
    /// the lease, at least 2.5s [env: TENURE_MARGIN]
    #[arg(long, value_name = "DURATION")]
    pub margin: Option<String>,
    /// How often a leader renews; default 4/15 of the lease, 4s of 15s [env: TENURE_RENEW]
    #[arg(long, value_name = "DURATION")]
    pub renew: Option<String>,
    /// The longest that a follower waits between two looks; default 4s [env: TENURE_POLL]
    #[arg(long, value_name = "DURATION")]
    pub poll: Option<String>,
    /// The longest that one request may take; default 3s [env: TENURE_REQUEST_TIMEOUT]
    #[arg(long, value_name = "DURATION")]
    pub request_timeout: Option<String>,
    /// The longest that a turn may take, 100ms to 24h: then it is stopped, and this candidate leads
    /// no longer. Default: a turn may last as long as the leadership [env: TENURE_TURN_TIMEOUT]
    #[arg(long, value_name = "DURATION")]
    pub turn_timeout: Option<String>,
    /// So many failed turns in a row, up to 1000, end the leadership; 0: never. One that traps or
    /// takes too long does so at once; default 3 [env: TENURE_MAX_FAILURES]
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true)]
    pub max_failures: Option<String>,
    /// How long this candidate then stays out of the race, 1s to 1h, so that another one takes over:
    /// half of this to all of it, and twice as long each time until a turn succeeds, up to 16 times
    /// this or 1h; default 30s [env: TENURE_COOL_DOWN]
    #[arg(long, value_name = "DURATION")]
    pub cool_down: Option<String>,
    /// How long a running turn may go on when this candidate is told to end, 0s to 1h; its lease is
    /// renewed meanwhile; default 1s, of a command the stop time [env: TENURE_GRACE]
    #[arg(long, value_name = "DURATION")]
    pub grace: Option<String>,
    /// Who should lead, 0 to 1000: a leader hands over to a candidate of higher priority when it has led
    /// for a minute, if both have one [env: TENURE_PRIORITY]
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true)]
    pub priority: Option<String>,
    /// After so long a leader resigns between two turns, and the others come first; at least four leases
    /// [env: TENURE_MAX_TENURE]
    #[arg(long, value_name = "DURATION")]
    pub max_tenure: Option<String>,
    /// How long a new process stays out of the race, up to 24h; default 0s [env: TENURE_WARM_UP]
    #[arg(long, value_name = "DURATION")]
    pub warm_up: Option<String>,
    /// A command that tells whether this process can work, by exit code 0: it stays out of the race until
    /// then, and asks again each second. Run by the shell [env: TENURE_READY_CMD]
    #[arg(long, value_name = "COMMAND")]
    pub ready_cmd: Option<String>,
    /// Where this candidate can be reached while it leads; shown to others. Default: that of --listen, when
    /// it is one of this machine's in the network [env: TENURE_ADDRESS]
    #[arg(long)]
    pub address: Option<String>,
    /// Shows over HTTP a page of the election (/), whether this candidate runs (/healthz), is ready (/readyz, and /readyz?leader on the
    /// leader alone), who leads (/leader), and figures (/metrics); to read, for whoever reaches it
    /// [env: TENURE_LISTEN]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<String>,
    /// Names by which --listen may be asked, separated by commas, beside addresses, --address, this machine's
    /// name and names that the public DNS does not have, like those of services in a cluster; * for all
    /// [env: TENURE_LISTEN_HOST]
    #[arg(long, value_name = "NAMES")]
    pub listen_host: Option<String>,
    /// Another address for probes: /healthz and /readyz, and nothing else, so that they are answered whoever
    /// asks at --listen [env: TENURE_HEALTH_LISTEN]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub health_listen: Option<String>,
    /// A file with the token by which operators steer this candidate on --listen: POST /resign,
    /// /transfer?to=NAME, /pause, /resume. Without one nobody can [env: TENURE_CONTROL_TOKEN_FILE, or the
    /// token itself in TENURE_CONTROL_TOKEN]
    #[arg(long, value_name = "FILE")]
    pub control_token_file: Option<PathBuf>,
    /// A host that the handler may send requests to: HOST, HOST:PORT or SCHEME://HOST[:PORT].
    /// Addresses of this machine, its link and its platform only as addresses, not by name. Repeatable
    #[arg(long, value_name = "HOST")]
    pub allow_host: Vec<String>,
    /// The header that carries the term in each request of the handler, and in that of --webhook, for sinks
    /// that refuse an earlier leader; default tenure-term [env: TENURE_TERM_HEADER]
    #[arg(long, value_name = "NAME")]
    pub term_header: Option<String>,
    /// The memory that a turn may take, 1MiB to 4GiB; a handler that needs more traps. For its requests,
    /// answers and handles the host holds at most half as much beside it, or 16 MiB. Default 256MiB
    /// [env: TENURE_MEMORY_LIMIT]
    #[arg(long, value_name = "SIZE")]
    pub memory_limit: Option<String>,
    /// A variable for the handler, which sees no other, or for the command. Repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    pub env: Vec<String>,
    /// The work of the leader in the place of --handler: a program and its arguments. On Linux and
    /// macOS
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
    #[command(flatten)]
    pub storage: StorageArguments,
    /// How to tell what happens: text for people, or one JSON object per line. Renewals are
    /// in the JSON only
    #[arg(long, value_enum, default_value_t)]
    pub log: Format,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    #[default]
    Text,
    Json,
}

/// What a runner starts the watchdog of a turn with. Standard input is its socket.
#[cfg(unix)]
#[derive(Args)]
pub(crate) struct WatchdogArguments {
    /// How long before the end of the leadership the command is told to end, in milliseconds
    #[arg(long)]
    pub stop_time_ms: u64,
    /// What the command is called, for itself
    #[arg(long)]
    pub name: OsString,
    /// The file of the command, and its arguments
    #[arg(last = true, required = true)]
    pub command: Vec<OsString>,
}
