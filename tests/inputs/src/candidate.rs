//! A whole candidate, which is given any answers.

use std::time::Duration;

use tenure_azure::Answer;
use tenure_core::{Begins, Beside, Chance, Event, Failure, FailureKind, Outcome, Response};
use tenure_core::{Report, Role, State, Step, Timestamp, Todo, Told};

use crate::account::assert_sendable;
use crate::answer::{Written, pieces, wall};
use crate::record::settings;

/// Steps of one run at most.
const STEPS: u32 = 60;

/// Numbers that are the same in every run.
struct Counter(u64);

impl Chance for Counter {
    fn bits(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0
    }
}

/// The answers in turn, then none.
struct Script<'a> {
    answers: Box<dyn Iterator<Item = &'a [u8]> + 'a>,
    ended: bool,
}

impl Script<'_> {
    fn raw(&mut self) -> Result<Response, Failure> {
        let written = self.answers.next();
        self.ended = written.is_none();
        let written = written.and_then(Written::read);
        let failure = Failure { kind: FailureKind::Timeout, detail: String::new() };
        let Written { status, headers, body } = written.ok_or(failure)?;
        Ok(Response { status, headers, body: body.to_vec() })
    }
}

/// Steps of a candidate that is given these answers: without failover, with it, and with an identity. It acts no longer than
/// a lease lasts, terms rise, and no key is in what it reports.
pub fn candidate(data: &[u8]) {
    let Some((kind, data)) = data.split_first() else { return };
    let identity = [
        ("AZURE_STORAGE_CONNECTION_STRING", ""),
        ("AZURE_STORAGE_ACCOUNT", "mystore"),
        ("AZURE_STORAGE_SERVICE_ENDPOINT", "https://mystore.blob.core.windows.net"),
    ];
    let settings = match kind % 3 {
        0 => settings(&[]),
        1 => settings(&[("TENURE_FAILOVER", "3s"), ("TENURE_ADDRESS", "http://10.0.0.1:80")]),
        _ => settings(&identity),
    };
    let mut script = Script { answers: Box::new(pieces(data)), ended: false };
    let mut chance = Counter(1);
    let (mut state, mut now, mut event) = (None::<State>, Duration::from_secs(100), None);
    let mut last_term = 0;
    for _ in 0..STEPS {
        let start = Begins { at: now, ahead: Duration::ZERO };
        let began = now;
        let mut step = Step::begin(
            &settings,
            state.as_ref().map(State::as_bytes),
            start,
            event.take(),
            &mut chance,
        );
        let report: Report = loop {
            let sent = now;
            match step.next(now) {
                Todo::Send(ask) => {
                    assert_sendable(&ask.request(&settings, step.date(now, wall())));
                    now += Duration::from_millis(20);
                    let reply = script.raw().map(|raw| {
                        let answer = Answer::read(&ask.operation, raw.status, &raw.headers);
                        answer.with_body(&raw.body)
                    });
                    step.answered(sent, now, wall(), reply, &mut chance);
                }
                Todo::Fetch(fetch) => {
                    assert_sendable(&fetch.request);
                    now += Duration::from_millis(20);
                    let reply = script.raw().map(|raw| (raw.status, raw.body));
                    step.fetched(sent, now, wall(), reply, &mut chance);
                }
                Todo::Rest(report) => break *report,
            }
        };
        if let Some(beside) = step.beside() {
            if let Beside::Send(ask) = &beside {
                assert_sendable(&ask.request(&settings, step.date(now, wall())));
            }
            let at = Timestamp::from_date(wall());
            event = Some(Event::Answered(Told { reply: script.raw(), at }));
        } else if report.run.is_some() {
            event = Some(Event::TurnEnded(Outcome::Succeeded.into()));
        }
        let _ = step.last_will(now, wall());
        if let Role::Leading(leadership) = &report.role {
            assert!(leadership.valid_for <= settings.timings.lease + (now - began), "{report:?}");
            assert!(leadership.term >= last_term, "{} after {last_term}", leadership.term);
            last_term = leadership.term;
        }
        assert!(!format!("{report:?}").contains("Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1"), "a key");
        now += report.again_in.min(Duration::from_secs(5)).max(Duration::from_millis(1));
        state = Some(report.state);
        if script.ended {
            break;
        }
    }
}
