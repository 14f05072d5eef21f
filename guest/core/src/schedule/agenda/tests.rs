use super::*;
use crate::record::metadata::Finished;
use crate::schedule::slots::{Cron, Zone};
use proptest::prelude::*;
use proptest::sample::select;

fn at(text: &str) -> Timestamp {
    Timestamp::parse(&format!("2026-11-20T{text}Z")).unwrap()
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Every five seconds, with the defaults.
fn every(interval: u64) -> Agenda {
    Agenda {
        schedule: Some(Schedule::every(seconds(interval)).unwrap()),
        delivery: Delivery::AtMostOnce,
        missed: Missed::Once,
        tolerance: seconds(60),
        delay: Duration::ZERO,
    }
}

fn at_least_once(interval: u64) -> Agenda {
    Agenda { delivery: Delivery::AtLeastOnce { max_attempts: 3 }, ..every(interval) }
}

/// The last slot, as a candidate with this agenda claimed it.
fn claimed(agenda: &Agenda, slot: &str, attempt: u32) -> Record {
    Record { delivery: agenda.delivery, ..last(slot, attempt) }
}

fn last(slot: &str, attempt: u32) -> Record {
    Record { last_slot: Some(LastSlot { slot: at(slot), attempt }), ..Record::default() }
}

fn finished(slot: &str, attempt: u32, outcome: Outcome) -> Record {
    Record { finished: Some(Finished { slot: at(slot), outcome }), ..last(slot, attempt) }
}

fn now(slot: &str, attempt: u32, past_due: bool) -> Due {
    now_after(0, slot, attempt, past_due)
}

/// A due turn after this number of slots without one.
fn now_after(missed: u32, slot: &str, attempt: u32, past_due: bool) -> Due {
    Due::Now(Task { slot: at(slot), trigger: None, attempt, past_due, missed })
}

#[test]
fn a_slot_is_due_from_its_instant_on_and_never_before() {
    let agenda = every(5);
    let wait = Due::In(Duration::from_millis(1));
    assert_eq!(agenda.due(at("07:00:04.999"), &last("07:00:00", 1)), wait);
    assert_eq!(agenda.due(at("07:00:05"), &last("07:00:00", 1)), now("07:00:05", 1, false));
    assert_eq!(agenda.due(at("07:00:09.9"), &last("07:00:00", 1)), now("07:00:05", 1, false));
}

#[test]
fn a_claimed_slot_is_not_due_again() {
    assert_eq!(every(5).due(at("07:00:07"), &last("07:00:05", 1)), Due::In(seconds(3)));
}

#[test]
fn slots_are_aligned_to_the_epoch_also_after_a_change_of_schedule() {
    let due = every(10).due(at("07:00:10.5"), &last("07:00:03", 1));
    assert_eq!(due, now("07:00:10", 1, false));
}

#[test]
fn a_slot_of_a_candidate_slightly_ahead_is_waited_for() {
    let due = every(5).due(at("07:00:04.9"), &last("07:00:05", 1));
    assert_eq!(due, Due::In(Duration::from_millis(5_100)));
}

#[test]
fn slot_far_ahead_is_reported_and_nothing_else_is_due() {
    let ahead = Due::Ahead(seconds(3600));
    assert_eq!(every(5).due(at("07:00:00"), &last("08:00:00", 1)), ahead);
    assert_eq!(at_least_once(5).due(at("07:00:00"), &last("08:00:00", 1)), ahead);
}

#[test]
fn nothing_is_to_come_without_a_timer() {
    let nothing = Agenda { schedule: None, ..every(5) };
    assert_eq!(nothing.due(at("07:00:00"), &last("06:00:00", 1)), Due::Nothing);
    assert_eq!(every(5).due(at("07:00:00"), &Record::default()), Due::Nothing);
}

#[test]
fn the_next_slot_is_one_of_the_schedule_that_will_run() {
    let late = at("07:09:59");
    let next = |agenda: &Agenda, record| agenda.next_slot(late, &record, false);
    assert_eq!(next(&every(300), last("07:00:00", 1)), Some(at("07:05:00")), "it is overdue");
    let skip = Agenda { missed: Missed::Skip, ..every(300) };
    assert_eq!(next(&skip, last("07:00:00", 1)), Some(at("07:10:00")));
    // A further attempt at a trigger has no trigger.
    let (slot, delivery) = (at("07:00:07"), Delivery::AtLeastOnce { max_attempts: 3 });
    let trigger = Started { id: "id".into(), slot, attempt: 1, delivery, outcome: None };
    let mut record = last("07:05:00", 1);
    record.triggers.newest = Some(trigger);
    assert_eq!(next(&at_least_once(300), record), Some(at("07:10:00")));
}

#[test]
fn missed_slots_run_as_the_rule_says() {
    let due = |missed, time| Agenda { missed, ..every(60) }.due(at(time), &last("07:00:00", 1));
    // On time, independent of the rule.
    for missed in [Missed::Skip, Missed::Once, Missed::All(9)] {
        assert_eq!(due(missed, "07:01:59"), now("07:01:00", 1, false), "{missed:?}");
    }
    // Three are due.
    assert_eq!(due(Missed::Once, "07:03:10"), now_after(2, "07:03:00", 1, true));
    assert_eq!(due(Missed::Skip, "07:03:10"), now_after(2, "07:03:00", 1, false));
    assert_eq!(due(Missed::All(9), "07:03:10"), now("07:01:00", 1, true));
    assert_eq!(due(Missed::All(3), "07:03:10"), now("07:01:00", 1, true));
    assert_eq!(due(Missed::All(2), "07:03:10"), now_after(1, "07:02:00", 1, true));
    assert_eq!(due(Missed::All(1), "07:03:10"), now_after(2, "07:03:00", 1, false));
}

#[test]
fn a_slot_that_comes_too_late_was_missed_too() {
    let due = |missed, time| Agenda { missed, ..every(3600) }.due(at(time), &last("06:00:00", 1));
    assert_eq!(due(Missed::Once, "07:01:00"), now("07:00:00", 1, false));
    assert_eq!(due(Missed::Once, "07:01:00.001"), now("07:00:00", 1, true));
    assert_eq!(due(Missed::All(5), "07:01:00.001"), now("07:00:00", 1, true));
    assert_eq!(due(Missed::Skip, "07:01:00"), now("07:00:00", 1, false));
    let until_next = Due::In(Duration::from_millis(58 * 60_000 + 59_999));
    assert_eq!(due(Missed::Skip, "07:01:00.001"), until_next);
}

#[test]
fn each_missed_slot_of_a_cron_expression_has_its_turn() {
    let cron = Box::new(Cron::parse("0 9 * * MON-FRI").unwrap());
    let schedule = Some(Schedule::Cron(cron, Zone::from_name("Europe/Berlin").unwrap()));
    let agenda = Agenda { schedule, missed: Missed::All(3), ..every(60) };
    let day = |text: &str| Timestamp::parse(text).unwrap();
    let (mut record, mut ran) = (Record::default(), Vec::new());
    record.last_slot = Some(LastSlot { slot: day("2026-11-12T08:00:00Z"), attempt: 1 });
    // Tuesday; Friday, Monday and Tuesday itself were missed.
    while let Due::Now(task) = agenda.due(day("2026-11-17T20:00:00Z"), &record) {
        assert!(task.past_due);
        ran.push(task.slot.to_rfc3339());
        record.last_slot = Some(LastSlot { slot: task.slot, attempt: 1 });
    }
    assert_eq!(ran, ["2026-11-13T08:00:00Z", "2026-11-16T08:00:00Z", "2026-11-17T08:00:00Z"]);
}

#[test]
fn at_least_once_runs_the_last_slot_until_a_turn_succeeds() {
    let agenda = at_least_once(5);
    let time = at("07:00:21");
    let ended = |slot, attempt, outcome| Record {
        delivery: agenda.delivery,
        ..finished(slot, attempt, outcome)
    };
    // Its outcome is unknown; it is no longer the first attempt.
    assert_eq!(agenda.due(time, &claimed(&agenda, "07:00:05", 1)), now("07:00:05", 2, false));
    for outcome in [Outcome::Failed, Outcome::Trapped, Outcome::TimedOut, Outcome::CutOff] {
        let due = agenda.due(time, &ended("07:00:05", 2, outcome));
        assert_eq!(due, now("07:00:05", 3, false), "{outcome:?}");
    }
    // The outcome of an earlier slot does not count.
    let mut record = ended("07:00:05", 1, Outcome::Succeeded);
    record.last_slot = Some(LastSlot { slot: at("07:00:10"), attempt: 1 });
    assert_eq!(agenda.due(time, &record), now("07:00:10", 2, false));
    for outcome in [Outcome::Succeeded, Outcome::Abandoned] {
        let due = agenda.due(time, &ended("07:00:05", 1, outcome));
        assert_eq!(due, now_after(2, "07:00:20", 1, true), "{outcome:?}");
    }
}

#[test]
fn claim_keeps_its_delivery_rule_under_the_next_leader() {
    let (once, again) = (every(5), at_least_once(5));
    let time = at("07:00:21");
    // Claimed at most once: not even a leader with the other rule repeats it.
    assert_eq!(again.due(time, &claimed(&once, "07:00:05", 1)), now_after(2, "07:00:20", 1, true));
    // Claimed at least once: a leader with the other rule repeats it too.
    assert_eq!(once.due(time, &claimed(&again, "07:00:05", 1)), now("07:00:05", 2, false));
}

#[test]
fn a_slot_is_abandoned_after_its_last_attempt() {
    let agenda = at_least_once(5);
    let spent =
        Task { slot: at("07:00:05"), trigger: None, attempt: 3, past_due: false, missed: 0 };
    let failed = finished("07:00:05", 3, Outcome::Failed);
    let failed = Record { delivery: agenda.delivery, ..failed };
    for record in [claimed(&agenda, "07:00:05", 3), failed] {
        assert_eq!(agenda.due(at("07:00:21"), &record), Due::Abandon(spent.clone()));
    }
}

#[test]
fn the_slot_with_which_the_count_began_is_not_run() {
    let record = Record {
        delivery: at_least_once(5).delivery,
        last_slot: Some(every(5).initial_slot(at("07:00:03"))),
        ..Record::default()
    };
    assert_eq!(record.last_slot, Some(LastSlot { slot: at("07:00:00"), attempt: 0 }));
    assert_eq!(at_least_once(5).due(at("07:00:03"), &record), Due::In(seconds(2)));
}

#[test]
fn jitter_delays_the_turn_and_not_the_slot() {
    let agenda = Agenda { delay: seconds(2), ..every(5) };
    let due = |time| agenda.due(at(time), &last("07:00:00", 1));
    assert_eq!(due("07:00:05"), Due::In(seconds(2)));
    assert_eq!(due("07:00:06.999"), Due::In(Duration::from_millis(1)));
    assert_eq!(due("07:00:07"), now("07:00:05", 1, false));
    assert_eq!(due("07:00:11.9"), now("07:00:05", 1, false));
    assert_eq!(due("07:00:12"), now_after(1, "07:00:10", 1, true));
    let begun = agenda.initial_slot(at("07:00:06"));
    assert_eq!(begun.slot, at("07:00:00"), "07:00:05 is not due yet");
}

#[test]
fn jitter_is_the_same_for_all_candidates_and_differs_between_elections() {
    let delays: Vec<_> =
        (0..100).map(|n| Agenda::jittered_delay(&format!("jobs/{n}"), seconds(60))).collect();
    assert_eq!(delays[7], Agenda::jittered_delay("jobs/7", seconds(60)));
    assert!(delays.iter().all(|delay| *delay < seconds(60)));
    assert!(delays.iter().any(|delay| *delay < seconds(15)));
    assert!(delays.iter().any(|delay| *delay > seconds(45)));
    assert_eq!(Agenda::jittered_delay("jobs/7", Duration::ZERO), Duration::ZERO);
}

#[test]
fn the_next_turn_is_at_once_or_when_a_slot_comes() {
    let agenda = every(60);
    let time = at("07:00:30");
    assert_eq!(agenda.next(time, &last("06:59:00", 1)), Some(time));
    assert_eq!(agenda.next(time, &last("07:00:00", 1)), Some(at("07:01:00")));
    let nothing = Agenda { schedule: None, ..every(5) };
    assert_eq!(nothing.next(time, &last("07:00:00", 1)), None);
}

proptest! {
    /// Each slot up to the newest claim has its own turn or is counted by a later turn. That holds
    /// for every rule and every time without a leader.
    #[test]
    fn a_slot_is_claimed_or_counted_as_missed(
        gaps in proptest::collection::vec(0_u64..900, 1..30),
        missed in select(vec![Missed::Skip, Missed::Once, Missed::All(1), Missed::All(4)]),
        cron in proptest::bool::ANY,
    ) {
        let each_minute = Box::new(Cron::parse("* * * * *").unwrap());
        let by_cron = Some(Schedule::Cron(each_minute, Zone::UTC));
        let schedule = if cron { by_cron } else { every(60).schedule };
        let agenda = Agenda { schedule, missed, tolerance: seconds(20), ..every(60) };
        let mut time = at("07:00:10");
        let first = agenda.initial_slot(time);
        let mut record = Record { last_slot: Some(first), ..Record::default() };
        let (mut newest, mut reported) = (first.slot, 0);
        for gap in gaps {
            time = time.plus(seconds(gap));
            while let Due::Now(task) = agenda.due(time, &record) {
                reported += 1 + u64::from(task.missed);
                newest = task.slot;
                record.last_slot = Some(LastSlot { slot: newest, attempt: 1 });
            }
        }
        prop_assert_eq!(newest.since(first.slot), seconds(60 * reported));
    }
}

#[test]
fn slots_without_a_turn_are_counted_up_to_a_thousand() {
    let due = every(1).due(at("09:00:00"), &last("07:00:00", 1));
    assert_eq!(due, now_after(1000, "09:00:00", 1, true));
}
