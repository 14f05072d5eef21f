//! Failover before the lease ends. protocol.md §13.

use super::*;
use crate::step::settings::timings::BACK_OFF;

const WITHIN: (&str, &str) = (variable::FAILOVER, "3s");
/// The periods of 3 s.
const BEAT: Duration = Duration::from_millis(500);
const PROMISE: Duration = Duration::from_millis(2_100);
const ACTS: Duration = Duration::from_millis(1_700);

fn beat_of(request: &SentRequest) -> Beat {
    written_record(request).beat.unwrap()
}

fn valid_for(report: &Report) -> Duration {
    match report.role {
        Role::Leading(leadership) => leadership.valid_for,
        ref other => panic!("{other:?}"),
    }
}

/// Steps at the reported times for this span. Returns the beats and the times at which they were
/// sent.
fn beats(candidate: &mut Candidate, long: Duration) -> Vec<(u64, Moment)> {
    let (end, mut beats) = (candidate.now + long, Vec::new());
    while candidate.now < end {
        let report = candidate.step(None, available);
        let writes = candidate.requests.iter().filter(|a| a.operation.name() == "write record");
        beats.extend(writes.map(|request| (beat_of(request).number, request.sent)));
        wait(candidate, &report);
    }
    beats
}

/// Waits until the next step is due; the report counts from the start of its step.
fn wait(candidate: &mut Candidate, report: &Report) {
    candidate.now = candidate.now.max(candidate.step_started + report.again_in);
}

/// A leader beats at its interval, on record and with a new number each time.
#[test]
fn a_leader_beats() {
    let mut leader = Candidate::new(&[WITHIN]);
    let report = leader.lead();
    assert_eq!(leader.verbs(), ["read blob", "acquire lease", "write record"]);
    let first = leader.requests.last().unwrap();
    assert_eq!(beat_of(first), Beat { number: 0, promise: PROMISE });
    // Counted from the start of the step; the write was sent two answers later.
    assert_eq!(valid_for(&report), ACTS + millis(20));
    let beats = beats(&mut leader, seconds(10));
    assert!(beats.len() >= 19, "{beats:?}");
    for pair in beats.windows(2) {
        let [(number, at), (next, then)] = [pair[0], pair[1]];
        assert_eq!(next, number + 1);
        assert!(then - at <= BEAT + millis(1), "{beats:?}");
    }
}

/// Pending changes of the record ride on a beat, and a renewal of the lease extends no promise.
#[test]
fn claims_are_beats_and_renewals_are_not() {
    let mut leader = Candidate::new(&[WITHIN, (variable::EVERY, "5s")]);
    leader.lead();
    let mut ran = 0;
    for _ in 0..60 {
        let report = leader.step(None, available);
        let verbs = leader.verbs();
        let writes = verbs.iter().filter(|verb| **verb == "write record").count();
        assert!(writes <= 1, "{verbs:?}");
        match verbs.as_slice() {
            ["renew lease"] => assert!(valid_for(&report) < ACTS),
            [.., "write record"] => assert_eq!(valid_for(&report), ACTS),
            // A background request.
            [] => {}
            other => panic!("{other:?}"),
        }
        ran += usize::from(report.run.is_some());
        wait(&mut leader, &report);
        if report.run.is_some() {
            leader.step(Some(Event::TurnEnded(Outcome::Succeeded.into())), available);
        }
    }
    assert!(ran >= 4, "{ran}");
}

/// A beat without an answer counts, from its sending, once a read shows it.
#[test]
fn a_beat_that_was_not_answered_counts_when_it_is_read() {
    for applied in [true, false] {
        let mut leader = Candidate::new(&[WITHIN]);
        let report = leader.lead();
        wait(&mut leader, &report);
        let (sent, mut tried) = (leader.now, None);
        let report = leader.step(None, |o, at| match o {
            Operation::WriteMetadata { metadata, .. } if tried.is_none() => {
                tried = Some(metadata.clone());
                failure(FailureKind::Timeout)
            }
            Operation::Read { lease: Some(_) } => {
                let before = Record { beat: None, ..read(tried.as_ref().unwrap()) };
                let on_blob = if applied { tried.clone().unwrap() } else { before.to_metadata() };
                blob_answer(o, at, "leased", &on_blob)
            }
            _ => available(o, at),
        });
        let mut verbs = leader.verbs();
        let until = match applied {
            true => sent + ACTS,
            false => {
                // The next one has another number: the first may still be applied.
                assert_eq!(verbs.pop(), Some("write record"));
                let last = leader.requests.last().unwrap();
                assert_eq!(beat_of(last).number, 2);
                last.sent + ACTS
            }
        };
        assert_eq!(verbs, ["write record", "read blob"]);
        assert_eq!(sent + valid_for(&report), until, "{applied}");
    }
}

fn read(metadata: &Metadata) -> Record {
    Record::from_metadata(metadata).unwrap().unwrap()
}

/// Without answers to beats the leadership ends with the promise, although the lease continues.
#[test]
fn a_leader_whose_beats_are_not_answered_stops() {
    let mut leader = Candidate::new(&[WITHIN]);
    leader.lead();
    let first = leader.requests.last().unwrap().sent;
    let report = loop {
        let report = leader.step(None, |_, _| failure(FailureKind::Timeout));
        if report.ending.is_some() {
            break report;
        }
        wait(&mut leader, &report);
    };
    assert_eq!(report.ending.unwrap().reason, EndingReason::ValidityEnded);
    assert!(leader.now >= first + ACTS, "{:?}", leader.now - first);
    assert!(leader.now <= first + ACTS + millis(1), "{:?}", leader.now - first);
}

/// Returns the record of another leader at this beat.
fn of_leader(number: u64, promise: Duration) -> Metadata {
    let beat = Some(Beat { number, promise });
    Record { beat, ..read(&incumbent(9)) }.to_metadata()
}

/// Steps until the candidate has sent this request, for at most `most`.
fn until_asked(
    candidate: &mut Candidate,
    verb: &str,
    most: Duration,
    mut service: impl FnMut(&Operation, Moment) -> Reply,
) -> Option<SentRequest> {
    let end = candidate.now + most;
    while candidate.now < end {
        let report = candidate.step(None, &mut service);
        if let Some(request) = candidate.requests.iter().find(|a| a.operation.name() == verb) {
            return Some(request.clone());
        }
        wait(candidate, &report);
    }
    None
}

/// A follower takes over at the end of the promise, counted from the first answer that showed the
/// beat. The break requires that the leader did not beat again.
#[test]
fn a_follower_takes_over_when_the_promise_has_ended() {
    let mut follower = Candidate::new(&[WITHIN]);
    let dead = of_leader(4, PROMISE);
    let mut received = None;
    let broken = until_asked(&mut follower, "break lease", seconds(10), |o, at| match o {
        Operation::Read { .. } => {
            received.get_or_insert(at + millis(10));
            blob_answer(o, at, "leased", &dead)
        }
        _ => available(o, at),
    });
    let (broken, received) = (broken.unwrap(), received.unwrap());
    let waited = broken.sent - received;
    assert!((PROMISE..=PROMISE + BEAT / 4 + millis(20)).contains(&waited), "{waited:?}");
    let etag = || Some(tenure_azure::operation::ETag("\"1\"".into()));
    assert_eq!(broken.operation, Operation::Break { period: Some(0), if_match: etag() });
    // All in one step, so that no other candidate is faster.
    let [_, acquire, raise] = follower.requests.as_slice() else {
        panic!("{:?}", follower.requests)
    };
    assert!(
        matches!(&acquire.operation, Operation::Acquire { if_match, .. } if *if_match == etag())
    );
    let record = written_record(raise);
    assert!(record.term > 9 && record.leader == "here");
    assert_eq!(record.beat, Some(Beat { number: 0, promise: PROMISE }));
}

/// A leader that has no record yet may beat soon, and die.
#[test]
fn a_follower_looks_often_until_the_leader_has_a_record() {
    for (settings, least) in [(vec![WITHIN], 19), (vec![], 2)] {
        let mut follower = Candidate::new(&settings);
        let (mut read_count, end) = (0, follower.now + seconds(10));
        until_asked(&mut follower, "break lease", seconds(10), |o, at| {
            read_count += u32::from(at < end);
            blob_answer(o, at, "leased", &Metadata::default())
        });
        assert!((least..=least + 2).contains(&read_count), "{settings:?}: {read_count} looks");
    }
}

/// The follower uses the promise on record, not its own.
#[test]
fn a_follower_waits_for_the_promise_of_the_leader() {
    let longer = seconds(7);
    let mut follower = Candidate::new(&[(variable::FAILOVER, "1s")]);
    let dead = of_leader(4, longer);
    let began = follower.now;
    let broken = until_asked(&mut follower, "break lease", seconds(20), |o, at| match o {
        Operation::Read { .. } => blob_answer(o, at, "leased", &dead),
        _ => available(o, at),
    });
    assert!(broken.unwrap().sent - began >= longer);
}

#[test]
fn a_follower_leaves_a_leader_alone_that_beats_or_never_promised() {
    for promises in [true, false] {
        for settings in [vec![WITHIN], vec![]] {
            let mut follower = Candidate::new(&settings);
            let broken = until_asked(&mut follower, "break lease", seconds(60), |o, at| match o {
                Operation::Read { .. } => {
                    let number = u64::try_from(at.as_millis() / 500).unwrap();
                    let record = match promises {
                        true => of_leader(number, PROMISE),
                        false => incumbent(9),
                    };
                    blob_answer(o, at, "leased", &record)
                }
                _ => available(o, at),
            });
            assert!(broken.is_none(), "{promises} {settings:?}: {broken:?}");
        }
    }
}

/// A follower that polls rarely takes over too, after a poll that shows no new write.
#[test]
fn a_follower_that_looks_rarely_looks_before_it_takes_over() {
    let mut follower = Candidate::new(&[]);
    let dead = of_leader(4, PROMISE);
    until_asked(&mut follower, "break lease", seconds(20), |o, at| match o {
        Operation::Read { .. } => blob_answer(o, at, "leased", &dead),
        _ => available(o, at),
    });
    assert_eq!(follower.verbs()[..2], ["read blob", "break lease"]);
}

/// The leader beat while the break was in flight: the follower polls again, and restarts the count.
#[test]
fn a_follower_that_comes_too_late_counts_anew() {
    let mut follower = Candidate::new(&[WITHIN]);
    let dead = of_leader(4, PROMISE);
    let mut refused = None;
    let broken = until_asked(&mut follower, "nothing", seconds(6), |o, at| match o {
        Operation::Read { .. } => blob_answer(o, at, "leased", &dead),
        Operation::Break { .. } => {
            let before = refused.replace(at);
            // The second one comes after another promise, not at once.
            assert!(before.is_none_or(|before| at - before >= PROMISE), "{before:?} {at:?}");
            error_answer(o, at, 412, "ConditionNotMet")
        }
        _ => panic!("{o:?}"),
    });
    assert!(broken.is_none() && refused.is_some());
}

/// A service may refuse to break leases but answer polls: tries become rarer.
#[test]
fn a_break_without_a_clear_answer_is_tried_again_more_and_more_rarely() {
    for settings in [vec![WITHIN], vec![]] {
        let mut follower = Candidate::new(&settings);
        let dead = of_leader(4, PROMISE);
        let mut tries = Vec::new();
        until_asked(&mut follower, "nothing", seconds(60), |o, at| match o {
            Operation::Read { .. } => blob_answer(o, at, "leased", &dead),
            Operation::Break { .. } => {
                tries.push(at);
                error_answer(o, at, 503, "ServerBusy")
            }
            _ => panic!("{o:?}"),
        });
        let waits: Vec<_> = tries.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(waits.len() > 8, "it does not give up: {tries:?}");
        // The first one is repeated after one poll. From the fifth on, half a second is the longest
        // wait, and jitter takes half of it at most.
        assert!(waits[4..].iter().all(|wait| *wait >= BACK_OFF / 2), "{waits:?}");
    }
}

/// A candidate that does not contend does not end another leadership.
#[test]
fn a_candidate_that_is_paused_takes_nothing_over() {
    let mut follower = Candidate::new(&[WITHIN]);
    let dead = of_leader(4, PROMISE);
    follower.step(Some(Event::Ready(false)), |o, at| blob_answer(o, at, "leased", &dead));
    let broken = until_asked(&mut follower, "break lease", seconds(30), |o, at| match o {
        Operation::Read { .. } => blob_answer(o, at, "leased", &dead),
        _ => available(o, at),
    });
    assert!(broken.is_none());
}

/// A candidate that contends again polls at once, so that a dead leader's promise is counted from
/// then.
#[test]
fn a_candidate_that_comes_back_to_the_race_looks_at_once() {
    let mut follower = Candidate::new(&[WITHIN, (variable::POLL, "4s")]);
    follower.lead();
    let resigned = follower.now;
    let report = follower.step(Some(Event::Resign), available);
    assert_eq!(report.ending.unwrap().reason, EndingReason::Resigned);
    let (back, dead) = (resigned + seconds(8), of_leader(4, PROMISE));
    let broken = until_asked(&mut follower, "break lease", seconds(30), |o, at| match o {
        Operation::Read { .. } => blob_answer(o, at, "leased", &dead),
        _ => available(o, at),
    });
    let counted = broken.unwrap().sent - back;
    assert!((PROMISE..PROMISE + BEAT).contains(&counted), "{counted:?}");
}

/// The same holds for a candidate that an operator paused, or that was not ready: the end of that
/// was unknown.
#[test]
fn a_candidate_that_is_resumed_looks_at_once() {
    let mut follower = Candidate::new(&[WITHIN]);
    let dead = of_leader(4, PROMISE);
    let mut after = |event, long| {
        follower.step(Some(event), |o, at| blob_answer(o, at, "leased", &dead));
        follower.now += long;
        follower.verbs()
    };
    after(Event::Ready(false), millis(50));
    assert_eq!(after(Event::Ready(true), millis(50)), ["read blob"]);
}

/// An observed beat is void if an answer shows no leader, or no readable record.
#[test]
fn a_promise_ends_with_the_record_that_it_stood_on() {
    for gone in [
        |o: &Operation, at| blob_answer(o, at, "leased", &Metadata::from_iter([("foreign", "x")])),
        |o: &Operation, at| error_answer(o, at, 404, "BlobNotFound"),
    ] {
        let mut follower = Candidate::new(&[WITHIN]);
        let dead = of_leader(4, PROMISE);
        let report = follower.step(None, |o, at| blob_answer(o, at, "leased", &dead));
        assert_eq!(report.promise, Some(PROMISE));
        wait(&mut follower, &report);
        // The missing blob cannot be created either.
        let report = follower.step(None, |o, at| match o {
            Operation::CreateBlob => error_answer(o, at, 403, "AuthorizationFailure"),
            _ => gone(o, at),
        });
        assert_eq!((report.promise, &report.role), (None, &Role::Undecided));
        assert!(report.again_in >= seconds(2), "it looks as rarely as ever: {report:?}");
    }
}

/// Tokens are requested in the background, while steps continue.
#[test]
fn a_token_is_asked_for_beside_the_beats() {
    let mut leader = Candidate::new(&[
        WITHIN,
        (variable::CONNECTION_STRING, ""),
        (variable::ACCOUNT, "account"),
        (variable::ORDERS, "never"),
    ]);
    let asks = |candidate: &mut Candidate, event| {
        candidate.step_started = candidate.now;
        let state = candidate.state.take();
        let mut step = Step::new(
            &candidate.settings,
            state.as_deref(),
            candidate.now,
            event,
            &mut candidate.chance,
        );
        loop {
            match step.next(candidate.now) {
                StepAction::Done(report) => {
                    candidate.state = Some(report.state.clone().into_bytes());
                    return (step.take_background(), *report);
                }
                StepAction::Fetch(_) => panic!("no step waits for a token"),
                StepAction::Send(SignedRequest { operation, .. }) => {
                    let (sent, now) = (candidate.now, candidate.now + millis(10));
                    candidate.now = now;
                    let reply = available(&operation, sent);
                    step.on_answer(sent, now, instant(now), reply, &mut candidate.chance);
                }
            }
        }
    };
    let (background, report) = asks(&mut leader, None);
    let Some(BackgroundRequest::Fetch(fetch)) = background else {
        panic!("no token is asked for: {background:?}")
    };
    assert_eq!(fetch.timeout, MAX_FETCH);
    // Nothing else can be done before it is answered, and it is not requested again.
    assert!(report.again_in >= seconds(1), "{report:?}");
    let body = r#"{"access_token":"secret","expires_in":"400","token_type":"Bearer"}"#;
    let answer = |at: Moment| {
        let raw = Response { status: 200, headers: Vec::new(), body: body.into() };
        assert!(!format!("{raw:?}").contains("secret"));
        Event::BackgroundReply(BackgroundReply {
            result: Ok(raw),
            received_at: Timestamp::from_date(instant(at)),
        })
    };
    leader.now += millis(300);
    let (background, report) = {
        let event = answer(leader.now);
        asks(&mut leader, Some(event))
    };
    assert!(background.is_none());
    assert!(matches!(report.role, Role::Leading(_)), "{report:?}");
    // The token is renewed early, and no beat waits for it.
    let mut token_requested_at = None;
    for _ in 0..1000 {
        let (background, report) = asks(&mut leader, None);
        assert!(matches!(report.role, Role::Leading(_)), "{report:?}");
        if let Some(BackgroundRequest::Fetch(fetch)) = background {
            assert_eq!(fetch.timeout, MAX_FETCH, "it delays nothing");
            token_requested_at.get_or_insert(leader.now);
        }
        if token_requested_at.is_some_and(|at| leader.now > at + seconds(3)) {
            return;
        }
        wait(&mut leader, &report);
    }
    panic!("no token was asked for");
}

/// On an account that keeps every version of a blob, failover is off, and that is reported. An
/// existing promise is taken back before the leader acts without it.
#[test]
fn an_account_with_versions_has_no_beats() {
    let versioned = |o: &Operation, at| {
        let mut answer = available(o, at)?;
        answer.has_version_id = true;
        Ok(answer)
    };
    // Known before the candidate leads.
    let mut leader = Candidate::new(&[WITHIN]);
    let report = leader.step(None, versioned);
    assert!(matches!(report.role, Role::Leading(_)));
    assert_eq!(written_record(leader.requests.last().unwrap()).beat, None);
    let problem = &report.problems[0];
    assert_eq!(problem.class, ProblemClass::Configuration);
    assert!(problem.detail.contains("every version"), "{problem:?}");
    assert!(valid_for(&report) > seconds(40));
    // Turned on while the candidate leads.
    let mut leader = Candidate::new(&[WITHIN]);
    leader.lead();
    let mut last = None;
    for _ in 0..4 {
        let report = leader.step(None, versioned);
        let mut writes =
            leader.requests.iter().rev().filter(|a| a.operation.name() == "write record");
        last = writes
            .next()
            .map(|request| (written_record(request).beat, valid_for(&report)))
            .or(last);
        wait(&mut leader, &report);
    }
    let (beat, valid_for) = last.unwrap();
    assert_eq!(beat, None);
    assert!(valid_for > seconds(30), "{valid_for:?}");
}
