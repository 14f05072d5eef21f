//! Complaints about settings. They name each setting as the operator gave it.

use std::fmt::{self, Write as _};
use tenure_base::text::{is_deceptive, looks_secret};

/// A problem with a setting, and the advice for the operator.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Complaint {
    /// The flag, the variable or the file that the setting came from.
    pub source: String,
    /// The rule that the value breaks, and the value unless it is secret.
    pub problem: String,
    pub advice: String,
}

impl Complaint {
    pub(crate) fn new(
        source: impl Into<String>,
        problem: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { source: source.into(), problem: problem.into(), advice: advice.into() }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.source, self.problem, self.advice)
    }
}

/// Maximum number of consecutive complaints with the same advice to show. A list may cause one for
/// each name.
const MAX_SHOWN: usize = 10;

/// The message about a missing blob, for commands that change an election.
pub(crate) const NO_ELECTION: &str =
    "there is no such election: no candidate ever ran, or its blob was deleted";

/// The advice if a command was read as another argument.
pub(crate) const DOUBLE_DASH_ADVICE: &str = "put -- before a command";

/// Formats all complaints as text.
pub(crate) fn report(complaints: &[Complaint]) -> String {
    let mut text = String::from(match complaints.len() {
        1 => "tenure: a setting is wrong; nothing was sent\n",
        _ => "tenure: settings are wrong; nothing was sent\n",
    });
    for group in complaints.chunk_by(|one, next| one.advice == next.advice) {
        for Complaint { source, problem, advice } in group.iter().take(MAX_SHOWN) {
            let _ = write!(text, "\n  {source}\n    {problem}\n    {advice}\n");
        }
        if group.len() > MAX_SHOWN {
            let _ = writeln!(text, "\n  and {} more with the same advice", group.len() - MAX_SHOWN);
        }
    }
    text
}

/// Returns a value that is safe to show: without secrets and control characters, and with a limited
/// length. In a URL, and in a possible `user:password@host`, it hides everything before the last
/// `@`.
pub(crate) fn redacted(value: &str) -> String {
    let has_password = value.rsplit_once('@').is_some_and(|(before, _)| before.contains(':'));
    match has_password || value.contains("://") {
        true => redacted_address(value),
        false => redacted_text(value),
    }
}

/// Returns an address or a host that is safe to show. It hides everything before the last `@`: it
/// may be a token, or a password with any character in it.
pub(crate) fn redacted_address(value: &str) -> String {
    match value.rsplit_once('@') {
        Some((before, host)) if !looks_secret(value) => {
            let scheme =
                ["http://", "https://"].into_iter().find(|scheme| before.starts_with(scheme));
            redacted_text(&format!("{}…@{host}", scheme.unwrap_or_default()))
        }
        _ => redacted_text(value),
    }
}

fn redacted_text(value: &str) -> String {
    const LONGEST: usize = 200;
    if looks_secret(value) {
        return "…".to_owned();
    }
    printable(value).chars().take(LONGEST).collect()
}

/// Returns a foreign text that is safe for a terminal. Escapes control characters, line ends, and
/// characters that change the writing direction.
pub(crate) fn printable(text: &str) -> String {
    let escape = |c: char| match is_deceptive(c) {
        true => escaped(c),
        false => c.to_string(),
    };
    text.chars().map(escape).collect()
}

/// Returns the escape of a character: `\n` for a line end, and `\u{…}` for most others.
fn escaped(c: char) -> String {
    match c.is_ascii_control() {
        true => c.escape_default().collect(),
        false => c.escape_unicode().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn likely_secrets_are_redacted() {
        assert_eq!(redacted("AccountName=a;accountkey=c2VjcmV0"), "…");
        assert_eq!(redacted("https://user:secret@host:1"), "https://…@host:1");
        assert_eq!(redacted("https://secret@host/a"), "https://…@host/a");
        assert_eq!(redacted("user:secret@host:1"), "…@host:1");
        for whole in ["@daily", "jobs/a@b", "ops@example.com", "https://host:1/a", "command@"] {
            assert_eq!(redacted(whole), whole);
        }
        assert_eq!(redacted("14s"), "14s");
        assert_eq!(redacted(&"x".repeat(1000)).len(), 200);
    }

    #[test]
    fn no_part_of_a_password_in_an_address_is_shown() {
        for (value, expected) in [
            ("https://user:secret@host/a@b", "https://…@b"),
            ("https://user:pa/ss@host", "https://…@host"),
            ("https://user:1/ss@host", "https://…@host"),
            ("https://user:p@ss@host", "https://…@host"),
            ("http://user:p?#ss@host:1", "http://…@host:1"),
            ("https://secret@host and https://secret@other", "https://…@other"),
            ("user:secret://a@host", "…@host"),
            ("secret@https://host", "…@https://host"),
            ("user:pa/ss@host", "…@host"),
        ] {
            assert_eq!(redacted(value), expected, "{value}");
            assert_eq!(redacted_address(value), expected, "{value}");
        }
        assert_eq!(redacted_address("secret@host:1"), "…@host:1");
        assert_eq!(redacted_address("https://host:1/a"), "https://host:1/a");
        assert_eq!(redacted_address("AccountName=a;accountkey=c2VjcmV0@a"), "…");
        assert_eq!(redacted_address(&format!("a@{}", "x".repeat(1000))).chars().count(), 200);
    }

    #[test]
    fn of_many_complaints_with_the_same_advice_the_first_ten_are_shown() {
        let lines = (1..=12).map(|line| Complaint::new(format!("names:{line}"), "bad", "mend it"));
        let other = [Complaint::new("--lease", "too short", "choose 15s")];
        let text = report(&lines.chain(other).collect::<Vec<_>>());
        assert!(text.contains("names:10\n") && !text.contains("names:11"), "{text}");
        assert!(text.contains("\n  and 2 more with the same advice\n"), "{text}");
        assert!(text.ends_with("\n  --lease\n    too short\n    choose 15s\n"), "{text}");
    }

    #[test]
    fn control_characters_are_spelt_out() {
        assert_eq!(printable("a\u{1b}[31m\nb ü"), "a\\u{1b}[31m\\nb ü");
        assert_eq!(printable("a\u{202e}b\u{2028}c"), "a\\u{202e}b\\u{2028}c");
    }
}
