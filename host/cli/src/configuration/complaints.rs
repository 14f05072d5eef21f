//! What is wrong with settings, told of what people wrote.

use super::Configuration;
use crate::complaint::{BEFORE_A_COMMAND, Complaint, shown};
use crate::settings::setting::{Kind, Setting};
use crate::settings::table::{COMMAND, CONNECTION_STRING_FILE};
use crate::settings::{Source, Value};
use std::path::Path;
use tenure::contract;
use tenure::settings::names;
use tenure_core::Zone;
use windows_timezones::WindowsTimezone;

impl Configuration {
    /// Complains of the value of a setting, or that it has none.
    pub(crate) fn complain(&mut self, setting: &Setting, problem: &str, advice: &str) {
        let source = match self.given.get(setting) {
            Some(value) => value.told(),
            None => match self.given.told_missing(setting) {
                Some(source) => source,
                None => return,
            },
        };
        self.complain_at(source, problem, advice);
    }

    /// Complains that a setting is there at all, whatever its value is.
    pub(crate) fn complain_of_use(&mut self, setting: &Setting, problem: &str, advice: &str) {
        let Some(source) = self.given.get(setting).map(Value::told_bare) else { return };
        self.complain_at(source, problem, advice);
    }

    /// Complains of what is somewhere. Texts of the program name options.
    pub(crate) fn complain_at(&mut self, source: String, problem: &str, advice: &str) {
        let [problem, advice] = [problem, advice].map(|text| self.given.in_their_words(text, None));
        self.complaints.push(Complaint { source, problem, advice });
    }

    /// Complains of written values that say nothing, or are a secret where a file of it is meant.
    pub(super) fn judge_empty(&mut self) {
        let mut wrong = Vec::new();
        for value in self.given.values().filter(|value| is_told_already(value)) {
            let setting = value.setting;
            wrong.push(match value.is_blank() {
                true => {
                    let advice = match setting.advice {
                        "" => "give a value, or leave it out",
                        advice => advice,
                    };
                    (value.told(), "the value is empty".to_owned(), advice.to_owned())
                }
                false => (
                    format!("{} …", value.told_bare()),
                    "this is a connection string, not a file".to_owned(),
                    format!(
                        "set {} to it: other users of this machine can read arguments",
                        names::CONNECTION_STRING
                    ),
                ),
            });
        }
        for (source, problem, advice) in wrong {
            let complaint = Complaint { source, problem, advice };
            // Settings of several commands may have one name.
            if !self.complaints.contains(&complaint) {
                self.complaints.push(complaint);
            }
        }
    }

    /// Adds what the component complains about.
    pub(crate) fn add(&mut self, complaints: Vec<contract::Complaint>) {
        for contract::Complaint { setting: variable, problem, advice } in complaints {
            let setting = self.given.of_variable(&variable);
            let value = setting.and_then(|setting| self.given.get(setting));
            if value.is_some_and(is_told_already) {
                continue;
            }
            let source = match (value, setting) {
                (Some(value), _) if !value.is_by_variable() => value.told(),
                (None, Some(setting)) if self.settings.get(&variable).is_none() => {
                    match self.given.told_missing(setting) {
                        Some(source) => source,
                        None => continue,
                    }
                }
                _ => variable.clone(),
            };
            // The component cannot know why it does not see a file.
            let file = self.settings.get(&variable).filter(|_| problem.starts_with("the file "));
            let unopened = file.and_then(|file| unopened(Path::new(file.trim())));
            let (problem, advice) = unopened.unwrap_or((problem, advice));
            let (problem, advice) = match quoted(&variable, self.settings.get(&variable)) {
                Some(advice) => (
                    "the quotes are part of the value, since no shell removes them here".to_owned(),
                    advice,
                ),
                None => (problem, advice),
            };
            let zone = self.settings.get(&variable).filter(|_| variable == names::TIME_ZONE);
            let mut advice = zone.and_then(iana_name).unwrap_or(advice);
            let is_argument = variable == names::ELECTION
                && value.is_some_and(|value| value.source == Source::CommandLine);
            if is_argument
                && COMMAND.is_option_of(self.given.command())
                && !self.given.is_on(&COMMAND)
            {
                advice = format!("{advice}; if it is a command, {BEFORE_A_COMMAND}");
            }
            let problem = self.given.in_their_words(&problem, value);
            let advice = self.given.in_their_words(&advice, value);
            self.complaints.push(Complaint { source, problem, advice });
        }
    }
}

/// Whether [`Configuration::judge_empty`] complains of it.
fn is_told_already(value: &Value) -> bool {
    let several = matches!(value.setting.kind, Kind::List(_) | Kind::Variables | Kind::Command);
    let text = value.text();
    let secret =
        value.setting.is(&CONNECTION_STRING_FILE) && text.contains(';') && text.contains('=');
    !value.is_by_variable() && !several && (value.is_blank() || secret)
}

/// What to write instead of a cron expression with quotes around it, as manifests and files of variables hand it on.
fn quoted(variable: &str, value: Option<&str>) -> Option<String> {
    let value = value.filter(|_| variable == names::CRON)?.trim();
    let inside =
        ['\'', '"'].into_iter().find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote));
    Some(format!("write the fields alone: {}", shown(inside?)))
}

/// The advice for a time zone by the name that Windows gives it.
fn iana_name(zone: &str) -> Option<String> {
    let windows: WindowsTimezone = zone.trim().parse().ok()?;
    let name = Some(windows.tzdb_id()).filter(|name| Zone::named(name).is_some())?;
    Some(format!("that is its name on Windows; write {name}"))
}

/// Why the component is not given a file, and what to do; none when it is not the path's fault.
fn unopened(path: &Path) -> Option<(String, String)> {
    let in_root = path.parent().is_none_or(|parent| parent.parent().is_none() && parent.has_root());
    let (problem, advice) = match std::fs::metadata(path) {
        Ok(known) if known.is_dir() => ("is a directory".to_owned(), "name the file in it"),
        Err(error) if in_root => (format!("cannot be read: {error}"), "check the path"),
        Ok(_) if in_root => (
            "is directly in the root directory, which is not opened to the component".to_owned(),
            "move it into a directory of its own",
        ),
        _ => return None,
    };
    Some((format!("the file {} {problem}", shown(&path.to_string_lossy())), advice.to_owned()))
}

#[cfg(test)]
mod zones {
    use super::iana_name;

    #[test]
    fn a_zone_of_windows_is_told_by_its_iana_name() {
        for (windows, iana) in [
            ("W. Europe Standard Time", "Europe/Berlin"),
            ("Pacific Standard Time", "America/Los_Angeles"),
            ("India Standard Time", "Asia/Calcutta"),
            ("UTC-11", "Etc/GMT+11"),
        ] {
            let advice = iana_name(windows);
            let expected = format!("that is its name on Windows; write {iana}");
            assert_eq!(advice, Some(expected), "{windows}");
        }
        for other in ["", "Europe/Bonn", "CEST"] {
            assert_eq!(iana_name(other), None, "{other}");
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn why_a_file_is_not_opened_is_told_as_this_system_does() {
        for (path, words) in [
            ("/no-such-file", Some("cannot be read: No such file")),
            ("/", Some("is a directory")),
            ("/tmp", Some("is a directory")),
            ("/no/such/file", None),
        ] {
            let told = unopened(Path::new(path)).map(|(problem, _)| problem);
            assert_eq!(told.is_some(), words.is_some(), "{path}: {told:?}");
            assert!(words.is_none_or(|words| told.as_ref().unwrap().contains(words)), "{told:?}");
        }
    }
}
