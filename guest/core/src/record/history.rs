//! The former leaders on record, with limits for their number and their bytes.

use super::text::{MAX_NAME, encode, is_allowed_text};
use crate::step::clocks::Timestamp;
use serde::{Deserialize, Serialize};
use tenure_base::prelude::*;

/// Maximum number of former leaders.
const MAX_LEADERS: usize = 10;

/// Maximum bytes of the encoded history. The rest of the record needs room too.
const MAX_BYTES: usize = 700;

/// A leader, as other candidates see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incumbent {
    /// Its name; not unique.
    pub name: String,
    /// Its term.
    pub term: u64,
    /// Time at which it won.
    pub since: Timestamp,
    /// Address at which it can be reached.
    pub address: Option<String>,
    /// True if it coordinates shares, and runs no work itself. Always false for former leaders.
    pub coordinates: bool,
}

/// The former leaders, the last one first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History(Vec<Incumbent>);

impl History {
    /// Adds the newest former leader, and drops the oldest ones beyond the limits.
    pub fn add(&mut self, mut leader: Incumbent) {
        (leader.address, leader.coordinates) = (None, false);
        // Whole seconds, as the record stores them.
        leader.since = Timestamp(leader.since.seconds().saturating_mul(1_000_000_000));
        self.0.insert(0, leader);
        self.0.truncate(MAX_LEADERS);
        while encode(&self.to_text()).len() > MAX_BYTES {
            self.0.pop();
        }
    }

    /// Drops leaders with invalid names, and the oldest ones beyond the limit. Returns true if all
    /// names were valid.
    pub(crate) fn retain_valid(&mut self) -> bool {
        let count = self.0.len();
        self.0.retain(|leader| is_allowed_text(&leader.name, MAX_NAME));
        let are_all_valid = self.0.len() == count;
        self.0.truncate(MAX_LEADERS);
        are_all_valid
    }

    /// Returns the former leaders, the last one first. Their times have whole seconds, and their
    /// addresses are missing.
    pub fn leaders(&self) -> &[Incumbent] {
        &self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns one line per leader: term, Unix time in seconds, name.
    pub(crate) fn to_text(&self) -> String {
        let mut text = String::new();
        for Incumbent { term, since, name, .. } in &self.0 {
            for number in [*term, since.seconds()] {
                text.push_str(&number.to_string());
                text.push(' ');
            }
            text.push_str(name);
            text.push('\n');
        }
        text.truncate(text.trim_end().len());
        text
    }

    /// Parses a history. None if the text is not one.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let leader = |line: &str| {
            let (term, rest) = line.split_once(' ')?;
            let (since, name) = rest.split_once(' ')?;
            let since = since.parse::<u64>().ok()?.checked_mul(1_000_000_000)?;
            let (term, name) = (term.parse().ok()?, name.into());
            Some(Incumbent {
                name,
                term,
                since: Timestamp(since),
                address: None,
                coordinates: false,
            })
        };
        text.split('\n').map(leader).collect::<Option<_>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leader(term: u64, name: &str) -> Incumbent {
        let address = Some("http://a".into());
        let since = Timestamp(term * 1_000_000_000 + 5);
        Incumbent { name: name.into(), term, since, address, coordinates: false }
    }

    #[test]
    fn keeps_the_last_ones_first_and_not_too_many() {
        let mut history = History::default();
        (1..=12).for_each(|term| history.add(leader(term, &format!("a {term}"))));
        let names: Vec<_> = history.leaders().iter().map(|leader| leader.name.as_str()).collect();
        let expected = ["a 12", "a 11", "a 10", "a 9", "a 8", "a 7", "a 6", "a 5", "a 4", "a 3"];
        assert_eq!(names, expected);
        assert_eq!(History::parse(&history.to_text()).as_ref(), Some(&history));
    }

    #[test]
    fn forgets_earlier_when_names_are_long() {
        let mut history = History::default();
        (1..=12).for_each(|term| history.add(leader(term, &"ü".repeat(64))));
        assert_eq!(history.leaders().len(), 1);
        assert!(encode(&history.to_text()).len() <= MAX_BYTES);
        assert_eq!(History::parse(&history.to_text()), Some(history));
    }

    #[test]
    fn invalid_history_is_none() {
        for text in ["", "1", "1 2", "x 2 a", "1 x a", "1 2 a\n", "1 99999999999999999999 a"] {
            assert_eq!(History::parse(text), None, "{text:?}");
        }
    }
}
