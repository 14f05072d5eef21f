//! A simulated service, and examinations of it.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::super::{Examination, Finding, Question, Reply, Transport};
use tenure_azure::answer::Answer;
use tenure_azure::operation::{ETag, Operation};
use tenure_azure::{LeaseId, encoding};
use tenure_core::{Chance, Failure, FailureKind, Settings, TokenReply, TokenRequest};

pub const ELECTION: &str = "jobs/report";

/// Maximum number of requests of an examination.
pub const MAX_QUESTIONS: usize = 60;

struct TestTransport<'a, F> {
    service: &'a mut Service,
    override_answer: F,
    chance: Counter,
    now: Duration,
}

impl<F> Chance for TestTransport<'_, F> {
    fn bits(&mut self) -> u64 {
        self.chance.bits()
    }
}

impl<F: FnMut(&Question, DateTime<Utc>) -> Option<TestResponse>> Transport
    for TestTransport<'_, F>
{
    fn now(&self) -> Duration {
        self.now
    }

    fn wall(&self) -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000, 0).unwrap() + self.now
    }

    async fn ask(&mut self, question: Question) -> Result<Reply, Failure> {
        let questions = &self.service.questions;
        assert!(questions.len() < MAX_QUESTIONS, "it does not end: {questions:?}");
        self.now += Duration::from_millis(20);
        let service_time = self.wall() + self.service.ahead;
        let response = (self.override_answer)(&question, service_time);
        let response = response.unwrap_or_else(|| self.service.respond(&question));
        let reply = response.map_err(|kind| Failure { kind, detail: String::new() });
        let reply = reply.map(|(status, more)| {
            let fixed = [
                ("date", encoding::format_http_date(service_time)),
                ("x-ms-request-id", "1".to_string()),
            ];
            let all = fixed.into_iter().chain(more);
            let headers: Vec<_> =
                all.map(|(name, value)| (name.to_string(), value.into_bytes())).collect();
            let answer = Answer::from_parts(&question.operation, status, &headers);
            Reply { answer, headers }
        });
        self.service.questions.push(question);
        reply
    }

    async fn fetch(&mut self, _: TokenRequest) -> TokenReply {
        self.service.fetched_at.push(self.now);
        let Some(remaining) = self.service.tokens.checked_sub(1) else {
            return Ok((429, Vec::new()));
        };
        self.service.tokens = remaining;
        Ok((200, br#"{"access_token":"ey","token_type":"Bearer","expires_in":1}"#.to_vec()))
    }

    async fn pause(&mut self, time: Duration) {
        self.now += time;
    }
}

struct Counter(u64);

impl Chance for Counter {
    fn bits(&mut self) -> u64 {
        self.0 += 1;
        self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

pub fn settings(connection_string: &str) -> Settings {
    with(connection_string, None)
}

/// Returns settings with a failover time of three seconds.
pub fn with_failover() -> Settings {
    with("AccountName=acc;AccountKey=c2VjcmV0", Some("3s"))
}

fn with(connection_string: &str, failover: Option<&str>) -> Settings {
    Settings::read(|name: &str| match name {
        "TENURE_FAILOVER" => failover.map(str::to_owned),
        "TENURE_ELECTION" => Some(ELECTION.into()),
        "AZURE_STORAGE_CONNECTION_STRING" => Some(connection_string.into()),
        _ => None,
    })
    .unwrap()
}

/// Returns settings with the managed identity of the machine.
pub fn with_identity() -> Settings {
    Settings::read(|name: &str| match name {
        "TENURE_ELECTION" => Some(ELECTION.into()),
        "AZURE_STORAGE_ACCOUNT" => Some("acc".into()),
        _ => None,
    })
    .unwrap()
}

pub fn with_key() -> Settings {
    settings("AccountName=acc;AccountKey=c2VjcmV0")
}

pub type TestResponse = Result<(u16, Vec<(&'static str, String)>), FailureKind>;

pub fn refusal(status: u16, code: &str) -> Option<TestResponse> {
    Some(Ok((status, vec![("x-ms-error-code", code.to_string())])))
}

/// A simulated service that stores only the scratch blob.
#[derive(Default)]
pub struct Service {
    /// Name, ETag and mark of the stored blob.
    pub blob: Option<(String, u32, bool)>,
    pub lease: Option<LeaseId>,
    pub container: bool,
    /// Time by which the service's clock is ahead of the machine's.
    pub ahead: TimeDelta,
    pub questions: Vec<Question>,
    /// Times of the requests for a token.
    pub fetched_at: Vec<Duration>,
    /// Number of requests for a token that are still answered with one. It is valid for a second.
    /// The others are answered 429.
    pub tokens: u32,
}

impl Service {
    pub fn new() -> Self {
        Self { container: true, ..Self::default() }
    }

    fn code(status: u16, code: &str) -> TestResponse {
        Ok((status, vec![("x-ms-error-code", code.to_string())]))
    }

    pub fn respond(&mut self, question: &Question) -> TestResponse {
        let name = question.blob.to_string();
        let etag = |number: u32| ("etag", format!("\"{number}\""));
        let lease_header = |lease: &LeaseId| ("x-ms-lease-id", lease.to_string());
        if !self.container && !matches!(question.operation, Operation::CreateContainer) {
            return Self::code(404, "ContainerNotFound");
        }
        let exists = self.blob.as_ref().is_some_and(|(known, ..)| *known == name);
        match &question.operation {
            Operation::CreateContainer => {
                self.container = true;
                Ok((201, vec![]))
            }
            Operation::ReadAccount => Ok((
                200,
                vec![
                    ("x-ms-sku-name", "Standard_LRS".to_string()),
                    ("x-ms-account-kind", "StorageV2".to_string()),
                ],
            )),
            Operation::CreateBlob if exists => Self::code(409, "BlobAlreadyExists"),
            Operation::CreateBlob => {
                self.blob = Some((name, 1, false));
                Ok((201, vec![etag(1)]))
            }
            Operation::ReadSideBlob(_) => Self::code(404, "BlobNotFound"),
            _ if !exists => Self::code(404, "BlobNotFound"),
            Operation::Read { lease: Some(lease) } if self.lease != Some(*lease) => {
                Self::code(412, "LeaseNotPresentWithBlobOperation")
            }
            Operation::Read { .. } => {
                let (_, number, marked) = self.blob.clone().unwrap();
                let state = if self.lease.is_some() { "leased" } else { "available" };
                let mut headers = vec![etag(number), ("x-ms-lease-state", state.to_string())];
                headers.extend(marked.then(|| ("x-ms-meta-check", "examined".to_string())));
                Ok((200, headers))
            }
            Operation::Acquire { lease, .. } => match self.lease {
                Some(other) if other != *lease => Self::code(409, "LeaseAlreadyPresent"),
                _ => {
                    self.lease = Some(*lease);
                    let (_, number, _) = self.blob.as_ref().unwrap();
                    Ok((201, vec![etag(*number), lease_header(lease)]))
                }
            },
            Operation::WriteMetadata { lease, if_match: ETag(wanted), .. } => {
                let (_, number, marked) = self.blob.as_mut().unwrap();
                if self.lease != Some(*lease) {
                    return Self::code(412, "LeaseIdMismatchWithBlobOperation");
                }
                if !["*", &format!("\"{number}\"")].contains(&wanted.as_str()) {
                    return Self::code(412, "ConditionNotMet");
                }
                (*number, *marked) = (*number + 1, true);
                Ok((200, vec![etag(*number)]))
            }
            Operation::Delete { lease, .. } => {
                if self.lease != *lease {
                    return Self::code(412, "LeaseIdMissing");
                }
                (self.blob, self.lease) = (None, None);
                Ok((202, vec![]))
            }
            Operation::Break { if_match: Some(ETag(wanted)), .. }
                if self
                    .blob
                    .as_ref()
                    .is_some_and(|(_, number, _)| *wanted != format!("\"{number}\"")) =>
            {
                Self::code(412, "ConditionNotMet")
            }
            Operation::Break { .. } => {
                self.lease = None;
                Ok((202, vec![]))
            }
            // A repeated change succeeds.
            Operation::Change { proposed: to, .. } if self.lease == Some(*to) => {
                Ok((200, vec![lease_header(to)]))
            }
            Operation::Renew { lease }
            | Operation::Change { lease, .. }
            | Operation::Release { lease }
                if self.lease != Some(*lease) =>
            {
                Self::code(409, "LeaseIdMismatchWithLeaseOperation")
            }
            Operation::Renew { lease } => Ok((200, vec![lease_header(lease)])),
            Operation::Change { proposed: to, .. } => {
                self.lease = Some(*to);
                Ok((200, vec![lease_header(to)]))
            }
            Operation::Release { .. } => {
                self.lease = None;
                Ok((200, vec![]))
            }
            other => panic!("an examination never asks that: {other:?}"),
        }
    }

    /// Runs an examination, in which `override_answer` may replace the service's responses.
    pub fn examine(
        &mut self,
        settings: &Settings,
        override_answer: impl FnMut(&Question, DateTime<Utc>) -> Option<TestResponse>,
    ) -> Vec<Finding> {
        let transport = TestTransport {
            service: self,
            override_answer,
            chance: Counter(0),
            now: Duration::ZERO,
        };
        let examined = pin!(Examination::new(settings, transport).findings());
        match examined.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(findings) => findings,
            Poll::Pending => panic!("nothing here is waited for"),
        }
    }

    /// Checks that requests to the election's blob only read.
    pub fn check_questions(&self) {
        for Question { operation, blob, .. } in &self.questions {
            let harmless = matches!(
                operation,
                Operation::Read { .. }
                    | Operation::ReadSideBlob(_)
                    | Operation::CreateContainer
                    | Operation::ReadAccount
            );
            assert!(harmless || blob.to_string() != ELECTION, "{operation:?}");
        }
    }
}
