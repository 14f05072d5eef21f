//! Reads the file of `--config`, and parses it into values with their positions. Rejects secrets in
//! the file, because such files are copied, mailed and put under version control.

use super::table::{CONNECTION_STRING_FILE, ELECTION};
use super::{Kind, Scope, Setting};
use crate::complaint::{Complaint, printable, redacted};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Minimum similarity of an unknown key and the key that the advice suggests.
const MIN_SIMILARITY: f64 = 0.75;

const HELP: &str =
    "the keys are the options of `tenure run` without their dashes: see tenure run --help";

/// The advice for a command that is written as one string.
const COMMAND_ADVICE: &str = "write the program and each argument as separate strings, as in command = [\"backup\", \
                    \"--all\"]; to run a shell line, command = [\"sh\", \"-c\", \"…\"]";

/// Maximum size of the file in bytes, so that an endless file does no harm.
const MAX_BYTES: usize = 1024 * 1024;

/// Parts of key names that mark a secret of the account or the webhook, and the variable for that
/// secret. The parts omit dashes and underscores.
const SECRET_MARKS: [(&str, &str); 7] = [
    ("webhooktoken", "TENURE_HANDLER_TOKEN"),
    ("webhooksecret", "TENURE_HANDLER_SECRET"),
    ("connectionstring", "AZURE_STORAGE_CONNECTION_STRING"),
    ("clientsecret", "AZURE_CLIENT_SECRET"),
    ("sas", "AZURE_STORAGE_SAS_TOKEN"),
    ("token", "AZURE_STORAGE_AUTH_TOKEN"),
    ("key", "AZURE_STORAGE_KEY"),
];

/// Parts of key names that mark another secret.
const GENERIC_SECRET_MARKS: [&str; 3] = ["secret", "password", "credential"];

/// One item of a value. A list has several.
#[derive(Clone)]
pub(crate) struct ValueItem {
    pub text: OsString,
    /// The position in the file. Empty for other origins.
    pub place: String,
}

/// The text of the file, and its lines.
pub(super) struct SettingsFile {
    /// The name as it was given.
    name: String,
    pub text: String,
    /// The directory of the file. Relative paths refer to it.
    pub folder: PathBuf,
    /// Byte offsets of the line starts. They make it fast to find positions in lists with thousands
    /// of names.
    lines: Vec<usize>,
}

impl SettingsFile {
    fn new(name: String, text: String, folder: PathBuf) -> Self {
        let later = text.match_indices('\n').map(|(end, _)| end + 1);
        let lines = std::iter::once(0).chain(later).collect();
        Self { name, text, folder, lines }
    }

    /// Reads the file that the setting `named_by` names.
    pub(super) fn read(path: &Path, named_by: &str) -> Result<Self, Complaint> {
        let name = redacted(&path.to_string_lossy());
        let complaint = |problem: String, advice: &str| {
            Complaint::new(format!("{named_by} {name}"), problem, advice)
        };
        let bytes = read_bytes(path).map_err(|error| {
            complaint(
                format!("the file cannot be read: {error}"),
                "name a file that this user may read",
            )
        })?;
        if bytes.len() > MAX_BYTES {
            let advice = "spread the elections over several processes: they are too many for one";
            return Err(complaint("the file is larger than 1 MiB".to_owned(), advice));
        }
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        match String::from_utf8(bytes) {
            // Some editors begin a file with a byte order mark.
            Ok(text) => {
                let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
                Ok(Self::new(name, text, folder))
            }
            Err(error) => {
                let valid_bytes = error.utf8_error().valid_up_to();
                let text = String::from_utf8_lossy(&error.as_bytes()[..valid_bytes]).into_owned();
                let place = Self::new(name, text, folder).place(valid_bytes);
                Err(Complaint::new(place, "this is not UTF-8", "save the file as UTF-8"))
            }
        }
    }

    /// Returns the position of a byte as `FILE:LINE:COLUMN`, counted from 1, with columns in
    /// characters.
    pub(super) fn place(&self, byte: usize) -> String {
        // The first line begins at 0.
        let line = self.lines.partition_point(|start| *start <= byte);
        let before = self.text.get(self.lines[line - 1]..byte).unwrap_or_default();
        self.format_location(line, before.chars().count() + 1)
    }

    /// Formats the position of a line and a column.
    pub(super) fn format_location(&self, line: usize, column: usize) -> String {
        format!("{}:{line}:{column}", self.name)
    }

    /// Creates a file from a text, for tests and fuzzing.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn from_text(text: &str) -> Self {
        Self::new("t.toml".into(), text.to_owned(), "/etc".into())
    }
}

fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The settings at the beginning of the file, or those of one election.
#[derive(Default)]
pub(super) struct Section {
    /// The position of its beginning.
    pub place: String,
    pub entries: Vec<Entry>,
    /// Settings that are missing from `entries` because their values are invalid.
    pub invalid: Vec<&'static Setting>,
}

/// A setting with its value.
pub(super) struct Entry {
    pub setting: &'static Setting,
    pub place: String,
    pub items: Vec<ValueItem>,
}

/// The valid content of the file.
#[derive(Default)]
pub(super) struct Content {
    /// Settings that apply to all elections.
    pub defaults: Section,
    /// The elections. Empty if the file has no table for them, and describes one election itself.
    pub elections: Vec<Section>,
    /// The complaints, in the order of the file.
    pub complaints: Vec<Complaint>,
    /// True if the file is not valid TOML, so that the content is incomplete.
    pub broken: bool,
}

/// Parses the whole file, and collects all complaints.
pub(super) fn parse(source: &SettingsFile, table: &[&'static Setting]) -> Content {
    let keys = table.iter().copied().filter(|setting| setting.is_key()).collect();
    let mut reader = Reader { source, keys, complaints: Vec::new(), invalid: Vec::new() };
    let (table, errors) = DeTable::parse_recoverable(&source.text);
    let broken = !errors.is_empty();
    for error in errors {
        reader.complain_about_syntax(error.span().unwrap_or_default().start, error.message());
    }
    let mut content = Content { broken, ..Content::default() };
    if !broken {
        content.defaults.place = source.place(0);
        reader.read_top_level(table.get_ref(), &mut content);
    }
    reader.complaints.sort_by_key(|(at, _)| *at);
    content.complaints = reader.complaints.into_iter().map(|(_, complaint)| complaint).collect();
    content
}

/// Reader of the file's values. It collects the complaints.
struct Reader<'a> {
    source: &'a SettingsFile,
    keys: Vec<&'static Setting>,
    /// The complaints, with the byte offset of each.
    complaints: Vec<(usize, Complaint)>,
    /// The invalid settings of the current section.
    invalid: Vec<&'static Setting>,
}

impl Reader<'_> {
    fn complain(&mut self, at: usize, key: Option<&str>, problem: &str, advice: &str) {
        let key = key.map(|key| format!(": {}", redacted(key))).unwrap_or_default();
        let place = format!("{}{key}", self.source.place(at));
        self.complaints.push((at, Complaint::new(place, problem, advice)));
    }

    /// Complains about a syntax error. The advice depends on the key at the beginning of the line.
    fn complain_about_syntax(&mut self, at: usize, problem: &str) {
        let text = &self.source.text;
        let line_start = text[..at].rfind('\n').map_or(0, |end| end + 1);
        let name = text[line_start..].split_once('=').map(|(name, _)| name.trim());
        let key = name.and_then(|name| self.keys.iter().copied().find(|key| key.name == name));
        // The parser reports this error only by its text.
        if problem == "duplicate key" {
            let problem = "this key is set a second time in the same table";
            return self.complain(at, key.map(|key| key.name), problem, "keep one of the two");
        }
        let problem = format!("this is not TOML: {}", printable(problem));
        let advice = match key {
            Some(key) => example(key),
            None => "correct it; https://toml.io describes the format".to_owned(),
        };
        self.complain(at, None, &problem, &advice);
    }

    fn read_top_level(&mut self, table: &DeTable<'_>, content: &mut Content) {
        if table.is_empty() {
            let advice = "begin with election = \"container/blob\", or with [[election]] for each of several";
            self.complain(0, None, "nothing is set in this file", advice);
        }
        for (key, value) in table {
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("election", DeValue::Array(tables)) => {
                    content.elections = self.elections(value.span(), tables);
                    content.defaults.invalid.append(&mut self.invalid);
                }
                ("election", DeValue::Table(entries)) => {
                    let at = key.span().start;
                    self.complain(
                        at,
                        Some("election"),
                        "this is a single table, but elections are a list of tables",
                        "write it with two brackets: [[election]]",
                    );
                    content.elections = vec![self.section(at, entries)];
                }
                _ => {
                    let entry = self.entry(key, value, true);
                    content.defaults.entries.extend(entry);
                    content.defaults.invalid.append(&mut self.invalid);
                }
            }
        }
    }

    fn section(&mut self, at: usize, entries: &DeTable<'_>) -> Section {
        let mut section = Section { place: self.source.place(at), ..Section::default() };
        for (key, value) in entries {
            section.entries.extend(self.entry(key, value, false));
        }
        section.invalid = std::mem::take(&mut self.invalid);
        section
    }

    fn elections(&mut self, span: Range<usize>, tables: &[Spanned<DeValue<'_>>]) -> Vec<Section> {
        if tables.is_empty() {
            let advice = "write [[election]] for each election, or leave it out";
            self.complain(span.start, Some("election"), "this list is empty", advice);
        }
        let mut sections = Vec::new();
        for table in tables {
            let at = table.span().start;
            let DeValue::Table(entries) = table.get_ref() else {
                let problem =
                    format!("a table is expected, not {}", value_description(table.get_ref()));
                self.complain(
                    at,
                    Some("election"),
                    &problem,
                    "write [[election]] for each election",
                );
                continue;
            };
            sections.push(self.section(at, entries));
        }
        if sections.is_empty() {
            self.invalid.push(&ELECTION);
        }
        sections
    }

    fn entry(
        &mut self,
        key: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
        is_top_level: bool,
    ) -> Option<Entry> {
        let (name, at) = (key.get_ref().as_ref(), key.span().start);
        let Some(setting) = self.keys.iter().copied().find(|known| known.name == name) else {
            self.complain_about_unknown_key(name, at);
            return None;
        };
        if !is_top_level && setting.scope == Scope::Process {
            let problem = "this applies to the whole process, not to one election";
            self.complain(at, Some(name), problem, "set it above the first [[election]]");
            return None;
        }
        let Some(items) = self.items(setting, value) else {
            self.invalid.push(setting);
            return None;
        };
        Some(Entry { setting, place: self.source.place(at), items })
    }

    fn complain_about_unknown_key(&mut self, name: &str, at: usize) {
        let problem = "a secret must not stand in this file";
        let file = format!("{name}-file");
        if let Some(key) = self.keys.iter().copied().find(|key| key.name == file) {
            let advice = format!("name a file that holds it: {file} = \"…\"");
            self.invalid.push(key);
            return self.complain(at, Some(name), problem, &advice);
        }
        if let Some(advice) = secret_advice(name) {
            self.invalid.push(&CONNECTION_STRING_FILE);
            return self.complain(at, Some(name), problem, &advice);
        }
        let similarity = |key: &Setting| strsim::jaro_winkler(key.name, &name.to_lowercase());
        let nearest = self.keys.iter().max_by(|a, b| similarity(a).total_cmp(&similarity(b)));
        let advice = match nearest.copied().filter(|key| similarity(key) >= MIN_SIMILARITY) {
            Some(key) => {
                self.invalid.push(key);
                format!("did you mean {}? {HELP}", key.name)
            }
            None => HELP.to_owned(),
        };
        self.complain(at, Some(name), "there is no such key", &advice);
    }

    /// Returns the items of a known key, or none if they are not of its kind.
    fn items(&mut self, key: &Setting, value: &Spanned<DeValue<'_>>) -> Option<Vec<ValueItem>> {
        let at = value.span().start;
        let single = |text: String| Some(vec![self.item(text, at)]);
        match (key.kind, value.get_ref()) {
            (Kind::Switch, DeValue::Boolean(on)) => single(on.to_string()),
            (Kind::Number, DeValue::Integer(number)) if number.radix() == 10 => {
                single(number.as_str().to_owned())
            }
            (Kind::File, DeValue::String(path)) => {
                // An empty path must not become the folder.
                let path = match path.trim().is_empty() {
                    true => path.to_string(),
                    false => self.source.folder.join(&**path).to_string_lossy().into_owned(),
                };
                single(path)
            }
            (Kind::OneOf(words), DeValue::String(word))
                if words.iter().any(|known| **known == **word) =>
            {
                single(word.to_string())
            }
            (
                Kind::Text(_)
                | Kind::Argument(_)
                | Kind::Url
                | Kind::Duration
                | Kind::Number
                | Kind::Size
                | Kind::Rule(_),
                DeValue::String(text),
            ) => single(text.to_string()),
            (Kind::List(_) | Kind::Command, DeValue::Array(list)) => self.list(key, list),
            (Kind::Variables, DeValue::Table(table)) => self.table(key, table),
            (kind, other) => {
                let problem =
                    format!("{} is expected, not {}", expected(kind), value_description(other));
                let advice = match (kind, other) {
                    (Kind::Command, DeValue::String(_)) => COMMAND_ADVICE.to_owned(),
                    _ => example(key),
                };
                self.complain(at, Some(key.name), &problem, &advice);
                None
            }
        }
    }

    fn item(&self, text: String, at: usize) -> ValueItem {
        ValueItem { text: text.into(), place: self.source.place(at) }
    }

    fn list(&mut self, key: &Setting, list: &[Spanned<DeValue<'_>>]) -> Option<Vec<ValueItem>> {
        let mut items = Vec::new();
        for value in list {
            let at = value.span().start;
            match value.get_ref() {
                DeValue::String(text) => items.push(self.item(text.to_string(), at)),
                other => {
                    let problem = format!("a string is expected, not {}", value_description(other));
                    self.complain(at, Some(key.name), &problem, &example(key));
                }
            }
        }
        (items.len() == list.len()).then_some(items)
    }

    fn table(&mut self, key: &Setting, table: &DeTable<'_>) -> Option<Vec<ValueItem>> {
        let mut items = Vec::new();
        for (name, value) in table {
            let at = name.span().start;
            let name = name.get_ref().as_ref();
            let key_path = format!("{}.{name}", key.name);
            let secret_advice = secret_advice(name).filter(|_| name.starts_with("AZURE_"));
            match value.get_ref() {
                _ if secret_advice.is_some() => {
                    let problem = "a secret must not stand in this file";
                    self.complain(at, Some(&key_path), problem, &secret_advice.unwrap_or_default());
                }
                _ if name.is_empty() || name.contains(['=', '\0']) => {
                    let problem = "this cannot be the name of a variable";
                    self.complain(at, Some(&key_path), problem, &example(key));
                }
                DeValue::String(text) => items.push(self.item(format!("{name}={text}"), at)),
                other => {
                    let problem = format!("a string is expected, not {}", value_description(other));
                    self.complain(at, Some(&key_path), &problem, &example(key));
                }
            }
        }
        (items.len() == table.len()).then_some(items)
    }
}

fn expected(kind: Kind) -> String {
    match kind {
        Kind::Text(_)
        | Kind::Argument(_)
        | Kind::Url
        | Kind::Duration
        | Kind::Size
        | Kind::File
        | Kind::Rule(_) => "a string".to_owned(),
        Kind::Number => "a whole number".to_owned(),
        Kind::Switch => "true or false".to_owned(),
        Kind::OneOf(words) => format!("\"{}\"", words.join("\" or \"")),
        Kind::List(_) | Kind::Command => "a list of strings".to_owned(),
        Kind::Variables => "a table of strings".to_owned(),
    }
}

/// Describes a value without showing it.
fn value_description(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "this string",
        DeValue::Integer(_) => "this integer",
        DeValue::Float(_) => "this fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "this date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

fn example(key: &Setting) -> String {
    let name = key.name;
    match key.kind {
        Kind::Duration => {
            format!("write it in quotes and with its unit, as in {name} = \"15s\"")
        }
        Kind::Text(_) | Kind::Argument(_) | Kind::Url | Kind::Size | Kind::File | Kind::Rule(_) => {
            format!("write it in quotes: {name} = \"…\"")
        }
        Kind::Number => format!("write it as in {name} = 5"),
        Kind::Switch => format!("write {name} = true, or leave it out"),
        Kind::OneOf(words) => format!("write {name} = \"{}\"", words.join("\" or \"")),
        Kind::List(_) | Kind::Command => format!("write it as in {name} = [\"…\", \"…\"]"),
        Kind::Variables => format!("write it as in {name} = {{ NAME = \"value\" }}"),
    }
}

/// Returns the advice for a secret with this key, or none if the key is not for a secret.
fn secret_advice(key: &str) -> Option<String> {
    let letters: String = key.chars().filter(char::is_ascii_alphabetic).collect();
    let letters = letters.to_ascii_lowercase();
    if letters.ends_with("file") {
        return None;
    }
    let marked = SECRET_MARKS.iter().find(|(mark, _)| letters.contains(mark));
    match marked {
        Some((_, variable)) => Some(format!(
            "set the variable {variable}, or {variable}_FILE to the name of a file that holds it"
        )),
        None if GENERIC_SECRET_MARKS.iter().any(|word| letters.contains(word)) => {
            Some("set the variable that it belongs to, or NAME_FILE to a file that holds it".into())
        }
        None => None,
    }
}

#[cfg(test)]
mod tests;
