//! Claims, in the service's time: protocol.md §6.

use super::*;

const EVERY_5S: &[(&str, &str)] = &[(variable::EVERY, "5s")];

fn slot(text: &str) -> Timestamp {
    Timestamp::parse(&format!("2026-11-20T{text}Z")).unwrap()
}

/// Steps when due until a turn is to be run.
fn next_turn(candidate: &mut Candidate, mut report: Report) -> Turn {
    let mut called = candidate.now;
    for _ in 0..20 {
        if let Some(turn) = report.run {
            return turn;
        }
        candidate.now = candidate.now.max(called + report.again_in);
        called = candidate.now;
        report = candidate.step(None, available);
    }
    panic!("no turn: {report:?}");
}

#[test]
fn a_new_election_begins_with_the_next_slot() {
    let mut candidate = Candidate::new(EVERY_5S); // 07:01:40
    let report = candidate.lead();
    assert_eq!(written_record(&candidate.requests[2]).last_slot.unwrap().attempt, 0);
    assert_eq!(report.run, None, "what lies before the first leader was not missed");
    let turn = next_turn(&mut candidate, report);
    assert_eq!((turn.slot, turn.attempt, turn.past_due), (slot("07:01:45"), 1, false));
    assert!(candidate.now >= seconds(105), "never before its instant");
}

#[test]
fn the_claim_is_on_the_blob_before_the_turn_is_run() {
    let mut candidate = Candidate::new(EVERY_5S);
    let report = candidate.lead();
    let turn = next_turn(&mut candidate, report);
    let claim = candidate.requests.last().unwrap();
    assert_eq!(written_record(claim).last_slot.unwrap(), LastSlot { slot: turn.slot, attempt: 1 });
    let Operation::WriteMetadata { if_match, .. } = &claim.operation else { panic!() };
    assert_eq!(if_match.0, "\"2\"", "the tag that the term's write left");
}

#[test]
fn turns_do_not_overlap_and_renewals_go_on_beside_them() {
    let mut candidate = Candidate::new(EVERY_5S);
    let report = candidate.lead();
    next_turn(&mut candidate, report);
    for _ in 0..5 {
        candidate.now += seconds(4);
        let report = candidate.step(None, available);
        assert_eq!(candidate.verbs(), ["renew lease"]);
        assert_eq!(report.run, None);
    }
    let report = candidate.step(Some(Event::TurnEnded(Outcome::Succeeded.into())), available);
    let turn = report.run.unwrap();
    assert!(turn.past_due, "one turn stands for those that were missed meanwhile");
    let claim = written_record(&candidate.requests[0]);
    let finished = Finished { slot: slot("07:01:45"), outcome: Outcome::Succeeded };
    assert_eq!(claim.finished, Some(finished), "the outcome rides on the next claim");
}

#[test]
fn an_outcome_is_written_by_itself_when_the_next_claim_is_far_away() {
    let mut candidate = Candidate::new(&[(variable::EVERY, "10m")]);
    candidate.now = seconds(599);
    let report = candidate.lead();
    next_turn(&mut candidate, report);
    let report = candidate.step(Some(Event::TurnEnded(Outcome::Failed.into())), available);
    assert_eq!(written_record(&candidate.requests[0]).finished.unwrap().outcome, Outcome::Failed);
    assert_eq!(report.run, None);
    candidate.step(None, available);
    assert_eq!(candidate.verbs(), [""; 0], "once");
}

/// Returns the verbs of the step in which a turn of this length has ended.
fn verbs_at_the_end(more: &[(&str, &str)], took: Duration) -> (Vec<&'static str>, Candidate) {
    let mut candidate = Candidate::new(more);
    let report = candidate.lead();
    next_turn(&mut candidate, report);
    // So that no renewal is due.
    candidate.step(None, available);
    candidate.now += took;
    let (renews, outcome) = (candidate.now, Event::TurnEnded(Outcome::Succeeded.into()));
    candidate.step(Some(outcome), available);
    assert!(candidate.now < renews + seconds(1));
    (candidate.verbs(), candidate)
}

#[test]
fn an_outcome_waits_for_a_claim_within_four_seconds_or_of_slots_closer_than_ten() {
    let written = vec!["write record"];
    let nothing: Vec<&str> = Vec::new();
    for (every, took, expected) in
        [("5s", 0, &nothing), ("9s", 0, &nothing), ("10s", 0, &written), ("30s", 0, &written)]
    {
        let (verbs, _) = verbs_at_the_end(&[(variable::EVERY, every)], seconds(took));
        let verbs: Vec<_> = verbs.into_iter().filter(|verb| *verb != "renew lease").collect();
        assert_eq!(&verbs, expected, "{every} {took}");
    }
}

#[test]
fn turn_end_is_recorded_with_its_time_and_reported_at_once() {
    let (_, candidate) = verbs_at_the_end(&[(variable::EVERY, "30s")], millis(1_500));
    let record = written_record(candidate.requests.last().unwrap());
    let ended = record.success.unwrap();
    assert_eq!((ended.slot, ended.end.outcome), (slot("07:02:00"), Outcome::Succeeded));
    let took = ended.end.took.unwrap();
    assert!(took >= millis(1_500) && took < millis(1_600), "{took:?}");
    let since = ended.end.at.since(ended.slot);
    assert!(since >= millis(900) && since < seconds(2), "a second too early at most: {since:?}");
    assert_eq!((record.failure, record.finished.unwrap().slot), (None, slot("07:02:00")));
}

#[test]
fn turns_are_reported_when_they_are_news() {
    let mut candidate = Candidate::new(&[(variable::EVERY, "30s")]);
    let report = candidate.lead();
    let turns = report.turns.clone().unwrap();
    assert_eq!(turns.schedule.as_deref(), Some("every 30s"));
    let next = |turns: &Turns| turns.next.unwrap().slot;
    assert_eq!((next(&turns), turns.last_slot), (slot("07:02:00"), None));
    candidate.now += seconds(4);
    assert_eq!(candidate.step(None, available).turns, None, "a renewal changes nothing");
    let mut report = candidate.step(None, available);
    while report.run.is_none() {
        candidate.now = candidate.step_started + report.again_in;
        report = candidate.step(None, available);
    }
    let turns = report.turns.unwrap();
    assert_eq!((turns.last_slot.unwrap().slot, next(&turns)), (slot("07:02:00"), slot("07:02:30")));
    let report = candidate.step(Some(Event::TurnEnded(Outcome::Failed.into())), available);
    let turns = report.turns.unwrap();
    assert_eq!(turns.last_failure.unwrap().slot, slot("07:02:00"));
    assert_eq!(turns.last_success, None);
}

#[test]
fn a_renewal_that_is_due_too_does_not_keep_the_outcome_away() {
    let mut candidate = Candidate::new(&[(variable::EVERY, "10m")]);
    candidate.now = seconds(599);
    let report = candidate.lead();
    next_turn(&mut candidate, report);
    candidate.now += seconds(4);
    let called = candidate.now;
    let report = candidate.step(Some(Event::TurnEnded(Outcome::Succeeded.into())), available);
    assert_eq!(candidate.verbs(), ["renew lease"]);
    assert!(called + report.again_in <= candidate.now, "{:?}", report.again_in);
    candidate.step(None, available);
    assert_eq!(
        written_record(&candidate.requests[0]).finished.unwrap().outcome,
        Outcome::Succeeded
    );
}

#[test]
fn a_new_leader_runs_no_slot_that_was_claimed() {
    let mut old = Candidate::new(EVERY_5S);
    let report = old.lead();
    next_turn(&mut old, report);
    let on_blob = written_record(old.requests.last().unwrap()).to_metadata();

    let mut new = Candidate::new(&[(variable::EVERY, "5s"), (variable::NAME, "new")]);
    new.now = old.now + seconds(1);
    let report = new.step(None, |o, at| match o {
        Operation::Read { .. } => blob_answer(o, at, "expired", &on_blob),
        _ => available(o, at),
    });
    assert_eq!(report.run, None, "07:01:45 is somebody's");
    assert_eq!(next_turn(&mut new, report).slot, slot("07:01:50"));
}

#[test]
fn a_claim_in_doubt_is_looked_up_and_runs_once() {
    for applied in [true, false] {
        let mut candidate = Candidate::new(EVERY_5S);
        candidate.lead();
        let before = written_record(&candidate.requests[2]).to_metadata();
        candidate.now = seconds(104) + millis(20);
        candidate.step(None, available); // renews
        candidate.now = seconds(106);
        let (mut on_blob, mut lost) = (before, 1);
        let report = candidate.step(None, |o, at| match o {
            Operation::WriteMetadata { metadata, .. } if lost > 0 => {
                lost -= 1;
                if applied {
                    on_blob = metadata.clone();
                }
                failure(FailureKind::Reset)
            }
            Operation::Read { .. } => blob_answer(o, at, "leased", &on_blob),
            _ => available(o, at),
        });
        assert_eq!(report.run.unwrap().slot, slot("07:01:45"));
        let writes = candidate.verbs().iter().filter(|verb| **verb == "write record").count();
        assert_eq!(writes, if applied { 1 } else { 2 });
    }
}

#[test]
fn a_claim_that_meets_a_newer_term_ends_leadership() {
    let mut candidate = Candidate::new(EVERY_5S);
    candidate.lead();
    candidate.now = seconds(104) + millis(20);
    candidate.step(None, available);
    candidate.now = seconds(106);
    let report = candidate.step(None, |o, at| match o {
        Operation::WriteMetadata { .. } => error_answer(o, at, 412, "ConditionNotMet"),
        _ => blob_answer(o, at, "leased", &incumbent(ORIGIN_SECONDS * 2)),
    });
    assert_eq!(report.ending.unwrap().reason, EndingReason::LeaseLost);
    assert_eq!(report.run, None);
}

#[test]
fn nothing_is_claimed_while_renewals_fail() {
    let mut candidate = Candidate::new(EVERY_5S);
    candidate.lead();
    candidate.now = seconds(104) + millis(20);
    let mut report = candidate.step(None, |_, _| failure(FailureKind::Connect));
    for _ in 0..8 {
        candidate.now += report.again_in;
        report = candidate.step(None, |o, at| match o {
            Operation::Renew { .. } => failure(FailureKind::Connect),
            other => panic!("{other:?} at {at:?}"),
        });
    }
    assert!(candidate.now > seconds(105));
}

#[test]
fn a_turn_claimed_too_late_is_never_run() {
    let mut candidate = Candidate::new(EVERY_5S);
    candidate.lead();
    candidate.now = seconds(104) + millis(20);
    candidate.step(None, available);
    // The claim is written, but its answer comes after the validity has ended.
    candidate.now = seconds(106);
    candidate.slow = Some(("write record", seconds(20)));
    let report = candidate.step(None, available);
    assert_eq!(candidate.verbs(), ["write record"]);
    assert_eq!(report.run, None);
    assert_eq!(report.ending.unwrap().reason, EndingReason::ValidityEnded);
}

#[test]
fn schedule_mismatch_is_reported() {
    let mut other = Candidate::new(&[(variable::EVERY, "7s")]);
    other.lead();
    let on_blob = written_record(&other.requests[2]).to_metadata();
    let mut candidate = Candidate::new(EVERY_5S);
    let report = candidate.step(None, |o, at| blob_answer(o, at, "leased", &on_blob));
    assert_eq!(report.problems[0].class, ProblemClass::Schedule);
    assert!(report.problems[0].detail.contains("\"every 7s\""), "{report:?}");
}

#[test]
fn slot_ahead_is_reported_and_not_overtaken() {
    let mut ahead = Candidate::new(EVERY_5S);
    ahead.lead();
    let mut record = written_record(&ahead.requests[2]);
    record.last_slot = Some(LastSlot { slot: slot("09:00:00"), attempt: 1 });
    let on_blob = record.to_metadata();
    let mut candidate = Candidate::new(EVERY_5S);
    let mut report = candidate.step(None, |o, at| match o {
        Operation::Read { .. } => blob_answer(o, at, "expired", &on_blob),
        _ => available(o, at),
    });
    assert!(report.problems.iter().any(|t| t.class == ProblemClass::Schedule), "{report:?}");
    for _ in 0..20 {
        assert_eq!(report.run, None);
        candidate.now += report.again_in;
        report = candidate.step(None, available);
    }
    assert!(matches!(report.role, Role::Leading(_)), "it goes on leading");
}

#[test]
fn a_turn_claimed_in_the_step_that_loses_the_lease_is_never_run() {
    let mut candidate = Candidate::new(EVERY_5S);
    candidate.lead();
    candidate.now = seconds(104) + millis(20);
    candidate.step(None, available);
    // The claim is answered so late that the next renewal is due in the same step.
    candidate.now = seconds(106);
    candidate.slow = Some(("write record", seconds(3)));
    let report = candidate.step(None, |o, at| match o {
        Operation::Renew { .. } => error_answer(o, at, 409, "LeaseIdMismatchWithLeaseOperation"),
        _ => available(o, at),
    });
    assert_eq!(candidate.verbs(), ["write record", "renew lease"]);
    assert_eq!(report.run, None);
    assert_eq!(report.ending.unwrap().reason, EndingReason::LeaseLost);
    // No turn was started, so none is awaited.
    let report = candidate.step(None, available);
    candidate.now += report.again_in;
    candidate.step(None, available);
    assert_eq!(candidate.verbs()[0], "read blob");
}

#[test]
fn a_renewal_goes_before_a_claim_that_is_under_way() {
    let mut candidate = Candidate::new(EVERY_5S);
    candidate.lead();
    candidate.now = seconds(104) + millis(20);
    candidate.step(None, available);
    candidate.now = seconds(106);
    candidate.step(None, |o, at| match o {
        Operation::Renew { .. } => available(o, at),
        _ => error_answer(o, at, 503, "ServerBusy"),
    });
    candidate.now = seconds(109); // Both are due.
    candidate.step(None, available);
    assert_eq!(candidate.verbs(), ["renew lease"], "and the host hears of it at once");
    candidate.step(None, available);
    assert_eq!(candidate.verbs()[0], "read blob");
}

/// The record holds the reason of a failed turn, and the number of slots without one.
#[test]
fn the_reason_of_a_failure_and_missed_slots_are_on_record() {
    let mut candidate = Candidate::new(&[(variable::EVERY, "1m")]);
    let stale = Record {
        last_slot: Some(LastSlot {
            slot: Timestamp((ORIGIN_SECONDS / 60 * 60 - 600) * 1_000_000_000),
            attempt: 1,
        }),
        schedule: Some("every 1m".into()),
        ..Record::from_metadata(&incumbent(9)).unwrap().unwrap()
    };
    let service = |o: &Operation, at| match o {
        Operation::Read { .. } => blob_answer(o, at, "available", &stale.to_metadata()),
        _ => available(o, at),
    };
    let mut report = candidate.step(None, service);
    let mut claimed = None;
    for _ in 0..10 {
        let claim =
            candidate.requests.iter().filter(|request| request.operation.name() == "write record");
        claimed = claim.map(written_record).rfind(|record| record.missed.is_some()).or(claimed);
        if report.run.is_some() {
            break;
        }
        candidate.now += report.again_in;
        report = candidate.step(None, service);
    }
    let turn = report.run.expect("a turn");
    assert!(turn.missed > 0);
    let missed = claimed.expect("a claim").missed.expect("missed slots");
    assert_eq!((missed.slot, missed.count), (turn.slot, turn.missed));
    candidate.now += seconds(2);
    let result =
        TurnResult { outcome: Outcome::Failed, reason: Some("exit code 3\nno table".into()) };
    let mut report = candidate.step(Some(Event::TurnEnded(result)), service);
    for _ in 0..10 {
        let mut writes =
            candidate.requests.iter().filter(|request| request.operation.name() == "write record");
        if let Some(detail) = writes.find_map(|request| written_record(request).failure_detail) {
            assert_eq!(
                (detail.candidate.as_str(), detail.reason.as_str()),
                ("here", "exit code 3 no table")
            );
            return;
        }
        candidate.now += report.again_in;
        report = candidate.step(None, service);
    }
    panic!("no failure on record");
}
