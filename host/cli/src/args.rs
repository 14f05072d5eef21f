//! The commands of the command line, and the texts that follow the options in their help. The
//! settings table defines the options of commands that use an election.

use super::compose::ComposeArguments;
use super::sandbox::StoreArguments;
use super::settings::{MAX_WIDTH, Setting, format_section, with_options};
use crate::complaint::DOUBLE_DASH_ADVICE;
use crate::output::VERSION;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;
use std::ffi::OsString;
use std::path::PathBuf;

#[cfg(feature = "demo")]
use super::sandbox::DemoArguments;

const ABOUT: &str = "Leader election for replicated jobs, backed by an Azure blob lease";

const DOCUMENTATION: &str = concat!("Documentation: ", env!("CARGO_PKG_REPOSITORY"));

/// The groups of `tenure --help` with their commands. Commands that this system lacks are left out.
const GROUPS: [(&str, &[&str]); 7] = [
    ("Run:", &["run", "lock", "observe", "check"]),
    ("See:", &["status"]),
    ("Operate:", &["trigger", "transfer"]),
    ("Repair:", &["reshare", "break", "reset-slot"]),
    ("Platforms:", &["compose"]),
    ("Try:", &["store", "demo"]),
    ("Other:", &["completions", "man", "help"]),
];

#[derive(Parser)]
#[command(name = "tenure", version = VERSION, about = ABOUT, max_term_width = MAX_WIDTH)]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub(super) enum Command {
    /// Runs the work on the elected leader
    #[command(after_long_help = RUN_HELP)]
    Run,
    /// Runs one command while it holds the lock
    #[cfg(unix)]
    #[command(after_long_help = LOCK_HELP)]
    Lock,
    /// Follows elections without contending, and serves who leads
    #[command(after_long_help = OBSERVE_HELP)]
    Observe,
    /// Validates the settings of `run`, shows the next turns, and tests the account
    #[command(after_long_help = CHECK_HELP)]
    Check,
    /// Shows who leads, the turns, the candidates and the shares
    #[command(after_long_help = STATUS_HELP)]
    Status,
    /// Runs a turn now, outside the schedule
    #[command(after_long_help = TRIGGER_HELP)]
    Trigger,
    /// Moves the leadership to another candidate
    #[command(after_long_help = TRANSFER_HELP)]
    Transfer,
    /// Changes the number of shares
    #[command(after_long_help = RESHARE_HELP)]
    Reshare,
    /// Breaks the lease of a leader that cannot be reached
    #[command(after_long_help = BREAK_HELP)]
    Break,
    /// Removes a claimed slot that lies in the future and blocks all scheduled turns
    #[command(after_long_help = RESET_SLOT_HELP)]
    ResetSlot,
    /// Combines the election and a handler into one component for Spin, wasmCloud and others
    Compose(ComposeArguments),
    /// Runs an in-memory blob store, to try things out
    Store(StoreArguments),
    /// Runs a self-contained failover demo
    #[cfg(feature = "demo")]
    Demo(DemoArguments),
    /// Writes shell completions
    Completions(CompletionsArguments),
    /// Writes the manual pages
    Man(ManArguments),
}

#[derive(Args)]
#[command(after_long_help = COMPLETIONS_HELP)]
pub(super) struct CompletionsArguments {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

#[derive(Args)]
pub(super) struct ManArguments {
    /// The directory for the pages tenure.1, tenure-run.1 and so on; without it, prints only the
    /// first
    pub directory: Option<PathBuf>,
}

/// Returns the program, with the options that `table` defines for its commands.
pub(super) fn program(table: &[&'static Setting]) -> clap::Command {
    let program = Arguments::command().mut_subcommands(|command| {
        let command = with_options(command, table);
        if command.get_name() != "status" {
            return command;
        }
        let status = command.mut_arg("watch", |watch| watch.conflicts_with("history"));
        let status = status.mut_arg("all", |all| all.conflicts_with_all(["election", "watch"]));
        status.mut_arg("interval", |interval| interval.requires("watch"))
    });
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}{{options}}{{after-help}}",
        groups(&program)
    );
    program
        .help_template(template)
        .after_help(DOCUMENTATION)
        .after_long_help(format!("{EXAMPLES}\n\n{DOCUMENTATION}"))
}

/// Returns the commands in their groups, and the heading of the options.
fn groups(program: &clap::Command) -> String {
    let about = |name: &&'static str| {
        let command = program.get_subcommands().find(|command| command.get_name() == *name);
        match command.and_then(clap::Command::get_about) {
            Some(about) => Some((*name, about.to_string())),
            None => (*name == "help").then(|| (*name, "Shows the help of a command".to_owned())),
        }
    };
    let group = |(heading, names): &(&str, &[&'static str])| {
        format_section(heading, names.iter().filter_map(about), NAME_WIDTH) + "\n"
    };
    GROUPS.iter().map(group).collect::<String>() + &format_section("Options:", [], NAME_WIDTH)
}

/// Length of the longest command name in characters.
const NAME_WIDTH: usize = 11;

/// Returns clap's error with a better tip where the intended command line is known.
pub(super) fn with_advice(mut error: clap::Error, words: &[OsString]) -> clap::Error {
    let context = |kind| error.get(kind).map(ToString::to_string).unwrap_or_default();
    let tip = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let subcommand = context(ContextKind::InvalidSubcommand);
            if subcommand.eq_ignore_ascii_case("version") {
                error.remove(ContextKind::SuggestedSubcommand);
                "tenure --version shows it"
            } else {
                if let Some(closest) = closest_command(&subcommand) {
                    let suggestion = ContextValue::Strings(vec![closest]);
                    error.insert(ContextKind::SuggestedSubcommand, suggestion);
                }
                return error;
            }
        }
        ErrorKind::UnknownArgument if is_cron_split(words) => {
            "put quotes around a cron expression, since the shell splits it: --cron '0 3 * * *'"
        }
        ErrorKind::UnknownArgument
            if ["tenure run", "tenure check", "tenure lock"]
                .iter()
                .any(|c| context(ContextKind::Usage).contains(c))
                && !context(ContextKind::InvalidArg).starts_with('-') =>
        {
            DOUBLE_DASH_ADVICE
        }
        ErrorKind::UnknownArgument => {
            // The tip of clap puts the argument after `--`, where it would be the command.
            error.remove(ContextKind::Suggested);
            return error;
        }
        _ => return error,
    };
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.to_owned().into()]));
    error
}

/// Returns the command name that is most similar to a mistyped one.
fn closest_command(typed: &str) -> Option<String> {
    const MIN_SIMILARITY: f64 = 0.5;
    let typed = typed.to_lowercase();
    let program = Arguments::command();
    let commands = program.get_subcommands().filter(|command| !command.is_hide_set());
    let names = commands.map(clap::Command::get_name).chain(["help"]).map(str::to_owned);
    let similarity = |name: &String| {
        let prefix_score = if name.starts_with(&typed) { 1.0 } else { 0.0 };
        strsim::normalized_damerau_levenshtein(name, &typed).max(prefix_score)
            // Prefers the name with the same beginning among equally similar ones.
            + strsim::jaro_winkler(name, &typed) / 100.0
    };
    let names = names.filter(|name| similarity(name) >= MIN_SIMILARITY);
    names.max_by(|a, b| similarity(a).total_cmp(&similarity(b)))
}

/// Returns true if an unquoted cron expression follows the option: its first field alone is the
/// option's value.
fn is_cron_split(words: &[OsString]) -> bool {
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let Some(at) = words.iter().position(|word| *word == "--cron" || word.starts_with("--cron="))
    else {
        return false;
    };
    let mut remaining = words[at + 1..].iter();
    let value = match words[at].split_once('=') {
        Some((_, value)) => Some(value),
        None => remaining.next().map(AsRef::as_ref),
    };
    let is_field = value.is_some_and(|value| !value.contains(' ') && !value.starts_with('@'));
    is_field && remaining.next().is_some_and(|word| !word.starts_with('-'))
}

const EXAMPLES: &str = "\
Examples:
  Run a failover demo
    tenure demo

  Try it without an account: a blob store in one terminal, a candidate in another
    tenure store --listen 127.0.0.1:10000
    export AZURE_STORAGE_CONNECTION_STRING=UseDevelopmentStorage=true
    tenure run demo/report --every 5s --handler report.wasm

  On Azure: the same command in every replica
    export AZURE_STORAGE_CONNECTION_STRING='AccountName=...;AccountKey=...'
    tenure run jobs/nightly --every 24h --handler nightly.wasm \\
        --env REPORT_URL=https://example.com/report --allow-host example.com

  Any program as the work
    tenure run jobs/backup --cron '0 3 * * *' -- /usr/local/bin/backup --all

  Validate the settings, show the next turns, and test the account
    tenure check jobs/backup --cron '0 3 * * *' -- /usr/local/bin/backup --all

  One command at a time, on all machines together
    tenure lock --wait 60s jobs/migration -- ./migrate.sh

  Show who leads
    tenure status jobs/nightly

  Run a turn now, and wait for its outcome
    tenure trigger jobs/nightly --wait 10m

  Find out why there is no leader
    tenure check jobs/nightly";

const RUN_HELP: &str = "\
The work is a program, a URL, a WebAssembly component, or an application that asks. Without a schedule it runs for \
triggers only (`tenure trigger`); --no-work always lasts as long as the leadership.

  tenure run jobs/backup --cron '0 3 * * *' -- /usr/local/bin/backup --all
  tenure run jobs/report --every 1h --webhook https://example.com/tick
  tenure run jobs/nightly --every 24h --handler nightly.wasm
  tenure run jobs/poller --no-work --listen 127.0.0.1:8080
  tenure run jobs/reindex -- ./reindex

A program is started again for each turn, and exit code 0 is success. It inherits this environment, including the \
variables of an identity; --env adds others. It does not inherit TENURE_*, the variables by which systemd is \
notified, and the secrets of the storage account. These are AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_KEY, \
AZURE_STORAGE_SAS_TOKEN, AZURE_STORAGE_AUTH_TOKEN and AZURE_CLIENT_SECRET. Tenure sets TENURE_ELECTION, TENURE_TERM, \
TENURE_SLOT, TENURE_ATTEMPT, TENURE_PAST_DUE, TENURE_MISSED_SLOTS and TENURE_IDEMPOTENCY_KEY; TENURE_TRIGGER for a \
turn of `tenure trigger`; TENURE_SHARE_INDEX and TENURE_SHARE_COUNT with --shares; TRACEPARENT if traces are sent. \
TENURE_DEADLINE is the time at which the program is killed if no later renewal succeeds. The program and everything \
that it started get SIGTERM one --stop-time before the leadership ends, and SIGKILL half a second before the end.

A URL gets one POST for each turn, with the turn as JSON. Any 2xx is success. A call that did not arrive is retried; \
one that may have arrived is retried with --delivery at-least-once only. When the leadership ends, the connection is \
cut, but the receiver may go on: it must refuse a term (header tenure-term) smaller than one that it has seen.

An application asks http://localhost:8080/leader whether this candidate leads, under which term, and until when it \
may act. It must stop itself when that time is over. /watch reports each change.

More work than one process can do is split into shares, which all processes of the election divide among themselves:

  tenure run jobs/orders --shares 32 --every 1m -- ./orders

Durations have a unit: 500ms, 15s, 1h30m. Variables set what their options set; the command line takes precedence. \
The storage account and its credential come from the variables of Azure's own tools, never from an argument: \
AZURE_STORAGE_CONNECTION_STRING; or AZURE_STORAGE_ACCOUNT with AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN, \
AZURE_STORAGE_AUTH_TOKEN, an application (AZURE_CLIENT_SECRET), or else the identity of the workload or the machine. \
The first one that is set counts. Instead of a secret in a variable NAME, the variable NAME_FILE may name a file that \
holds it; the file is read again every few seconds.

On SIGTERM or SIGINT (and on SIGHUP without a service manager) the candidate begins no new turn. The running turn may \
go on for --grace, and is then stopped. The lease is released, and the program ends. A second signal, more than a \
second later, ends it at once.

The process that you start is a supervisor; its child, the same program, runs the election. When the child dies, the \
supervisor kills what is left of its work, releases the lease, and ends with the same exit code, or with 128 plus the \
signal number. If the supervisor is killed (kill -9), its child dies too. The others then wait until the lease \
expires or, with --failover, for about the time given there.

Exit codes: 0 the candidate left; 1 a second signal ended it; 2 a setting is wrong, and nothing was sent; 71 the \
system lacked the threads, memory or file descriptors to start it; 101, or 128 plus a signal number: the process that \
ran the election died. Errors of the store or of the work never end it: they are reported and retried.";

#[cfg_attr(not(unix), allow(dead_code, reason = "there is no such command"))]
const LOCK_HELP: &str = "\
It waits until no other process holds the lease of the blob, runs the command once, releases the lease, and ends with \
the command's exit code. The lease is renewed while the command runs. If renewals fail, the command and everything \
that it started get SIGTERM one --stop-time, and SIGKILL half a second, before the lease must be given up. So two \
holders' commands never run at the same time. Processes that a command leaves behind are killed.

  tenure lock jobs/migration -- ./migrate.sh
  tenure lock --if-free jobs/report -- ./report.sh || test $? = 75

The command has the standard input, output and error and the terminal of this process; Ctrl-Z does not stop it, since \
it would keep the lock. In a pipeline, the command gets the terminal only once it reads from the terminal. Problems \
go to standard error; everything else is logged only with --log or --log-level. The command inherits this environment \
without the variables that a command of `tenure run` does not get; --env adds others. TENURE_TERM is a number that \
rises with each holder: give it to whatever the command writes to, which can then refuse an earlier holder. \
TENURE_DEADLINE is the time at which the command is killed if no later renewal succeeds, as known at its start.

While the command runs, this process passes on the signals that it gets: SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1 \
and SIGUSR2. While it waits, they end the waiting.

The lock is an election's blob, so `tenure status` and `tenure break` work on it. No other election should use it.

Exit codes: the command's own; 128 plus the signal number, if a signal ended the command or the waiting; 75 the lock \
was not acquired in time, or at once with --if-free, and nothing was run (it is held, or the account did not answer: \
standard error says which); 76 the lock was lost while the command ran, and the command was ended for that, or this \
program died while it held the lock; 125 something was wrong with the settings, the blob or this program itself, or \
the account refused, and nothing was run; 126 the command cannot be executed; 127 there is no such command.";

const OBSERVE_HELP: &str = "\
It answers at --listen as a candidate does, with /leader and /watch among others, but takes no part in the \
elections. It never leads and writes nothing, so a credential that may only read blobs is enough.

  tenure observe jobs/nightly --listen 127.0.0.1:8080
  tenure observe --config tenure.toml --listen 127.0.0.1:8080

It polls as a follower does, about 1,200 requests an hour for each election. Where it can reach the address that the \
leader put on record, it learns of changes at once. Then --poll 60s is enough: 80 requests an hour.

For an application that is to act itself while it leads, see `tenure run --no-work`.

It ends with SIGTERM or SIGINT, or with SIGHUP without a service manager. Exit codes: 0 it was ended; 1 a second \
signal ended it; 2 something was wrong with the settings, and nothing was sent.";

const CHECK_HELP: &str = "\
It accepts everything that `tenure run` accepts, and validates it in the same way, but takes no part in the election: \
replace run by check. For each election it shows when the next turns are, which work was found, what that may reach, \
and which account and credential are used. With --offline it stops there, and sends nothing.

Then it connects to the storage account, and tries each request that a candidate sends. It does so on an empty blob \
of its own beside the election's, BLOB.check-…, and deletes it. A credential that may not delete blobs leaves one \
blob, BLOB.check. A missing container is created, as a candidate would create it. The election itself is only read, \
so this may run while candidates run. Of several elections in one container, the requests are tried for the first \
one; the others are only read.

  tenure check jobs/backup --cron '0 3 * * *' -- /usr/local/bin/backup --all
  tenure check --offline --config tenure.toml

To test only the account, leave out schedule and work:

  tenure check jobs/backup

Exit codes: 0 all is well, for an emulator too; 1 there are warnings; 2 something failed, or a setting is wrong; 130 \
it was interrupted.";

const STATUS_HELP: &str = "\
It only reads. Below the rows it shows the candidates that were seen in the last half hour, and for split work the \
shares: who holds which, and which move. A member with `no sign` has left or died. The actual holders of more than \
1,000 shares are not read.

  tenure status jobs/nightly
  tenure status --config tenure.toml
  tenure status --all jobs

With --config and without an election it shows all elections of the file as one table; with --all, all elections of \
a container that have had a leader, except those of shares. Those that cannot be read, those without a leader and \
those whose last turn failed come first. A SAS for --all must be for the container, with r and l.

With --watch it writes a line for each change of the leader, the lease, the turns and the problems. It misses \
changes that come and go between two reads. It ends with SIGINT (Ctrl-C) or SIGTERM, or when its output is closed.

Exit codes: 0 there is a leader, and each share is held by the member that should hold it; 1 there is none, or a share \
is not held as planned; 2 a setting is wrong, no candidate can lead, or something that decides between 0 and 1 could \
not be read. Of several elections, the worst; 1 if --all finds none. With --watch: 0 it was ended; 2 a setting is wrong.";

const RESHARE_HELP: &str = "\
All work stops in all processes, since two splits must not run side by side. The coordinator closes each \
share, so that a process that was frozen cannot win it later. Then it plans the new ones. They are new elections: \
slots, outcomes and history start again. Processes need not be restarted; their --shares counts for the first plan \
only.

  tenure reshare jobs/orders --shares 64

It asks for confirmation first. `tenure status` shows the progress.

Exit codes: 0 the new number was requested, was requested before, or is already in force; 1 it was not requested, or \
that is not known; 2 something was wrong with the settings, the plan could not be read or there is none yet, or it was not confirmed.";

const TRANSFER_HELP: &str = "\
It writes an order to a small blob beside the election's, BLOB.orders, and notifies the leader at the address that \
it put on record. That needs permission to write there. The leader reads its orders every 10 s. It obeys a transfer \
of its own term that is at most a minute old. A later transfer replaces one that has not begun.

With --to, the running turn ends within its grace, and the candidate of that name leads next, with no other leader in \
between. If that candidate does not announce itself, the leader stays. Without --to, the leader resigns: any \
candidate may lead next.

  tenure transfer jobs/backup --to vm2

A lock and a candidate that is invoked for one turn (`tenure compose`, tenure.wasm) take no orders.

Exit codes: 0 a new term has begun; 1 the order was refused or failed, and the leader stays; 2 the result is not \
known, or a setting is wrong; 3 the leader changed before it obeyed.";

const TRIGGER_HELP: &str = "\
It writes a trigger to a small blob beside the election's, BLOB.orders, and notifies the leader at the address that \
it put on record. That needs permission to write there.

The turn is claimed like any other, after the one that runs, and before slots that wait. It is run once, or with \
--delivery at-least-once until it succeeds or --max-attempts is reached. When there is no leader, the \
next one runs it. A trigger that no leader claims within an hour is not run. Eight may wait at a time. Work \
that lasts as long as the leadership (--while-leading) has no turns, so its triggers are refused.

The same command again with the same --id starts no second turn, and reports the state of the first. When 17 other \
triggers have been claimed after it, the id is forgotten, and the command starts a turn again.

  tenure trigger jobs/nightly --wait 10m

Exit codes without --wait: 0 the state of the trigger was printed, whatever it is; 2 it was not placed, or that is not \
known. With --wait: 0 the turn succeeded; 1 it was not over in time; 2 as above; 3 the turn did not succeed, will not \
be run, or its outcome is unknown.";

const BREAK_HELP: &str = "\
Use it for a leader that cannot be reached any more. Without --period, its lease expires in its own time, and by then \
the leader has stopped: no two leaders overlap. With a shorter period, the leader works on until its next renewal fails, and may \
overlap with the next leader.

Exit codes: 0 the lease is broken, or there was none; 1 it was not broken; 2 something was wrong with the settings, \
there is no such election, or it was not confirmed.";

const RESET_SLOT_HELP: &str = "\
A slot in the future is a problem that every leader reports: the record was edited by hand, or the service's clock \
was wrong. Only a leader may write the record. So this command breaks the present leader's lease and waits until it \
has expired in its own time. Then it leads for a moment, removes the slot and releases the lease. Scheduled turns do \
not run before that slot anyway; a running turn for a trigger is cut off. Slots that already ran while the clock was \
ahead will run again when their time comes.

Exit codes: 0 there is no such slot any more; 1 it was not done; 2 something was wrong with the settings, there is \
no such election, or it was not confirmed; 130 it was interrupted.";

const COMPLETIONS_HELP: &str = "\
Where shells look for it:
  bash  tenure completions bash > ~/.local/share/bash-completion/completions/tenure
  zsh   tenure completions zsh > \"${fpath[1]}/_tenure\"
  fish  tenure completions fish > ~/.config/fish/completions/tenure.fish";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::table::TABLE;

    #[test]
    fn the_command_line_is_consistent() {
        program(TABLE).debug_assert();
    }

    fn error_text(line: &str) -> String {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let error = program(TABLE).try_get_matches_from(&words).unwrap_err();
        with_advice(error, &words).to_string()
    }

    #[test]
    fn command_without_dashes_gets_a_tip() {
        let tip = DOUBLE_DASH_ADVICE;
        let message = error_text("tenure run jobs/x --every 5s true --all");
        assert!(
            message.contains("unexpected argument 'true'") && message.contains(tip),
            "{message}"
        );
        for other in ["tenure run --evry 5s", "tenure store true"] {
            assert!(
                !error_text(other).contains("as a value") && !error_text(other).contains(tip),
                "{other}"
            );
        }
    }

    #[test]
    fn unquoted_cron_expression_gets_a_tip() {
        for line in [
            "tenure run jobs/x --cron 0 3 * * * -- backup",
            "tenure run --cron Cargo.toml Cargo.lock jobs/x",
            "tenure run --cron=*/5 * * * * --handler a.wasm",
        ] {
            assert!(error_text(line).contains("--cron '0 3 * * *'"), "{}", error_text(line));
        }
        for line in ["tenure run --cron @daily jobs/x backup", "tenure run --cron 0 --evry 5s"] {
            assert!(!error_text(line).contains("quotes"), "{}", error_text(line));
        }
    }

    #[test]
    fn closest_command_is_suggested() {
        for (word, command) in [
            ("rn", "run"),
            ("rum", "run"),
            ("stauts", "status"),
            ("stat", "status"),
            ("Chekc", "check"),
            ("reset", "reset-slot"),
            ("transfr", "transfer"),
            ("hlep", "help"),
        ] {
            let message = error_text(&format!("tenure {word}"));
            let tip = format!("a similar subcommand exists: '{command}'");
            assert!(message.contains(&tip), "{word}: {message}");
        }
        assert!(!error_text("tenure lead").contains("similar"), "{}", error_text("tenure lead"));
        let message = error_text("tenure version");
        assert!(
            message.contains("tip: tenure --version shows it") && !message.contains("similar"),
            "{message}"
        );
    }

    #[test]
    fn each_command_is_in_one_group() {
        let program = program(TABLE);
        let shown = program.get_subcommands().filter(|command| !command.is_hide_set());
        let mut shown: Vec<_> = shown.map(clap::Command::get_name).chain(["help"]).collect();
        let mut grouped: Vec<_> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        if cfg!(all(unix, feature = "demo")) {
            let in_order: Vec<_> = grouped.iter().filter(|name| shown.contains(name)).collect();
            assert_eq!(in_order, shown.iter().collect::<Vec<_>>());
        }
        shown.sort_unstable();
        grouped.sort_unstable();
        grouped.retain(|name| cfg!(unix) || *name != "lock");
        grouped.retain(|name| cfg!(feature = "demo") || *name != "demo");
        assert_eq!(grouped, shown);
    }

    #[test]
    fn short_help_is_short_and_names_what_long_help_explains() {
        let mut program = program(TABLE);
        for command in program.get_subcommands_mut() {
            let name = command.get_name().to_owned();
            let short = command.render_help().to_string();
            let long = command.render_long_help().to_string();
            assert!(short.lines().count() <= 60, "{name}: {short}");
            for option in command.get_arguments().filter_map(clap::Arg::get_long) {
                for help in [&short, &long] {
                    assert!(help.contains(&format!("--{option}")), "{name} --{option}: {help}");
                }
            }
        }
        let help = program.render_help().to_string();
        assert!(help.contains(DOCUMENTATION) && !help.contains("Examples:"), "{help}");
        assert!(program.render_long_help().to_string().contains("Examples:"));
    }

    /// A terminal narrower than the lines of a paragraph would wrap them a second time.
    #[test]
    fn paragraphs_of_help_have_one_line() {
        let program = program(TABLE);
        for command in program.get_subcommands() {
            let notes = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
            for paragraph in notes.split("\n\n") {
                let mut more = paragraph.lines().skip(1);
                assert!(more.all(|line| line.starts_with("  ")), "{}", command.get_name());
            }
        }
    }
}
