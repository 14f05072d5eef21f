//! The log of handled requests: the newest ones as entries, and all of them as counts.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::verb::Verb;

/// Maximum number of entries.
const MAX_ENTRIES: usize = 10_000;

/// One handled request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The time by the `elapsed` of the service's clock.
    pub at: Duration,
    /// The first 16 characters of the HTTP method.
    pub method: String,
    /// The operation.
    pub verb: Verb,
    /// The account; empty if it does not exist.
    pub account: String,
    /// The container; empty if the address has none.
    pub container: String,
    /// The blob; empty if the address has none.
    pub blob: String,
    /// The status of the response.
    pub status: u16,
    /// The error code of the response.
    pub code: Option<&'static str>,
}

/// The handled requests: the newest 10 000, and counts of all.
#[derive(Clone, Debug, Default)]
pub struct Log {
    entries: VecDeque<Entry>,
    counts: BTreeMap<(Verb, u16), u64>,
}

impl Log {
    /// Returns the remembered requests, oldest first.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Returns the number of requests of this operation, whatever the response.
    pub fn count(&self, verb: Verb) -> u64 {
        self.counts.iter().filter(|((known, _), _)| *known == verb).map(|(_, count)| count).sum()
    }

    /// Returns the number of requests of this operation with this status.
    pub fn count_with_status(&self, verb: Verb, status: u16) -> u64 {
        self.counts.get(&(verb, status)).copied().unwrap_or(0)
    }

    /// Returns the number of handled requests.
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    pub(super) fn add(&mut self, entry: Entry) {
        *self.counts.entry((entry.verb, entry.status)).or_default() += 1;
        if self.entries.len() == MAX_ENTRIES {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_entries_go_and_counts_stay() {
        let mut log = Log::default();
        for number in 0..MAX_ENTRIES as u64 + 5 {
            let status = if number % 2 == 0 { 201 } else { 409 };
            log.add(Entry {
                at: Duration::from_secs(number),
                method: "PUT".to_owned(),
                verb: Verb::Acquire,
                account: String::new(),
                container: String::new(),
                blob: String::new(),
                status,
                code: None,
            });
        }
        assert_eq!(log.entries().count(), MAX_ENTRIES);
        assert_eq!(log.entries().next().map(|entry| entry.at), Some(Duration::from_secs(5)));
        assert_eq!(log.count(Verb::Acquire), MAX_ENTRIES as u64 + 5);
        assert_eq!(log.count_with_status(Verb::Acquire, 409), MAX_ENTRIES as u64 / 2 + 2);
        assert_eq!(log.count(Verb::Renew), 0);
    }
}
