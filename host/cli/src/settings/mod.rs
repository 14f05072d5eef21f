//! The settings of the program. [`table`] has a row for each of them, and all other modules derive
//! from it.
//!
//! 1. [`command_line`] generates the options, and reads their values.
//! 2. [`parse`] reads `tenure.toml`, whose keys are the options.
//! 3. [`resolved`] determines the effective values, from the command line, variables and the file.
//! 4. [`elections`] does that for each election. A [`Pattern`] expands the settings of one to
//!    several elections.
//!
//! [`Configuration`](crate::configuration::Configuration) defines which of the settings a command
//! reads.

mod command_line;
mod elections;
mod parse;
mod resolved;
pub(crate) mod table;
#[cfg(test)]
mod tests;

pub(crate) use command_line::{CommandLine, MAX_WIDTH, format_section, with_options};
pub(crate) use elections::{Elections, Pattern};
pub(crate) use resolved::{Origin, ResolvedSettings, Value};

use std::ops::RangeInclusive;
use std::time::Duration;

/// A row of the [`table`].
pub(crate) struct Setting {
    /// The option without its dashes, and the key of the file. Empty for settings that only have a
    /// variable.
    pub name: &'static str,
    /// The variable; empty if there is none. For a file with a secret, it ends in `_FILE`.
    pub variable: &'static str,
    /// The variable that contains the content of this setting's file. Empty if there is none.
    pub content: &'static str,
    pub kind: Kind,
    pub range: Range,
    /// The default value. Empty if there is none.
    pub default: &'static [Part],
    pub commands: &'static [&'static str],
    /// True if the option must be given.
    pub required: bool,
    pub scope: Scope,
    /// Settings of the same choice exclude each other.
    pub choice: Option<Choice>,
    /// The kinds of work that use the setting. Empty if all do.
    pub works: &'static [Work],
    /// True if the election component reads and validates it.
    pub component: bool,
    /// The help for `-h`. If a command has many options, `-h` only lists the names of those without
    /// this text.
    pub short: &'static str,
    /// The help of the option. Without a full stop.
    pub help: &'static str,
    /// Additional text for docs/configuration.md after the first sentence of the help, in Markdown.
    #[allow(dead_code, reason = "a test writes the page")]
    pub more: &'static str,
    /// The advice for a wrong value, if this program validates it.
    pub advice: &'static str,
    /// The heading in the help of commands with many options, and in docs/configuration.md.
    pub heading: &'static str,
}

/// The form of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A text, and its name in the help.
    Text(&'static str),
    /// A text that is given as a positional argument.
    Argument(&'static str),
    /// An address that may contain a secret, so it is never shown.
    Url,
    /// A number with its unit, like `15s`.
    Duration,
    Number,
    /// Bytes, like `64MiB`.
    Size,
    /// On or off. The option has no value.
    Switch,
    /// A path. In the file, it is relative to the file's directory.
    File,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// One of these words, or another value that the component allows.
    Rule(&'static [&'static str]),
    /// Several texts, and the name of one in the help.
    List(&'static str),
    /// Variables, as `NAME=VALUE`. They may contain secrets, so they are never shown.
    Variables,
    /// A program and its arguments, after two dashes.
    Command,
}

/// The allowed values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Range {
    /// All values that its kind and its reader allow.
    Any,
    /// A description of the values. The reader of the setting validates them.
    Words(&'static [Part]),
    /// Maximum number of bytes of text.
    Bytes(usize),
    Durations(RangeInclusive<Duration>),
    /// At least this duration.
    From(Duration),
    Numbers(RangeInclusive<u32>),
    Sizes(RangeInclusive<u64>),
}

/// A part of a text that contains values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Words(&'static str),
    Time(Duration),
    Number(u32),
    /// Bytes.
    Size(u64),
}

/// The place in the file where a setting is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Not in the file.
    Elsewhere,
    /// Above all elections: it applies to the whole process.
    Process,
    /// Anywhere. Above all elections, it is the default for each.
    Any,
    /// Distinguishes one election from others. If the file has several, only their tables may
    /// contain it, not the command line or a variable.
    One,
}

/// A group of settings that exclude each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    Schedule,
    Work,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Component,
    Webhook,
    Command,
    /// An application outside this process, which polls the listener.
    Application,
}

impl Setting {
    /// Returns the unique name of the setting.
    pub(crate) fn id(&self) -> &'static str {
        if self.name.is_empty() { self.variable } else { self.name }
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        self.id() == other.id()
    }

    /// Returns true if a command has it as an option.
    pub(crate) fn is_option_of(&self, command: &str) -> bool {
        !self.name.is_empty() && self.commands.contains(&command)
    }

    /// Returns true if the file has it as a key.
    pub(crate) fn is_key(&self) -> bool {
        self.is_option_of("run") && self.scope != Scope::Elsewhere
    }

    pub(crate) fn variables(&self) -> impl Iterator<Item = &'static str> + use<> {
        [self.variable, self.content].into_iter().filter(|name| !name.is_empty())
    }

    /// Returns the option as on the command line.
    pub(crate) fn option(&self) -> String {
        match self.kind {
            Kind::Argument(name) => name.to_owned(),
            Kind::Command => "-- …".to_owned(),
            _ => format!("--{}", self.name),
        }
    }
}

/// Returns the complaints about the text of a settings file.
#[cfg(feature = "fuzzing")]
pub(crate) fn complaints_in(text: &str) -> Vec<crate::complaint::Complaint> {
    parse::parse(&parse::SettingsFile::from_text(text), table::TABLE).complaints
}
