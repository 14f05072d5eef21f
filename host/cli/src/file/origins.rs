//! Which values come from the file, so that complaints name the place.

use super::keys::{INSTEAD, OF_ONE};
use super::parse::{Entry, Value};
use crate::complaint::{Complaint, reworded, shown};

/// Where the values of an election stand.
#[derive(Debug, Default)]
pub(crate) struct Origins {
    /// Where the election begins; empty without a file.
    pub(super) place: String,
    /// Whether the file has other elections too.
    pub(super) several: bool,
    /// Keys that the file has in a way that makes no sense.
    pub(super) garbled: Vec<String>,
    entries: Vec<Placed>,
}

#[derive(Debug)]
struct Placed {
    key: String,
    place: String,
    /// As they are shown, and where each stands.
    values: Vec<(String, String)>,
}

impl Origins {
    pub(super) fn at(place: &str) -> Self {
        Self { place: place.to_owned(), ..Self::default() }
    }

    pub(super) fn add(&mut self, Entry { key, place, values }: &Entry) {
        let shown = |value: &Value| (shown(&value.text), value.place.clone());
        let values = values.iter().map(shown).collect();
        self.entries.push(Placed { key: key.clone(), place: place.clone(), values });
    }

    /// The complaint about the place in the file, where it is about an option that is set there, or
    /// about one that is set nowhere.
    pub(crate) fn located(&self, complaint: Complaint, given: &[String]) -> Complaint {
        if self.place.is_empty() {
            return complaint;
        }
        let problem = reworded(&complaint.problem, |word| self.key(word));
        let complaint = Complaint { problem, ..complaint };
        let Some((key, value)) = option(&complaint.source) else { return complaint };
        let source = match self.entries.iter().find(|placed| placed.key == key) {
            Some(placed) => placed.source(value),
            None if given.iter().any(|given| given == key) => return complaint,
            // No variable can say it for one of several.
            None if self.several && OF_ONE.contains(&key) => format!("{}: {key}", self.place),
            None => format!("{}: {}", self.place, complaint.source.trim_start_matches('-')),
        };
        Complaint { source, ..complaint }
    }

    /// The key of an option, where the file sets it.
    fn key(&self, flag: &str) -> Option<String> {
        let key = flag.strip_prefix("--")?;
        self.entries.iter().any(|placed| placed.key == key).then(|| key.to_owned())
    }

    /// Whether a complaint is that something is set nowhere, and what the file has of it is complained
    /// about already.
    pub(crate) fn is_garbled(&self, complaint: &Complaint, given: &[String]) -> bool {
        let Some((key, _)) = option(&complaint.source) else { return false };
        self.garbled.iter().any(|garbled| stands_for(garbled, key))
            && !given.iter().any(|given| given == key)
            && !self.entries.iter().any(|placed| placed.key == key)
    }
}

/// Whether a key would do where another one is missed.
fn stands_for(garbled: &str, missed: &str) -> bool {
    let together = |group: &&[&str]| group.contains(&garbled) && group.contains(&missed);
    garbled == missed || INSTEAD.iter().any(together) || (garbled, missed) == ("on-start", "every")
}

impl Placed {
    fn source(&self, value: &str) -> String {
        let place = match self.values.as_slice() {
            [(_, only)] => Some(only),
            several => several.iter().find(|(text, _)| text == value).map(|(_, place)| place),
        };
        let place = place.unwrap_or(&self.place);
        match value {
            "" | "…" => format!("{place}: {}", self.key),
            value => format!("{place}: {} = \"{value}\"", self.key),
        }
    }
}

/// The option that a complaint is about, and its value: `--lease 5s`, `-- backup`, or `--election, or
/// TENURE_ELECTION`.
fn option(source: &str) -> Option<(&str, &str)> {
    if let Some(command) = source.strip_prefix("-- ") {
        return Some(("command", command));
    }
    let option = source.strip_prefix("--")?;
    match option.split_once([' ', ',']) {
        Some((key, value)) if option.as_bytes().get(key.len()) == Some(&b' ') => Some((key, value)),
        Some((key, _)) => Some((key, "")),
        None => Some((option, "")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str, column: u32) -> Value {
        Value { text: text.to_owned(), place: format!("t.toml:2:{column}") }
    }

    fn entry(key: &str, values: Vec<Value>) -> Entry {
        Entry { key: key.to_owned(), place: "t.toml:2:1".to_owned(), values }
    }

    #[test]
    fn a_complaint_names_the_place_of_the_value() {
        let mut origins = Origins::at("t.toml:1:1");
        origins.add(&entry("lease", vec![value("5s", 9)]));
        origins.add(&entry("allow-host", vec![value("a", 15), value("b c", 20)]));
        origins.add(&entry("command", vec![value("nowhere", 12), value("--x", 23)]));
        let given = ["margin".to_owned()];
        for (source, located) in [
            ("--lease 5s", "t.toml:2:9: lease = \"5s\""),
            ("--lease", "t.toml:2:9: lease"),
            ("--allow-host b c", "t.toml:2:20: allow-host = \"b c\""),
            ("--allow-host", "t.toml:2:1: allow-host"),
            ("-- nowhere", "t.toml:2:12: command = \"nowhere\""),
            ("--margin 1s", "--margin 1s"),
            ("--every", "t.toml:1:1: every"),
            ("--election, or TENURE_ELECTION", "t.toml:1:1: election, or TENURE_ELECTION"),
            ("TENURE_RENEW", "TENURE_RENEW"),
        ] {
            let complaint = origins.located(Complaint::new(source, "", ""), &given);
            assert_eq!(complaint.source, located, "{source}");
            let missing = ["--every", "--election, or TENURE_ELECTION"].contains(&source);
            let complaint = Complaint::new(source, "", "");
            assert!(!origins.is_garbled(&complaint, &given), "{source}");
            origins.garbled = vec!["cron".to_owned(), "election".to_owned(), "lease".to_owned()];
            assert_eq!(origins.is_garbled(&complaint, &given), missing, "{source}");
            origins.garbled.clear();
        }
        origins.several = true;
        let complaint = Complaint::new("--election, or TENURE_ELECTION", "", "");
        assert_eq!(origins.located(complaint, &given).source, "t.toml:1:1: election");
    }

    #[test]
    fn a_complaint_names_another_key_as_the_file_has_it() {
        let mut origins = Origins::at("t.toml:1:1");
        origins.add(&entry("jitter", vec![value("5s", 9)]));
        origins.add(&entry("while-leading", vec![value("true", 9)]));
        let problem = |source, problem| {
            origins.located(Complaint::new(source, problem, ""), &["every".to_owned()]).problem
        };
        let said = problem("--jitter 5s", "is set beside --while-leading, which has no timer");
        assert_eq!(said, "is set beside while-leading, which has no timer");
        let said = problem("TENURE_CRON", "is set beside --every");
        assert_eq!(said, "is set beside --every");
    }

    #[test]
    fn without_a_file_nothing_changes() {
        let complaint = Complaint::new("--lease 5s", "", "");
        assert_eq!(Origins::default().located(complaint.clone(), &[]), complaint);
        assert!(!Origins::default().is_garbled(&complaint, &[]));
    }
}
