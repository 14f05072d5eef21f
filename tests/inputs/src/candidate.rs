//! A whole candidate with arbitrary responses.

use std::time::Duration;

use tenure_azure::Answer;
use tenure_core::{BackgroundReply, Report, Role, State, Step, StepAction, Timestamp};
use tenure_core::{
    BackgroundRequest, Chance, Event, Failure, FailureKind, Outcome, Response, StepStart,
};

use crate::account::assert_sendable;
use crate::answer::{RawAnswer, pieces, wall};
use crate::record::settings;

/// Maximum number of steps in a run.
const MAX_STEPS: u32 = 60;

/// Deterministic numbers that are the same in every run.
struct Counter(u64);

impl Chance for Counter {
    fn bits(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0
    }
}

/// Responses in sequence, then none.
struct ScriptedAnswers<'a> {
    answers: Box<dyn Iterator<Item = &'a [u8]> + 'a>,
    has_ended: bool,
}

impl ScriptedAnswers<'_> {
    fn next_answer(&mut self) -> Result<Response, Failure> {
        let answer = self.answers.next();
        self.has_ended = answer.is_none();
        let answer = answer.and_then(RawAnswer::read);
        let failure = Failure { kind: FailureKind::Timeout, detail: String::new() };
        let RawAnswer { status, headers, body } = answer.ok_or(failure)?;
        Ok(Response { status, headers, body: body.to_vec() })
    }
}

/// Tests a candidate that receives these responses: without failover, with it, and with an
/// identity.
///
/// It acts no longer than a lease lasts, its terms rise, and its reports contain no key.
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
    let mut script = ScriptedAnswers { answers: Box::new(pieces(data)), has_ended: false };
    let mut chance = Counter(1);
    let (mut state, mut now, mut event) = (None::<State>, Duration::from_secs(100), None);
    let mut last_term = 0;
    for _ in 0..MAX_STEPS {
        let step_start = StepStart { at: now, clock_lead: Duration::ZERO };
        let started_at = now;
        let mut step = Step::new(
            &settings,
            state.as_ref().map(State::as_bytes),
            step_start,
            event.take(),
            &mut chance,
        );
        let report: Report = loop {
            let sent_at = now;
            match step.next(now) {
                StepAction::Send(ask) => {
                    assert_sendable(&ask.to_http(&settings, step.date(now, wall())));
                    now += Duration::from_millis(20);
                    let reply = script.next_answer().map(|raw_answer| {
                        let answer = Answer::from_parts(
                            &ask.operation,
                            raw_answer.status,
                            &raw_answer.headers,
                        );
                        answer.with_body(&raw_answer.body)
                    });
                    step.on_answer(sent_at, now, wall(), reply, &mut chance);
                }
                StepAction::Fetch(fetch) => {
                    assert_sendable(&fetch.request);
                    now += Duration::from_millis(20);
                    let reply =
                        script.next_answer().map(|raw_answer| (raw_answer.status, raw_answer.body));
                    step.on_token_reply(sent_at, now, wall(), reply, &mut chance);
                }
                StepAction::Done(report) => break *report,
            }
        };
        if let Some(background_request) = step.take_background() {
            if let BackgroundRequest::Send(ask) = &background_request {
                assert_sendable(&ask.to_http(&settings, step.date(now, wall())));
            }
            let at = Timestamp::from_date(wall());
            event = Some(Event::BackgroundReply(BackgroundReply {
                result: script.next_answer(),
                received_at: at,
            }));
        } else if report.run.is_some() {
            event = Some(Event::TurnEnded(Outcome::Succeeded.into()));
        }
        let _ = step.last_will(now, wall());
        if let Role::Leading(leadership) = &report.role {
            assert!(
                leadership.valid_for <= settings.timings.lease + (now - started_at),
                "{report:?}"
            );
            assert!(leadership.term >= last_term, "{} after {last_term}", leadership.term);
            last_term = leadership.term;
        }
        assert!(!format!("{report:?}").contains("Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1"), "a key");
        now += report.again_in.min(Duration::from_secs(5)).max(Duration::from_millis(1));
        state = Some(report.state);
        if script.has_ended {
            break;
        }
    }
}
