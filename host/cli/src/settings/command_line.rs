//! Generates the command line from the table: options with their help, and their values.

use super::table::OTHERS;
use super::{Kind, Part, Range, Setting};
use crate::output::{columns, wrap_words};
use clap::builder::Styles;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::time::Duration;
use tenure_base::duration::format_duration;

/// Maximum number of options without headings. The help of a command with more options groups them
/// under the headings of the table.
const MAX_UNGROUPED: usize = 12;

/// Maximum line length of help in characters.
pub(crate) const MAX_WIDTH: usize = 100;

/// Adds the options of a command. If there are many, `-h` shows the common ones, and lists the
/// names of the others.
pub(crate) fn with_options(command: Command, table: &[&'static Setting]) -> Command {
    let name = command.get_name().to_owned();
    let command_settings: Vec<_> =
        table.iter().copied().filter(|s| s.is_option_of(&name)).collect();
    let is_long = command_settings.len() > MAX_UNGROUPED;
    let hidden = |setting: &Setting| is_long && setting.short.is_empty();
    let option = |setting: &&'static Setting| {
        let arg = option(setting);
        if arg.is_positional() {
            // A command is the only kind of work of a lock.
            let is_required = arg.is_last_set() && name == "lock";
            return arg.required(is_required);
        }
        let heading = Some(setting.heading).filter(|heading| is_long && *heading != OTHERS);
        arg.help_heading(heading).hide_short_help(hidden(setting))
    };
    let options = command_settings.iter().map(option).collect::<Vec<_>>();
    let mut groups: Vec<(&str, Vec<String>)> = Vec::new();
    for setting in command_settings.iter().filter(|setting| hidden(setting)) {
        match groups.iter_mut().find(|(heading, _)| *heading == setting.heading) {
            Some((_, names)) => names.push(setting.option()),
            None => groups.push((setting.heading, vec![setting.option()])),
        }
    }
    let command = command.args(options);
    if groups.is_empty() {
        return command;
    }
    let rows = groups.iter().map(|(heading, names)| (*heading, names.join(", ")));
    let more = format_section("More options, which --help explains:", rows, 26);
    command.after_help(more)
}

/// Formats a heading and rows below it. Their first column has `name_width` characters.
pub(crate) fn format_section<'a>(
    heading: &str,
    rows: impl IntoIterator<Item = (&'a str, String)>,
    name_width: usize,
) -> String {
    let width = columns(std::io::stdout()).unwrap_or(MAX_WIDTH).min(MAX_WIDTH);
    let style = Styles::default();
    let (header, literal) = (style.get_header(), style.get_literal());
    let mut text = format!("{header}{heading}{header:#}\n");
    for (name, meaning) in rows {
        let meaning = wrap_words(&meaning, name_width + 4, Some(width));
        let _ = writeln!(text, "  {literal}{name:<name_width$}{literal:#}  {meaning}");
    }
    text
}

fn option(setting: &'static Setting) -> Arg {
    let arg = Arg::new(setting.name).help(short_help(setting)).long_help(help(setting));
    let arg = arg.required(setting.required);
    let valued = |arg: Arg, name: &str| arg.long(setting.name).value_name(name.to_owned());
    let textual = |name: &str| valued(arg.clone(), name).value_parser(value_parser!(String));
    match setting.kind {
        Kind::Text(name) => textual(name),
        Kind::Argument(name) => arg.value_name(name).value_parser(value_parser!(String)),
        Kind::Url => textual("URL"),
        // A negative duration of `--period` gets a complaint with the range. For other options,
        // accepting a hyphen would hide a missing value.
        Kind::Duration => textual("DURATION").allow_hyphen_values(setting.name == "period"),
        Kind::Number => textual("NUMBER").allow_hyphen_values(true),
        Kind::Size => textual("SIZE"),
        Kind::OneOf(words) => textual(&words.join("|")),
        Kind::Rule(_) => textual("RULE"),
        Kind::List(name) => textual(name).action(ArgAction::Append),
        Kind::Variables => textual("KEY=VALUE|NAME").action(ArgAction::Append),
        Kind::Switch => arg.long(setting.name).action(ArgAction::SetTrue),
        Kind::File => valued(arg, "FILE").value_parser(value_parser!(OsString)),
        Kind::Command => arg
            .last(true)
            .value_name("COMMAND")
            .num_args(1..)
            .action(ArgAction::Append)
            .value_parser(value_parser!(OsString)),
    }
}

/// Returns the summary for `-h`.
fn short_help(setting: &Setting) -> &str {
    match setting.short {
        "" => first_sentence(setting.help),
        short => short,
    }
}

/// Returns a text up to its first full stop.
pub(super) fn first_sentence(text: &str) -> &str {
    text.split_once(". ").map_or(text, |(first, _)| first)
}

/// Returns the full help: effect, range, default and variables.
fn help(setting: &Setting) -> String {
    let mut help = setting.help.to_owned();
    // The value's name in the help already shows these choices.
    let shown_range = range(setting).filter(|_| !matches!(setting.kind, Kind::OneOf(_)));
    if let Some(range) = shown_range {
        help += &format!("; {range}");
    }
    if !setting.default.is_empty() {
        help += &format!("; default: {}", to_text(setting.default));
    }
    match (setting.variable, setting.content) {
        ("", _) => help,
        (variable, "") => format!("{help} [env: {variable}]"),
        (variable, content) => {
            format!("{help} [env: {variable}; or {content}, with the content itself]")
        }
    }
}

impl Setting {
    /// Describes the allowed values, for a complaint about another one.
    pub(crate) fn allowed(&self) -> Option<String> {
        let range = range(self)?;
        Some(match range.split_once(" to ") {
            Some((least, most)) => format!("between {least} and {most}"),
            None => range,
        })
    }
}

/// Describes the allowed values.
pub(super) fn range(setting: &Setting) -> Option<String> {
    Some(match (&setting.range, setting.kind) {
        (Range::Any, Kind::OneOf(words) | Kind::Rule(words)) => words.join(" or "),
        (Range::Any, _) => return None,
        (Range::Words(parts), _) => to_text(parts),
        (Range::Bytes(most), _) => format!("at most {most} bytes"),
        (Range::Durations(range), _) => {
            format!("{} to {}", time(*range.start()), time(*range.end()))
        }
        (Range::From(least), _) => format!("at least {}", time(*least)),
        (Range::Numbers(range), _) => format!("{} to {}", range.start(), range.end()),
        (Range::Sizes(range), _) => format!("{} to {}", size(*range.start()), size(*range.end())),
    })
}

/// Joins the parts to a text.
pub(super) fn to_text(parts: &[Part]) -> String {
    let written = parts.iter().map(|part| match part {
        Part::Words(words) => (*words).to_owned(),
        Part::Time(duration) => time(*duration),
        Part::Number(number) => number.to_string(),
        Part::Size(bytes) => size(*bytes),
    });
    written.collect()
}

/// Formats a duration. A minute is in seconds, as Azure states the range of a lease.
fn time(duration: Duration) -> String {
    const MINUTE: Duration = Duration::from_secs(60);
    if duration == MINUTE { "60s".to_owned() } else { format_duration(duration) }
}

/// Formats a size in GiB or MiB.
fn size(bytes: u64) -> String {
    match bytes % bytesize::GIB {
        0 => format!("{}GiB", bytes / bytesize::GIB),
        _ => format!("{}MiB", bytes / bytesize::MIB),
    }
}

/// The options that were given on the command line.
#[derive(Default)]
pub(crate) struct CommandLine {
    pub table: Vec<&'static Setting>,
    pub command: String,
    options: Vec<(&'static Setting, Vec<OsString>)>,
}

impl CommandLine {
    pub(crate) fn from_matches(
        table: &[&'static Setting],
        command: &str,
        matches: &ArgMatches,
    ) -> Self {
        let given_values = |setting: &&'static Setting| {
            if matches.value_source(setting.name)? != ValueSource::CommandLine {
                return None;
            }
            let words = match setting.kind {
                Kind::Switch => vec!["true".into()],
                _ => matches.get_raw(setting.name)?.map(ToOwned::to_owned).collect(),
            };
            Some((*setting, words))
        };
        let options = table.iter().filter(|setting| setting.is_option_of(command));
        Self {
            table: table.to_vec(),
            command: command.to_owned(),
            options: options.filter_map(given_values).collect(),
        }
    }

    /// Returns the same command line without some settings.
    pub(super) fn without(&self, settings: &[&Setting]) -> Self {
        let is_other =
            |(option, _): &&(&Setting, _)| !settings.iter().any(|setting| option.is(setting));
        let options = self.options.iter().filter(is_other).cloned().collect();
        Self { table: self.table.clone(), command: self.command.clone(), options }
    }

    /// Returns the same command line with another value of a setting.
    pub(crate) fn with(&self, setting: &'static Setting, value: String) -> Self {
        let mut this = self.without(&[setting]);
        this.options.push((setting, vec![value.into()]));
        this
    }

    pub(crate) fn has(&self, setting: &Setting) -> bool {
        self.get(setting).is_some()
    }

    /// Returns the values of an option that was given.
    pub(super) fn get(&self, setting: &Setting) -> Option<&[OsString]> {
        self.options
            .iter()
            .find(|(option, _)| option.is(setting))
            .map(|(_, words)| words.as_slice())
    }
}
