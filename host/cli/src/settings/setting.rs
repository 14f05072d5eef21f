//! What a row of the [table](super::table) says of a setting.

use std::ops::RangeInclusive;
use std::time::Duration;

/// One setting.
pub(crate) struct Setting {
    /// The option without its dashes, and the key of the file. Empty for what only a variable says.
    pub name: &'static str,
    /// The variable; empty where there is none. That of a file with a secret ends in `_FILE`.
    pub variable: &'static str,
    /// The variable that holds what the file of this setting would hold. Empty where there is none.
    pub content: &'static str,
    pub kind: Kind,
    pub range: Range,
    /// What holds when it is not set; empty where nothing does.
    pub default: &'static [Part],
    /// The commands that have the option.
    pub commands: &'static [&'static str],
    /// The option must be given.
    pub required: bool,
    pub scope: Scope,
    /// Settings of one choice take the place of each other.
    pub choice: Option<Choice>,
    /// The kinds of work that it is for; any, where there is none.
    pub works: &'static [Work],
    /// The election component reads it: it is passed on, and judged there.
    pub component: bool,
    /// The help of `-h`. Of a command with many options, `-h` leaves out those that have none.
    pub short: &'static str,
    /// What it does, for the help of the option. Without a full stop.
    pub help: &'static str,
    /// What docs/configuration.md says beside the first sentence of the help, in Markdown.
    #[allow(dead_code, reason = "a test writes the page")]
    pub more: &'static str,
    /// What to do about a value that is wrong, where that is judged here.
    pub advice: &'static str,
    /// The heading in the help of commands with many options, and in docs/configuration.md.
    pub heading: &'static str,
}

/// What a value looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A text, and what it is called in the help.
    Text(&'static str),
    /// The same, given by its place on the command line and not as an option.
    Argument(&'static str),
    /// An address that may hold a secret, so that it is never shown.
    Url,
    /// A number with its unit, like `15s`.
    Duration,
    /// A whole number.
    Number,
    /// Bytes, like `64MiB`.
    Size,
    /// On or off. The option has no value.
    Switch,
    /// A path. In the file, it is relative to where the file is.
    File,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// One of these words, or what the component allows beside them.
    Rule(&'static [&'static str]),
    /// Several texts, and what one is called in the help.
    List(&'static str),
    /// Variables, as `NAME=VALUE`. They may hold secrets, so that they are never shown.
    Variables,
    /// A program and its arguments, behind two dashes.
    Command,
}

/// Which values are allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Range {
    /// All that its kind and its judge allow.
    Any,
    /// As this text says; whoever reads it judges it.
    Words(&'static [Part]),
    /// So many bytes of text at most.
    Bytes(usize),
    Durations(RangeInclusive<Duration>),
    /// At least so long.
    From(Duration),
    Numbers(RangeInclusive<u32>),
    Sizes(RangeInclusive<u64>),
}

/// A part of a text that holds values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Words(&'static str),
    Time(Duration),
    Number(u32),
    /// Bytes.
    Size(u64),
}

/// Where it may stand in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Not in the file.
    Elsewhere,
    /// Above all elections: it holds for the whole process.
    Process,
    /// Anywhere: above all elections for each that does not say otherwise.
    Any,
    /// It tells one election from the others. With several of them it stands in their tables alone, not on
    /// the command line and in no variable.
    One,
}

/// What there is one of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    Schedule,
    Work,
}

/// The work of a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Component,
    Webhook,
    Command,
    /// That of an application outside this process, which asks.
    Application,
}

impl Setting {
    /// What tells it from the others.
    pub(crate) fn id(&self) -> &'static str {
        if self.name.is_empty() { self.variable } else { self.name }
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        self.id() == other.id()
    }

    /// Whether a command has it as an option.
    pub(crate) fn is_option_of(&self, command: &str) -> bool {
        !self.name.is_empty() && self.commands.contains(&command)
    }

    /// Whether the file has it as a key.
    pub(crate) fn is_key(&self) -> bool {
        self.is_option_of("run") && self.scope != Scope::Elsewhere
    }

    /// The variables that say it.
    pub(crate) fn variables(&self) -> impl Iterator<Item = &'static str> + use<> {
        [self.variable, self.content].into_iter().filter(|name| !name.is_empty())
    }

    /// As it is typed on a command line.
    pub(crate) fn option(&self) -> String {
        match self.kind {
            Kind::Argument(name) => name.to_owned(),
            Kind::Command => "-- …".to_owned(),
            _ => format!("--{}", self.name),
        }
    }
}
