//! Complaints that name each setting as the operator gave it.

use super::Configuration;
use crate::complaint::{Complaint, DOUBLE_DASH_ADVICE};
use crate::settings::setting::{Kind, Setting};
use crate::settings::table::{COMMAND, CONNECTION_STRING_FILE};
use crate::settings::{Origin, Value};
use std::path::Path;
use tenure_core::{Environment as _, Zone, variable};
use windows_timezones::WindowsTimezone;

impl Configuration {
    /// Complains about the value of a setting, or about its absence.
    pub(crate) fn complain(&mut self, setting: &Setting, problem: &str, advice: &str) {
        let source = match self.resolved.get(setting) {
            Some(value) => value.describe(),
            None => match self.resolved.describe_missing(setting) {
                Some(source) => source,
                None => return,
            },
        };
        self.complain_at(source, problem, advice);
    }

    /// Complains about the presence of a setting, whatever its value is.
    pub(crate) fn complain_of_use(&mut self, setting: &Setting, problem: &str, advice: &str) {
        let Some(source) = self.resolved.get(setting).map(Value::describe_without_value) else {
            return;
        };
        self.complain_at(source, problem, advice);
    }

    pub(crate) fn complain_at(&mut self, source: String, problem: &str, advice: &str) {
        self.complaints.push(Complaint::new(source, problem, advice));
    }

    /// Returns the name of a setting for a message.
    pub(crate) fn display_name(&self, setting: &Setting) -> String {
        self.resolved.display_name(setting, None)
    }

    /// Complains about empty values, and about a connection string where its file is expected.
    pub(super) fn check_empty_values(&mut self) {
        let mut wrong = Vec::new();
        for value in self.resolved.values().filter(|value| is_already_reported(value)) {
            let setting = value.setting;
            wrong.push(match value.is_blank() {
                true => {
                    let advice = match setting.advice {
                        "" => "give a value, or leave it out",
                        advice => advice,
                    };
                    (value.describe(), "the value is empty".to_owned(), advice.to_owned())
                }
                false => (
                    format!("{} …", value.describe_without_value()),
                    "this is a connection string, not a file".to_owned(),
                    format!(
                        "set {} to it: other users of this machine can read arguments",
                        variable::CONNECTION_STRING
                    ),
                ),
            });
        }
        for (source, problem, advice) in wrong {
            let complaint = Complaint { source, problem, advice };
            // Settings of several commands may have the same name.
            if !self.complaints.contains(&complaint) {
                self.complaints.push(complaint);
            }
        }
    }

    pub(crate) fn add_complaints(&mut self, complaints: Vec<tenure_core::Complaint>) {
        for tenure_core::Complaint { setting: id, problem, advice } in complaints {
            let variable = id.variable();
            let setting = self.resolved.find_by_variable(variable);
            let value = setting.and_then(|setting| self.resolved.get(setting));
            if value.is_some_and(is_already_reported) {
                continue;
            }
            let source = match (value, setting) {
                (Some(value), _) if !value.is_from_variable() => value.describe(),
                (None, Some(setting)) if self.settings.variable(variable).is_none() => {
                    match self.resolved.describe_missing(setting) {
                        Some(source) => source,
                        None => continue,
                    }
                }
                _ => variable.to_owned(),
            };
            let zone = self.settings.options.time_zone.as_deref();
            let zone = zone.filter(|_| variable == variable::TIME_ZONE);
            let mut advice = zone.and_then(iana_name).unwrap_or(advice);
            let is_argument = variable == variable::ELECTION
                && value.is_some_and(|value| value.source == Origin::CommandLine);
            if is_argument
                && COMMAND.is_option_of(self.resolved.command())
                && !self.resolved.is_on(&COMMAND)
            {
                advice = format!("{advice}; if it is a command, {DOUBLE_DASH_ADVICE}");
            }
            self.complaints.push(Complaint { source, problem, advice });
        }
    }

    /// Adds the complaints of the election component about settings that this program accepts. The
    /// component cannot read a file in the root directory.
    pub(crate) fn add_component_complaints(&mut self, complaints: &[String]) {
        let passed_on = self.resolved.table.iter().copied().filter(|setting| setting.component);
        let unopened = passed_on.filter(|setting| {
            setting.kind == Kind::File
                && self.settings.credential.get(setting.variable).is_some_and(is_in_root)
        });
        let unopened = unopened.collect::<Vec<_>>();
        for setting in &unopened {
            let problem =
                "the file is directly in the root directory, which is not opened to the component";
            self.complain(setting, problem, "move it into a directory of its own");
        }
        if unopened.is_empty() {
            let advice = "use this program with the election component that it came with";
            for complaint in complaints {
                self.complain_at("the election component".to_owned(), complaint, advice);
            }
        }
    }
}

/// Returns true if [`Configuration::check_empty_values`] complains about the value.
fn is_already_reported(value: &Value) -> bool {
    let several = matches!(value.setting.kind, Kind::List(_) | Kind::Variables | Kind::Command);
    let text = value.text();
    let secret =
        value.setting.is(&CONNECTION_STRING_FILE) && text.contains(';') && text.contains('=');
    !value.is_from_variable() && !several && (value.is_blank() || secret)
}

/// Returns the advice for a time zone that is given by its Windows name.
fn iana_name(zone: &str) -> Option<String> {
    let windows: WindowsTimezone = zone.trim().parse().ok()?;
    let name = Some(windows.tzdb_id()).filter(|name| Zone::from_name(name).is_some())?;
    Some(format!("that is its name on Windows; write {name}"))
}

/// Returns true if a file is directly in the root directory.
fn is_in_root(file: &str) -> bool {
    let parent = Path::new(file.trim()).parent();
    parent.is_some_and(|parent| parent.has_root() && parent.parent().is_none())
}

#[cfg(test)]
mod zones {
    use super::iana_name;

    #[test]
    fn windows_zone_gets_its_iana_name() {
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
