//! Complaints that name each setting as the operator gave it, and complaints about variables with
//! the prefix of this program that it does not know.

use super::Configuration;
use crate::complaint::{Complaint, DOUBLE_DASH_ADVICE};
use crate::settings::table::{COMMAND, CONNECTION_STRING_FILE};
use crate::settings::{Kind, Origin, Setting, Value};
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
        for value in self.resolved.values().filter(|value| is_blank_or_connection_string(value)) {
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

    /// Adds complaints of the core. Each names its setting as the operator gave it.
    pub(crate) fn add_complaints(&mut self, complaints: Vec<tenure_core::Complaint>) {
        for tenure_core::Complaint { setting: id, problem, advice } in complaints {
            let variable = id.variable();
            let setting = self.resolved.find_by_variable(variable);
            let value = setting.and_then(|setting| self.resolved.get(setting));
            if value.is_some_and(is_blank_or_connection_string) {
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
            let mut advice = zone.and_then(windows_zone_advice).unwrap_or(advice);
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

    /// Adds the complaints of the election component about settings that this program accepts.
    /// Explains the known cause: the component cannot read a file in the root directory.
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

/// Returns true if the value is empty, or is a connection string instead of the name of its file.
/// [`Configuration::check_empty_values`] complains about both. Ignores variables and lists.
fn is_blank_or_connection_string(value: &Value) -> bool {
    let is_list = matches!(value.setting.kind, Kind::List(_) | Kind::Variables | Kind::Command);
    let text = value.text();
    let is_connection_string =
        value.setting.is(&CONNECTION_STRING_FILE) && text.contains(';') && text.contains('=');
    !value.is_from_variable() && !is_list && (value.is_blank() || is_connection_string)
}

/// Returns the advice for a time zone that is given by its Windows name.
fn windows_zone_advice(zone: &str) -> Option<String> {
    let windows: WindowsTimezone = zone.trim().parse().ok()?;
    let name = Some(windows.tzdb_id()).filter(|name| Zone::from_name(name).is_some())?;
    Some(format!("that is its name on Windows; write {name}"))
}

/// Returns true if a file is directly in the root directory.
fn is_in_root(file: &str) -> bool {
    let parent = Path::new(file.trim()).parent();
    parent.is_some_and(|parent| parent.has_root() && parent.parent().is_none())
}

/// Prefix of this program's variables.
const PREFIX: &str = "TENURE_";

/// Prefix of the variables of this program's tests.
const TEST_PREFIX: &str = "TENURE_TEST_";

/// Variables that commands receive for their turn. A command may start this program, so these
/// variables never count as misspelled.
const TURN_VARIABLES: [&str; 11] = [
    "TENURE_TERM",
    "TENURE_SLOT",
    "TENURE_ATTEMPT",
    "TENURE_PAST_DUE",
    "TENURE_MISSED_SLOTS",
    "TENURE_DEADLINE",
    "TENURE_ELECTION",
    "TENURE_SHARE_INDEX",
    "TENURE_SHARE_COUNT",
    "TENURE_TRIGGER",
    "TENURE_IDEMPOTENCY_KEY",
];

const NO_SUCH_VARIABLE: &str = "there is no such variable, so it has no effect";

/// Returns complaints about misspelled variables of this process.
pub(super) fn misspelled_variables(table: &[&'static Setting]) -> Vec<Complaint> {
    let known = known_variables(table);
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let mut wrong: Vec<_> = names.filter_map(|name| misspelling(&name, &known, table)).collect();
    wrong.sort_unstable_by(|a, b| a.source.cmp(&b.source));
    wrong
}

/// Returns notes about variables that have the prefix and that no setting reads.
pub(crate) fn unread_variables(table: &[&'static Setting]) -> Vec<String> {
    let known = known_variables(table);
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let mut unread: Vec<_> = names.filter(|name| is_unread(name, &known)).collect();
    unread.sort_unstable();
    let note = |name| format!("the variable {name} has no effect: no setting has this name");
    unread.into_iter().map(note).collect()
}

fn is_unread(name: &str, known: &[&str]) -> bool {
    let has_prefix =
        name.strip_prefix(PREFIX).is_some_and(|suffix| !is_kubernetes_variable(suffix));
    has_prefix && !name.starts_with(TEST_PREFIX) && !known.contains(&name)
}

/// Returns true if Kubernetes sets the variable for a service named tenure: `SERVICE_HOST`,
/// `PORT_80_TCP_ADDR`.
fn is_kubernetes_variable(suffix: &str) -> bool {
    let words: Vec<_> = suffix.split('_').collect();
    words.ends_with(&["PORT"])
        || words.windows(2).any(|pair| matches!(pair, ["SERVICE", "HOST" | "PORT"]))
        || words.windows(2).any(|pair| pair[0] == "PORT" && pair[1].parse::<u16>().is_ok())
}

pub(crate) fn known_variables(table: &[&'static Setting]) -> Vec<&'static str> {
    table.iter().flat_map(|setting| setting.variables()).chain(TURN_VARIABLES).collect()
}

/// Returns a complaint about a variable that is similar to a known one. Other variables may be
/// unrelated: Kubernetes sets some for a service named tenure.
pub(crate) fn misspelling(
    name: &str,
    known: &[&str],
    table: &[&'static Setting],
) -> Option<Complaint> {
    let letters = name.to_ascii_uppercase();
    let suffix = letters.strip_prefix(PREFIX)?;
    if known.contains(&name) || is_kubernetes_variable(suffix) {
        return None;
    }
    let option_name = suffix.to_lowercase().replace('_', "-");
    let is_meant = |setting: &&&Setting| setting.name == option_name && setting.is_option_of("run");
    match table.iter().find(is_meant) {
        Some(setting) if setting.variable.is_empty() => {
            let in_file = match setting.is_key() {
                true => format!(", or {} in a file for --config", setting.name),
                false => String::new(),
            };
            let advice = format!("give {}{in_file}", setting.option());
            let problem = "this setting has no variable, so it has no effect";
            return Some(Complaint::new(name, problem, advice));
        }
        Some(setting) if setting.variable != letters => {
            let advice = format!("{} is set by {}", setting.option(), setting.variable);
            return Some(Complaint::new(name, NO_SUCH_VARIABLE, advice));
        }
        _ => {}
    }
    let max_distance = match suffix.len() {
        0..=4 => 1,
        5..=11 => 2,
        _ => 3,
    };
    let distance = |known: &&&str| strsim::damerau_levenshtein(known, &letters);
    let nearest =
        known.iter().min_by_key(distance).filter(|known| distance(known) <= max_distance)?;
    let advice = format!("did you mean {nearest}?");
    Some(Complaint::new(name, NO_SUCH_VARIABLE, advice))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::table::TABLE;

    #[test]
    fn windows_zone_gets_its_iana_name() {
        for (windows, iana) in [
            ("W. Europe Standard Time", "Europe/Berlin"),
            ("Pacific Standard Time", "America/Los_Angeles"),
            ("India Standard Time", "Asia/Calcutta"),
            ("UTC-11", "Etc/GMT+11"),
        ] {
            let advice = windows_zone_advice(windows);
            let expected = format!("that is its name on Windows; write {iana}");
            assert_eq!(advice, Some(expected), "{windows}");
        }
        for other in ["", "Europe/Bonn", "CEST"] {
            assert_eq!(windows_zone_advice(other), None, "{other}");
        }
    }

    #[test]
    fn misspelled_variable_gets_a_suggestion() {
        let known = known_variables(TABLE);
        for (name, expected) in [
            ("TENURE_POL", Some("TENURE_POLL")),
            ("TENURE_LAESE", Some("TENURE_LEASE")),
            ("TENURE_REQUEST_TIME_OUT", Some("TENURE_REQUEST_TIMEOUT")),
            ("tenure_lease", Some("TENURE_LEASE")),
            ("TENURE_ELECTON", Some("TENURE_ELECTION")),
            ("TENURE_CONECTION_STRNG_FILE", None),
            ("TENURE_HANDLR_CA_FIL", Some("TENURE_HANDLER_CA_FILE")),
            ("TENURE_POLL", None),
            ("TENURE_TERM", None),
            ("TENURE_HANDLER_URL", None),
            ("TENURE_PORT", None),
            ("TENURE_PORT_8080_TCP_ADDR", None),
            ("TENURE_SERVICE_HOST", None),
            ("TENURE_TEST_TRANSFERS", None),
            ("ENURE_POLL", None),
        ] {
            let actual = misspelling(name, &known, TABLE).map(|complaint| complaint.advice);
            assert_eq!(actual, expected.map(|meant| format!("did you mean {meant}?")), "{name}");
        }
    }

    #[test]
    fn variable_for_an_option_without_one_gets_advice() {
        let known = known_variables(TABLE);
        for (name, advice) in [
            ("TENURE_HANDLER", "give --handler, or handler in a file for --config"),
            ("TENURE_WEBHOOK", "--webhook is set by TENURE_HANDLER_URL"),
            ("TENURE_ALLOW_HOST", "give --allow-host, or allow-host in a file for --config"),
            ("tenure_log", "give --log, or log in a file for --config"),
        ] {
            let actual = misspelling(name, &known, TABLE).map(|complaint| complaint.advice);
            assert_eq!(actual.as_deref(), Some(advice), "{name}");
        }
    }

    #[test]
    fn unread_variables_are_reported_unless_set_by_a_cluster() {
        let known = known_variables(TABLE);
        for (name, expected) in [
            ("TENURE_SCHEDULE", true),
            ("TENURE_INTERVAL_SECONDS", true),
            ("TENURE_EVERY", false),
            ("TENURE_TERM", false),
            ("TENURE_SERVICE_HOST", false),
            ("TENURE_SERVICE_PORT_HTTP", false),
            ("TENURE_PORT", false),
            ("TENURE_METRICS_PORT_8080_TCP_ADDR", false),
            ("TENURE_TEST_TRANSFERS", false),
            ("OTHER", false),
        ] {
            assert_eq!(is_unread(name, &known), expected, "{name}");
        }
    }
}
