//! Were there ever two at work at once? Judged from two sides: by the logs of the candidates,
//! and by what the sink saw.

use super::sink::Delivery;
use super::story::Turn;
use std::collections::BTreeSet;

/// The number of turns that should not have been.
pub(super) fn overlapping(turns: &[Turn], deliveries: &[Delivery]) -> usize {
    guilty(turns, deliveries).len()
}

/// The turns that should not have been, by term and slot: those that began while another one ran,
/// that reached the sink after a turn of a later term, or that repeated a slot.
pub(super) fn guilty(turns: &[Turn], deliveries: &[Delivery]) -> BTreeSet<(u64, String)> {
    let mut guilty = BTreeSet::new();

    let logged: Vec<_> = turns.iter().map(|t| (t.key(), t.began, t.ended)).collect();
    guilty.extend(crossing(&logged));

    let seen: Vec<_> =
        deliveries.iter().map(|d| ((d.term, d.slot.as_str()), d.began, d.ended)).collect();
    guilty.extend(crossing(&seen));

    let mut highest = 0;
    let mut slots = BTreeSet::new();
    for delivery in deliveries {
        if delivery.term < highest || !slots.insert(delivery.slot.as_str()) {
            guilty.insert((delivery.term, delivery.slot.as_str()));
        }
        highest = highest.max(delivery.term);
    }
    guilty.into_iter().map(|(term, slot)| (term, slot.to_owned())).collect()
}

/// Those that began before an earlier one had ended. What has no end goes on for ever.
fn crossing<K: Copy, T: Ord + Copy>(spans: &[(K, T, Option<T>)]) -> Vec<K> {
    let mut spans: Vec<_> = spans.iter().collect();
    spans.sort_by_key(|(_, began, _)| *began);
    let mut guilty = Vec::new();
    // Nothing yet; until then; for ever.
    let mut busy: Option<Option<T>> = None;
    for (key, began, ended) in spans {
        let free = match busy {
            None => true,
            Some(until) => until.is_some_and(|until| until <= *began),
        };
        if !free {
            guilty.push(*key);
        }
        busy = match (busy, ended) {
            (Some(None), _) | (_, None) => Some(None),
            (Some(Some(until)), Some(ended)) => Some(Some(until.max(*ended))),
            (None, Some(ended)) => Some(Some(*ended)),
        };
    }
    guilty
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::{DateTime, Utc};
    use std::time::Duration;

    fn turn(term: u64, slot: &str, began: u64, ended: Option<u64>) -> Turn {
        Turn {
            who: 0,
            term,
            slot: slot.to_owned(),
            began: Duration::from_millis(began),
            ended: ended.map(Duration::from_millis),
            outcome: None,
            halted: false,
        }
    }

    fn seen(term: u64, slot: &str, began: i64, ended: Option<i64>) -> Delivery {
        let time = |ms| DateTime::<Utc>::from_timestamp_millis(ms).unwrap();
        Delivery { term, slot: slot.to_owned(), began: time(began), ended: ended.map(time) }
    }

    #[test]
    fn one_after_the_other_is_fine() {
        let turns = [turn(1, "a", 0, Some(5)), turn(2, "b", 5, Some(9)), turn(2, "c", 9, None)];
        let deliveries =
            [seen(1, "a", 0, Some(5)), seen(2, "b", 5, Some(9)), seen(2, "c", 9, None)];
        assert_eq!(overlapping(&turns, &deliveries), 0);
    }

    #[test]
    fn logs_that_cross_are_seen() {
        assert_eq!(overlapping(&[turn(1, "a", 0, Some(5)), turn(2, "b", 4, Some(9))], &[]), 1);
        // In whatever order they were heard of, and however long ago the first one began.
        let turns = [turn(2, "b", 4, Some(5)), turn(3, "c", 6, Some(7)), turn(1, "a", 0, None)];
        assert_eq!(overlapping(&turns, &[]), 2);
    }

    #[test]
    fn work_that_crosses_is_seen_and_counted_once() {
        let deliveries = [seen(1, "a", 0, Some(5)), seen(2, "b", 4, Some(9))];
        assert_eq!(overlapping(&[], &deliveries), 1);
        let turns = [turn(1, "a", 0, Some(5)), turn(2, "b", 4, Some(9))];
        assert_eq!(overlapping(&turns, &deliveries), 1);
    }

    #[test]
    fn a_late_turn_of_an_earlier_term_is_seen() {
        assert_eq!(overlapping(&[], &[seen(2, "b", 0, Some(1)), seen(1, "a", 2, Some(3))]), 1);
    }

    #[test]
    fn a_slot_that_is_run_twice_is_seen() {
        assert_eq!(overlapping(&[], &[seen(1, "a", 0, Some(1)), seen(2, "a", 2, Some(3))]), 1);
    }
}
