//! Variables that are meant for this program, and are none that it knows.

use super::complaint::Complaint;
use super::settings::setting::Setting;

/// How they begin.
const PREFIX: &str = "TENURE_";

/// What commands are told of their turn. A command may start this program.
const TOLD: [&str; 6] = [
    "TENURE_TERM",
    "TENURE_SLOT",
    "TENURE_ATTEMPT",
    "TENURE_VALUE",
    "TENURE_DEADLINE",
    "TENURE_ELECTION",
];

/// What is wrong with the variables of this process.
pub(super) fn misspelt(table: &[&'static Setting]) -> Vec<Complaint> {
    let known = known(table);
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let mut wrong: Vec<_> = names.filter_map(|name| complaint(&name, &known)).collect();
    wrong.sort_unstable_by(|a, b| a.source.cmp(&b.source));
    wrong
}

/// The variables that something is read from.
pub(super) fn known(table: &[&'static Setting]) -> Vec<&'static str> {
    table.iter().flat_map(|setting| setting.variables()).chain(TOLD).collect()
}

/// One that is close to a known one is meant to be that. Others may be anybody's: a cluster sets
/// some of its own for a service that is called tenure.
pub(super) fn complaint(name: &str, known: &[&str]) -> Option<Complaint> {
    let letters = name.to_ascii_uppercase();
    let rest = letters.strip_prefix(PREFIX)?;
    if known.contains(&name) {
        return None;
    }
    let most = if rest.len() <= 4 { 1 } else { 2 };
    let distance = |known: &&&str| strsim::damerau_levenshtein(known, &letters);
    let nearest = known.iter().min_by_key(distance).filter(|known| distance(known) <= most)?;
    let advice = format!("did you mean {nearest}?");
    Some(Complaint::new(name, "there is no such variable, so it is read by nobody", advice))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::table::TABLE;

    #[test]
    fn a_variable_that_is_misspelt_is_told_which_is_meant() {
        let known = known(TABLE);
        for (name, meant) in [
            ("TENURE_POL", Some("TENURE_POLL")),
            ("TENURE_LAESE", Some("TENURE_LEASE")),
            ("TENURE_REQUEST_TIME_OUT", Some("TENURE_REQUEST_TIMEOUT")),
            ("tenure_lease", Some("TENURE_LEASE")),
            ("TENURE_CREDENTAL", Some("TENURE_CREDENTIAL")),
            ("TENURE_POLL", None),
            ("TENURE_TERM", None),
            ("TENURE_CONTROL_TOKEN", None),
            ("TENURE_HANDLER_URL", None),
            ("TENURE_PORT", None),
            ("TENURE_PORT_8080_TCP_ADDR", None),
            ("TENURE_SERVICE_HOST", None),
            ("TENURE_TEST_TRANSFERS", None),
            ("ENURE_POLL", None),
        ] {
            let told = complaint(name, &known).map(|complaint| complaint.advice);
            assert_eq!(told, meant.map(|meant| format!("did you mean {meant}?")), "{name}");
        }
    }
}
