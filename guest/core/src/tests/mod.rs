//! Tests of the candidate with scripted answers and virtual time.

mod attempts;
mod beats;
mod clocks;
mod credentials;
mod deliveries;
mod failure_policy;
mod far_away;
mod files;
mod handing_over;
mod hints;
mod holding;
mod last_wills;
mod leaving;
mod listing;
mod one_turn;
mod progress;
mod slow;
mod split;
mod states;
mod steering;
mod successors;
mod transfers;
mod triggers;
mod turns;

mod failed_raises;
mod foreign_data;
mod while_leading;
mod winning;

use core::time::Duration;
use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::*;
use crate::step::variable;
use tenure_azure::answer::Answer;
use tenure_azure::blob::{LeaseId, Metadata, SideBlob};
use tenure_azure::operation::Operation;

/// 2026-11-20T07:00:00Z is origin + 0.
const ORIGIN: &str = "2026-11-20T07:00:00Z";
const ORIGIN_SECONDS: u64 = 1_795_158_000;

type Reply = Result<Answer, Failure>;

/// One request, and the time at which it was sent.
#[derive(Clone, Debug)]
struct SentRequest {
    operation: Operation,
    timeout: Duration,
    sent: Moment,
}

/// A candidate with its host.
struct Candidate {
    settings: Settings,
    state: Option<Vec<u8>>,
    now: Moment,
    /// Start of the newest step.
    step_started: Moment,
    chance: Counter,
    /// Lead of the machine's clock over the service's.
    wall_ahead: Duration,
    /// True if it takes part in the list of candidates. Otherwise these requests are refused, and
    /// hidden from the test.
    lists: bool,
    /// Requests of this name are answered after this time: the process was suspended.
    slow: Option<(&'static str, Duration)>,
    requests: Vec<SentRequest>,
    /// The orders that it reads. None: there is no such blob, and its reads are not recorded.
    orders: Option<Metadata>,
    /// Code with which its reads of orders are refused; only once if it is about the credential.
    refusal_of_orders: Option<&'static str>,
    /// The last will of the newest report.
    will: Option<LastWill>,
    /// Answers token requests.
    identity: Box<dyn Fn(Moment) -> TokenReply>,
    /// Duration of a token request.
    identity_takes: Duration,
    /// Times and time-outs of the token requests.
    fetches: Vec<(Moment, Duration)>,
}

/// Different numbers, the same in every run.
struct Counter(u64);

impl Chance for Counter {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn instant(at: Moment) -> DateTime<Utc> {
    Timestamp::parse(ORIGIN).unwrap().plus(at).to_date()
}

impl Candidate {
    fn new(overrides: &[(&str, &str)]) -> Self {
        let mut variables = BTreeMap::from([
            (variable::ELECTION, "leases/leader"),
            (variable::NAME, "here"),
            (variable::CONNECTION_STRING, "UseDevelopmentStorage=true"),
        ]);
        variables.extend(overrides.iter().copied());
        let settings =
            Settings::read(|name: &str| variables.get(name).map(|v| v.to_string())).unwrap();
        Self {
            settings,
            state: None,
            now: seconds(100),
            step_started: seconds(100),
            chance: Counter(7),
            wall_ahead: Duration::ZERO,
            lists: false,
            slow: None,
            requests: Vec::new(),
            orders: None,
            refusal_of_orders: None,
            will: None,
            identity: Box::new(|_| panic!("no token is needed")),
            identity_takes: millis(10),
            fetches: Vec::new(),
        }
    }

    /// Runs one step; each request takes 10 ms and is answered by `service`.
    fn step(
        &mut self,
        event: Option<Event>,
        mut service: impl FnMut(&Operation, Moment) -> Reply,
    ) -> Report {
        self.requests.clear();
        self.step_started = self.now;
        let state = self.state.take();
        let mut step =
            Step::new(&self.settings, state.as_deref(), self.now, event, &mut self.chance);
        loop {
            match step.next(self.now) {
                StepAction::Done(report) => {
                    self.state = Some(report.state.clone().into_bytes());
                    self.will = step.last_will(self.now, instant(self.now + self.wall_ahead));
                    return *report;
                }
                StepAction::Fetch(fetch) => {
                    let sent = self.now;
                    let reply = match fetch.timeout < self.identity_takes {
                        true => Err(Failure { kind: FailureKind::Timeout, detail: String::new() }),
                        false => (self.identity)(sent),
                    };
                    let failed = matches!(&reply, Err(f) if f.kind == FailureKind::Timeout);
                    self.now += if failed { fetch.timeout } else { self.identity_takes };
                    self.fetches.push((sent, fetch.timeout));
                    assert!(self.fetches.len() < 1000, "a step that does not end");
                    let wall = instant(self.now + self.wall_ahead);
                    step.on_token_reply(sent, self.now, wall, reply, &mut self.chance);
                }
                StepAction::Send(SignedRequest { operation, timeout, .. }) => {
                    let sent = self.now;
                    if !self.lists && operation.name().ends_with(" candidates") {
                        let (reply, wall) =
                            (error_answer(&operation, sent, 403, "x"), instant(sent));
                        step.on_answer(sent, sent, wall, reply, &mut self.chance);
                        continue;
                    }
                    // Reads that are irrelevant to a test.
                    if operation == ORDERS && self.orders.is_none() {
                        let reply = error_answer(&operation, sent, 404, "BlobNotFound");
                        let wall = instant(self.now + self.wall_ahead);
                        step.on_answer(sent, self.now, wall, reply, &mut self.chance);
                        continue;
                    }
                    let slow = self.slow.filter(|(name, _)| *name == operation.name());
                    let reply = match &self.orders {
                        Some(_) if operation == ORDERS && self.refusal_of_orders.is_some() => {
                            let code = self.refusal_of_orders.unwrap();
                            self.refusal_of_orders.take_if(|code| *code == "AuthenticationFailed");
                            error_answer(&operation, sent, 403, code)
                        }
                        Some(waiting) if operation == ORDERS => {
                            blob_answer(&operation, sent, "available", waiting)
                        }
                        _ => service(&operation, sent),
                    };
                    let failed = matches!(&reply, Err(f) if f.kind == FailureKind::Timeout);
                    self.now += match slow {
                        Some((_, takes)) => takes,
                        None if failed => timeout,
                        None => millis(10),
                    };
                    self.requests.push(SentRequest { operation, timeout, sent });
                    assert!(self.requests.len() < 30, "a step that does not end");
                    let wall = instant(self.now + self.wall_ahead);
                    step.on_answer(sent, self.now, wall, reply, &mut self.chance);
                }
            }
        }
    }

    /// Runs due steps until the candidate leads.
    fn lead(&mut self) -> Report {
        let report = self.step(None, available);
        assert!(matches!(report.role, Role::Leading(_)), "{report:?}");
        report
    }

    fn verbs(&self) -> Vec<&'static str> {
        self.requests.iter().map(|request| request.operation.name()).collect()
    }
}

/// A read of the orders.
const ORDERS: Operation = Operation::ReadSideBlob(SideBlob::Orders);

/// Returns an answer with a code, such as a refusal or a conflict.
fn error_answer(operation: &Operation, at: Moment, status: u16, code: &str) -> Reply {
    answer(operation, at, status, &[("x-ms-error-code", code)])
}

fn answer(operation: &Operation, at: Moment, status: u16, extra: &[(&str, &str)]) -> Reply {
    let date = tenure_azure::encoding::format_http_date(instant(at));
    let fixed = [("date", date.as_str()), ("x-ms-request-id", "1")];
    let headers = fixed.iter().chain(extra);
    let headers: Vec<_> =
        headers.map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect();
    Ok(Answer::from_parts(operation, status, &headers))
}

fn failure(kind: FailureKind) -> Reply {
    Err(Failure { kind, detail: String::new() })
}

/// Returns the answer to a poll of a blob with this lease state and metadata.
fn blob_answer(operation: &Operation, at: Moment, lease: &str, metadata: &Metadata) -> Reply {
    let names: Vec<String> = metadata.iter().map(|(name, _)| format!("x-ms-meta-{name}")).collect();
    let (lease, duration) =
        if lease == "infinite" { ("leased", "infinite") } else { (lease, "fixed") };
    let mut headers = vec![("etag", "\"1\""), ("x-ms-lease-state", lease), ("content-length", "0")];
    if lease == "leased" {
        headers.push(("x-ms-lease-duration", duration));
    }
    headers.extend(names.iter().map(String::as_str).zip(metadata.iter().map(|(_, value)| value)));
    answer(operation, at, 200, &headers)
}

/// Returns the answer of a service without faults: the lease is free, everything succeeds.
fn available(operation: &Operation, at: Moment) -> Reply {
    let id = |lease: &LeaseId| lease.to_string();
    match operation {
        Operation::Read { .. } => blob_answer(operation, at, "available", &incumbent(9)),
        Operation::CreateContainer | Operation::CreateBlob => {
            answer(operation, at, 201, &[("etag", "\"1\"")])
        }
        Operation::Acquire { lease, .. } => {
            answer(operation, at, 201, &[("x-ms-lease-id", &id(lease)), ("etag", "\"1\"")])
        }
        Operation::Renew { lease } | Operation::Release { lease } => {
            answer(operation, at, 200, &[("x-ms-lease-id", &id(lease)), ("etag", "\"1\"")])
        }
        Operation::Change { proposed: to, .. } => {
            answer(operation, at, 200, &[("x-ms-lease-id", &id(to))])
        }
        Operation::Break { .. } => answer(operation, at, 202, &[("x-ms-lease-time", "0")]),
        Operation::WriteMetadata { .. } => answer(operation, at, 200, &[("etag", "\"2\"")]),
        Operation::ReadSideBlob(_) => error_answer(operation, at, 404, "BlobNotFound"),
        Operation::WriteSideBlob { .. } => answer(operation, at, 201, &[("etag", "\"3\"")]),
        Operation::Delete { .. }
        | Operation::ReadAccount
        | Operation::ReadContent { .. }
        | Operation::WriteContent { .. }
        | Operation::List { .. } => {
            panic!("no election asks for that: {operation:?}")
        }
    }
}

/// Returns the record that a write would put on the blob.
fn written_record(request: &SentRequest) -> Record {
    match &request.operation {
        Operation::WriteMetadata { metadata, .. } => {
            Record::from_metadata(metadata).unwrap().unwrap()
        }
        other => panic!("not a write: {other:?}"),
    }
}

/// Returns the metadata of an incumbent with this term.
fn incumbent(term: u64) -> Metadata {
    Record {
        term,
        leader: "there".into(),
        nonce: 1,
        since: Timestamp::parse(ORIGIN).unwrap(),
        address: Some("http://10.0.0.9".into()),
        schedule: None,
        last_slot: None,
        finished: None,
        unknown: Metadata::from_iter([("tenurelater", "x")]),
        ..Record::default()
    }
    .to_metadata()
}

#[test]
fn a_state_that_cannot_be_read_is_a_new_candidate() {
    let mut candidate = Candidate::new(&[]);
    candidate.lead();
    let state = candidate.state.clone().unwrap();
    for broken in [vec![], vec![0], vec![3], state[..state.len() / 2].to_vec()] {
        candidate.state = Some(broken);
        let report = candidate.step(None, |o, at| blob_answer(o, at, "leased", &incumbent(5)));
        assert!(matches!(report.role, Role::Following(Some(_))));
    }
    let mut newer = state;
    newer[0] += 1;
    candidate.state = Some(newer);
    candidate.step(None, |o, at| blob_answer(o, at, "leased", &incumbent(5)));
    assert_eq!(candidate.verbs(), ["read blob"]);
}

#[test]
fn wrong_clock_is_reported_and_the_request_repeated_with_service_time() {
    let mut candidate = Candidate::new(&[]);
    candidate.wall_ahead = seconds(16 * 60);
    let mut first = true;
    let report = candidate.step(None, |o, at| match std::mem::take(&mut first) {
        true => error_answer(o, at, 403, "AuthenticationFailed"),
        false => available(o, at),
    });
    assert!(matches!(report.role, Role::Leading(_)));
    assert_eq!(report.problems.len(), 1);
    assert_eq!(report.problems[0].class, ProblemClass::Clock);
    assert!(report.problems[0].detail.contains("16 min ahead of"), "{report:?}");
}

#[test]
fn requests_are_signed_with_the_time_of_the_service_once_it_is_known() {
    let candidate = Candidate::new(&[]);
    let mut chance = Counter(1);
    let mut step = Step::new(&candidate.settings, None, seconds(0), None, &mut chance);
    let wall = instant(seconds(900));
    assert_eq!(step.date(seconds(0), wall), wall);
    let StepAction::Send(ask) = step.next(seconds(0)) else { panic!("nothing to send") };
    let reply = available(&ask.operation, seconds(0));
    step.on_answer(seconds(0), seconds(0), wall, reply, &mut chance);
    assert_eq!(step.date(seconds(0), wall), instant(seconds(0)));
}
