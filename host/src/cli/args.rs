//! The command line.

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

const ABOUT: &str = "Elects one leader among many with a lease on an Azure blob, and runs the \
leader's work only there.";

const EXAMPLES: &str = "\
Examples:
  See what it does, in less than a minute
    tenure demo

  Try it, without an account: a blob store of its own, and a candidate
    tenure store --listen 127.0.0.1:10000
    export AZURE_STORAGE_CONNECTION_STRING=UseDevelopmentStorage=true
    tenure run --election demo/report --every 5s --handler report.wasm

  On Azure: the same command in every replica
    export AZURE_STORAGE_CONNECTION_STRING='DefaultEndpointsProtocol=https;AccountName=...'
    tenure run --election jobs/nightly --every 1h --handler nightly.wasm \\
        --env REPORT_URL=https://example.com/report --allow-host example.com

  Any program as the work
    tenure run --election jobs/backup --cron '0 3 * * *' -- /usr/local/bin/backup --all

  Who leads?
    tenure status --election jobs/nightly

  Why does nobody lead?
    tenure doctor --election jobs/nightly";

#[derive(Parser)]
#[command(name = "tenure", version, about = ABOUT, after_help = EXAMPLES)]
#[command(disable_help_subcommand = true, max_term_width = 100)]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub(super) enum Command {
    /// Takes part in an election, and runs the handler while it leads
    Run(Box<RunArguments>),
    /// Shows who leads
    Status(StatusArguments),
    /// Shows what changes: who leads, the lease, turns, troubles
    Watch(WatchArguments),
    /// Tries all that an election needs from this machine, and says what is wrong and what to do
    #[command(after_help = DOCTOR_HELP)]
    Doctor(LookArguments),
    /// Shows who led, the newest first
    #[command(after_help = HISTORY_HELP)]
    History(LookArguments),
    /// Forgets a claimed slot that lies in the future and keeps all turns waiting
    ResetSlot(ResetSlotArguments),
    /// Makes the leader give up its leadership, so that another candidate takes over
    Resign(SteerArguments),
    /// Has the leader hand over to a candidate of your choice, with no gap for a third one
    Transfer(TransferArguments),
    /// Keeps one candidate out of the race until it is resumed; a leader resigns
    Pause(SteerArguments),
    /// Lets a paused candidate contend again
    Resume(SteerArguments),
    /// Breaks the lease, whoever holds it, reachable or not
    Break(BreakArguments),
    /// Makes one component of the election and a handler, for Spin, wasmCloud and other platforms
    Compose(ComposeArguments),
    /// Runs a blob store for trying things out, in memory
    Store(StoreArguments),
    /// Writes what a shell needs to complete the options of this program
    Completions(CompletionsArguments),
    /// Writes the pages for man
    Man(ManArguments),
    /// Starts a command of the runner's, and ends it in time whatever becomes of the runner
    #[cfg(unix)]
    #[command(hide = true)]
    Watchdog(WatchdogArguments),
    /// Shows an election: leaders come and go, and others take over. Needs nothing, takes half a minute
    Demo(DemoArguments),
}

const RUN_HELP: &str = "\
Instead of --handler, any program can be the work; it is started anew for each turn:

  tenure run --election jobs/backup --cron '0 3 * * *' -- /usr/local/bin/backup --all

It sees this environment without AZURE_*, IDENTITY_*, MSI_* and TENURE_*, what --env adds, and
TENURE_TERM, TENURE_SLOT, TENURE_ATTEMPT, TENURE_VALUE (of --on-start) and TENURE_DEADLINE, the time
at which it is killed unless a renewal puts that off, as most do. Exit code 0 is success. It and all
that it started are told to end (SIGTERM) the stop time before the leadership ends, and killed half a
second before it; what it leaves running when it ends is killed too. A turn that was told to end
counts as cut off, or timed out, whatever its exit code. Give the term to whatever it writes to.

Or each turn is one POST to a URL, with the turn as JSON:

  tenure run --election jobs/report --every 1h --webhook https://example.com/tick

Any 2xx is success; everything else, redirects too, is a failed turn, and nothing but --delivery
at-least-once repeats it. The headers tenure-term and idempotency-key tell the term, and the turn
across its attempts. When the leadership ends the connection is cut, but what the receiver has begun
goes on: nobody here can stop it. So it must refuse a term smaller than one that it has seen. Names of
this machine are allowed, for a sidecar at http://localhost:3000/.

Durations are written with their unit: 500ms, 15s, 1h30m.

Every option that names a variable can be set by it; the command line wins. The storage account and
its credential come from the variables that Azure's own tools know, never from an argument:
AZURE_STORAGE_CONNECTION_STRING; or AZURE_STORAGE_ACCOUNT with AZURE_STORAGE_KEY,
AZURE_STORAGE_SAS_TOKEN, AZURE_STORAGE_AUTH_TOKEN, an application (AZURE_CLIENT_SECRET), or else the
identity of the workload or the machine. The first of these that is set is used, and the log begins
with which; TENURE_CREDENTIAL forces one. NAME_FILE instead of a secret's NAME names a file that
holds it, and is read again every few seconds.

On SIGTERM or SIGINT it begins no new turn, lets the running one end within the grace or stops it,
releases the lease and ends; a second signal does not wait for that. On SIGUSR1 it writes to
standard error what it is at the moment. systemd is told when it is ready, what it is, and that it
still makes progress (Type=notify, WatchdogSec=).

Exit codes: 0 the candidate left; 1 a second signal ended it; 2 something was wrong with the
settings, and nothing was sent. Nothing else ends it: what goes wrong later is told, and tried
again.";

#[derive(Args)]
#[command(after_help = RUN_HELP)]
pub(super) struct RunArguments {
    /// A file that says what these options say, for one election or for several; see README.md. The
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
    /// A file with the token by which operators steer this candidate on --listen: POST /resign,
    /// /transfer?to=NAME, /pause, /resume. Without one nobody can [env: TENURE_CONTROL_TOKEN_FILE, or the
    /// token itself in TENURE_CONTROL_TOKEN]
    #[arg(long, value_name = "FILE")]
    pub control_token_file: Option<PathBuf>,
    /// A host that the handler may send requests to: HOST, HOST:PORT or SCHEME://HOST[:PORT].
    /// Addresses of this machine only as addresses, not by name. Repeatable
    #[arg(long, value_name = "HOST")]
    pub allow_host: Vec<String>,
    /// The header that carries the term in each request of the handler, and in that of --webhook, for sinks
    /// that refuse an earlier leader; default tenure-term [env: TENURE_TERM_HEADER]
    #[arg(long, value_name = "NAME")]
    pub term_header: Option<String>,
    /// The memory that a turn may take, 1MiB to 4GiB; a handler that needs more traps. Default 256MiB
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

#[derive(Args)]
pub(super) struct StorageArguments {
    /// A file that holds the connection string; it is read again while this runs, so that the key can be
    /// replaced [env: AZURE_STORAGE_CONNECTION_STRING_FILE, or the string itself in
    /// AZURE_STORAGE_CONNECTION_STRING]
    #[arg(long, value_name = "FILE")]
    pub connection_string_file: Option<PathBuf>,
    /// Certificates in PEM form that are trusted beside the platform's, for the storage account
    /// and whoever gives out tokens for it; not for the handler [env: TENURE_CA_FILE]
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    #[default]
    Text,
    Json,
}

/// What a runner starts the watchdog of a turn with. Standard input is its socket.
#[cfg(unix)]
#[derive(Args)]
pub(super) struct WatchdogArguments {
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

const RESET_SLOT_HELP: &str = "\
A slot in the future is a trouble that every leader tells: somebody wrote the record by hand, or the
service's clock was wrong. Only a leader may write the record, so this takes the lease for a moment:
the present leader loses it when its time has run out. Its turns of the timer wait anyway; one for
--on-start would be cut off. Slots that were run while a clock was ahead run again when they come.

Exit codes: 0 there is no such slot any more; 1 it was not done; 2 something was wrong with the
settings, or nobody was there to agree.";

#[derive(Args)]
#[command(after_help = RESET_SLOT_HELP)]
pub(super) struct ResetSlotArguments {
    /// The election: a container and a blob in it [env: TENURE_ELECTION]
    #[arg(long, value_name = "CONTAINER/BLOB")]
    pub election: Option<String>,
    #[command(flatten)]
    pub storage: StorageArguments,
    /// Does it without asking
    #[arg(long)]
    pub yes: bool,
}

const STEER_HELP: &str = "\
The candidate must run with --listen and a control token; the same token is given here, by the variable
TENURE_CONTROL_TOKEN or --control-token-file. Without --at, it goes to the leader at the address that it
put on record (--address, an http:// or https:// URL of its listener).

Exit codes: 0 it is done; 1 it was ordered, but did not come about in time; 2 it was not ordered, and nothing
has changed.";

#[derive(Args)]
#[command(after_help = STEER_HELP)]
pub(super) struct SteerArguments {
    #[command(flatten)]
    pub target: TargetArguments,
}

#[derive(Args)]
#[command(after_help = STEER_HELP)]
pub(super) struct TransferArguments {
    /// The name of the candidate that is to lead
    #[arg(long, value_name = "NAME")]
    pub to: String,
    #[command(flatten)]
    pub target: TargetArguments,
}

/// Which candidate is meant.
#[derive(Args)]
pub(super) struct TargetArguments {
    /// The election: a container and a blob in it [env: TENURE_ELECTION]
    #[arg(long, value_name = "CONTAINER/BLOB")]
    pub election: Option<String>,
    /// The listener of the candidate, like http://10.0.0.4:8080; default: the address of the leader
    #[arg(long, value_name = "URL")]
    pub at: Option<String>,
    /// A file with the control token, instead of TENURE_CONTROL_TOKEN
    /// [env: TENURE_CONTROL_TOKEN_FILE]
    #[arg(long, value_name = "FILE")]
    pub control_token_file: Option<PathBuf>,
    #[command(flatten)]
    pub storage: StorageArguments,
}

const BREAK_HELP: &str = "\
For a leader that nobody can reach any more. Without --period what is left of its lease runs out, so that
it has stopped by then: no two leaders overlap. With a shorter period it leads on until its next renewal
meets the broken lease, beside the next one.

Exit codes: 0 the lease is broken, or nobody held it; 1 it was not broken; 2 something was wrong with the
settings, or nobody was there to agree.";

#[derive(Args)]
#[command(after_help = BREAK_HELP)]
pub(super) struct BreakArguments {
    /// The election: a container and a blob in it [env: TENURE_ELECTION]
    #[arg(long, value_name = "CONTAINER/BLOB")]
    pub election: Option<String>,
    /// How long the holder keeps it at most, 0s to 60s, rounded up to whole seconds; default: what is
    /// left of it
    #[arg(long, value_name = "DURATION")]
    pub period: Option<String>,
    #[command(flatten)]
    pub storage: StorageArguments,
    /// Does it without asking
    #[arg(long)]
    pub yes: bool,
}

const STATUS_HELP: &str = "\
Exit codes: 0 somebody leads; 1 nobody does; 2 it could not be found out.";

#[derive(Args)]
#[command(after_help = STATUS_HELP)]
pub(super) struct StatusArguments {
    /// The election: a container and a blob in it [env: TENURE_ELECTION]
    #[arg(long, value_name = "CONTAINER/BLOB")]
    pub election: Option<String>,
    /// The longest that one request may take; default 3s [env: TENURE_REQUEST_TIMEOUT]
    #[arg(long, value_name = "DURATION")]
    pub request_timeout: Option<String>,
    #[command(flatten)]
    pub storage: StorageArguments,
    /// One JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

const WATCH_HELP: &str = "\
It looks, and takes no part. Changes that come and go between two looks are not seen.

It ends with SIGINT (Ctrl-C) or SIGTERM, or when nobody reads any more. Exit codes: 0 it was ended; 2
something is wrong with the settings.";

#[derive(Args)]
#[command(after_help = WATCH_HELP)]
pub(super) struct WatchArguments {
    /// The election: a container and a blob in it [env: TENURE_ELECTION]
    #[arg(long, value_name = "CONTAINER/BLOB")]
    pub election: Option<String>,
    /// From one look to the next, 200ms to 1h; default 2s
    #[arg(long, value_name = "DURATION")]
    pub interval: Option<String>,
    /// The longest that one request may take; default 3s [env: TENURE_REQUEST_TIMEOUT]
    #[arg(long, value_name = "DURATION")]
    pub request_timeout: Option<String>,
    #[command(flatten)]
    pub storage: StorageArguments,
    /// One JSON object per line instead of text
    #[arg(long)]
    pub json: bool,
}

const DOCTOR_HELP: &str = "\
It connects to the storage account, and tries each request that a candidate sends on an empty blob
of its own beside the election's, BLOB.doctor-…, which it removes. A credential that may not delete
blobs leaves one of them, BLOB.doctor. A missing container is made, as a candidate would make it.
The election itself is looked at, and not touched: run it while candidates run.

Exit codes: 0 all is well; 1 there are warnings; 2 something failed, or a setting is wrong; 130 it
was interrupted.";

const HISTORY_HELP: &str = "\
The record on the blob keeps the newest leaders, ten at most.

Exit codes: 0 somebody led; 1 nobody ever did; 2 it could not be found out.";

/// Of somebody who looks on, and takes no part.
#[derive(Args)]
pub(super) struct LookArguments {
    /// The election: a container and a blob in it [env: TENURE_ELECTION]
    #[arg(long, value_name = "CONTAINER/BLOB")]
    pub election: Option<String>,
    /// The longest that one request may take; default 3s [env: TENURE_REQUEST_TIMEOUT]
    #[arg(long, value_name = "DURATION")]
    pub request_timeout: Option<String>,
    #[command(flatten)]
    pub storage: StorageArguments,
    /// One JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

const COMPOSE_HELP: &str = "\
The composed component runs one whole turn for each call: as a command (wasi:cli/run), as an HTTP
server (POST /tick, GET /leader, GET /healthz) or by Spin's cron trigger. It is configured by the
variables TENURE_ELECTION, AZURE_STORAGE_CONNECTION_STRING, TENURE_EVERY or TENURE_CRON and the
others; over HTTP, TENURE_TICK_TOKEN too. The handler sees none of them.

Nothing renews the lease beside a turn there: it is 60 s long, and a turn that takes longer than
48 s is reported as overran. A handler that traps takes the whole instance with it: its slot stays
claimed, and the lease runs out instead of being released.

Exit codes: 0 it is written; 2 it is not.";

#[derive(Args)]
#[command(after_help = COMPOSE_HELP)]
pub(super) struct ComposeArguments {
    /// The handler: a component that exports tenure:election/leader-handler
    #[arg(value_name = "HANDLER.wasm")]
    pub handler: PathBuf,
    /// Where to write the composed component
    #[arg(short, long, value_name = "APP.wasm")]
    pub output: PathBuf,
    /// Replaces a file that is there already
    #[arg(long)]
    pub force: bool,
}

const STORE_HELP: &str = "\
It knows one account, that of the emulators: clients reach it on port 10000 with the connection
string UseDevelopmentStorage=true. All it holds is lost when it ends.";

#[derive(Args)]
#[command(after_help = STORE_HELP)]
pub(super) struct StoreArguments {
    /// Where to listen; port 0 picks a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:10000")]
    pub listen: SocketAddr,
}

const DEMO_HELP: &str = "\
Everything runs on this machine, on free ports of 127.0.0.1, and is gone afterwards. The page can be
looked at by whoever reaches it; its buttons take the token in the address that is printed.

Exit codes: 0 all went well, with --page until Ctrl-C; 1 turns overlapped, or something did not happen; 2 it could not be
started; 130 it was interrupted.";

#[derive(Args)]
#[command(after_help = DEMO_HELP)]
pub(super) struct DemoArguments {
    /// How many processes contend, 2 to 9
    #[arg(long, value_name = "NUMBER", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u8).range(2..=9))]
    pub candidates: u8,
    /// Shows it on a page for a browser on this machine instead, where you kill, freeze and cut off
    /// candidates yourself. Prints its address, and goes on until Ctrl-C
    #[arg(long)]
    pub page: bool,
}

const COMPLETIONS_HELP: &str = "\
Where shells look for it:
  bash  tenure completions bash > ~/.local/share/bash-completion/completions/tenure
  zsh   tenure completions zsh > \"${fpath[1]}/_tenure\"
  fish  tenure completions fish > ~/.config/fish/completions/tenure.fish";

#[derive(Args)]
#[command(after_help = COMPLETIONS_HELP)]
pub(super) struct CompletionsArguments {
    /// The shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

#[derive(Args)]
pub(super) struct ManArguments {
    /// Where to write all pages, tenure.1, tenure-run.1 and so on; without it, the first one is printed
    pub directory: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
