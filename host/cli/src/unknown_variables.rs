//! Variables with the prefix of this program that it does not know.

use super::complaint::Complaint;
use crate::settings::setting::Setting;

const PREFIX: &str = "TENURE_";

const TEST_PREFIX: &str = "TENURE_TEST_";

/// Variables that commands receive for their turn. A command may start this program.
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
pub(crate) fn misspelled(table: &[&'static Setting]) -> Vec<Complaint> {
    let known = known(table);
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let mut wrong: Vec<_> = names.filter_map(|name| complaint(&name, &known, table)).collect();
    wrong.sort_unstable_by(|a, b| a.source.cmp(&b.source));
    wrong
}

/// Returns notes about variables with the prefix that nothing reads.
pub(crate) fn unread(table: &[&'static Setting]) -> Vec<String> {
    let known = known(table);
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

pub(crate) fn known(table: &[&'static Setting]) -> Vec<&'static str> {
    table.iter().flat_map(|setting| setting.variables()).chain(TURN_VARIABLES).collect()
}

/// Complains about a variable that is similar to a known one. Others may be unrelated: Kubernetes
/// sets some for a service named tenure.
pub(crate) fn complaint(
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
    fn misspelled_variable_gets_a_suggestion() {
        let known = known(TABLE);
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
            let actual = complaint(name, &known, TABLE).map(|complaint| complaint.advice);
            assert_eq!(actual, expected.map(|meant| format!("did you mean {meant}?")), "{name}");
        }
    }

    #[test]
    fn variable_for_an_option_without_one_gets_advice() {
        let known = known(TABLE);
        for (name, advice) in [
            ("TENURE_HANDLER", "give --handler, or handler in a file for --config"),
            ("TENURE_WEBHOOK", "--webhook is set by TENURE_HANDLER_URL"),
            ("TENURE_ALLOW_HOST", "give --allow-host, or allow-host in a file for --config"),
            ("tenure_log", "give --log, or log in a file for --config"),
        ] {
            let actual = complaint(name, &known, TABLE).map(|complaint| complaint.advice);
            assert_eq!(actual.as_deref(), Some(advice), "{name}");
        }
    }

    #[test]
    fn unread_variables_are_reported_unless_set_by_a_cluster() {
        let known = known(TABLE);
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
