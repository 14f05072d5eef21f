//! What counts of all that was said of one election: command line, variable, the election's table in the file,
//! the beginning of the file. Each value keeps where it came from, so that it is named as people wrote it.

use super::options::CommandLine;
use super::parse::{Content, Section};
use super::setting::{Kind, Scope, Setting};
use super::source::ValueItem;
use super::table::{ADDRESS, ALLOW_HOST, CA_FILE, FOR_EACH, FOR_EACH_FILE, LISTEN, LISTEN_HOST};
use crate::complaint::{redacted, redacted_address};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// What stands for a name in settings of elections that are of one kind.
pub(super) const PLACEHOLDER: &str = "{each}";

/// Settings with an address or a host, in which a password may stand before an `@`.
static ADDRESSES: [&Setting; 4] = [&ADDRESS, &ALLOW_HOST, &LISTEN, &LISTEN_HOST];

/// Who says what a variable holds; nothing when it is blank or not set.
pub(crate) type VariableLookup<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// The variables of this process.
pub(crate) fn environment(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !is_blank(value))
}

fn is_blank(text: &OsStr) -> bool {
    text.to_string_lossy().trim().is_empty()
}

/// Where a value comes from, the strongest first.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    CommandLine,
    /// This one. What a variable holds in the place of a file is not kept here.
    Variable(&'static str),
    /// Where its key stands, in the table of the election.
    Election(String),
    /// Where its key stands, above all elections.
    Defaults(String),
}

/// A value that counts.
#[derive(Clone)]
pub(crate) struct Value {
    pub setting: &'static Setting,
    pub source: Origin,
    pub items: Vec<ValueItem>,
}

impl Value {
    pub(crate) fn text(&self) -> String {
        let text = self.items.first().map(|item| item.text.to_string_lossy());
        text.unwrap_or_default().into_owned()
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.items.first().map(|item| PathBuf::from(&item.text)).unwrap_or_default()
    }

    pub(crate) fn is_blank(&self) -> bool {
        !self.items.is_empty() && self.items.iter().all(|item| is_blank(&item.text))
    }

    /// Whether it is from a variable, which may be set for several processes.
    pub(crate) fn is_from_variable(&self) -> bool {
        matches!(self.source, Origin::Variable(_))
    }

    /// Where it comes from, with the value where that may be shown: `--lease 5s`, `TENURE_LEASE`, or
    /// `tenure.toml:2:9: lease = "5s"`.
    pub(crate) fn describe(&self) -> String {
        self.describe_item(self.items.first())
    }

    /// The same of one of its words.
    pub(crate) fn describe_item(&self, item: Option<&ValueItem>) -> String {
        let Setting { name, kind, .. } = self.setting;
        let is_address = ADDRESSES.iter().any(|setting| setting.is(self.setting));
        let redact = if is_address { redacted_address } else { redacted };
        let text = item.map(|item| redact(&item.text.to_string_lossy()));
        let text = text.filter(|text| !text.trim().is_empty());
        match (&self.source, text, kind) {
            (Origin::Variable(name), ..) => (*name).to_owned(),
            // A text that may hold a secret is not shown.
            (Origin::CommandLine, Some(text), Kind::Argument(name)) if text == "…" => {
                format!("{name} {text}")
            }
            (Origin::CommandLine, Some(text), Kind::Argument(_)) => text,
            (Origin::CommandLine, Some(text), Kind::Command) => format!("-- {text}"),
            (Origin::CommandLine, _, Kind::Variables) => format!("--{name} …"),
            (Origin::CommandLine, _, Kind::Switch | Kind::Url) => format!("--{name}"),
            (Origin::CommandLine, None, _) => self.setting.option(),
            (Origin::CommandLine, Some(text), _) => format!("--{name} {text}"),
            (Origin::Election(key) | Origin::Defaults(key), text, kind) => {
                let place = item.map_or(key, |item| &item.place);
                match (text, kind) {
                    (_, Kind::Url | Kind::Variables) | (None, _) => format!("{place}: {name}"),
                    (Some(text), Kind::Switch) => format!("{place}: {name} = {text}"),
                    (Some(text), _) => format!("{place}: {name} = \"{text}\""),
                }
            }
        }
    }

    /// The same without the value.
    pub(crate) fn describe_without_value(&self) -> String {
        match &self.source {
            Origin::Variable(name) => (*name).to_owned(),
            Origin::CommandLine if matches!(self.setting.kind, Kind::Argument(_)) => self.describe(),
            Origin::CommandLine => self.setting.option(),
            Origin::Election(key) | Origin::Defaults(key) => {
                let location = match self.items.as_slice() {
                    [only] => &only.place,
                    _ => key,
                };
                format!("{location}: {}", self.setting.name)
            }
        }
    }
}

/// An election of the file.
#[derive(Clone, Default)]
struct FileContext {
    /// Where it begins.
    place: String,
    /// The file has other elections too.
    has_several: bool,
    /// Settings that are there in a way that makes no sense.
    invalid: Vec<&'static Setting>,
}

/// All that counts for one election, or for a command that looks at one.
#[derive(Clone, Default)]
pub(crate) struct ResolvedSettings {
    pub table: Vec<&'static Setting>,
    command: String,
    values: Vec<Value>,
    file: Option<FileContext>,
    /// The pattern that it is of, by its place among those of the command.
    pub pattern: Option<usize>,
}

impl ResolvedSettings {
    /// Without a file.
    pub(crate) fn from_command_line(line: &CommandLine) -> Self {
        Self::resolve(line, &environment, None)
    }

    /// Without a file, and with these variables.
    #[cfg(test)]
    pub(crate) fn with_variables(line: &CommandLine, variable: VariableLookup<'_>) -> Self {
        Self::resolve(line, variable, None)
    }

    /// With what the file says of an election, if it has one.
    pub(super) fn resolve(
        line: &CommandLine,
        variable: VariableLookup<'_>,
        file: Option<(&Content, Option<&Section>)>,
    ) -> Self {
        let election = file.and_then(|(_, election)| election);
        let defaults = file.map(|(content, _)| &content.defaults);
        let in_file = defaults.map(|defaults| FileContext {
            place: election.unwrap_or(defaults).place.clone(),
            has_several: file.is_some_and(|(content, _)| content.elections.len() > 1),
            invalid: [election, Some(defaults)]
                .into_iter()
                .flatten()
                .flat_map(|section| section.invalid.iter().copied())
                .collect(),
        });
        let values: Vec<Value> = line
            .table
            .iter()
            .copied()
            .filter_map(|setting| resolve_value(line, variable, election, defaults, setting))
            .collect();
        let is_effective = |value: &Value| !is_off(value) && !is_overridden(value, &values);
        let effective: Vec<_> = values.iter().map(is_effective).collect();
        let values = values.into_iter().zip(effective).filter(|(_, counts)| *counts);
        Self {
            table: line.table.clone(),
            command: line.command.clone(),
            values: values.map(|(value, _)| value).collect(),
            file: in_file,
            pattern: None,
        }
    }

    /// The same where [`EACH`] stands for a name, and said where the name is.
    pub(super) fn for_name(&self, name: &ValueItem) -> Self {
        let mut this = self.clone();
        this.values.retain(|v| !v.setting.is(&FOR_EACH) && !v.setting.is(&FOR_EACH_FILE));
        let written = this.values.iter_mut().filter(|value| !value.is_from_variable());
        for item in written.flat_map(|value| &mut value.items) {
            let Some(text) = item.text.to_str().filter(|text| text.contains(PLACEHOLDER)) else {
                continue;
            };
            *item = ValueItem {
                text: text.replace(PLACEHOLDER, &name.text.to_string_lossy()).into(),
                place: name.place.clone(),
            };
        }
        this
    }

    pub(crate) fn command(&self) -> &str {
        &self.command
    }

    pub(crate) fn get(&self, setting: &Setting) -> Option<&Value> {
        self.values.iter().find(|value| value.setting.is(setting))
    }

    /// The words of a value, with it.
    pub(crate) fn items(&self, setting: &Setting) -> impl Iterator<Item = (&Value, &ValueItem)> {
        let values = self.get(setting).into_iter();
        values.flat_map(|value| value.items.iter().map(move |item| (value, item)))
    }

    /// Forgets what the command has no option for.
    pub(crate) fn retain_command_settings(&mut self) {
        let command = &self.command;
        let has_option = |setting: &Setting| setting.name.is_empty() || setting.is_option_of(command);
        self.values.retain(|value| has_option(value.setting));
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Value> {
        self.values.iter()
    }

    /// The text of a value that is not blank.
    pub(crate) fn text(&self, setting: &Setting) -> Option<String> {
        self.get(setting).filter(|value| !value.is_blank()).map(Value::text)
    }

    /// Whom to trust beside those whom the platform trusts.
    pub(crate) fn ca_file(&self) -> Option<OsString> {
        let file = self.get(&CA_FILE).filter(|value| !value.is_blank());
        file.map(|value| value.path().into_os_string())
    }

    pub(crate) fn is_on(&self, switch: &Setting) -> bool {
        self.get(switch).is_some()
    }

    pub(crate) fn is_from_option(&self, setting: &Setting) -> bool {
        self.get(setting).is_some_and(|value| value.source == Origin::CommandLine)
    }

    /// Whether an option or the file says it.
    pub(crate) fn is_written(&self, setting: &Setting) -> bool {
        self.get(setting).is_some_and(|value| !value.is_from_variable())
    }

    /// The setting that a variable says.
    pub(crate) fn find_by_variable(&self, variable: &str) -> Option<&'static Setting> {
        let has_variable =
            |setting: &&&'static Setting| setting.variables().any(|known| known == variable);
        self.table.iter().find(has_variable).copied()
    }

    /// Returns the text of the setting that the election component reads from that variable.
    pub(crate) fn component_value(&self, variable: &str) -> Option<String> {
        let setting = self.find_by_variable(variable).filter(|setting| setting.component)?;
        self.get(setting).map(Value::text)
    }

    /// Where it could be said that nobody says: `CONTAINER/BLOB, or TENURE_ELECTION`. None where it is said in a way
    /// that makes no sense, which is complained of already.
    pub(crate) fn describe_missing(&self, setting: &Setting) -> Option<String> {
        let variable = setting.variables().last();
        if !setting.is_option_of(&self.command) {
            return variable.map(str::to_owned);
        }
        let (name, variable) = match &self.file {
            Some(file) if file.invalid.iter().any(|invalid| is_substitute(invalid, setting)) => {
                return None;
            }
            // No variable can say it for one of several.
            Some(file) if file.has_several && setting.scope == Scope::One => {
                (format!("{}: {}", file.place, setting.name), None)
            }
            Some(file) => (format!("{}: {}", file.place, setting.name), variable),
            None => (setting.option(), variable),
        };
        Some(variable.map_or(name.clone(), |variable| format!("{name}, or {variable}")))
    }

    /// What a text calls a setting: the option, the key of the file or the variable that it was given by. One that was not
    /// given goes by its variable in a text about a variable, otherwise as the settings of this election are written.
    pub(crate) fn display_name(&self, setting: &Setting, about: Option<&Value>) -> String {
        let by_variable =
            || about.is_some_and(Value::is_from_variable) && !setting.variable.is_empty();
        match self.get(setting).map(|value| &value.source) {
            Some(Origin::Variable(variable)) => (*variable).to_owned(),
            None if by_variable() => setting.variable.to_owned(),
            Some(Origin::Election(_) | Origin::Defaults(_)) => setting.name.to_owned(),
            None if self.file.is_some() && setting.is_key() => setting.name.to_owned(),
            _ if setting.is_option_of(&self.command) => setting.option(),
            _ => setting.variable.to_owned(),
        }
    }
}

/// The value of a setting from the strongest that says it.
fn resolve_value(
    line: &CommandLine,
    variable: VariableLookup<'_>,
    election: Option<&Section>,
    defaults: Option<&Section>,
    setting: &'static Setting,
) -> Option<Value> {
    let value = |source, words| Some(Value { setting, source, items: words });
    let to_item = |text: &OsString| ValueItem { text: text.clone(), place: String::new() };
    if let Some(words) = line.get(setting) {
        return value(Origin::CommandLine, words.iter().map(to_item).collect());
    }
    for name in setting.variables() {
        if let Some(text) = variable(name) {
            let is_content = name == setting.content;
            let words = if is_content { Vec::new() } else { vec![to_item(&text)] };
            return value(Origin::Variable(name), words);
        }
    }
    let election = election.filter(|_| setting.scope != Scope::Process);
    let find_entry = |section: Option<&Section>| {
        let entry = section?.entries.iter().find(|entry| entry.setting.is(setting))?;
        Some((entry.place.clone(), entry.items.clone()))
    };
    match (find_entry(election), find_entry(defaults)) {
        (Some((place, words)), _) => value(Origin::Election(place), words),
        (None, Some((place, words))) => value(Origin::Defaults(place), words),
        (None, None) => None,
    }
}

/// A switch that is off.
fn is_off(value: &Value) -> bool {
    value.setting.kind == Kind::Switch && value.text().trim() == "false"
}

/// Whether a stronger one of the same choice takes its place. Only what is in the file gives way: two on a
/// command line are a contradiction.
fn is_overridden(value: &Value, all: &[Value]) -> bool {
    let rank = |value: &Value| match value.source {
        Origin::CommandLine => 0,
        Origin::Variable(_) => 1,
        Origin::Election(_) => 2,
        Origin::Defaults(_) => 3,
    };
    let rivals = |other: &&Value| {
        value.setting.choice.is_some()
            && other.setting.choice == value.setting.choice
            && !is_off(other)
    };
    rank(value) > 1 && all.iter().filter(rivals).any(|rival| rank(rival) < rank(value))
}

/// Whether a setting would do where another one is missed.
fn is_substitute(invalid: &Setting, missed: &Setting) -> bool {
    invalid.is(missed) || (missed.choice.is_some() && invalid.choice == missed.choice)
}

#[cfg(test)]
mod tests;
