//! The effective settings of one election. The precedence is: command line, variable, the
//! election's table in the file, the beginning of the file. Each value keeps its origin, so that
//! messages name it as the operator gave it.

use super::command_line::CommandLine;
use super::parse::{Content, Section, ValueItem};
use super::table::{ADDRESS, ALLOW_HOST, CA_FILE, FOR_EACH, FOR_EACH_FILE, LISTEN, LISTEN_HOST};
use super::{Kind, Scope, Setting};
use crate::complaint::{redacted, redacted_address};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// Placeholder for the name in the settings of a pattern.
pub(super) const PLACEHOLDER: &str = "{each}";

/// Settings with an address or a host, which may contain a password before an `@`.
static ADDRESSES: [&Setting; 4] = [&ADDRESS, &ALLOW_HOST, &LISTEN, &LISTEN_HOST];

/// A lookup of variables. It returns none for a variable that is blank or not set.
pub(crate) type VariableLookup<'a> = &'a dyn Fn(&str) -> Option<OsString>;

pub(crate) fn environment(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !is_blank(value))
}

fn is_blank(text: &OsStr) -> bool {
    text.to_string_lossy().trim().is_empty()
}

/// The origin of a value, in order of precedence.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    CommandLine,
    /// The variable's name. If the variable has the content of a file, the value has no items,
    /// since the content is secret.
    Variable(&'static str),
    /// The position of the key in the table of the election.
    Election(String),
    /// The position of the key above all elections.
    Defaults(String),
}

/// An effective value.
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

    /// Returns true if the value is from a variable, which may be meant for several processes.
    pub(crate) fn is_from_variable(&self) -> bool {
        matches!(self.source, Origin::Variable(_))
    }

    /// Describes the origin, with the value if that is not secret: `--lease 5s`, `TENURE_LEASE`, or
    /// `tenure.toml:2:9: lease = "5s"`.
    pub(crate) fn describe(&self) -> String {
        self.describe_item(self.items.first())
    }

    /// Describes the origin of one of its items.
    pub(crate) fn describe_item(&self, item: Option<&ValueItem>) -> String {
        let Setting { name, kind, .. } = self.setting;
        let is_address = ADDRESSES.iter().any(|setting| setting.is(self.setting));
        let redact = if is_address { redacted_address } else { redacted };
        let text = item.map(|item| redact(&item.text.to_string_lossy()));
        let text = text.filter(|text| !text.trim().is_empty());
        match (&self.source, text, kind) {
            (Origin::Variable(name), ..) => (*name).to_owned(),
            // The text of this argument is hidden, so only its name shows which one it is.
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

    pub(crate) fn describe_without_value(&self) -> String {
        match &self.source {
            Origin::Variable(name) => (*name).to_owned(),
            Origin::CommandLine if matches!(self.setting.kind, Kind::Argument(_)) => {
                self.describe()
            }
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

/// The location of an election in the file.
#[derive(Clone, Default)]
struct FileContext {
    /// The beginning of its table.
    place: String,
    has_several: bool,
    /// Settings whose values in the file are invalid.
    invalid: Vec<&'static Setting>,
}

/// The effective settings of one election, or of a command about one.
#[derive(Clone, Default)]
pub(crate) struct ResolvedSettings {
    pub table: Vec<&'static Setting>,
    command: String,
    values: Vec<Value>,
    file: Option<FileContext>,
    /// The index of its pattern, among those of the command.
    pub pattern: Option<usize>,
}

impl ResolvedSettings {
    /// Resolves the settings without a file.
    pub(crate) fn from_command_line(line: &CommandLine) -> Self {
        Self::resolve(line, &environment, None)
    }

    /// Resolves the settings without a file, and with these variables.
    #[cfg(test)]
    pub(crate) fn with_variables(line: &CommandLine, variable: VariableLookup<'_>) -> Self {
        Self::resolve(line, variable, None)
    }

    /// Resolves the settings with those of an election in the file, if there is one.
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

    /// Replaces [`PLACEHOLDER`] with a name. Messages refer to the place of the name.
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

    /// Returns the items of a value, each with the value.
    pub(crate) fn items(&self, setting: &Setting) -> impl Iterator<Item = (&Value, &ValueItem)> {
        let values = self.get(setting).into_iter();
        values.flat_map(|value| value.items.iter().map(move |item| (value, item)))
    }

    /// Removes settings that the command has no option for.
    pub(crate) fn retain_command_settings(&mut self) {
        let command = &self.command;
        let has_option =
            |setting: &Setting| setting.name.is_empty() || setting.is_option_of(command);
        self.values.retain(|value| has_option(value.setting));
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Value> {
        self.values.iter()
    }

    /// Returns the text of a value, unless it is blank.
    pub(crate) fn text(&self, setting: &Setting) -> Option<String> {
        self.get(setting).filter(|value| !value.is_blank()).map(Value::text)
    }

    /// Returns the file with authorities to trust in addition to the platform's.
    pub(crate) fn ca_file(&self) -> Option<OsString> {
        let file = self.get(&CA_FILE).filter(|value| !value.is_blank());
        file.map(|value| value.path().into_os_string())
    }

    /// Returns true if the setting has an effective value. A switch with the value `false` has
    /// none.
    pub(crate) fn is_on(&self, setting: &Setting) -> bool {
        self.get(setting).is_some()
    }

    pub(crate) fn is_from_option(&self, setting: &Setting) -> bool {
        self.get(setting).is_some_and(|value| value.source == Origin::CommandLine)
    }

    /// Returns true if the setting is from an option or the file.
    pub(crate) fn is_written(&self, setting: &Setting) -> bool {
        self.get(setting).is_some_and(|value| !value.is_from_variable())
    }

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

    /// Names the places where a missing setting can be set: `CONTAINER/BLOB, or TENURE_ELECTION`.
    /// None if it is present but invalid, which already has a complaint.
    pub(crate) fn describe_missing(&self, setting: &Setting) -> Option<String> {
        let variable = setting.variables().last();
        if !setting.is_option_of(&self.command) {
            return variable.map(str::to_owned);
        }
        let (name, variable) = match &self.file {
            Some(file) if file.invalid.iter().any(|invalid| is_substitute(invalid, setting)) => {
                return None;
            }
            // A variable cannot set it for one of several elections.
            Some(file) if file.has_several && setting.scope == Scope::One => {
                (format!("{}: {}", file.place, setting.name), None)
            }
            Some(file) => (format!("{}: {}", file.place, setting.name), variable),
            None => (setting.option(), variable),
        };
        Some(variable.map_or(name.clone(), |variable| format!("{name}, or {variable}")))
    }

    /// Returns the name of a setting for messages: the option, key or variable that it was given
    /// by. For a setting that was not given, returns the variable if `about` is from a variable,
    /// and otherwise the key or the option.
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

/// Returns the value of a setting with the highest precedence.
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

fn is_off(value: &Value) -> bool {
    value.setting.kind == Kind::Switch && value.text().trim() == "false"
}

/// Returns true if another value of the same choice takes precedence. Only values of the file can
/// be overridden. Two options on the command line contradict each other.
fn is_overridden(value: &Value, all: &[Value]) -> bool {
    let rank = |value: &Value| match value.source {
        Origin::CommandLine => 0,
        Origin::Variable(_) => 1,
        Origin::Election(_) => 2,
        Origin::Defaults(_) => 3,
    };
    let is_rival = |other: &&Value| {
        value.setting.choice.is_some()
            && other.setting.choice == value.setting.choice
            && !is_off(other)
    };
    rank(value) > 1 && all.iter().filter(is_rival).any(|rival| rank(rival) < rank(value))
}

/// Returns true if `invalid` is the missing setting, or one of the same choice.
fn is_substitute(invalid: &Setting, missed: &Setting) -> bool {
    invalid.is(missed) || (missed.choice.is_some() && invalid.choice == missed.choice)
}

#[cfg(test)]
mod tests;
