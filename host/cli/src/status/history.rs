//! The former leaders of an election, from the record on its blob.

use crate::complaint::printable;
use crate::output::align_columns;
use crate::output::times::{described_zone, elapsed};
use std::fmt::Write as _;
use tenure::status::local_time;
use tenure_core::Snapshot;

/// Returns a table of the leaders, the newest first.
pub(super) fn table(snapshot: &Snapshot) -> String {
    if snapshot.incumbent.is_none() {
        return "Nobody has led yet.\n".to_owned();
    }
    let mut rows = vec![["term", "since", "until the next", "leader"].map(str::to_owned)];
    let (mut next, zone) = (None, described_zone(snapshot.turns.schedule.as_deref()));
    for leader in snapshot.incumbent.iter().chain(&snapshot.history) {
        let until = match next {
            Some(next) => elapsed(leader.since, next),
            None if snapshot.leader().is_some() => {
                format!("leads, {}", elapsed(leader.since, snapshot.answered_at))
            }
            None => "no longer leads".to_owned(),
        };
        // Any client with write access to the blob chooses the names.
        let name = printable(&leader.name);
        rows.push([leader.term.to_string(), local_time(leader.since, zone), until, name]);
        next = Some(leader.since);
    }
    let shown = rows.len() as u64 - 1;
    let mut text = align_columns(rows);
    if let Some(more) = snapshot.changes.checked_sub(shown).filter(|more| *more > 0) {
        let _ = writeln!(text, "and {more} earlier ones, which the record no longer holds");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::tests::{at, idle, incumbent};
    use super::*;
    use tenure_core::{Incumbent, LeaseState};

    fn leader(name: &str, term: u64, since: u64) -> Incumbent {
        incumbent(name, term, since)
    }

    fn snapshot(lease: LeaseState, leaders: &[Incumbent], changes: u64) -> Snapshot {
        let (newest, earlier) = match leaders.split_first() {
            Some((newest, earlier)) => (Some(newest.clone()), earlier.to_vec()),
            None => (None, Vec::new()),
        };
        let asked_at = at(100);
        Snapshot { history: earlier, changes, answered_at: asked_at, ..idle(lease, newest) }
    }

    #[test]
    fn the_newest_is_first_and_each_has_its_time() {
        let leaders = [leader("ada", 9, 90), leader("ben\u{1b}", 7, 30)];
        let text = table(&snapshot(LeaseState::Leased, &leaders, 5));
        assert_eq!(
            text,
            "term  since                 until the next  leader\n\
             9     1970-01-01T00:01:30Z  leads, 10s      ada\n\
             7     1970-01-01T00:00:30Z  1m              ben\\u{1b}\n\
             and 3 earlier ones, which the record no longer holds\n"
        );
        let over = table(&snapshot(LeaseState::Expired, &leaders, 2));
        assert!(over.contains("no longer leads") && !over.contains("earlier ones"), "{over}");
        assert_eq!(table(&snapshot(LeaseState::Absent, &[], 0)), "Nobody has led yet.\n");
    }
}
