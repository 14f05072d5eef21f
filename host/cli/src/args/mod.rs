//! The command line: the commands here. Options of those that meet an election are in the table of settings.

mod help;
mod standalone;

#[cfg(feature = "demo")]
pub(super) use standalone::DemoArguments;
#[cfg(unix)]
pub(super) use standalone::SuperviseArguments;
pub(super) use standalone::{CompletionsArguments, ComposeArguments, ManArguments, StoreArguments};

use super::complaint::BEFORE_A_COMMAND;
use super::settings::setting::Setting;
use super::settings::with_options;
use super::version::VERSION;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser, Subcommand};
use help::{
    BREAK_HELP, CHECK_HELP, EXAMPLES, LOCK_HELP, OBSERVE_HELP, PAUSE_HELP, RESET_SLOT_HELP,
    RESHARE_HELP, RUN_HELP, STATUS_HELP, STEER_HELP, TRIGGER_HELP,
};
use std::ffi::OsString;

const ABOUT: &str = "Elects one leader among many candidates with a lease on an Azure blob, and \
runs the work on the leader alone.";

#[derive(Parser)]
#[command(name = "tenure", version = VERSION, about = ABOUT, after_help = EXAMPLES)]
#[command(max_term_width = 100)]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub(super) enum Command {
    /// Takes part in an election, and runs the handler while it leads
    #[command(after_help = RUN_HELP)]
    Run,
    /// Validates the settings of `tenure run`, shows the next turns, and tests the storage account
    #[command(after_help = CHECK_HELP)]
    Check,
    /// Holds the lease of a blob while a command runs once, and ends with the command's exit code
    #[cfg(unix)]
    #[command(after_help = LOCK_HELP)]
    Lock,
    /// Follows elections without contending, and answers applications that ask who leads
    #[command(after_help = OBSERVE_HELP)]
    Observe,
    /// Shows who leads, the turns, the candidates and the shares
    #[command(after_help = STATUS_HELP)]
    Status,
    /// Removes from the record a claimed slot in the future, which keeps all turns waiting
    #[command(after_help = RESET_SLOT_HELP)]
    ResetSlot,
    /// Asks for another number of shares
    #[command(after_help = RESHARE_HELP)]
    Reshare,
    /// Makes the leader give up its leadership, so that another candidate takes over
    #[command(after_help = STEER_HELP)]
    Resign,
    /// Has the leader hand over to a candidate of your choice, with no gap for a third one
    #[command(after_help = STEER_HELP)]
    Transfer,
    /// Keeps one candidate from contending until it is resumed; a leader resigns
    #[command(after_help = PAUSE_HELP)]
    Pause,
    /// Lets a paused candidate contend again
    #[command(after_help = PAUSE_HELP)]
    Resume,
    /// Has the leader run a turn now, outside the schedule
    #[command(after_help = TRIGGER_HELP)]
    Trigger,
    /// Breaks the lease, even when its holder cannot be reached
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
    let program = Arguments::command().mut_subcommands(|command| with_options(command, table));
    program.mut_subcommand("status", |status| {
        let status = status.mut_arg("watch", |watch| watch.conflicts_with("history"));
        status.mut_arg("interval", |interval| interval.requires("watch"))
    })
}

/// What clap says against a command line, with a better tip where it is known what was meant.
pub(super) fn advised(mut error: clap::Error, words: &[OsString]) -> clap::Error {
    let context = |kind| error.get(kind).map(ToString::to_string).unwrap_or_default();
    let tip = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let word = context(ContextKind::InvalidSubcommand);
            if word.eq_ignore_ascii_case("version") {
                error.remove(ContextKind::SuggestedSubcommand);
                "tenure --version shows it"
            } else {
                if let Some(meant) = meant(&word) {
                    let meant = ContextValue::Strings(vec![meant]);
                    error.insert(ContextKind::SuggestedSubcommand, meant);
                }
                return error;
            }
        }
        ErrorKind::UnknownArgument if is_taken_apart(words) => {
            "put quotes around a cron expression, since the shell splits it: --cron '0 3 * * *'"
        }
        ErrorKind::UnknownArgument
            if ["tenure run", "tenure check", "tenure lock"]
                .iter()
                .any(|c| context(ContextKind::Usage).contains(c))
                && !context(ContextKind::InvalidArg).starts_with('-') =>
        {
            BEFORE_A_COMMAND
        }
        ErrorKind::UnknownArgument => {
            // Behind -- it would be the command.
            error.remove(ContextKind::Suggested);
            return error;
        }
        _ => return error,
    };
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.to_owned().into()]));
    error
}

/// The command that a word was most likely meant to be.
fn meant(word: &str) -> Option<String> {
    const CLOSE: f64 = 0.5;
    let word = word.to_lowercase();
    let program = Arguments::command();
    let commands = program.get_subcommands().filter(|command| !command.is_hide_set());
    let names = commands.map(clap::Command::get_name).chain(["help"]).map(str::to_owned);
    let likeness = |name: &String| {
        let begun = if name.starts_with(&word) { 1.0 } else { 0.0 };
        strsim::normalized_damerau_levenshtein(name, &word).max(begun)
            // Of two that are as close, the one that begins in the same way.
            + strsim::jaro_winkler(name, &word) / 100.0
    };
    let names = names.filter(|name| likeness(name) >= CLOSE);
    names.max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
}

/// Whether a cron expression stands there without quotes: its first field alone is the option's value.
fn is_taken_apart(words: &[OsString]) -> bool {
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let Some(at) = words.iter().position(|word| *word == "--cron" || word.starts_with("--cron="))
    else {
        return false;
    };
    let mut behind = words[at + 1..].iter();
    let value = match words[at].split_once('=') {
        Some((_, value)) => Some(value),
        None => behind.next().map(AsRef::as_ref),
    };
    let is_field = value.is_some_and(|value| !value.contains(' ') && !value.starts_with('@'));
    is_field && behind.next().is_some_and(|word| !word.starts_with('-'))
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
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let error = program(TABLE).try_get_matches_from(&words).unwrap_err();
        advised(error, &words).to_string()
    }

    #[test]
    fn a_command_without_its_dashes_is_told_of_them() {
        let tip = BEFORE_A_COMMAND;
        let told = refused("tenure run jobs/x --every 5s true --all");
        assert!(told.contains("unexpected argument 'true'") && told.contains(tip), "{told}");
        for other in ["tenure run --evry 5s", "tenure store true"] {
            assert!(
                !refused(other).contains("as a value") && !refused(other).contains(tip),
                "{other}"
            );
        }
    }

    #[test]
    fn a_cron_expression_without_quotes_is_told_of_them() {
        for line in [
            "tenure run jobs/x --cron 0 3 * * * -- backup",
            "tenure run --cron Cargo.toml Cargo.lock jobs/x",
            "tenure run --cron=*/5 * * * * --handler a.wasm",
        ] {
            assert!(refused(line).contains("--cron '0 3 * * *'"), "{}", refused(line));
        }
        for line in ["tenure run --cron @daily jobs/x backup", "tenure run --cron 0 --evry 5s"] {
            assert!(!refused(line).contains("quotes"), "{}", refused(line));
        }
    }

    #[test]
    fn of_commands_the_best_one_is_suggested() {
        for (word, command) in [
            ("rn", "run"),
            ("rum", "run"),
            ("stauts", "status"),
            ("stat", "status"),
            ("Chekc", "check"),
            ("reset", "reset-slot"),
            ("resum", "resume"),
            ("hlep", "help"),
        ] {
            let told = refused(&format!("tenure {word}"));
            let tip = format!("a similar subcommand exists: '{command}'");
            assert!(told.contains(&tip), "{word}: {told}");
        }
        assert!(!refused("tenure lead").contains("similar"), "{}", refused("tenure lead"));
        let told = refused("tenure version");
        assert!(
            told.contains("tip: tenure --version shows it") && !told.contains("similar"),
            "{told}"
        );
    }

    #[test]
    fn who_is_paused_must_be_said() {
        for verb in ["pause", "resume"] {
            let told = refused(&format!("tenure {verb} jobs/x"));
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
