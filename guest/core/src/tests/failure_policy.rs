//! Failing work ends the leadership, with a cool-down: protocol.md §7.1.

use super::*;

/// Returns a leader whose handler runs a turn.
fn at_work(overrides: &[(&str, &str)]) -> (Candidate, Turn) {
    let mut candidate = Candidate::new(&[&[(variable::EVERY, "5s")], overrides].concat());
    candidate.lead();
    let turn = turn_after(&mut candidate, seconds(6));
    (candidate, turn)
}

/// Returns the turn that is claimed after this wait.
fn turn_after(candidate: &mut Candidate, wait: Duration) -> Turn {
    candidate.now += wait;
    candidate.step(None, available); // renews
    candidate.step(None, available).run.unwrap()
}

fn ended(candidate: &mut Candidate, outcome: Outcome) -> Report {
    candidate.step(Some(Event::TurnEnded(outcome.into())), available)
}

fn work_failed(report: &Report) -> bool {
    report.ending.is_some_and(|ending| ending.reason == EndingReason::WorkFailed)
}

/// Steps when due until the candidate leads again. Returns the time that it took.
fn wait_until_leading(candidate: &mut Candidate, mut report: Report) -> Duration {
    let began = candidate.now;
    while !matches!(report.role, Role::Leading(_)) {
        let called = candidate.now;
        assert!(called < began + seconds(4000), "it never comes back");
        candidate.now = candidate.now.max(called + report.again_in);
        report = candidate.step(None, available);
    }
    candidate.now - began
}

#[test]
fn a_turn_brings_its_time_limit() {
    let (_, turn) = at_work(&[]);
    assert_eq!(turn.time_limit, None);
    let (_, turn) = at_work(&[(variable::TURN_TIMEOUT, "90s")]);
    assert_eq!(turn.time_limit, Some(seconds(90)));
}

#[test]
fn a_trap_or_a_time_out_is_recorded_and_the_lease_released_at_once() {
    let cases = [(Outcome::Trapped, "trapped"), (Outcome::TimedOut, "took longer than 2s")];
    for (outcome, expected) in cases {
        let (mut candidate, turn) = at_work(&[(variable::TURN_TIMEOUT, "2s")]);
        let report = ended(&mut candidate, outcome);
        let ending = Ending { term: turn.term, reason: EndingReason::WorkFailed };
        assert_eq!(report.ending, Some(ending));
        assert_eq!(report.role, Role::Undecided);
        assert_eq!(report.run, None);
        assert_eq!(candidate.verbs(), ["write record", "release lease"]);
        let finished = Finished { slot: turn.slot, outcome };
        assert_eq!(written_record(&candidate.requests[0]).finished, Some(finished));
        assert_eq!(report.problems.len(), 1, "{report:?}");
        assert_eq!(report.problems[0].class, ProblemClass::Work);
        assert!(report.problems[0].detail.contains(expected), "{report:?}");
        assert!(report.again_in >= seconds(2), "and looks again like any follower");
    }
}

#[test]
fn failed_turns_in_a_row_end_leadership_and_others_do_not() {
    let (mut candidate, _) = at_work(&[]);
    for outcome in [
        Outcome::Failed,
        Outcome::Failed,
        Outcome::Succeeded,
        Outcome::Failed,
        Outcome::CutOff,
        Outcome::Failed,
    ] {
        let report = ended(&mut candidate, outcome);
        assert_eq!(report.ending, None, "{outcome:?}");
        turn_after(&mut candidate, seconds(5));
    }
    let report = ended(&mut candidate, Outcome::Failed);
    assert!(work_failed(&report), "{report:?}");
    assert!(report.problems[0].detail.starts_with("3 turns in a row failed"), "{report:?}");
}

#[test]
fn failures_are_counted_across_leaderships() {
    let (mut candidate, _) = at_work(&[(variable::MAX_FAILURES, "2")]);
    assert_eq!(ended(&mut candidate, Outcome::Failed).ending, None);
    candidate.now += seconds(30);
    let lost = candidate.step(None, available);
    assert_eq!(lost.ending.unwrap().reason, EndingReason::ValidityEnded);
    candidate.lead();
    turn_after(&mut candidate, seconds(6));
    assert!(work_failed(&ended(&mut candidate, Outcome::Failed)));
}

#[test]
fn a_candidate_that_is_alone_comes_back_after_its_cool_down_which_grows() {
    let (mut candidate, _) = at_work(&[]);
    let poll = seconds(4) + millis(50);
    for most in [30, 60, 120, 240, 480, 480, 480] {
        let most = seconds(most);
        let report = ended(&mut candidate, Outcome::Trapped);
        assert!(work_failed(&report), "{report:?}");
        let away = wait_until_leading(&mut candidate, report);
        assert!((most / 2..=most + poll).contains(&away), "{away:?} of {most:?}");
        turn_after(&mut candidate, seconds(6));
    }
    // The work succeeds again.
    ended(&mut candidate, Outcome::Succeeded);
    turn_after(&mut candidate, seconds(5));
    let report = ended(&mut candidate, Outcome::Trapped);
    assert!(wait_until_leading(&mut candidate, report) <= seconds(30) + poll);
}

#[test]
fn candidate_in_cool_down_follows_and_acquires_nothing() {
    let (mut candidate, _) = at_work(&[(variable::COOL_DOWN, "1h")]);
    let mut report = ended(&mut candidate, Outcome::Trapped);
    let replies: [fn(&Operation, Moment) -> Reply; 7] = [
        |o, at| blob_answer(o, at, "available", &incumbent(9)),
        |o, at| blob_answer(o, at, "expired", &incumbent(9)),
        |o, at| blob_answer(o, at, "broken", &incumbent(9)),
        |o, at| error_answer(o, at, 404, "BlobNotFound"),
        |o, at| error_answer(o, at, 404, "ContainerNotFound"),
        |o, at| error_answer(o, at, 403, "AuthorizationFailure"),
        |o, at| blob_answer(o, at, "leased", &incumbent(9)),
    ];
    let mut problems = Vec::new();
    for reply in replies {
        let called = candidate.now;
        candidate.now = called + report.again_in;
        report = candidate.step(None, reply);
        assert_eq!(candidate.verbs(), ["read blob"]);
        assert!((seconds(2)..=seconds(5)).contains(&report.again_in), "{report:?}");
        problems.extend(report.problems.iter().map(|problem| problem.class));
    }
    assert_eq!(problems, [ProblemClass::Refused]);
    assert!(matches!(report.role, Role::Following(Some(_))), "{report:?}");
    assert_eq!(candidate.step(Some(Event::Leave(None)), available).role, Role::Left);
    assert_eq!(candidate.verbs(), [""; 0], "there is nothing to release");
}

#[test]
fn another_candidate_takes_over_meanwhile() {
    let (mut sick, _) = at_work(&[]);
    ended(&mut sick, Outcome::Trapped);
    let on_blob = written_record(&sick.requests[0]).to_metadata();
    let mut healthy = Candidate::new(&[(variable::EVERY, "5s")]);
    healthy.now = sick.now;
    let report = healthy.step(None, |o, at| match o {
        Operation::Read { .. } => blob_answer(o, at, "available", &on_blob),
        _ => available(o, at),
    });
    assert!(matches!(report.role, Role::Leading(_)), "{report:?}");
    assert_eq!(written_record(&healthy.requests[2]).finished.unwrap().outcome, Outcome::Trapped);
}

#[test]
fn work_that_failed_while_the_lease_was_lost_keeps_the_candidate_out_too() {
    let (mut candidate, _) = at_work(&[]);
    candidate.now += seconds(30);
    let lost = candidate.step(None, available);
    assert_eq!(lost.ending.unwrap().reason, EndingReason::ValidityEnded);
    let report = ended(&mut candidate, Outcome::Trapped);
    assert_eq!(report.ending, None, "that was told");
    assert_eq!(report.problems[0].class, ProblemClass::Work);
    assert_eq!(candidate.verbs(), ["release lease"], "the validity is over: nothing is written");
    assert!(wait_until_leading(&mut candidate, report) >= seconds(15));
}

#[test]
fn the_outcome_is_written_before_leaving_too_but_once() {
    let (mut candidate, turn) = at_work(&[]);
    let report = candidate.step(Some(Event::Leave(Some(Outcome::Succeeded.into()))), available);
    assert_eq!(report.role, Role::Left);
    assert_eq!(candidate.verbs(), ["write record", "release lease"]);
    let Operation::WriteMetadata { if_match, .. } = &candidate.requests[0].operation else {
        panic!()
    };
    assert_eq!(if_match.0, "\"2\"", "the tag that the claim left");
    let finished = Finished { slot: turn.slot, outcome: Outcome::Succeeded };
    assert_eq!(written_record(&candidate.requests[0]).finished, Some(finished));

    // An outcome that waited for the next claim is written as well.
    let (mut candidate, _) = at_work(&[]);
    ended(&mut candidate, Outcome::Failed);
    assert_eq!(candidate.verbs(), [""; 0]);
    candidate.step(Some(Event::Leave(None)), available);
    assert_eq!(candidate.verbs(), ["write record", "release lease"]);
}

#[test]
fn the_last_write_never_keeps_the_release_waiting_for_long() {
    let replies: [fn(&Operation, Moment) -> Reply; 4] = [
        |_, _| failure(FailureKind::Timeout),
        |o, at| error_answer(o, at, 412, "ConditionNotMet"),
        |o, at| error_answer(o, at, 503, "ServerBusy"),
        |o, at| error_answer(o, at, 403, "AuthorizationFailure"),
    ];
    for reply in replies {
        let (mut candidate, _) = at_work(&[]);
        let called = candidate.now;
        candidate.step(Some(Event::TurnEnded(Outcome::Trapped.into())), |o, at| match o {
            Operation::WriteMetadata { .. } => reply(o, at),
            _ => available(o, at),
        });
        assert_eq!(candidate.verbs(), ["write record", "release lease"]);
        assert_eq!(candidate.requests[0].timeout, seconds(1));
        assert!(candidate.requests[1].sent <= called + seconds(1));
    }
}

#[test]
fn nothing_is_written_when_the_lease_may_not_last_for_it() {
    // Renewed for 12 s.
    let last = seconds(106) + millis(30) + seconds(12) - seconds(1);
    for (now, verbs) in
        [(last - millis(1), &["write record", "release lease"][..]), (last, &["release lease"][..])]
    {
        let (mut candidate, _) = at_work(&[]);
        candidate.now = now;
        assert!(work_failed(&ended(&mut candidate, Outcome::Trapped)));
        assert_eq!(candidate.verbs(), verbs);
    }

    let (mut candidate, _) = at_work(&[]);
    candidate.now += seconds(4);
    candidate.step(None, |_, _| failure(FailureKind::Reset));
    assert!(work_failed(&ended(&mut candidate, Outcome::Trapped)));
    assert_eq!(candidate.verbs(), ["release lease"], "renewals fail");
}

#[test]
fn a_write_under_way_is_not_followed_by_another_when_leaving() {
    let (mut candidate, _) = at_work(&[]);
    candidate.now += seconds(4);
    candidate.step(None, available); // renews
    let failed = Some(Event::TurnEnded(Outcome::Failed.into()));
    candidate.step(failed, |o, at| error_answer(o, at, 503, "ServerBusy"));
    assert_eq!(candidate.verbs()[0], "write record", "the next claim, which stays in doubt");
    candidate.step(Some(Event::Leave(None)), available);
    assert_eq!(candidate.verbs(), ["release lease"]);
}
