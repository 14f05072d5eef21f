//! The table of settings, with one row for each. It defines the options and their help, the keys of
//! the file, variables, complaints, manual pages, completions, and docs/configuration.md.
//!
//! To add a setting, add a row here, and read it by the name of the row. The program passes a
//! setting for the election component on under the row's variable, and the component validates it.

use super::Part::{Number, Size, Time, Words};
use super::{Choice, Kind, Range, Scope, Setting, Work};
use std::time::Duration;
use tenure::handler::DEFAULT_GRACE;
use tenure_core::{limits, variable};
use tenure_members::MAX_SHARES as SHARE_LIMIT;
use tenure_webhook::variable as webhook;

const RUN: &[&str] = &["run", "check"];
const RUN_AND_LOCK: &[&str] = &["run", "check", "lock"];
const RUN_AND_OBSERVE: &[&str] = &["run", "check", "observe"];
/// Commands that keep a log and know the leader.
const LASTING: &[&str] = &["run", "check", "lock", "observe"];
const LASTING_AND_STATUS: &[&str] = &["run", "check", "lock", "observe", "status"];
/// Commands with JSON output.
const WITH_JSON: &[&str] = &["check", "status"];
/// Commands that use an election, and read the file.
const ALL: &[&str] = &[
    "run",
    "check",
    "lock",
    "observe",
    "status",
    "reshare",
    "reset-slot",
    "transfer",
    "trigger",
    "break",
];

/// Default fields of a row.
const ROW: Setting = Setting {
    name: "",
    variable: "",
    content: "",
    kind: Kind::Text("VALUE"),
    range: Range::Any,
    default: &[],
    commands: RUN,
    required: false,
    scope: Scope::Any,
    choice: None,
    works: &[],
    component: false,
    short: "",
    help: "",
    more: "",
    advice: "",
    heading: "",
};

/// Default fields of rows that the component reads.
const PASSED_ON: Setting = Setting { component: true, ..ROW };

/// Default fields of rows that only have a variable.
const VARIABLE: Setting = Setting { commands: &[], component: true, ..ROW };

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

/// The shortest stop time. With less, a command could as well be killed at once.
pub(crate) const SHORTEST_STOP_TIME: Duration = Duration::from_millis(100);

/// The maximum polling interval while `tenure lock` waits.
pub(crate) const LOCK_POLL: Duration = seconds(1);

/// Time for which `tenure transfer` waits for the result.
pub(crate) const DEFAULT_WAIT: Duration = seconds(120);

/// The interval between two reads of `tenure status --watch`.
pub(crate) const DEFAULT_INTERVAL: Duration = seconds(2);

/// Defines a static for each row, and the table of all.
macro_rules! settings {
    ($($name:ident = $row:expr;)*) => {
        $(pub(crate) static $name: Setting = $row;)*
        /// All settings, in the order of the help.
        pub(crate) static TABLE: &[&Setting] = &[$(&$name),*];
    };
}

const ELECTIONS: &str = "The election";
pub(super) const ACCOUNT: &str = "The storage account";
const SCHEDULE: &str = "The schedule";
const TIMINGS: &str = "The lease and its timings";
const FAILURES: &str = "Turns and failures";
const WORK: &str = "The work";
const SHOWN: &str = "The listener and the log";
pub(super) const OTHERS: &str = "Options of other commands";
const INVOCATION: &str = "One turn per invocation";

/// The headings of docs/configuration.md, in their order there.
#[cfg(test)]
pub(super) const HEADINGS: [&str; 9] =
    [ELECTIONS, ACCOUNT, SCHEDULE, TIMINGS, FAILURES, WORK, SHOWN, INVOCATION, OTHERS];

settings! {
    CONFIG = Setting {
        name: "config", variable: "TENURE_CONFIG", kind: Kind::File, commands: ALL,
        scope: Scope::Elsewhere,
        short: "A file with values for these options",
        help: "A file with values for these options, for one election or for several. The command line and \
               variables take precedence. docs/configuration.md describes the file",
        heading: ELECTIONS, ..ROW
    };
    ELECTION = Setting {
        name: "election", variable: variable::ELECTION, kind: Kind::Argument("CONTAINER/BLOB"),
        commands: ALL, scope: Scope::One,
        short: "The election: a container and a blob in it",
        help: "The election: a container and a blob in it; candidates create both when they are missing",
        more: "Each job needs a blob of its own; a blob that holds anything else is refused and left \
               untouched",
        heading: ELECTIONS, ..PASSED_ON
    };
    FOR_EACH = Setting {
        name: "for-each", kind: Kind::List("NAME"), scope: Scope::One,
        help: "Runs one election for each of these names; {each} in other settings stands for the name. Repeatable",
        more: "See [Many elections of one kind](#many-elections-of-one-kind)",
        heading: ELECTIONS, ..ROW
    };
    FOR_EACH_FILE = Setting {
        name: "for-each-file", kind: Kind::File, scope: Scope::One,
        help: "A file with names for --for-each, one on each line; it is read again when it changes",
        more: "See [Many elections of one kind](#many-elections-of-one-kind)",
        heading: ELECTIONS, ..ROW
    };
    SHARES = Setting {
        name: "shares", variable: "TENURE_SHARES", kind: Kind::Number, range: Range::Numbers(1..=SHARE_LIMIT),
        scope: Scope::One,
        short: "Splits the work into this many shares, over all processes",
        help: "Splits the work into this many shares. Each runs in one process at a time, under a term of its own, \
               and all processes with the same election share them evenly. Each turn receives the index of its share. This \
               number counts only while there is no plan yet; `tenure reshare` changes it. Not with --for-each",
        more: "Give more shares than there will ever be processes. See [Shares](scale.md#shares)",
        advice: "give more shares than there will ever be processes, like 32",
        heading: ELECTIONS, ..ROW
    };
    NEW_SHARES = Setting {
        name: "shares", kind: Kind::Number, range: Range::Numbers(1..=SHARE_LIMIT), commands: &["reshare"], required: true,
        help: "The new number of shares",
        advice: "give more shares than there will ever be processes, like 32",
        heading: OTHERS, ..ROW
    };
    CAPACITY = Setting {
        name: "capacity", variable: "TENURE_CAPACITY", kind: Kind::Number, range: Range::Numbers(0..=1_000_000),
        default: &[Words("1")],
        help: "With --shares, the weight of this process: one of capacity 2 holds twice \
               as many shares as one of capacity 1; with 0 it holds none",
        advice: "give a whole number, like 2",
        heading: ELECTIONS, ..ROW
    };
    MAX_SHARES = Setting {
        name: "max-shares", variable: "TENURE_MAX_SHARES", kind: Kind::Number, range: Range::Numbers(0..=SHARE_LIMIT),
        default: &[Words("all")],
        help: "With --shares, the most shares that this process takes. When every process has reached its limit, the \
               remaining shares have no holder",
        advice: "give a whole number, like 8",
        heading: ELECTIONS, ..ROW
    };
    EVERY = Setting {
        name: "every", variable: variable::EVERY, kind: Kind::Duration,
        range: Range::Durations(limits::EVERY),
        scope: Scope::One, choice: Some(Choice::Schedule),
        short: "The interval between turns, like 1h",
        help: "The interval between turns, aligned to the epoch: 1h is each full hour, UTC",
        more: "See [Schedules](#schedules)",
        heading: SCHEDULE, ..PASSED_ON
    };
    CRON = Setting {
        name: "cron", variable: variable::CRON, kind: Kind::Text("EXPRESSION"),
        scope: Scope::One, choice: Some(Choice::Schedule),
        short: "The times of the turns, like '0 9 * * MON-FRI'",
        help: "The times of the turns, instead of an interval: five fields, like '0 9 * * MON-FRI', or six \
               that begin with the second",
        more: "See [Schedules](#schedules)",
        heading: SCHEDULE, ..PASSED_ON
    };
    WHILE_LEADING = Setting {
        name: "while-leading", variable: variable::WHILE_LEADING, kind: Kind::Switch,
        scope: Scope::One, choice: Some(Choice::Schedule),
        short: "Runs the work for as long as this candidate leads",
        help: "Instead of a timer: the work is started when this candidate wins, and may run as long as it leads. \
               When it ends, the leadership ends too, and another candidate starts it",
        more: "See [Handlers](handlers.md#a-daemon-that-runs-only-on-the-leader)",
        heading: SCHEDULE, ..PASSED_ON
    };
    TIME_ZONE = Setting {
        name: "time-zone", variable: variable::TIME_ZONE, kind: Kind::Text("ZONE"), default: &[Words("UTC")],
        short: "The time zone of --cron, like Europe/Berlin; default: UTC",
        help: "The time zone of --cron by its IANA name, like Europe/Berlin",
        heading: SCHEDULE, ..PASSED_ON
    };
    JITTER = Setting {
        name: "jitter", variable: variable::JITTER, kind: Kind::Duration,
        range: Range::Durations(limits::JITTER), default: &[Time(Duration::ZERO)],
        help: "Delays all turns of an election by the same time, which follows from its name and is at most this long, \
               so that not all work begins on the hour. All candidates of an election need the same value. Less than \
               the interval",
        heading: SCHEDULE, ..PASSED_ON
    };
    DELIVERY = Setting {
        name: "delivery", variable: variable::DELIVERY,
        kind: Kind::Rule(&["at-most-once", "at-least-once"]), default: &[Words("at-most-once")],
        short: "at-most-once (the default), or at-least-once",
        help: "at-most-once: a turn that failed is not retried; at-least-once: the leader retries it, up to --max-attempts",
        more: "See [Delivery](guarantees.md#delivery)",
        heading: SCHEDULE, ..PASSED_ON
    };
    MAX_ATTEMPTS = Setting {
        name: "max-attempts", variable: variable::MAX_ATTEMPTS, kind: Kind::Number,
        range: Range::Numbers(limits::MAX_ATTEMPTS), default: &[Number(limits::DEFAULT_MAX_ATTEMPTS)],
        help: "With at-least-once, how many turns a slot may have before it is abandoned",
        heading: SCHEDULE, ..PASSED_ON
    };
    MISSED = Setting {
        name: "missed", variable: variable::MISSED, kind: Kind::Rule(&["skip", "once"]),
        range: Range::Words(&[Words("skip, once or 'all N' with N up to "), Number(*limits::MISSED.end())]), default: &[Words("once")],
        help: "What happens to slots that could not run in time. skip: they have no turn. once: one turn \
               stands for all. 'all N': each has its turn, but only the newest N",
        more: "skip: no turn; once: one turn stands for all; 'all N': one turn for each of the newest N. See \
               [Delivery](guarantees.md#delivery)",
        heading: SCHEDULE, ..PASSED_ON
    };
    HANDLER = Setting {
        name: "handler", kind: Kind::File, scope: Scope::One, choice: Some(Choice::Work),
        short: "The work: a WebAssembly component",
        help: "The work of the leader: a component that exports tenure:election/leader-handler",
        heading: WORK, ..ROW
    };
    WEBHOOK = Setting {
        name: "webhook", variable: webhook::URL, kind: Kind::Url, scope: Scope::One,
        choice: Some(Choice::Work),
        short: "The work: a POST to this URL for each turn",
        help: "The work of the leader, instead of --handler: each turn is one POST to this URL, http:// \
               or https://, with the turn as JSON. If it holds a secret, set the variable instead: other \
               users can read arguments",
        more: "Without user and password. See [URLs](handlers.md#a-url)",
        heading: WORK, ..ROW
    };
    WEBHOOK_TIMEOUT = Setting {
        name: "webhook-timeout", variable: webhook::TIMEOUT, kind: Kind::Duration,
        default: &[Words("as long as the turn")], works: &[Work::Webhook],
        help: "The time-out of all calls of --webhook in one turn; a turn that takes longer fails",
        more: "In `tenure.wasm` never longer than the turn is valid",
        heading: WORK, ..ROW
    };
    WEBHOOK_CA_FILE = Setting {
        name: "webhook-ca-file", variable: "TENURE_HANDLER_CA_FILE", kind: Kind::File,
        works: &[Work::Webhook],
        help: "Certificates in PEM form that are trusted in addition to the platform's, for --webhook alone",
        advice: CERTIFICATES,
        heading: WORK, ..ROW
    };
    WEBHOOK_TOKEN_FILE = Setting {
        name: "webhook-token-file", variable: webhook::TOKEN_FILE, content: webhook::TOKEN,
        kind: Kind::File, works: &[Work::Webhook],
        help: "A file with the bearer token that each call of --webhook carries; it is read again for each call",
        more: "See [Who calls](handlers.md#who-calls)",
        heading: WORK, ..ROW
    };
    WEBHOOK_SECRET_FILE = Setting {
        name: "webhook-secret-file", variable: webhook::SECRET_FILE, content: webhook::SECRET,
        kind: Kind::File, works: &[Work::Webhook],
        help: "A file with the secret that signs each call of --webhook, as in Standard Webhooks: whsec_ and 24 to \
               64 bytes in Base64. Several secrets go on separate lines. It is read again for each call",
        more: "See [Who calls](handlers.md#who-calls)",
        heading: WORK, ..ROW
    };
    COMMAND = Setting {
        commands: RUN_AND_LOCK,
        name: "command", kind: Kind::Command, scope: Scope::One, choice: Some(Choice::Work),
        short: "The work: a program and its arguments",
        help: "The work of the leader: a program and its arguments. On Linux and macOS",
        more: "See [Commands](handlers.md#a-command)",
        heading: WORK, ..ROW
    };
    NO_WORK = Setting {
        name: "no-work", kind: Kind::Switch, scope: Scope::One, choice: Some(Choice::Work),
        short: "The work: an application that asks at --listen whether it leads",
        help: "Runs no work: an application asks at --listen whether this candidate leads (/leader, /watch), and \
               does the work itself. Tenure cannot stop it: it must stop in time",
        more: "See [An application that asks](handlers.md#an-application-that-asks)",
        heading: WORK, ..ROW
    };
    STOP_TIME = Setting {
        commands: RUN_AND_LOCK,
        name: "stop-time", variable: "TENURE_STOP_TIME", kind: Kind::Duration,
        range: Range::From(SHORTEST_STOP_TIME), default: &[Words("3s, with --failover less, so that a beat can be retried: 0.7s at 3s, 1.9s at 10s")],
        works: &[Work::Command],
        help: "How long before the end of the leadership a command gets SIGTERM; SIGKILL follows half a second before \
               that end. With 3s the command has 2.5s; with 550ms or less it has 50ms. After the \
               time-out of a turn a command gets SIGTERM, and SIGKILL this long after that. This time, one renewal \
               interval and half a second of reserve must together fit into the lease less the margin. \
               With --failover, this time, one beat interval and half a second must together fit into the time for \
               which a leader may act after a beat",
        more: "With 3s the command has 2.5s; with 550ms or less it has 50ms",
        advice: "choose how long the command needs to end, like 3s",
        heading: FAILURES, ..ROW
    };
    NAME = Setting {
        commands: LASTING,
        name: "name", variable: variable::NAME, kind: Kind::Text("NAME"), range: Range::Bytes(limits::MAX_NAME),
        default: &[Words("machine and process")],
        short: "The name of this candidate",
        help: "The name of this candidate on record, in logs and on pages",
        more: "With `--shares` each process needs a name of its own",
        heading: ELECTIONS, ..PASSED_ON
    };
    LEASE = Setting {
        commands: RUN_AND_LOCK,
        name: "lease", variable: variable::LEASE, kind: Kind::Duration,
        range: Range::Durations(limits::LEASE),
        default: &[
            Time(limits::DEFAULT_LEASE), Words("; "), Time(limits::DEFAULT_LEASE_WITH_FAILOVER), Words(" if --failover is set"),
        ],
        help: "How long a lease lasts without a renewal, in whole seconds",
        heading: TIMINGS, ..PASSED_ON
    };
    MARGIN = Setting {
        commands: RUN_AND_LOCK,
        name: "margin", variable: variable::MARGIN, kind: Kind::Duration,
        range: Range::From(limits::MIN_MARGIN),
        default: &[Words("a fifth of the lease, at least "), Time(limits::MIN_MARGIN)],
        help: "How long before the end of the lease the work is stopped",
        heading: TIMINGS, ..PASSED_ON
    };
    RENEW = Setting {
        commands: RUN_AND_LOCK,
        name: "renew", variable: variable::RENEW, kind: Kind::Duration, range: Range::From(limits::MIN_RENEW),
        default: &[Words("4/15 of the lease, which is 4s for 15s")],
        help: "How often a leader renews; this time and twice the sum of --request-timeout and half a second must together \
               fit into the lease less the margin",
        heading: TIMINGS, ..PASSED_ON
    };
    POLL = Setting {
        commands: LASTING,
        name: "poll", variable: variable::POLL, kind: Kind::Duration,
        range: Range::Durations(limits::POLL),
        default: &[Time(limits::DEFAULT_POLL), Words(", for a lock "), Time(LOCK_POLL)],
        help: "The longest that a follower waits between two polls; the shortest is half of it",
        heading: TIMINGS, ..PASSED_ON
    };
    FAILOVER = Setting {
        name: "failover", variable: variable::FAILOVER, kind: Kind::Duration,
        range: Range::Durations(limits::FAILOVER), default: &[Words("off: a leader is replaced when its lease expires")], commands: RUN_AND_LOCK,
        short: "Replaces a dead leader about this soon, with more requests",
        help: "About how soon a leader is replaced whose machine died, froze or lost the network. For that, candidates \
               send a request every sixth of this time: three candidates cost about $7 a month at 3s, $21 at 1s, $2 at 10s, \
               and $1 without",
        heading: TIMINGS, ..PASSED_ON
    };
    REQUEST_TIMEOUT = Setting {
        name: "request-timeout", variable: variable::REQUEST_TIMEOUT, kind: Kind::Duration,
        range: Range::Durations(limits::REQUEST_TIMEOUT), default: &[Time(limits::DEFAULT_REQUEST_TIMEOUT)], commands: LASTING_AND_STATUS,
        help: "The time-out of one request",
        heading: TIMINGS, ..PASSED_ON
    };
    TURN_TIMEOUT = Setting {
        name: "turn-timeout", variable: variable::TURN_TIMEOUT, kind: Kind::Duration,
        range: Range::Durations(limits::TURN_TIMEOUT),
        default: &[Words("as long as the leadership")],
        short: "The time-out of a turn",
        help: "The time-out of a turn: one that takes longer is stopped, and the leadership ends. A command gets \
               SIGTERM then, and SIGKILL after --stop-time",
        heading: FAILURES, ..PASSED_ON
    };
    MAX_FAILURES = Setting {
        name: "max-failures", variable: variable::MAX_FAILURES, kind: Kind::Number,
        range: Range::Numbers(limits::MAX_FAILURES),
        default: &[
            Number(limits::DEFAULT_MAX_FAILURES), Words("; "),
            Number(limits::DEFAULT_MAX_FAILURES_WHILE_LEADING), Words(" with --while-leading"),
        ],
        help: "How many failed turns in a row end the leadership; 0: never. A turn that traps or takes too \
               long ends it at once",
        heading: FAILURES, ..PASSED_ON
    };
    COOL_DOWN = Setting {
        name: "cool-down", variable: variable::COOL_DOWN, kind: Kind::Duration,
        range: Range::Durations(limits::COOL_DOWN), default: &[Time(limits::DEFAULT_COOL_DOWN)],
        help: "How long a candidate whose work failed waits before it contends again, so that another one takes over: a \
               random time from half of this to all of it. It doubles each time until a turn succeeds, up to 16 \
               times this, but at most 1h",
        heading: FAILURES, ..PASSED_ON
    };
    GRACE = Setting {
        name: "grace", variable: "TENURE_GRACE", kind: Kind::Duration,
        range: Range::Durations(Duration::ZERO..=seconds(HOUR)),
        default: &[
            Time(DEFAULT_GRACE),
            Words("; for a command the stop time (at least 550ms), or 3s if --failover is set; with --no-work until \
                   the application's last answer has expired"),
        ],
        short: "Grace period for a running turn on shutdown",
        help: "Grace period for a running turn when this candidate shuts down; its lease is renewed \
               meanwhile",
        more: "The same time is given when a leader resigns. A transfer leaves the turn 40s of it at most, or one \
               lease if that is longer",
        advice: "choose how long a turn usually takes, like 5s; 0s stops it at once",
        heading: FAILURES, ..ROW
    };
    MAX_TENURE = Setting {
        name: "max-tenure", variable: variable::MAX_TENURE, kind: Kind::Duration,
        range: Range::Words(&[Words("four leases to "), Time(limits::MAX_TENURE)]),
        help: "How long a candidate may lead. After that it resigns between two turns, and lets the others go first",
        heading: ELECTIONS, ..PASSED_ON
    };
    READY_CMD = Setting {
        name: "ready-cmd", variable: "TENURE_READY_CMD", kind: Kind::Text("COMMAND"),
        short: "A shell command that succeeds when this process can work",
        help: "A shell command that exits with 0 when this process can work. Until then it is run again each second, \
               and this candidate does not contend",
        heading: ELECTIONS, ..ROW
    };
    ADDRESS = Setting {
        name: "address", variable: variable::ADDRESS, kind: Kind::Text("ADDRESS"), range: Range::Bytes(limits::MAX_ADDRESS),
        default: &[Words("http:// and the address of --listen; none if that is 0.0.0.0, [::] or a loopback address")],
        short: "The URL of --listen, as others reach it",
        help: "The http:// or https:// URL of this candidate's listener, as others reach it. Followers that also \
               have an address learn through it at once when the leader goes. Any other text is only shown",
        more: "See [Handover](http.md#handover-in-milliseconds)",
        heading: ELECTIONS, ..PASSED_ON
    };
    LISTEN = Setting {
        commands: RUN_AND_OBSERVE,
        name: "listen", variable: "TENURE_LISTEN", kind: Kind::Text("ADDRESS:PORT"),
        scope: Scope::Process,
        short: "Serves the page, probes and metrics over HTTP",
        help: "Serves over HTTP, to anyone who reaches it: a page of the election (/), whether this candidate runs \
               (/healthz) and is ready (/readyz; /readyz?leader: 200 only on the leader), who leads (/leader), the same \
               as a live stream (/watch), and metrics (/metrics)",
        more: "See [Listening](http.md)",
        advice: LISTENING,
        heading: SHOWN, ..ROW
    };
    LISTEN_HOST = Setting {
        commands: RUN_AND_OBSERVE,
        name: "listen-host", variable: "TENURE_LISTEN_HOST", kind: Kind::Text("NAMES"),
        scope: Scope::Process,
        help: "Further host names under which --listen answers, separated by commas; * for all. \
               Always allowed are addresses, --address, this machine's name, and names that \
               the public DNS does not have, like those in a cluster",
        advice: "give names without a port, like tenure.example.com, or *",
        heading: SHOWN, ..ROW
    };
    ALLOW_HOST = Setting {
        name: "allow-host", kind: Kind::List("HOST"), works: &[Work::Component],
        range: Range::Words(&[Words("HOST, HOST:PORT or SCHEME://HOST[:PORT]")]),
        short: "A host that the handler may send requests to",
        help: "A host that the handler may send requests to. This machine, its link-local network and \
               Azure's wire server (168.63.129.16) must be given as addresses, not as names. Repeatable",
        advice: "give a host as in example.com, https://example.com:8443 or [::1]:8080",
        heading: WORK, ..ROW
    };
    MEMORY_LIMIT = Setting {
        name: "memory-limit", variable: "TENURE_MEMORY_LIMIT", kind: Kind::Size,
        range: Range::Sizes(1 << 20..=4 << 30), default: &[Size(tenure_wasmtime::MEMORY_LIMIT as u64)], works: &[Work::Component],
        help: "The memory that a turn may take; a handler that exceeds it traps. In addition, the host \
               holds at most half as much, or 16 MiB if that is more, for its requests, answers and handles",
        more: "In addition, the host holds at most half as much, or 16 MiB if that is more. A quarter of that is for \
               handles (WASI resources)",
        advice: "give a number and a unit, like 64MiB or 1GiB",
        heading: WORK, ..ROW
    };
    ENV = Setting {
        commands: RUN_AND_LOCK,
        name: "env", kind: Kind::Variables, range: Range::Words(&[Words("KEY=VALUE or NAME")]),
        works: &[Work::Component, Work::Command],
        short: "Sets a variable for the handler or command",
        help: "Sets an environment variable for the handler or command; NAME alone passes on the variable of this \
               process. Component handlers see no others. Repeatable",
        advice: "give a variable as in --env REPORT_URL=https://example.com, or pass one on as in --env REPORT_URL",
        heading: WORK, ..ROW
    };
    CONNECTION_STRING_FILE = Setting {
        name: "connection-string-file", variable: variable::CONNECTION_STRING_FILE,
        content: variable::CONNECTION_STRING, kind: Kind::File, commands: ALL,
        short: "A file that holds the connection string",
        help: "A file that holds the connection string; it is read again while this runs, so that the key \
               can be replaced",
        more: "How requests are authorised otherwise: see [Credentials](security.md#credentials)",
        heading: ACCOUNT, ..PASSED_ON
    };
    CA_FILE = Setting {
        name: "ca-file", variable: "TENURE_CA_FILE", kind: Kind::File, commands: ALL,
        short: "Certificates to trust in addition to the platform's",
        help: "Certificates in PEM form that are trusted in addition to the platform's, for the storage account and \
               the endpoints that issue its tokens; not for the handler",
        advice: CERTIFICATES,
        heading: ACCOUNT, ..ROW
    };
    STORAGE_ACCOUNT = Setting {
        variable: variable::ACCOUNT,
        help: "The name of the storage account", heading: ACCOUNT, ..VARIABLE
    };
    SERVICE_ENDPOINT = Setting {
        variable: variable::SERVICE_ENDPOINT,
        default: &[Words("https://ACCOUNT.blob.core.windows.net")],
        help: "The address of its Blob service", heading: ACCOUNT, ..VARIABLE
    };
    KEY = Setting {
        variable: variable::KEY_FILE, content: variable::KEY, kind: Kind::File,
        help: "A key of the account", heading: ACCOUNT, ..VARIABLE
    };
    SAS_TOKEN = Setting {
        variable: variable::SAS_TOKEN_FILE, content: variable::SAS_TOKEN, kind: Kind::File,
        help: "A SAS (shared access signature), alone or with the address that it is for",
        heading: ACCOUNT, ..VARIABLE
    };
    AUTH_TOKEN = Setting {
        variable: variable::AUTH_TOKEN_FILE, content: variable::AUTH_TOKEN, kind: Kind::File,
        help: "A token of Microsoft Entra ID for storage; it is not renewed",
        heading: ACCOUNT, ..VARIABLE
    };
    CLIENT_SECRET = Setting {
        variable: variable::CLIENT_SECRET_FILE, content: variable::CLIENT_SECRET, kind: Kind::File,
        help: "The secret of an application", heading: ACCOUNT, ..VARIABLE
    };
    CLIENT_ID = Setting {
        variable: variable::CLIENT_ID,
        help: "The application; or, of several managed identities, the one to use", heading: ACCOUNT, ..VARIABLE
    };
    TENANT_ID = Setting {
        variable: variable::TENANT_ID,
        help: "The tenant (directory) of the application", heading: ACCOUNT, ..VARIABLE
    };
    AUTHORITY_HOST = Setting {
        variable: variable::AUTHORITY_HOST, default: &[Words("that of the cloud of the endpoint")],
        help: "Where applications ask for tokens", heading: ACCOUNT, ..VARIABLE
    };
    // Other programs know this variable too. It names a file with a token that the platform writes
    // and reads, so it has no content variable.
    FEDERATED_TOKEN_FILE = Setting {
        variable: variable::FEDERATED_TOKEN_FILE, kind: Kind::File,
        help: "The file with the token of a workload identity; the platform sets it",
        heading: ACCOUNT, ..VARIABLE
    };
    IDENTITY_ENDPOINT = Setting {
        variable: variable::IDENTITY_ENDPOINT,
        help: "Where an app asks for tokens of its managed identity; the platform sets it",
        heading: ACCOUNT, ..VARIABLE
    };
    IDENTITY_HEADER = Setting {
        variable: variable::IDENTITY_HEADER,
        help: "The secret that it sends there; the platform sets it", heading: ACCOUNT, ..VARIABLE
    };
    IMDS_HOST = Setting {
        variable: variable::IMDS_HOST, default: &[Words("http://169.254.169.254")],
        help: "Where a machine asks for tokens of its managed identity", heading: ACCOUNT, ..VARIABLE
    };
    LOG = Setting {
        commands: LASTING,
        name: "log", kind: Kind::OneOf(&["text", "json"]), default: &[Words("text")], scope: Scope::Process,
        short: "The format of the log: text (the default), or json",
        help: "The format of the log: text for people, or one JSON object per line",
        more: "See [The log](observability.md#the-log)",
        heading: SHOWN, ..ROW
    };
    LOG_LEVEL = Setting {
        commands: LASTING,
        name: "log-level", variable: "TENURE_LOG_LEVEL",
        kind: Kind::OneOf(&["error", "warn", "info", "debug"]), default: &[Words("info")], scope: Scope::Process,
        help: "The lowest level of events in the log; debug adds each renewal",
        more: "What a handler writes is info",
        heading: SHOWN, ..ROW
    };
    CACHE_DIR = Setting {
        variable: "TENURE_CACHE_DIR", default: &[Words("the folder tenure in XDG_CACHE_HOME or ~/.cache")],
        help: "Where compiled code of components is kept", more: "See [Files and folders](#files-and-folders)",
        heading: SHOWN, component: false, ..VARIABLE
    };
    TICK_TOKEN = Setting {
        variable: "TENURE_TICK_TOKEN",
        help: "The bearer token that POST /tick must carry", heading: INVOCATION, ..VARIABLE
    };
    TICK_OPEN = Setting {
        variable: "TENURE_TICK_OPEN", default: &[Words("false")],
        help: "With true, any client may call /tick. Without it, only callers with the token may",
        heading: INVOCATION, ..VARIABLE
    };
    TO = Setting {
        name: "to", kind: Kind::Text("NAME"), commands: &["transfer"], default: &[Words("any other candidate")],
        help: "The name of the candidate that leads next", advice: "name the successor",
        heading: OTHERS, ..ROW
    };
    TRANSFER_WAIT = Setting {
        name: "wait", kind: Kind::Duration, commands: &["transfer"],
        range: Range::Durations(seconds(1)..=seconds(DAY)), default: &[Time(DEFAULT_WAIT)],
        help: "How long to wait for the result",
        advice: "give a time like 2m",
        heading: OTHERS, ..ROW
    };
    WAIT = Setting {
        name: "wait", kind: Kind::Duration, commands: &["lock"],
        range: Range::Durations(seconds(1)..=seconds(366 * DAY)), default: &[Words("as long as it takes")],
        short: "How long to wait for the lock",
        help: "How long to wait for the lock. After that the exit code is 75, and the command was not run",
        advice: "give a time like 60s, or leave it out to wait as long as it takes",
        heading: OTHERS, ..ROW
    };
    IF_FREE = Setting {
        name: "if-free", kind: Kind::Switch, commands: &["lock"],
        short: "Does not wait for the lock",
        help: "Does not wait: if the lock is not free, the exit code is 75, and the command was not run",
        heading: OTHERS, ..ROW
    };
    ALL_IN = Setting {
        name: "all", kind: Kind::Text("CONTAINER"), commands: &["status"],
        help: "Shows all elections of this container that have had a leader. The credential must permit to list blobs",
        heading: OTHERS, ..ROW
    };
    WATCH = Setting {
        name: "watch", kind: Kind::Switch, commands: &["status"],
        help: "Follows the election: writes one line per change until Ctrl-C", heading: OTHERS, ..ROW
    };
    HISTORY = Setting {
        name: "history", kind: Kind::Switch, commands: &["status"],
        help: "Also lists the former leaders, ten at most", heading: OTHERS, ..ROW
    };
    INTERVAL = Setting {
        name: "interval", kind: Kind::Duration, commands: &["status"],
        range: Range::Durations(Duration::from_millis(200)..=seconds(HOUR)), default: &[Time(DEFAULT_INTERVAL)],
        help: "With --watch, how often to read the record",
        advice: "each read is a request that costs money; 2s shows changes soon enough",
        heading: OTHERS, ..ROW
    };
    OFFLINE = Setting {
        name: "offline", kind: Kind::Switch, commands: &["check"],
        short: "Validates the settings only, and sends nothing",
        help: "Sends nothing: only validates the settings, and does not test the storage account", heading: OTHERS, ..ROW
    };
    PERIOD = Setting {
        name: "period", kind: Kind::Duration, commands: &["break"],
        range: Range::Durations(limits::BREAK_PERIOD), default: &[Words("what is left of the lease")],
        help: "How long the holder keeps the lease at most, rounded up to whole seconds",
        advice: "give 0s to 60s, or leave it out: then the lease expires in its own time",
        heading: OTHERS, ..ROW
    };
    ID = Setting {
        name: "id", kind: Kind::Text("ID"), commands: &["trigger"], default: &[Words("a new one")],
        range: Range::Words(&[Words("1 to 64 letters, digits, dots, hyphens and underscores")]),
        help: "Idempotency key of the trigger: a repeated id starts no second turn. The last 17 ids are remembered",
        advice: "give it like rerun-7",
        heading: OTHERS, ..ROW
    };
    TRIGGER_WAIT = Setting {
        name: "wait", kind: Kind::Duration, commands: &["trigger"],
        range: Range::Durations(seconds(1)..=seconds(366 * DAY)), default: &[Words("not at all")],
        help: "How long to wait for the end of the turn; the exit code is 0 if the turn succeeded",
        advice: "give a time like 10m, or leave it out to wait for nothing",
        heading: OTHERS, ..ROW
    };
    YES = Setting {
        name: "yes", kind: Kind::Switch, commands: &["reset-slot", "break", "reshare"],
        help: "Does not ask for confirmation", heading: OTHERS, ..ROW
    };
    JSON = Setting {
        name: "json", kind: Kind::Switch, commands: WITH_JSON,
        short: "Writes JSON instead of text",
        help: "Writes JSON instead of text: one object; status with --watch writes one per line", heading: OTHERS, ..ROW
    };
}

const CERTIFICATES: &str = "name a readable file of certificates in PEM form, each one between \
                            -----BEGIN CERTIFICATE----- and -----END CERTIFICATE-----";

const LISTENING: &str =
    "give one like 127.0.0.1:8080, localhost:8080, [::]:8080, or :8080 for all IPv4 addresses";

#[cfg(test)]
mod tests;
