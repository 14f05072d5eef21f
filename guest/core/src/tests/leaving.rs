//! The end of a leadership: stop the work, see it stopped, release, follow. protocol.md §7.1.

use super::*;

/// Returns a leader whose handler runs a turn.
fn at_work() -> Candidate {
    let mut candidate = Candidate::new(&[(variable::EVERY, "5s")]);
    candidate.lead();
    candidate.now += seconds(6);
    assert!(candidate.step(None, available).renewed);
    let report = candidate.step(None, available);
    assert!(report.run.is_some(), "{report:?}");
    candidate
}

#[test]
fn leaving_releases_in_the_same_step() {
    let mut candidate = at_work();
    let report = candidate.step(Some(Event::Leave(None)), available);
    assert_eq!(report.ending.unwrap().reason, EndingReason::Left);
    assert_eq!(report.role, Role::Left);
    assert_eq!(candidate.verbs(), ["release lease"]);
    let after = candidate.step(Some(Event::Leave(None)), available);
    assert_eq!((after.role, after.ending), (Role::Left, None));
    assert_eq!(candidate.verbs(), [""; 0]);
}

#[test]
fn a_release_in_doubt_is_repeated_and_a_conflict_means_done() {
    let mut candidate = at_work();
    let mut tries = 0;
    let report = candidate.step(Some(Event::Leave(None)), |o, at| {
        tries += 1;
        match tries {
            1 => failure(FailureKind::Reset),
            _ => error_answer(o, at, 409, "LeaseIdMismatchWithLeaseOperation"),
        }
    });
    assert_eq!(report.role, Role::Left);
    assert_eq!(candidate.verbs(), ["release lease", "release lease"]);
    assert_eq!(report.problems, []);
}

#[test]
fn a_release_that_is_never_answered_ends_when_the_lease_has_run_out() {
    let mut candidate = at_work();
    let began = candidate.now;
    let mut report = candidate.step(Some(Event::Leave(None)), |_, _| failure(FailureKind::Connect));
    while report.role != Role::Left {
        assert!(candidate.now < began + seconds(30));
        candidate.now += report.again_in.max(millis(1));
        report = candidate.step(None, |_, _| failure(FailureKind::Connect));
    }
    assert!(candidate.now >= began + seconds(15));
}

#[test]
fn a_refused_release_is_asked_again() {
    let mut candidate = at_work();
    let report = candidate
        .step(Some(Event::Leave(None)), |o, at| error_answer(o, at, 403, "AuthenticationFailed"));
    assert_ne!(report.role, Role::Left);
    assert_eq!(report.problems[0].class, ProblemClass::Refused);
    candidate.now += report.again_in;
    assert_eq!(candidate.step(None, available).role, Role::Left);
}

#[test]
fn a_follower_leaves_without_a_request() {
    let mut candidate = Candidate::new(&[]);
    candidate.step(None, |o, at| blob_answer(o, at, "leased", &incumbent(9)));
    let report = candidate.step(Some(Event::Leave(None)), available);
    assert_eq!((report.role, report.ending), (Role::Left, None));
    assert_eq!(candidate.verbs(), [""; 0]);
}

#[test]
fn between_slow_requests_the_host_is_heard_before_a_lease_is_acquired() {
    let slow = || {
        let mut candidate = Candidate::new(&[]);
        candidate.slow = Some(("read blob", millis(1200)));
        let report = candidate.step(None, available);
        assert_eq!(candidate.verbs(), ["read blob"]);
        assert!(report.again_in <= millis(1200), "at once");
        candidate
    };
    let mut leaves = slow();
    assert_eq!(leaves.step(Some(Event::Leave(None)), available).role, Role::Left);
    assert_eq!(leaves.verbs(), [""; 0]);
    slow().lead();
}

#[test]
fn an_attempt_in_doubt_is_released_by_its_own_id() {
    let mut candidate = Candidate::new(&[]);
    candidate.step(None, |o, at| match o {
        Operation::Acquire { .. } => failure(FailureKind::Timeout),
        _ => available(o, at),
    });
    let Operation::Acquire { lease, .. } = candidate.requests[1].operation else { panic!() };
    let report = candidate.step(Some(Event::Leave(None)), available);
    assert_eq!(report.role, Role::Left);
    let Operation::Release { lease: released } = candidate.requests[0].operation else { panic!() };
    assert_eq!(released, lease);
}

#[test]
fn nothing_is_released_and_no_term_won_before_the_handler_was_seen_stopped() {
    let mut candidate = at_work();
    candidate.now += seconds(30);
    let report = candidate.step(None, available);
    assert_eq!(report.ending.unwrap().reason, EndingReason::ValidityEnded);
    for _ in 0..5 {
        let report = candidate.step(None, available);
        assert_eq!(candidate.verbs(), [""; 0]);
        assert_eq!(report.ending, None, "told once");
        assert!(report.again_in > millis(0));
        candidate.now += report.again_in;
    }
    let report = candidate.step(Some(Event::TurnEnded(Outcome::CutOff.into())), available);
    assert_eq!(candidate.verbs()[0], "release lease");
    assert!(matches!(report.role, Role::Leading(_)), "and contends again at once");
}

#[test]
fn a_lost_lease_waits_for_the_handler_too() {
    let mut candidate = at_work();
    candidate.now += seconds(4);
    let report = candidate.step(None, |o, at| error_answer(o, at, 409, ""));
    assert_eq!(report.ending.unwrap().reason, EndingReason::LeaseLost);
    candidate.now += seconds(10);
    candidate.step(None, available);
    assert_eq!(candidate.verbs(), [""; 0]);
    let report = candidate.step(Some(Event::TurnEnded(Outcome::CutOff.into())), available);
    candidate.now += report.again_in;
    candidate.step(None, available);
    assert_eq!(candidate.verbs()[0], "read blob", "there is nothing to release");
}

#[test]
fn unreleased_own_lease_is_not_followed() {
    let mut candidate = Candidate::new(&[]);
    candidate.lead();
    let on_blob = written_record(&candidate.requests[2]).to_metadata();
    candidate.now += seconds(2);
    let mut event = Some(Event::Resign);
    // Releases are lost until the candidate gives them up; for the service the lease has not
    // expired.
    for _ in 0..60 {
        let report = candidate.step(event.take(), |o, at| match o {
            Operation::Release { .. } => failure(FailureKind::Reset),
            Operation::Read { .. } => blob_answer(o, at, "leased", &on_blob),
            _ => available(o, at),
        });
        if candidate.verbs().contains(&"read blob") {
            assert_eq!(report.role, Role::Undecided, "nobody leads");
            return;
        }
        candidate.now += report.again_in;
    }
    panic!("it never looked");
}
