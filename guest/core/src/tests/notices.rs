//! How a leader hears of a candidate with another schedule, and that nothing else comes of it.

use super::*;
use tenure_azure::credential::Pass;
use tenure_azure::operation::ETag;

const HOURLY: (&str, &str) = (variable::EVERY, "1h");
const LOOK: &str = "read schedule notice";
const LEAVE: &str = "write schedule notice";

/// What a candidate asked for, and what it told, in some time.
struct Past {
    asked: Vec<Asked>,
    problems: Vec<Problem>,
}

impl Past {
    fn of(&self, name: &str) -> Vec<&Asked> {
        self.asked.iter().filter(|asked| asked.operation.name() == name).collect()
    }

    /// When which requests were sent that are not about notices.
    fn business(&self) -> Vec<(Moment, Duration, &'static str)> {
        let all =
            self.asked.iter().map(|asked| (asked.sent, asked.timeout, asked.operation.name()));
        all.filter(|(.., name)| ![LOOK, LEAVE].contains(name)).collect()
    }
}

/// Steps whenever one is due, as the host does. No turn ever ends.
fn live(
    candidate: &mut Candidate,
    time: Duration,
    mut service: impl FnMut(&Operation, Moment) -> Reply,
) -> Past {
    let mut past = Past { asked: Vec::new(), problems: Vec::new() };
    let (until, mut idle) = (candidate.now + time, 0);
    while candidate.now < until {
        let began = candidate.now;
        let report = candidate.step(None, &mut service);
        idle = if candidate.asked.is_empty() { idle + 1 } else { 0 };
        // A slot that comes is approached in some steps, each a hundredth of the one before.
        assert!(idle < 8, "it is called for nothing: {report:?}");
        past.asked.append(&mut candidate.asked);
        past.problems.extend(report.problems);
        candidate.now = candidate.now.max(began + report.again_in);
    }
    past
}

/// A candidate that begins to lead at second 100.
fn leader(more: &[(&str, &str)]) -> Candidate {
    let mut candidate = Candidate::new(more);
    candidate.lead();
    candidate
}

/// A notice as a look shows it, that old and with these fields.
fn notice(o: &Operation, at: Moment, age: Duration, fields: &[(&str, &str)]) -> Reply {
    let modified = tenure_azure::http_date::format(instant(at) - age);
    let mut headers =
        vec![("etag", "\"n\""), ("x-ms-lease-state", "available"), ("last-modified", &modified)];
    headers.extend(fields);
    answer(o, at, 200, &headers)
}

const OF_EVE: [(&str, &str); 2] =
    [("x-ms-meta-tenurecandidate", "eve%20%22"), ("x-ms-meta-tenureschedule", "every%205s")];

/// A service without faults, whose notice is this one.
fn with(reply: impl Fn(&Operation, Moment) -> Reply) -> impl Fn(&Operation, Moment) -> Reply {
    move |o, at| match o {
        Operation::ReadSideBlob(_) | Operation::WriteSideBlob { .. } => reply(o, at),
        _ => available(o, at),
    }
}

/// What a leader tells that once finds this in the place of the notice.
fn told_of(reply: impl Fn(&Operation, Moment) -> Reply) -> Vec<Problem> {
    let past = live(&mut leader(&[HOURLY]), seconds(100), with(reply));
    assert_eq!(past.of(LOOK).len(), 1);
    past.problems
}

#[test]
fn a_leader_looks_after_a_minute_and_then_each_five_minutes() {
    let past = live(&mut leader(&[HOURLY]), seconds(1200), available);
    let looks: Vec<_> = past.of(LOOK).iter().map(|asked| asked.sent.as_secs() - 100).collect();
    assert_eq!(looks, [60, 360, 660, 960]);
    assert!(past.of(LOOK).iter().all(|asked| asked.timeout <= seconds(1)));
    assert_eq!((past.of(LEAVE).len(), past.problems.len()), (0, 0));
}

#[test]
fn nobody_without_a_schedule_or_with_too_long_a_name_asks_for_notices() {
    let long = format!("leases/{}", "x".repeat(1018));
    for more in [&[][..], &[HOURLY, (variable::ELECTION, &long)]] {
        let past = live(&mut leader(more), seconds(1200), |o, at| match o {
            Operation::ReadSideBlob(_) => panic!("{more:?}"),
            _ => available(o, at),
        });
        assert!(past.of("renew lease").len() > 200);
        let mut follower = Candidate::new(more);
        live(&mut follower, seconds(20), |o, at| seen(o, at, "leased", &led("every 5s")));
        assert!(follower.asked.is_empty());
    }
}

#[test]
fn a_leader_tells_of_another_schedule() {
    let told = told_of(|o, at| notice(o, at, seconds(30), &OF_EVE));
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].class, ProblemClass::Schedule);
    for word in ["\"eve \"\"", "leases/leader", "\"every 5s\"", "\"every 1h\""] {
        assert!(told[0].detail.contains(word), "{word}: {told:?}");
    }
    let past = live(
        &mut leader(&[HOURLY]),
        seconds(1200),
        with(|o, at| notice(o, at, seconds(0), &OF_EVE)),
    );
    assert_eq!(past.problems.len(), 4, "at each look while it lasts");
    let same = [OF_EVE[0], ("x-ms-meta-tenureschedule", "every%201h")];
    assert_eq!(told_of(|o, at| notice(o, at, seconds(30), &same)), []);
}

#[test]
fn a_notice_counts_for_ten_minutes() {
    let count = |age| told_of(|o, at| notice(o, at, seconds(age), &OF_EVE)).len();
    assert_eq!([count(0), count(599), count(600), count(100_000)], [1, 1, 0, 0]);
    // Written in the future: no clock of the service has said that.
    let ahead = |o: &Operation, at| {
        let modified = tenure_azure::http_date::format(instant(at + seconds(700)));
        let headers = [("etag", "\"n\""), ("x-ms-lease-state", "available")];
        let headers = headers.into_iter().chain([("last-modified", modified.as_str())]);
        answer(o, at, 200, &headers.chain(OF_EVE).collect::<Vec<_>>())
    };
    assert_eq!(told_of(ahead), []);
}

#[test]
fn what_is_no_notice_is_ignored() {
    let [candidate, schedule] = OF_EVE;
    let long = "x".repeat(1025);
    for (fields, strange) in [
        (&[][..], false),
        (&[candidate], false),
        (&[schedule], false),
        (&[candidate, schedule, ("content-length", "7")], false),
        (&[candidate, ("x-ms-meta-tenureschedule", "%ff")], true),
        (&[candidate, ("x-ms-meta-tenureschedule", "every%205s%1b[31m")], true),
        (&[schedule, ("x-ms-meta-tenurecandidate", "a%0ab")], true),
        (&[schedule, ("x-ms-meta-tenurecandidate", &long)], true),
        (&[candidate, schedule, ("x-ms-lease-state", "")], false),
    ] {
        // Of a header that comes twice, the first counts.
        let fields: Vec<_> = fields.iter().rev().copied().collect();
        let reply = |o: &Operation, at: Moment| {
            let modified = tenure_azure::http_date::format(instant(at));
            let more =
                [("etag", "x"), ("last-modified", &*modified), ("x-ms-lease-state", "broken")];
            answer(o, at, 200, &fields.iter().copied().chain(more).collect::<Vec<_>>())
        };
        let told: Vec<_> = told_of(reply).iter().map(|problem| problem.class).collect();
        // What a version wrote that is not known is none of anybody's business.
        let expected: &[_] = if strange { &[ProblemClass::Configuration] } else { &[] };
        assert_eq!(told, expected, "{fields:?}");
    }
    let undated = |o: &Operation, _| {
        let headers = [("etag", "x"), ("x-ms-lease-state", "broken")].into_iter().chain(OF_EVE);
        let headers: Vec<_> = headers.map(|(n, v)| (n.into(), v.as_bytes().to_vec())).collect();
        Ok(Answer::read(o, 200, &headers))
    };
    assert_eq!(told_of(undated), []);
}

type Answers = Box<dyn Fn(&Operation, Moment) -> Reply>;

/// Answers that refuse the key or the token.
const REFUSALS: [(u16, &str); 2] =
    [(401, "InvalidAuthenticationInfo"), (403, "AuthenticationFailed")];

/// Everything that can come back, but a notice. True: a refusal of the key or the token.
fn replies() -> Vec<(bool, Answers)> {
    let mut replies: Vec<Answers> = vec![
        Box::new(|_, _| failure(FailureKind::Timeout)),
        Box::new(|_, _| failure(FailureKind::Reset)),
        Box::new(|_, _| failure(FailureKind::Denied)),
        Box::new(|o, at| answer(o, at, 200, &[])),
        Box::new(|o, at| answer(o, at + seconds(100_000), 200, &[])),
        Box::new(|o, at| answer(o, at, 302, &[("x-ms-lease-id", "none")])),
    ];
    for (status, code) in [
        (400, "InvalidHeaderValue"),
        (403, "AuthorizationPermissionMismatch"),
        (404, "ContainerNotFound"),
        (409, "BlobImmutableDueToPolicy"),
        (409, "LeaseIdMismatchWithLeaseOperation"),
        (412, "LeaseIdMissing"),
        (412, "LeaseLost"),
        (412, "ConditionNotMet"),
        (429, "TooManyRequests"),
        (500, "InternalError"),
        (503, "ServerBusy"),
    ] {
        replies.push(Box::new(move |o, at| refusal(o, at, status, code)));
    }
    let mut replies: Vec<_> = replies.into_iter().map(|reply| (false, reply)).collect();
    for (status, code) in REFUSALS {
        replies.push((true, Box::new(move |o, at| refusal(o, at, status, code))));
    }
    replies
}

/// Asserts that nothing but requests about notices differs. A refusal of the key or the token costs one more of these, sent with
/// another one, and is reported. Returns how many there were.
fn replaced(past: &Past, calm: &Past, refused: bool) -> usize {
    assert_eq!(past.business(), calm.business());
    let is_refusal = |problem: &&Problem| problem.class == ProblemClass::Refused;
    let (refusals, others): (Vec<_>, Vec<_>) = past.problems.iter().partition(is_refusal);
    assert_eq!(others, calm.problems.iter().collect::<Vec<_>>());
    assert!(refusals.is_empty() || refused, "{refusals:?}");
    refusals.len()
}

const KEYS: [(&str, &str); 4] = [
    (variable::CONNECTION_STRING, ""),
    (variable::ACCOUNT, "tenure"),
    (variable::KEY, "a2V5b25l"),
    (variable::SECOND_KEY, "a2V5dHdv"),
];
const IDENTITY: [(&str, &str); 2] =
    [(variable::CONNECTION_STRING, ""), (variable::ACCOUNT, "tenure")];

#[test]
fn whatever_becomes_of_a_look_a_leader_goes_on_as_without() {
    for (credential, every) in [(&KEYS[..], "7s"), (&KEYS, "1s"), (&IDENTITY, "1h")] {
        let run = |service: &dyn Fn(&Operation, Moment) -> Reply| {
            let mut candidate = Candidate::new(&[credential, &[(variable::EVERY, every)]].concat());
            let token = r#"{"access_token":"ey","expires_in":86400}"#;
            candidate.identity = Box::new(|_| Ok((200, token.as_bytes().to_vec())));
            candidate.lead();
            let past = live(&mut candidate, seconds(500), service);
            (past, candidate.fetches.len())
        };
        let (calm, fetches) = run(&available);
        let (mut most, has_identity) = (0, credential.len() == IDENTITY.len());
        assert_eq!(fetches, usize::from(has_identity));
        for (refused, reply) in replies() {
            let (past, tokens) = run(&with(reply));
            let more = replaced(&past, &calm, refused);
            assert_eq!(past.of(LOOK).len(), 2 + more);
            assert_eq!(tokens, if has_identity { fetches + more } else { 0 });
            most = most.max(more);
        }
        assert_eq!(most, 2, "each look that is refused");
    }
}

#[test]
fn nothing_waits_for_a_look() {
    // A slot is due each second, and each turn ends at once.
    let mut candidate = leader(&[(variable::EVERY, "1s")]);
    let slow = with(|_, _| failure(FailureKind::Timeout));
    let (mut looks, until) = (0, candidate.now + seconds(700));
    while candidate.now < until {
        let began = candidate.now;
        let event = (candidate.now.subsec_millis() > 300)
            .then_some(Event::TurnEnded(Outcome::Succeeded.into()));
        let report = candidate.step(event, &slow);
        for asked in candidate
            .asked
            .iter()
            .filter(|asked| matches!(asked.operation, Operation::ReadSideBlob(_)))
        {
            looks += 1;
            assert!(report.run.is_none(), "a turn waits for it: {report:?}");
            let next = began + report.again_in;
            assert!(asked.sent + asked.timeout <= next, "{asked:?}, {report:?}");
        }
        candidate.now = candidate.now.max(began + report.again_in);
    }
    assert_eq!(looks, 3);
}

#[test]
fn a_leader_whose_renewal_is_not_answered_does_not_look() {
    let mut candidate = leader(&[HOURLY]);
    // From second 156 to 164, across the first look.
    let faulty = |o: &Operation, at: Moment| match o {
        Operation::Renew { .. } if (156..164).contains(&at.as_secs()) => {
            refusal(o, at, 503, "ServerBusy")
        }
        _ => available(o, at),
    };
    let past = live(&mut candidate, seconds(90), faulty);
    let look = past.of(LOOK)[0].sent;
    assert!(look > seconds(164), "{look:?}");
    let before = past.business();
    let (_, _, last) = before.iter().rfind(|(sent, ..)| *sent < look).unwrap();
    assert_eq!(*last, "renew lease");
}

/// The metadata of a leader with this schedule.
fn led(schedule: &str) -> Metadata {
    let mut record = Record::read(&incumbent(9)).unwrap().unwrap();
    record.schedule = Some(schedule.into());
    record.write()
}

/// A service where another candidate leads, with another schedule, and whose notice is this one.
fn other(reply: impl Fn(&Operation, Moment) -> Reply) -> impl Fn(&Operation, Moment) -> Reply {
    move |o, at| match o {
        Operation::Read { .. } => seen(o, at, "leased", &led("every 5s")),
        _ => reply(o, at),
    }
}

#[test]
fn a_follower_leaves_its_notice_at_once_and_then_each_five_minutes() {
    let mut candidate = Candidate::new(&[HOURLY, (variable::NAME, "eve \"")]);
    let report = candidate.step(None, other(available));
    assert_eq!(candidate.verbs(), ["read blob", LOOK, LEAVE]);
    assert_eq!(report.problems.len(), 1, "{report:?}");
    assert!(report.again_in >= seconds(2), "{report:?}");
    let Operation::WriteSideBlob { over, metadata, .. } = &candidate.asked[2].operation else {
        panic!()
    };
    assert_eq!(*over, None);
    let fields: Vec<_> = metadata.iter().collect();
    let written = [("tenurecandidate", "eve%20%22"), ("tenureschedule", "every%201h")];
    assert_eq!(fields, written);

    let past = live(&mut candidate, seconds(900), other(available));
    let left: Vec<_> = past.of(LEAVE).iter().map(|asked| asked.sent.as_secs() - 100).collect();
    assert_eq!(left.len(), 2, "{left:?}");
    assert!((300..=304).contains(&left[0]) && (600..=608).contains(&left[1]), "{left:?}");

    // The leader reads what was left.
    let names: Vec<_> = written.map(|(name, value)| (format!("x-ms-meta-{name}"), value)).into();
    let fields: Vec<_> = names.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    let reply = |o: &Operation, at| notice(o, at, seconds(1), &fields);
    let past = live(&mut leader(&[(variable::EVERY, "5s")]), seconds(100), with(reply));
    assert!(past.problems[0].detail.contains("\"every 1h\""), "{:?}", past.problems);
}

#[test]
fn a_follower_with_the_same_schedule_leaves_nothing() {
    for schedule in ["every 1h", ""] {
        let mut metadata = led("every 1h");
        if schedule.is_empty() {
            metadata.remove("tenureschedule");
        }
        let past = live(&mut Candidate::new(&[HOURLY]), seconds(700), |o, at| {
            seen(o, at, "leased", &metadata)
        });
        assert_eq!((past.of(LOOK).len(), past.problems.len()), (0, 0));
    }
}

#[test]
fn a_notice_is_written_over_and_nothing_else_is() {
    let over = |fields: &[(&str, &str)]| {
        let mut candidate = Candidate::new(&[HOURLY]);
        candidate.step(
            None,
            other(|o, at| match o {
                Operation::ReadSideBlob(_) => notice(o, at, seconds(1), fields),
                _ => available(o, at),
            }),
        );
        match &candidate.asked.last().unwrap().operation {
            Operation::WriteSideBlob { over, .. } => over.clone(),
            Operation::ReadSideBlob(_) => None,
            other => panic!("{other:?}"),
        }
    };
    let tag = Some(ETag("\"n\"".into()));
    assert_eq!(over(&OF_EVE), tag);
    assert_eq!(over(&[OF_EVE[0], ("x-ms-meta-tenurelater", "x")]), tag, "of another version");
    assert_eq!(over(&[]), None, "an empty blob of somebody else");
    assert_eq!(over(&[("x-ms-meta-owner", "payroll")]), None);
    assert_eq!(over(&[OF_EVE[0], ("content-length", "1")]), None);
    let election = led("every 5s");
    let names: Vec<_> = election.iter().map(|(n, v)| (format!("x-ms-meta-{n}"), v)).collect();
    let fields: Vec<_> = names.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    assert_eq!(over(&fields), None, "another election");
}

#[test]
fn whatever_becomes_of_a_notice_a_follower_goes_on_as_without() {
    for credential in [&KEYS[..], &IDENTITY] {
        let run = |reply: &dyn Fn(&Operation, Moment) -> Reply| {
            let mut candidate = Candidate::new(&[credential, &[HOURLY]].concat());
            let token = r#"{"access_token":"ey","expires_in":86400}"#;
            candidate.identity = Box::new(|_| Ok((200, token.as_bytes().to_vec())));
            let past = live(&mut candidate, seconds(400), other(reply));
            (past, candidate.fetches.len())
        };
        let (calm, fetches) = run(&available);
        let (mut most, has_identity) = (0, credential.len() == IDENTITY.len());
        assert_eq!(fetches, usize::from(has_identity));
        assert_eq!(calm.of(LEAVE).len(), 2);
        for (refused, reply) in replies() {
            let unseen = run(&reply);
            let unwritten = run(&|o, at| match o {
                Operation::ReadSideBlob(_) => available(o, at),
                _ => reply(o, at),
            });
            for ((past, tokens), (looks, leaves)) in [(unseen, (2, 0)), (unwritten, (2, 2))] {
                let more = replaced(&past, &calm, refused);
                let is_written = leaves > 0;
                let expected = if is_written { (looks, leaves + more) } else { (looks + more, 0) };
                assert_eq!((past.of(LOOK).len(), past.of(LEAVE).len()), expected);
                assert_eq!(tokens, if has_identity { fetches + more } else { 0 });
                most = most.max(more);
            }
        }
        // A token is not replaced within 30 s.
        assert_eq!(most, if has_identity { 1 } else { 2 }, "each notice that is refused");
    }
}

#[test]
fn a_notice_that_is_refused_for_its_key_has_one_try_with_the_other_one() {
    let candidate = &mut Candidate::new(&[&KEYS[..], &[HOURLY]].concat());
    let service = other(|o, at| refusal(o, at, 403, "AuthenticationFailed"));
    let (mut state, mut looks) = (None, Vec::new());
    for at in [seconds(1), seconds(6)] {
        let (settings, state_before) = (&candidate.settings, state.as_deref());
        let mut step = Step::begin(settings, state_before, at, None, &mut candidate.chance);
        state = loop {
            match step.next(at) {
                Todo::Send(Ask { operation, pass, .. }) => {
                    if matches!(operation, Operation::ReadSideBlob(_)) {
                        looks.push(matches!(pass, Pass::SecondKey));
                    }
                    let reply = service(&operation, at);
                    step.answered(at, at, instant(at), reply, &mut Counter(1));
                }
                Todo::Rest(report) => break Some(report.state),
                Todo::Fetch(_) => panic!("no token is needed"),
            }
        };
    }
    assert_eq!(looks, [false, true]);
}

#[test]
fn one_that_came_to_lead_looks_though_it_left_a_notice_before() {
    let mut candidate = Candidate::new(&[HOURLY]);
    candidate.step(None, other(available));
    candidate.now += seconds(4);
    candidate.lead();
    let past = live(&mut candidate, seconds(100), available);
    assert_eq!(past.of(LOOK).len(), 1);
}
