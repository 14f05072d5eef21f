//! The command line: the commands here, their options each in the file of its group.

mod election;
mod look;
mod run;
mod standalone;
mod steer;

pub(super) use election::{ElectionArguments, StorageArguments};
pub(super) use look::{LookArguments, LookTimes, WatchArguments};
#[cfg(unix)]
pub(super) use run::WatchdogArguments;
pub(super) use run::{Format, RunArguments};
#[cfg(feature = "demo")]
pub(super) use standalone::DemoArguments;
pub(super) use standalone::{CompletionsArguments, ComposeArguments, ManArguments, StoreArguments};
pub(super) use steer::{BreakArguments, ListenerArguments, ResetSlotArguments, TargetArguments};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Parser, Subcommand};
use look::{DOCTOR_HELP, HISTORY_HELP, STATUS_HELP};
use steer::{PauseArguments, SteerArguments, TransferArguments};

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
    #[command(after_help = STATUS_HELP)]
    Status(LookArguments),
    /// Shows what changes: who leads, the lease, turns, problems
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
    Pause(PauseArguments),
    /// Lets a paused candidate contend again
    Resume(PauseArguments),
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
    #[cfg(feature = "demo")]
    Demo(DemoArguments),
}

/// What clap says against a command line, with a tip where a program was meant as the work.
pub(super) fn advised(mut error: clap::Error) -> clap::Error {
    let usage = error.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
    let bare = |value: &ContextValue| !value.to_string().starts_with('-');
    if error.kind() == ErrorKind::UnknownArgument
        && usage.contains("tenure run")
        && error.get(ContextKind::InvalidArg).is_some_and(bare)
    {
        let tip = "put -- before a command".to_owned().into();
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    fn refused(line: &str) -> String {
        let error = Arguments::command().try_get_matches_from(line.split(' ')).unwrap_err();
        advised(error).to_string()
    }

    #[test]
    fn a_command_without_its_dashes_is_told_of_them() {
        let tip = "put -- before a command";
        let told = refused("tenure run --election jobs/x --every 5s true --all");
        assert!(told.contains("unexpected argument 'true'") && told.contains(tip), "{told}");
        for other in ["tenure run --evry 5s", "tenure status true"] {
            assert!(!refused(other).contains(tip), "{other}");
        }
    }

    #[test]
    fn who_is_paused_must_be_said() {
        for verb in ["pause", "resume"] {
            let told = refused(&format!("tenure {verb} --election jobs/x"));
            assert!(told.contains("required") && told.contains("--at <URL>"), "{told}");
            let help = refused(&format!("tenure {verb} --help"));
            assert!(help.contains("--at <URL>") && !help.contains("default: the"), "{help}");
        }
        let help = refused("tenure resign --help");
        assert!(help.contains("default: the address of the leader"), "{help}");
    }

    /// Else lines break twice on a terminal that is narrower than they are.
    #[test]
    fn paragraphs_of_help_have_one_line() {
        let program = Arguments::command();
        for command in program.get_subcommands() {
            let notes = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for paragraph in notes.split("\n\n") {
                let mut more = paragraph.lines().skip(1);
                assert!(more.all(|line| line.starts_with("  ")), "{}", command.get_name());
            }
        }
    }
}
