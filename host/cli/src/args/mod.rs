//! The commands of the command line. The settings table defines the options of commands that use an
//! election.

mod help;
mod standalone;

#[cfg(feature = "demo")]
pub(super) use standalone::DemoArguments;
pub(super) use standalone::{CompletionsArguments, ComposeArguments, ManArguments, StoreArguments};

use super::settings::setting::Setting;
use super::settings::{MAX_WIDTH, format_section, with_options};
use super::version::VERSION;
use crate::complaint::DOUBLE_DASH_ADVICE;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser, Subcommand};
use help::{
    BREAK_HELP, CHECK_HELP, EXAMPLES, LOCK_HELP, OBSERVE_HELP, RESET_SLOT_HELP, RESHARE_HELP,
    RUN_HELP, STATUS_HELP, TRANSFER_HELP, TRIGGER_HELP,
};
use std::ffi::OsString;

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
    /// Removes a claimed slot in the future, which delays all turns
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

/// Returns the program, with the options that `table` defines for its commands.
pub(super) fn program(table: &[&'static Setting]) -> clap::Command {
    let program = Arguments::command().mut_subcommands(|command| {
        let command = with_options(command, table);
        if command.get_name() != "status" {
            return command;
        }
        let status = command.mut_arg("watch", |watch| watch.conflicts_with("history"));
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
            // After `--`, the argument would be the command.
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
    fn of_commands_the_best_one_is_suggested() {
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

    /// Otherwise lines would wrap twice on a terminal narrower than them.
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
