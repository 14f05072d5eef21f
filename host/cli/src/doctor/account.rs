//! The examination of the account: sends what it asks for, as a candidate would.

use super::examination::{Examination, Finding, Question, Reply, Way};
use bytes::Bytes;
use chrono::{DateTime, Utc};
use rustls::crypto::SecureRandom;
use std::sync::Arc;
use std::time::Duration;
use tenure::clock::{BootClock, Clock as _};
use tenure::egress::Authorities;
use tenure::program::http::{Clients, send};
use tenure_azure::answer::Answer;
use tenure_azure::request::Request;
use tenure_core::{Chance, Failure, FailureKind, Fetch, Fetched, Moment};

/// The account that some settings name, and how it is asked.
pub(super) struct Account {
    settings: tenure_core::Settings,
    clients: Arc<Clients>,
}

impl Account {
    /// Trusts `authorities` beside whom the platform trusts.
    pub(super) fn new(settings: tenure_core::Settings, authorities: Authorities) -> Self {
        Self { settings, clients: Arc::new(Clients::for_component(authorities)) }
    }

    /// Where requests go: the service, and who is asked for tokens.
    pub(super) fn origins(&self) -> Vec<String> {
        self.settings.needs(Utc::now()).origins
    }

    /// Tries all that an election needs, on a blob of its own. Takes some seconds, and at most a minute
    /// or so. Dropped, it may leave that blob behind.
    pub(super) async fn examine(&self) -> Vec<Finding> {
        Examination::of(&self.settings, OnWire { account: self, clock: BootClock::new() })
            .findings()
            .await
    }

    async fn send(&self, request: &Request, timeout: Duration) -> Result<Received, Failure> {
        let request = outgoing(request)
            .map_err(|error| Failure { kind: FailureKind::Other, detail: error.to_string() })?;
        let (head, body) = send(&self.clients, request, timeout).await?.into_parts();
        let header = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
            (name.to_string(), value.as_bytes().to_vec())
        };
        Ok((head.status.as_u16(), head.headers.iter().map(header).collect(), body))
    }
}

/// Status, headers and body of an answer.
type Received = (u16, Vec<(String, Vec<u8>)>, Bytes);

fn outgoing(request: &Request) -> Result<http::Request<Bytes>, http::Error> {
    let url = format!("{}{}", request.origin, request.path_and_query);
    let mut built = http::Request::builder().method(request.method.as_str()).uri(url);
    for (name, value) in &request.headers {
        built = built.header(name.as_str(), value.as_str());
    }
    built.body(Bytes::copy_from_slice(request.body.reveal().as_bytes()))
}

/// The way to the account from this machine.
struct OnWire<'a> {
    account: &'a Account,
    clock: BootClock,
}

impl Way for OnWire<'_> {
    fn now(&self) -> Moment {
        self.clock.now()
    }

    fn wall(&self) -> DateTime<Utc> {
        Utc::now()
    }

    async fn ask(&mut self, question: Question) -> Result<Reply, Failure> {
        let request = question.request(&self.account.settings, Utc::now());
        let (status, headers, body) = self.account.send(&request, question.timeout).await?;
        let answer = Answer::read(&question.operation, status, &headers).with_body(&body);
        Ok(Reply { answer, headers })
    }

    async fn fetch(&mut self, asked: Fetch) -> Fetched {
        let (status, _, body) = self.account.send(&asked.request, asked.timeout).await?;
        Ok((status, body.to_vec()))
    }
}

impl Chance for OnWire<'_> {
    fn bits(&mut self) -> u64 {
        let mut bytes = [0; 8];
        let random: &dyn SecureRandom = rustls::crypto::ring::default_provider().secure_random;
        // Without randomness there is no TLS either; a lease id of zeros harms no election.
        let _ = random.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }
}
