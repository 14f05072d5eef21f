//! At-least-once delivery, and the reset of a slot: protocol.md §6.

use super::*;
use crate::record::metadata::Started;

const AT_LEAST_ONCE: &[(&str, &str)] = &[
    (variable::EVERY, "10m"),
    (variable::DELIVERY, "at-least-once"),
    (variable::MAX_ATTEMPTS, "2"),
    (variable::MAX_FAILURES, "0"),
];

fn slot(text: &str) -> Timestamp {
    Timestamp::parse(&format!("2026-11-20T{text}Z")).unwrap()
}

/// Steps when due until a turn is to be run, at most `calls` times.
fn turn_within(candidate: &mut Candidate, mut report: Report, calls: usize) -> Option<Turn> {
    let mut called = candidate.now;
    for _ in 0..calls {
        if report.run.is_some() {
            break;
        }
        candidate.now = candidate.now.max(called + report.again_in);
        called = candidate.now;
        report = candidate.step(None, available);
    }
    report.run
}

/// Returns a leader whose turn of 07:10 runs.
fn at_work(settings: &[(&str, &str)]) -> (Candidate, Turn) {
    let mut candidate = Candidate::new(settings);
    candidate.now = seconds(599);
    let report = candidate.lead();
    let turn = turn_within(&mut candidate, report, 10).unwrap();
    (candidate, turn)
}

#[test]
fn a_success_is_on_record_before_anything_else_happens() {
    let (mut candidate, turn) = at_work(AT_LEAST_ONCE);
    assert_eq!((turn.slot, turn.attempt), (slot("07:10:00"), 1));
    candidate.step(Some(Event::TurnEnded(Outcome::Succeeded.into())), available);
    assert_eq!(candidate.verbs(), ["write record"]);
    let succeeded = Finished { slot: turn.slot, outcome: Outcome::Succeeded };
    assert_eq!(written_record(&candidate.requests[0]).finished, Some(succeeded));
}

#[test]
fn a_turn_that_went_wrong_is_repeated_after_a_rest_and_then_abandoned() {
    let (mut candidate, _) = at_work(AT_LEAST_ONCE);
    let ended = candidate.now;
    let report = candidate.step(Some(Event::TurnEnded(Outcome::Failed.into())), available);
    assert_eq!(report.run, None, "not at once");
    let turn = turn_within(&mut candidate, report, 3).unwrap();
    assert_eq!((turn.slot, turn.attempt, turn.past_due), (slot("07:10:00"), 2, false));
    assert!(candidate.now >= ended + seconds(1));
    let claim = written_record(&candidate.requests[0]);
    assert_eq!(claim.last_slot, Some(LastSlot { slot: turn.slot, attempt: 2 }));

    let report = candidate.step(Some(Event::TurnEnded(Outcome::Failed.into())), available);
    assert_eq!(report.problems[0].class, ProblemClass::Work);
    assert!(
        report.problems[0].detail.contains("abandoned after its last attempt (2)"),
        "{report:?}"
    );
    let abandoned = Finished { slot: turn.slot, outcome: Outcome::Abandoned };
    assert_eq!(written_record(&candidate.requests[0]).finished, Some(abandoned));
    let next = turn_within(&mut candidate, report, 400).unwrap();
    assert_eq!((next.slot, next.attempt), (slot("07:20:00"), 1));
}

#[test]
fn successor_repeats_unfinished_turn() {
    let (old, turn) = at_work(AT_LEAST_ONCE);
    let on_blob = written_record(old.requests.last().unwrap()).to_metadata();
    let mut new = Candidate::new(AT_LEAST_ONCE);
    new.chance = Counter(99); // Its nonce is its own.
    new.now = old.now + seconds(100);
    let report = new.step(None, |o, at| match o {
        Operation::Read { .. } => blob_answer(o, at, "expired", &on_blob),
        _ => available(o, at),
    });
    let again = turn_within(&mut new, report, 2).unwrap();
    assert_eq!((again.slot, again.attempt, again.past_due), (turn.slot, 2, true));
    assert!(again.term > turn.term);
}

/// Returns a leader that finds a slot of 09:00 claimed.
fn before_the_future() -> Candidate {
    let mut record = Record::from_metadata(&incumbent(9)).unwrap().unwrap();
    record.last_slot = Some(LastSlot { slot: slot("09:00:00"), attempt: 1 });
    let on_blob = record.to_metadata();
    let mut candidate = Candidate::new(&[(variable::EVERY, "5s")]);
    let report = candidate.step(None, |o, at| match o {
        Operation::Read { .. } => blob_answer(o, at, "available", &on_blob),
        _ => available(o, at),
    });
    for words in ["until then only triggers run", "tenure reset-slot"] {
        assert!(report.problems[0].detail.contains(words), "{report:?}");
    }
    candidate
}

#[test]
fn an_operator_has_a_slot_in_the_future_forgotten() {
    let mut candidate = before_the_future();
    let report = candidate.step(Some(Event::ResetSlot), available);
    assert_eq!(candidate.verbs(), ["write record"]);
    let reset = written_record(&candidate.requests[0]);
    assert_eq!(reset.last_slot, Some(LastSlot { slot: slot("07:01:40"), attempt: 0 }));
    let turn = turn_within(&mut candidate, report, 10).unwrap();
    assert_eq!((turn.slot, turn.past_due), (slot("07:01:45"), false));
}

/// The case of `tenure reset-slot`, which has no schedule of its own.
#[test]
fn also_a_candidate_without_a_schedule_forgets_it() {
    let mut record = Record::from_metadata(&incumbent(9)).unwrap().unwrap();
    record.last_slot = Some(LastSlot { slot: slot("09:00:00"), attempt: 1 });
    let on_blob = record.to_metadata();
    let mut candidate = Candidate::new(&[]);
    candidate.step(None, |o, at| match o {
        Operation::Read { .. } => blob_answer(o, at, "available", &on_blob),
        _ => available(o, at),
    });
    candidate.step(Some(Event::ResetSlot), available);
    assert_eq!(candidate.verbs(), ["write record"]);
    assert!(written_record(&candidate.requests[0]).last_slot.unwrap().slot < slot("09:00:00"));
}

#[test]
fn a_slot_that_has_come_is_not_forgotten() {
    let mut candidate = Candidate::new(&[(variable::EVERY, "5s")]);
    candidate.step(Some(Event::ResetSlot), available);
    assert!(!candidate.verbs().is_empty(), "it contends as ever");
    candidate.step(Some(Event::ResetSlot), available);
    assert_eq!(candidate.verbs(), [""; 0]);
}

#[test]
fn the_rule_of_a_claim_is_on_record() {
    let (candidate, _) = at_work(AT_LEAST_ONCE);
    let record = written_record(candidate.requests.last().unwrap());
    assert_eq!(record.delivery, Delivery::AtLeastOnce { max_attempts: 2 });
    assert_eq!(record.schedule.as_deref(), Some("every 10m"));
}

/// A claim without a turn is made again by a leader whose own rule runs each slot once. The claimed
/// slot is repeated until it succeeds.
#[test]
fn the_rule_of_a_claim_holds_when_it_is_claimed_again() {
    let rule = Delivery::AtLeastOnce { max_attempts: 2 };
    for triggered in [false, true] {
        let mut record = Record::from_metadata(&incumbent(9)).unwrap().unwrap();
        let claimed = slot("07:00:00");
        record.last_slot = Some(LastSlot { slot: claimed, attempt: 1 });
        let outcome = Some(Outcome::NotStarted);
        if triggered {
            let (id, delivery) = ("a".into(), rule);
            record.start(Started { id, slot: claimed, attempt: 1, delivery, outcome });
        } else {
            record.delivery = rule;
            record.finished = outcome.map(|outcome| Finished { slot: claimed, outcome });
        }
        let on_blob = record.to_metadata();
        let timer = if triggered { variable::ON_TRIGGER } else { variable::EVERY };
        let more = (timer, if triggered { "true" } else { "10m" });
        let mut candidate = Candidate::new(&[more]);
        let report = candidate.step(None, |o, at| match o {
            Operation::Read { .. } => blob_answer(o, at, "available", &on_blob),
            _ => available(o, at),
        });
        let turn = turn_within(&mut candidate, report, 2).unwrap();
        assert_eq!((turn.slot, turn.attempt), (claimed, 1));
        let claim = written_record(candidate.requests.last().unwrap());
        let on_record = claim.triggers.newest.map_or(claim.delivery, |newest| newest.delivery);
        assert_eq!(on_record, rule, "{triggered}");
    }
}

#[test]
fn a_change_of_schedule_begins_with_the_slot_that_has_just_passed() {
    let mut old = Record::from_metadata(&incumbent(9)).unwrap().unwrap();
    old.schedule = Some("cron 0 9 * * MON UTC".into());
    let lead = |old: &Record| {
        let on_blob = old.to_metadata();
        let mut candidate = Candidate::new(&[(variable::EVERY, "5s")]);
        candidate.step(None, |o, at| match o {
            Operation::Read { .. } => blob_answer(o, at, "available", &on_blob),
            _ => available(o, at),
        });
        written_record(&candidate.requests[2]).last_slot.unwrap()
    };
    old.last_slot = Some(LastSlot { slot: slot("06:00:00"), attempt: 1 });
    assert_eq!(lead(&old), LastSlot { slot: slot("07:01:40"), attempt: 0 });
    // A slot to be repeated is not forgotten because of that.
    old.delivery = Delivery::AtLeastOnce { max_attempts: 2 };
    assert_eq!(lead(&old), LastSlot { slot: slot("06:00:00"), attempt: 1 });
    // Nor is a slot claimed earlier than it was.
    old.last_slot = Some(LastSlot { slot: slot("07:01:43"), attempt: 1 });
    assert_eq!(lead(&old).slot, slot("07:01:43"));
}
