//! Resigning, pausing, rotating, and a slow start.

use super::*;

fn resigned(report: &Report) -> bool {
    report.ending.is_some_and(|ending| ending.reason == EndingReason::Resigned)
}

#[test]
fn a_leader_that_resigns_releases_at_once_and_lets_the_others_come_first() {
    let mut candidate = Candidate::new(&[]);
    candidate.lead();
    candidate.now += millis(100);
    let report = candidate.step(Some(Event::Resign), available);
    assert!(resigned(&report), "{report:?}");
    assert_eq!(candidate.verbs(), ["release lease"]);
    // No candidate takes the lease, but this one does not contend for two polls.
    let since = candidate.now;
    while !matches!(candidate.step(None, available).role, Role::Leading(_)) {
        assert!(!candidate.verbs().contains(&"acquire lease"));
        candidate.now += millis(500);
    }
    assert!(candidate.now - since >= 2 * candidate.settings.timings.poll);
}

#[test]
fn the_turn_that_runs_comes_to_its_end_first_and_its_outcome_is_written() {
    let mut candidate = Candidate::new(&[(variable::EVERY, "5s")]);
    candidate.lead();
    while candidate.step(None, available).run.is_none() {
        candidate.now += millis(500);
    }
    let report = candidate.step(Some(Event::Resign), available);
    assert!(report.wind_down && report.ending.is_none(), "{report:?}");
    assert_eq!(report.wind_down_limit, None);
    assert!(!candidate.verbs().contains(&"release lease"));
    // The lease is renewed during that time, and no further turn starts.
    candidate.now += seconds(5);
    let report = candidate.step(None, available);
    assert!(report.renewed && report.wind_down && report.run.is_none(), "{report:?}");
    let report = candidate.step(Some(Event::TurnEnded(Outcome::Succeeded.into())), available);
    assert!(resigned(&report) && report.run.is_none(), "{report:?}");
    assert_eq!(candidate.verbs(), ["write record", "release lease"]);
    assert_eq!(
        written_record(&candidate.requests[0]).finished.unwrap().outcome,
        Outcome::Succeeded
    );
}

#[test]
fn a_follower_that_is_to_resign_does_nothing() {
    let mut candidate = Candidate::new(&[]);
    candidate.step(None, |o, at| blob_answer(o, at, "leased", &incumbent(5)));
    candidate.step(Some(Event::Resign), available);
    candidate.now += seconds(10);
    candidate.lead();
}

#[test]
fn a_paused_candidate_looks_on_and_contends_when_it_is_resumed() {
    let mut candidate = Candidate::new(&[]);
    candidate.lead();
    let report = candidate.step(Some(Event::Ready(false)), available);
    assert!(resigned(&report));
    for _ in 0..20 {
        candidate.now += seconds(5);
        let report = candidate.step(None, available);
        assert_eq!(candidate.verbs(), ["read blob"], "{report:?}");
    }
    candidate.step(Some(Event::Ready(true)), available);
    candidate.now += seconds(5);
    candidate.lead();
}

#[test]
fn a_candidate_that_is_paused_when_it_found_no_blob_makes_none() {
    let mut candidate = Candidate::new(&[]);
    // A step that has lasted a second ends: the next one creates the missing resource.
    candidate.slow = Some(("read blob", seconds(1)));
    let missing = |o: &Operation, at| error_answer(o, at, 404, "BlobNotFound");
    candidate.step(None, missing);
    assert_eq!(candidate.verbs(), ["read blob"]);
    candidate.step(Some(Event::Ready(false)), missing);
    assert_eq!(candidate.verbs(), ["read blob"]);
}

#[test]
fn a_candidate_that_is_paused_while_it_wins_gives_it_up_before_any_work() {
    let mut candidate = Candidate::new(&[(variable::EVERY, "1s")]);
    let busy = |o: &Operation, at| match o {
        Operation::Acquire { .. } => error_answer(o, at, 503, "ServerBusy"),
        _ => available(o, at),
    };
    candidate.step(None, busy);
    candidate.step(Some(Event::Ready(false)), busy);
    candidate.now += seconds(5);
    let mut ran = false;
    for _ in 0..10 {
        let report = candidate.step(None, available);
        ran |= report.run.is_some();
        candidate.now += report.again_in.max(millis(1));
    }
    assert!(!ran);
    let report = candidate.step(None, available);
    assert!(!matches!(report.role, Role::Leading(_)), "{report:?}");
}

#[test]
fn a_leader_resigns_after_its_longest_tenure_between_two_turns() {
    let mut candidate = Candidate::new(&[(variable::EVERY, "5s"), (variable::MAX_TENURE, "1m")]);
    candidate.lead();
    let since = candidate.now;
    let mut turn_ends = None;
    let end = loop {
        let ends = turn_ends.filter(|at| *at <= candidate.now);
        let event = ends.map(|_| Event::TurnEnded(Outcome::Succeeded.into()));
        turn_ends = turn_ends.filter(|at| *at > candidate.now);
        let report = candidate.step(event, available);
        assert!(!report.wind_down);
        if report.ending.is_some() {
            break report;
        }
        if report.run.is_some() {
            turn_ends = Some(candidate.now + seconds(3));
        }
        candidate.now += report.again_in.min(millis(500));
    };
    assert!(resigned(&end) && turn_ends.is_none());
    let led = candidate.now - since;
    assert!((seconds(60)..seconds(66)).contains(&led), "{led:?}");
}

#[test]
fn a_write_that_is_refused_does_not_keep_it_from_resigning() {
    let mut candidate = Candidate::new(&[(variable::EVERY, "5s")]);
    candidate.lead();
    let refuses = |o: &Operation, at| match o {
        Operation::WriteMetadata { .. } => error_answer(o, at, 403, "AuthorizationFailure"),
        Operation::Read { lease: Some(_) } => blob_answer(o, at, "leased", &incumbent(9)),
        _ => available(o, at),
    };
    while !candidate.verbs().contains(&"write record") {
        candidate.now += millis(500);
        candidate.step(None, refuses);
    }
    let report = candidate.step(Some(Event::Resign), refuses);
    let mut ended = resigned(&report);
    for _ in 0..4 {
        candidate.now += millis(100);
        ended |= resigned(&candidate.step(None, refuses));
    }
    assert!(ended);
}

#[test]
fn an_order_to_resign_is_over_when_the_attempt_that_it_was_for_is() {
    let mut candidate = Candidate::new(&[]);
    let busy = |o: &Operation, at| match o {
        Operation::Acquire { .. } => error_answer(o, at, 503, "ServerBusy"),
        _ => available(o, at),
    };
    candidate.step(None, busy);
    assert_eq!(candidate.verbs().last(), Some(&"acquire lease"));
    candidate.now += seconds(1);
    candidate.step(Some(Event::Resign), |o, at| error_answer(o, at, 409, "LeaseAlreadyPresent"));
    // Another candidate was faster. Much later this one wins, and continues to lead.
    candidate.now += seconds(3600);
    candidate.lead();
    candidate.now += seconds(1);
    let report = candidate.step(None, available);
    assert!(matches!(report.role, Role::Leading(_)), "{report:?}");
}

#[test]
fn each_order_to_hand_over_is_answered_also_when_the_answer_is_the_same() {
    let mut candidate = Candidate::new(&[]);
    for order in 0..3 {
        let hand_over = Event::HandOver("another".into());
        let report =
            candidate.step(Some(hand_over), |o, at| blob_answer(o, at, "leased", &incumbent(5)));
        let [problem] = &report.problems[..] else {
            panic!("order {order}: {:?}", report.problems)
        };
        assert!(problem.detail.contains("it does not lead"), "{problem:?}");
        candidate.now += seconds(10);
    }
}
