//! protocol.md §5 and §7.1.

use super::*;

/// Runs the step at which the renewal is due.
fn renewal(candidate: &mut Candidate, service: impl FnMut(&Operation, Moment) -> Reply) -> Report {
    candidate.now += seconds(4);
    candidate.step(None, service)
}

fn validity_end(report: &Report, began: Moment) -> Moment {
    match &report.role {
        Role::Leading(leadership) => began + leadership.valid_for,
        other => panic!("not leading: {other:?}"),
    }
}

#[test]
fn renews_and_counts_from_before_the_request() {
    let mut candidate = Candidate::new(&[(variable::ORDERS, "never")]);
    candidate.lead();
    let report = renewal(&mut candidate, available);
    assert!(report.renewed);
    assert_eq!(candidate.verbs(), ["renew lease"]);
    let sent = candidate.requests[0].sent;
    assert_eq!(validity_end(&report, sent), sent + seconds(12));
    let renew = seconds(4);
    assert!((renew - renew / 8..=renew).contains(&report.again_in), "{report:?}");
}

#[test]
fn answer_without_lease_ends_leadership_at_once() {
    let answers = [
        (409, "LeaseIdMismatchWithLeaseOperation"),
        (409, "LeaseIsBrokenAndCannotBeRenewed"),
        (409, ""),
        (412, "LeaseLost"),
        (412, ""),
        (404, "BlobNotFound"),
        (404, "ContainerNotFound"),
        (404, ""),
    ];
    for (status, code) in answers {
        let mut candidate = Candidate::new(&[]);
        let leading = candidate.lead();
        let Role::Leading(leadership) = leading.role else { panic!() };
        let report = renewal(&mut candidate, |o, at| error_answer(o, at, status, code));
        let ending = Ending { term: leadership.term, reason: EndingReason::LeaseLost };
        assert_eq!(report.ending, Some(ending), "{status} {code}");
        assert_eq!(report.role, Role::Undecided);
        assert_eq!(report.problems[0].class, ProblemClass::LeaseLost);
        assert_eq!(report.again_in, millis(10), "the host is asked to say that it stopped");
        assert_eq!(candidate.verbs(), ["renew lease"], "and nothing is sent before");
        let after = candidate.step(None, available);
        assert_eq!(after.ending, None);
        assert_eq!(candidate.verbs(), [""; 0], "what is lost is not released");
        assert!(after.again_in > millis(0));
    }
}

#[test]
fn a_renewal_that_answers_with_another_lease_is_a_loss() {
    let mut candidate = Candidate::new(&[]);
    candidate.lead();
    let other = "11111111-2222-4333-8444-555555555555";
    let report = renewal(&mut candidate, |o, at| answer(o, at, 200, &[("x-ms-lease-id", other)]));
    assert_eq!(report.ending.unwrap().reason, EndingReason::LeaseLost);
}

#[test]
fn an_unknown_outcome_is_asked_again_at_once_then_with_pauses_until_the_validity_ends() {
    let unknown: [fn(&Operation, Moment) -> Reply; 8] = [
        |o, at| error_answer(o, at, 408, ""),
        |o, at| error_answer(o, at, 429, ""),
        |o, at| error_answer(o, at, 500, "OperationTimedOut"),
        |o, at| error_answer(o, at, 503, "ServerBusy"),
        |o, at| answer(o, at, 200, &[]),
        |o, at| answer(o, at, 302, &[]),
        |_, _| failure(FailureKind::Reset),
        |_, _| failure(FailureKind::Timeout),
    ];
    for reply in unknown {
        let mut candidate = Candidate::new(&[]);
        let leading = candidate.lead();
        let end = validity_end(&leading, seconds(100));
        let mut tries = Vec::new();
        let ending = loop {
            let called = candidate.now;
            let report = candidate.step(None, reply);
            tries.extend(candidate.requests.iter().map(|request| (request.sent, request.timeout)));
            assert!(candidate.verbs().iter().all(|verb| *verb == "renew lease"));
            if let Some(ending) = report.ending {
                break ending;
            }
            assert_eq!(validity_end(&report, called), end, "an unknown outcome moves nothing");
            assert!(called + report.again_in <= end.max(candidate.now));
            candidate.now = candidate.now.max(called + report.again_in);
        };
        assert_eq!(ending.reason, EndingReason::ValidityEnded);
        assert!(candidate.now >= end, "one failure never ends leadership");
        assert!(tries.len() >= 3, "{tries:?}");
        assert!(tries.len() < 40, "{tries:?}");
        assert!(tries.iter().all(|(sent, timeout)| *sent + *timeout <= end), "{tries:?}");
        // The lease may still be held: it is released before anything else.
        candidate.step(None, available);
        assert_eq!(candidate.verbs()[0], "release lease");
    }
}

#[test]
fn the_second_try_goes_out_in_the_same_step() {
    let mut candidate = Candidate::new(&[]);
    candidate.lead();
    let mut first = true;
    let report = renewal(&mut candidate, |o, at| match std::mem::take(&mut first) {
        true => failure(FailureKind::Reset),
        false => available(o, at),
    });
    assert!(report.renewed);
    assert_eq!(report.problems, []);
    let sent = candidate.requests[1].sent;
    assert_eq!(validity_end(&report, seconds(104) + millis(30)), sent + seconds(12));
}

#[test]
fn refusal_is_reported_and_leadership_lasts_until_validity_ends() {
    let mut candidate = Candidate::new(&[]);
    let leading = candidate.lead();
    let end = validity_end(&leading, seconds(100));
    let called = candidate.now + seconds(4);
    let report = renewal(&mut candidate, |o, at| {
        error_answer(o, at, 403, "AuthorizationPermissionMismatch")
    });
    assert_eq!(report.problems[0].class, ProblemClass::Refused);
    assert_eq!(validity_end(&report, called), end);
    // The permission is restored.
    candidate.now += report.again_in;
    assert!(candidate.step(None, available).renewed);
}

#[test]
fn an_answer_after_the_validity_does_not_resurrect_it() {
    let mut candidate = Candidate::new(&[]);
    candidate.lead();
    candidate.slow = Some(("renew lease", seconds(9)));
    let report = renewal(&mut candidate, available);
    assert_eq!(candidate.verbs(), ["renew lease"], "nothing more before it was stopped");
    assert_eq!(report.ending.unwrap().reason, EndingReason::ValidityEnded);
    assert!(!report.renewed);
    assert!(!matches!(report.role, Role::Leading(_)), "{report:?}");
}

#[test]
fn waking_after_the_validity_ends_leadership_without_a_request() {
    let mut candidate = Candidate::new(&[]);
    candidate.lead();
    candidate.now += seconds(60);
    let report = candidate.step(None, available);
    assert_eq!(report.ending.unwrap().reason, EndingReason::ValidityEnded);
    assert_eq!(candidate.verbs(), [""; 0]);
}

#[test]
fn after_a_lost_leadership_the_next_term_is_higher() {
    let mut candidate = Candidate::new(&[]);
    let first = candidate.lead();
    let Role::Leading(first) = first.role else { panic!() };
    let on_blob = written_record(&candidate.requests[2]).to_metadata();
    candidate.now += seconds(20);
    candidate.step(None, available);
    let again = candidate.step(None, |o, at| match o {
        Operation::Read { .. } => blob_answer(o, at, "available", &on_blob),
        _ => available(o, at),
    });
    let Role::Leading(second) = again.role else { panic!("{again:?}") };
    assert!(second.term > first.term);
}
