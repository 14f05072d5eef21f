//! The command line: the commands here. Options of those that meet an election are in the table of settings.

mod help;
mod standalone;

#[cfg(feature = "demo")]
pub(super) use standalone::DemoArguments;
#[cfg(unix)]
pub(super) use standalone::SuperviseArguments;
pub(super) use standalone::{CompletionsArguments, ComposeArguments, ManArguments, StoreArguments};

use super::settings::setting::Setting;
use super::settings::with_options;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser, Subcommand};
use help::{
    BREAK_HELP, DOCTOR_HELP, EXAMPLES, HISTORY_HELP, PAUSE_HELP, RESET_SLOT_HELP, RUN_HELP,
    STATUS_HELP, STEER_HELP, TRIGGER_HELP, WATCH_HELP,
};

const ABOUT: &str = "Elects one leader among many candidates with a lease on an Azure blob, and \
runs the work on the leader alone.";

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
    #[command(after_help = RUN_HELP)]
    Run,
    /// Shows who leads
    #[command(after_help = STATUS_HELP)]
    Status,
    /// Shows what changes: who leads, the lease, turns, problems
    #[command(after_help = WATCH_HELP)]
    Watch,
    /// Tries from this machine all that an election needs, and says what is wrong and what to do
    #[command(after_help = DOCTOR_HELP)]
    Doctor,
    /// Shows who led, the newest first
    #[command(after_help = HISTORY_HELP)]
    History,
    /// Forgets a claimed slot that lies in the future and keeps all turns waiting
    #[command(after_help = RESET_SLOT_HELP)]
    ResetSlot,
    /// Makes the leader give up its leadership, so that another candidate takes over
    #[command(after_help = STEER_HELP)]
    Resign,
    /// Has the leader hand over to a candidate of your choice, with no gap for a third one
    #[command(after_help = STEER_HELP)]
    Transfer,
    /// Keeps one candidate out of the race until it is resumed; a leader resigns
    #[command(after_help = PAUSE_HELP)]
    Pause,
    /// Lets a paused candidate contend again
    #[command(after_help = PAUSE_HELP)]
    Resume,
    /// Has the leader run a turn now, outside the schedule
    #[command(after_help = TRIGGER_HELP)]
    Trigger,
    /// Breaks the lease, whoever holds it, reachable or not
    #[command(after_help = BREAK_HELP)]
    Break,
    /// Makes one component of the election and a handler, for Spin, wasmCloud and other platforms
    Compose(ComposeArguments),
    /// Runs a blob store for trying things out, in memory
    Store(StoreArguments),
    /// Writes the shell completions of this program
    Completions(CompletionsArguments),
    /// Writes the manual pages
    Man(ManArguments),
    /// Starts a command of the runner's, and ends it in time whatever becomes of the runner
    #[cfg(unix)]
    #[command(hide = true)]
    Supervise(SuperviseArguments),
    /// Shows an election: leaders come and go, and others take over. Needs nothing, takes less than a minute
    #[cfg(feature = "demo")]
    Demo(DemoArguments),
}

/// The program with the options that the table has for its commands.
pub(super) fn program(table: &[&'static Setting]) -> clap::Command {
    Arguments::command().mut_subcommands(|command| with_options(command, table))
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
    use crate::settings::table::TABLE;

    #[test]
    fn the_command_line_is_consistent() {
        program(TABLE).debug_assert();
    }

    fn refused(line: &str) -> String {
        let error = program(TABLE).try_get_matches_from(line.split(' ')).unwrap_err();
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
        let program = program(TABLE);
        for command in program.get_subcommands() {
            let notes = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for paragraph in notes.split("\n\n") {
                let mut more = paragraph.lines().skip(1);
                assert!(more.all(|line| line.starts_with("  ")), "{}", command.get_name());
            }
        }
    }
}
