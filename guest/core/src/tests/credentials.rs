//! Tokens that are requested, renewed and refused; keys and files that are replaced.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::*;
use crate::{BackgroundReply, BackgroundRequest, Environment, FileError, Response, SecretFile};
use tenure_azure::credential::AuthSource;
use tenure_azure::secret::Secret;

const NO_STRING: (&str, &str) = (variable::CONNECTION_STRING, "");
const ACCOUNT: (&str, &str) = (variable::ACCOUNT, "tenure");

fn token(lifetime: u64) -> TokenReply {
    Ok((200, format!(r#"{{"access_token":"ey","expires_in":{lifetime}}}"#).into_bytes()))
}

/// Returns a candidate with the managed identity of its machine.
fn with_identity(identity: impl Fn(Moment) -> TokenReply + 'static) -> Candidate {
    let mut candidate = Candidate::new(&[NO_STRING, ACCOUNT, (variable::ORDERS, "never")]);
    candidate.identity = Box::new(identity);
    candidate
}

/// Steps whenever one is due, for this span. Returns the reports with events.
fn run_for(
    candidate: &mut Candidate,
    time: Duration,
    mut service: impl FnMut(&Operation, Moment) -> Reply,
) -> Vec<Report> {
    let (until, mut reported, mut steps) = (candidate.now + time, Vec::new(), 0);
    while candidate.now < until {
        let report = candidate.step(None, &mut service);
        candidate.now = candidate.now.max(candidate.step_started + report.again_in);
        steps += 1;
        assert!(steps < 40 + 3 * time.as_secs(), "it is called without end");
        if report.ending.is_some() || !report.problems.is_empty() {
            reported.push(report);
        }
    }
    reported
}

#[test]
fn a_token_comes_before_everything_else() {
    let mut candidate = with_identity(|_| token(3600));
    candidate.lead();
    assert_eq!(candidate.fetches, [(seconds(100), seconds(10))]);
    assert_eq!(candidate.requests[0].sent, seconds(100) + millis(10));
}

#[test]
fn without_a_token_nothing_is_sent_and_it_is_asked_for_with_pauses() {
    for (answer, class) in [
        (Ok((400, br#"{"error":"invalid_request"}"#.to_vec())), ProblemClass::Refused),
        (Ok((410, Vec::new())), ProblemClass::Unavailable),
        (Ok((200, b"<html>".to_vec())), ProblemClass::Nonsense),
        (
            Err(Failure { kind: FailureKind::Connect, detail: String::new() }),
            ProblemClass::Unreachable,
        ),
    ] {
        let mut candidate = with_identity(move |_| answer.clone());
        let reports = run_for(&mut candidate, seconds(60), |o, _| panic!("sent: {o:?}"));
        assert!(reports.iter().all(|report| report.problems[0].class == class), "{reports:?}");
        assert!((2..=30).contains(&candidate.fetches.len()), "{}", candidate.fetches.len());
        // The candidate continues as soon as there is a token.
        candidate.identity = Box::new(|_| token(3600));
        candidate.now += seconds(10);
        candidate.lead();
    }
}

#[test]
fn a_missing_page_is_a_wrong_address_but_at_the_metadata_service() {
    let app = [
        (variable::IDENTITY_ENDPOINT, "http://127.0.0.1:1/wrong"),
        (variable::IDENTITY_HEADER, "header"),
    ];
    for (more, class) in [(&app[..], ProblemClass::Refused), (&[], ProblemClass::Unavailable)] {
        let mut candidate = Candidate::new(&[&[NO_STRING, ACCOUNT], more].concat());
        candidate.identity = Box::new(|_| Ok((404, Vec::new())));
        let reports = run_for(&mut candidate, seconds(10), |o, _| panic!("sent: {o:?}"));
        assert_eq!(reports[0].problems[0].class, class, "{reports:?}");
    }
}

#[test]
fn a_leader_renews_its_token_in_between_and_leads_on() {
    let mut candidate = with_identity(|_| token(1200));
    candidate.lead();
    candidate.fetches.clear();
    let reports = run_for(&mut candidate, seconds(7000), available);
    assert_eq!(reports, []);
    // Five minutes before the end of each: every fifteen minutes.
    assert_eq!(candidate.fetches.len(), 7, "{:?}", candidate.fetches);
    for (_, timeout) in &candidate.fetches {
        assert!((millis(500)..=seconds(4)).contains(timeout), "{timeout:?}");
    }
}

#[test]
fn a_token_that_cannot_be_renewed_is_a_problem_and_no_loss_while_the_old_one_is_good() {
    for failing in
        [Ok((503, Vec::new())), Err(Failure { kind: FailureKind::Timeout, detail: String::new() })]
    {
        // The token is due for renewal at second 1300, and valid until 1600.
        let mut candidate = with_identity(move |at| match at.as_secs() {
            200..1500 => failing.clone(),
            _ => token(1500),
        });
        candidate.lead();
        let reports = run_for(&mut candidate, seconds(1500), available);
        assert!(!reports.is_empty(), "it is told");
        assert!(reports.iter().all(|report| report.ending.is_none()), "{reports:?}");
    }
}

#[test]
fn a_token_that_could_not_be_renewed_is_asked_for_anew_when_it_ends() {
    // The minimum time before the next renewal: the renewal does not wait.
    let seldom = [(variable::RENEW, "9s"), (variable::REQUEST_TIMEOUT, "1s")];
    for (seed, timings) in (0..50).flat_map(|seed| [(seed, &[][..]), (seed, &seldom)]) {
        let mut candidate = Candidate::new(&[&[NO_STRING, ACCOUNT], timings].concat());
        candidate.identity = Box::new(move |_| token(60 + seed / 2));
        candidate.chance = Counter(seed);
        candidate.lead();
        let ends = candidate.fetches[0].0 + seconds(60 + seed / 2);
        let failed = Cell::new(false);
        candidate.identity = Box::new(move |at| match (at < ends, failed.replace(at >= ends)) {
            (true, _) => Err(Failure { kind: FailureKind::Timeout, detail: String::new() }),
            (false, false) => Ok((503, Vec::new())),
            (false, true) => token(3600),
        });
        candidate.slow = Some(("renew lease", millis(20 * (seed + 1).min(45))));
        let reports = run_for(&mut candidate, seconds(140), available);
        assert!(reports.iter().all(|report| report.ending.is_none()), "{seed}: {reports:?}");
        // After the end of an early request or a renewal in flight, and then once more at once.
        let after: Vec<_> = candidate.fetches.iter().filter(|(at, _)| *at >= ends).collect();
        let [(first, _), (second, _)] = after[..] else { panic!("{seed}: {after:?}") };
        assert!(*first <= ends + seconds(3) && *second <= *first + millis(100), "{after:?}");
    }
}

#[test]
fn a_token_that_ended_is_asked_for_with_all_the_time_that_is_left() {
    for seed in 0..200 {
        let mut candidate = with_identity(move |_| token(60 + seed / 100));
        candidate.chance = Counter(seed);
        candidate.lead();
        // Longer than the time-out of an early request. The token can end during a renewal.
        candidate.identity_takes = millis(3_500);
        candidate.slow = Some(("renew lease", millis(25 * (seed % 100 + 1))));
        let reports = run_for(&mut candidate, seconds(200), available);
        let lost = reports.iter().any(|report| report.ending.is_some());
        assert!(!lost, "{seed}: {:?}", candidate.fetches);
    }
}

#[test]
fn a_token_that_is_asked_for_early_takes_no_time_from_an_order_to_hand_over() {
    // The token is due for renewal at second 130, which takes longer than available, and valid
    // until 160.
    let mut candidate = with_identity(|at| match at.as_secs() {
        ..130 => token(60),
        _ => Err(Failure { kind: FailureKind::Timeout, detail: String::new() }),
    });
    candidate.lead();
    run_for(&mut candidate, seconds(30), available);
    candidate.slow = Some(("renew lease", millis(2_600)));
    let mut event = Some(Event::HandOver("there".into()));
    let mut read_timeouts = Vec::new();
    while candidate.now < seconds(155) {
        let began = candidate.now;
        let report = candidate.step(event.take(), available);
        candidate.now = candidate.now.max(began + report.again_in);
        let reads = candidate.requests.iter().filter(|a| a.operation.name() == "read announcement");
        read_timeouts.extend(reads.map(|request| request.timeout));
    }
    // The time-out leaves room for two tries of a renewal.
    assert!(
        read_timeouts.len() > 3 && read_timeouts.iter().any(|timeout| *timeout > millis(2_900)),
        "{read_timeouts:?}"
    );
}

#[test]
fn a_leader_whose_token_is_over_ends_in_time_and_comes_back() {
    let mut candidate = with_identity(|at| match at.as_secs() {
        200..1200 => Ok((503, Vec::new())),
        _ => token(600),
    });
    candidate.lead();
    let reports = run_for(&mut candidate, seconds(700), available);
    let ended: Vec<_> = reports.iter().filter_map(|report| report.ending).collect();
    assert_eq!(ended.len(), 1, "{reports:?}");
    assert_eq!(ended[0].reason, EndingReason::ValidityEnded);
    run_for(&mut candidate, seconds(500), available);
    candidate.lead();
}

#[test]
fn a_token_that_the_service_refuses_is_asked_for_anew() {
    let mut candidate = with_identity(|_| token(3600));
    candidate.lead();
    assert_eq!(run_for(&mut candidate, seconds(60), available), []);
    let mut first = true;
    let report = candidate.step(None, |o, at| match std::mem::take(&mut first) {
        true => error_answer(o, at, 401, "InvalidAuthenticationInfo"),
        false => available(o, at),
    });
    assert!(report.renewed, "{report:?}");
    assert_eq!(candidate.verbs(), ["renew lease", "renew lease"]);
    assert_eq!(candidate.fetches.len(), 2);
    // A token that is refused at once is not requested repeatedly.
    let mut young = with_identity(|_| token(3600));
    let refuse = |o: &Operation, at| error_answer(o, at, 401, "InvalidAuthenticationInfo");
    run_for(&mut young, seconds(60), refuse);
    assert!((2..=3).contains(&young.fetches.len()), "{:?}", young.fetches);
}

#[test]
fn a_turn_that_is_claimed_does_not_wait_for_a_token() {
    let mut candidate = Candidate::new(&[NO_STRING, ACCOUNT, (variable::EVERY, "10s")]);
    candidate.identity = Box::new(|_| token(20));
    candidate.lead();
    // Each renewal of the token takes its full time-out.
    candidate.identity =
        Box::new(|_| Err(Failure { kind: FailureKind::Timeout, detail: String::new() }));
    let mut turns = 0;
    for _ in 0..20 {
        let before = candidate.fetches.len();
        let report = candidate.step(None, available);
        if report.run.is_some() {
            turns += 1;
            let claim =
                candidate.requests.iter().rposition(|a| a.operation.name() == "write record");
            let claimed = candidate.requests[claim.unwrap()].sent;
            assert!(candidate.fetches[before..].iter().all(|(at, _)| *at < claimed), "{report:?}");
        }
        candidate.now += report.again_in;
        if report.ending.is_some() {
            break;
        }
    }
    assert!(turns > 0, "a turn was claimed");
    assert!(!candidate.fetches.is_empty());
}

#[test]
fn the_end_of_a_leader_without_a_token_is_waited_for_and_not_asked_for() {
    for seed in 0..100 {
        let mut candidate = with_identity(|at| match at.as_secs() {
            0..110 => token(40),
            _ => Ok((503, Vec::new())),
        });
        candidate.chance = Counter(seed);
        candidate.lead();
        let reports = run_for(&mut candidate, seconds(80), available);
        assert!(reports.iter().any(|report| report.ending.is_some()), "{reports:?}");
    }
}

/// A poll signed with the former key is answered after the file was replaced.
#[test]
fn a_late_refusal_of_a_key_that_is_not_in_use_changes_nothing() {
    let mut leader = Candidate::new(&[(variable::EVERY, "1h"), (variable::FAILOVER, "3s")]);
    let step = |leader: &mut Candidate, event| {
        let (state, chance) = (leader.state.take(), &mut Counter(7));
        leader.step_started = leader.now;
        let mut step = Step::new(&leader.settings, state.as_deref(), leader.now, event, chance);
        loop {
            match step.next(leader.now) {
                StepAction::Done(report) => {
                    leader.state = Some(report.state.clone().into_bytes());
                    return (*report, step.take_background());
                }
                StepAction::Fetch(_) => panic!("no token is needed"),
                StepAction::Send(SignedRequest { operation, .. }) => {
                    let sent = leader.now;
                    leader.now += millis(10);
                    let reply = available(&operation, sent);
                    step.on_answer(sent, leader.now, instant(leader.now), reply, chance);
                }
            }
        }
    };
    let (report, sent) = step(&mut leader, None);
    let Some(BackgroundRequest::Send(read)) = sent else { panic!("it does not look: {sent:?}") };
    assert_eq!(read.operation, ORDERS);

    leader.settings.file = Some(SecretFile { path: "/run/key".into(), text: "a2V5dHdv".into() });
    leader.now = leader.now.max(leader.step_started + report.again_in);
    step(&mut leader, None);

    let header = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
    let headers =
        vec![header("x-ms-error-code", "AuthenticationFailed"), header("x-ms-request-id", "1")];
    let raw = Response { status: 403, headers, body: Default::default() };
    let background_reply =
        BackgroundReply { result: Ok(raw), received_at: Timestamp::from_date(instant(leader.now)) };
    let (refused, sent) = step(&mut leader, Some(Event::BackgroundReply(background_reply)));
    assert_eq!(refused.problems, []);
    let Some(BackgroundRequest::Send(read)) = sent else {
        panic!("it does not look again: {sent:?}")
    };
    assert_eq!(read.operation, ORDERS);
}

#[test]
fn a_key_that_is_refused_is_tried_again_with_pauses() {
    let mut candidate = Candidate::new(&[NO_STRING, ACCOUNT, (variable::KEY, "a2V5b25l")]);
    let mut sent = 0;
    let reports = run_for(&mut candidate, seconds(60), |o, at| {
        sent += 1;
        error_answer(o, at, 403, "AuthenticationFailed")
    });
    assert!(reports.iter().all(|report| report.problems[0].class == ProblemClass::Refused));
    assert!((5..=40).contains(&sent), "{sent}");
}

/// Variables, and one file that can change.
struct Place {
    variables: Vec<(&'static str, &'static str)>,
    file: Rc<RefCell<Result<&'static str, FileError>>>,
}

impl Environment for &Place {
    fn variable(&self, name: &str) -> Option<String> {
        self.variables.iter().find(|(n, _)| *n == name).map(|(_, value)| value.to_string())
    }

    fn file(&self, _path: &str) -> Result<Secret, FileError> {
        self.file.borrow().map(Secret::from)
    }
}

#[test]
fn partly_replaced_file_keeps_its_last_content() {
    let place = Place {
        variables: vec![
            (variable::ELECTION, "leases/leader"),
            ACCOUNT,
            ("AZURE_STORAGE_KEY_FILE", "/run/key"),
        ],
        file: Rc::new(RefCell::new(Ok("a2V5b25l\n"))),
    };
    let date = instant(seconds(1));
    let read = |state: Option<&[u8]>| Settings::reread(&place, state);
    let signed = |settings: &Settings| {
        let operation = Operation::Read { lease: None };
        let ask = SignedRequest { operation, timeout: seconds(3), auth: AuthSource::Credential };
        ask.to_http(settings, date).headers
    };
    let (settings, complaints) = read(None).unwrap();
    assert_eq!(complaints, []);
    let before = signed(&settings);
    let mut chance = Counter(7);
    let mut step = Step::new(&settings, None, seconds(1), None, &mut chance);
    let StepAction::Send(_) = step.next(seconds(1)) else { panic!("it looks") };
    step.on_answer(
        seconds(1),
        seconds(1),
        date,
        available(&Operation::Read { lease: None }, seconds(1)),
        &mut chance,
    );
    let StepAction::Send(_) = step.next(seconds(1)) else { panic!("it acquires") };
    step.on_answer(seconds(1), seconds(1), date, failure(FailureKind::Timeout), &mut chance);
    let state = loop {
        match step.next(seconds(2)) {
            StepAction::Done(report) => break report.state,
            _ => step.on_answer(
                seconds(2),
                seconds(2),
                date,
                failure(FailureKind::Timeout),
                &mut chance,
            ),
        }
    };
    for wrong in [Err(FileError::Missing), Ok(""), Ok("not base64!")] {
        *place.file.borrow_mut() = wrong;
        assert!(read(None).is_err(), "{wrong:?}");
        let (settings, complaints) = read(Some(state.as_bytes())).unwrap();
        assert_eq!(signed(&settings), before, "{wrong:?}");
        assert_eq!(complaints.len(), 1, "{complaints:?}");
        let mut step = Step::new(&settings, Some(state.as_bytes()), seconds(3), None, &mut chance);
        step.report_complaints(&complaints, seconds(3));
        let report = loop {
            match step.next(seconds(3)) {
                StepAction::Done(report) => break report,
                _ => step.on_answer(
                    seconds(3),
                    seconds(3),
                    date,
                    failure(FailureKind::Timeout),
                    &mut chance,
                ),
            }
        };
        let detail = &report.problems[0].detail;
        assert!(detail.contains("The former settings stay in use"), "{detail}");
        assert!(
            Settings::reread(&place, Some(report.state.as_bytes())).is_ok(),
            "and is kept in mind"
        );
    }
    *place.file.borrow_mut() = Ok("\u{feff}a2V5dHdv");
    let (settings, complaints) = read(Some(state.as_bytes())).unwrap();
    assert_eq!(complaints, []);
    assert_ne!(signed(&settings), before, "the new one is used");
}
