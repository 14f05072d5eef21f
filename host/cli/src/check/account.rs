//! Sends the questions of an examination to the account, as a candidate would.

use super::examination::{Question, Reply, Transport};
use bytes::Bytes;
use chrono::{DateTime, Utc};
use rustls::crypto::SecureRandom;
use std::sync::Arc;
use std::time::Duration;
use tenure::RootCertificates;
use tenure::engine::Clients;
use tenure_azure::answer::Answer;
use tenure_azure::request::Request;
use tenure_clock::{BootClock, Clock as _};
use tenure_core::{Chance, Failure, FailureKind, Moment, Settings, TokenReply, TokenRequest};

/// The account that the settings name, and the connections to it.
pub(super) struct Account<'s> {
    settings: &'s Settings,
    clients: Arc<Clients>,
    clock: BootClock,
}

impl<'s> Account<'s> {
    /// Trusts `authorities` in addition to those of the platform.
    pub(super) fn new(settings: &'s Settings, authorities: RootCertificates) -> Self {
        let clients = Arc::new(Clients::with_env_proxies(authorities));
        Self { settings, clients, clock: BootClock::new() }
    }

    async fn send(&self, request: &Request, timeout: Duration) -> Result<ResponseParts, Failure> {
        let request = to_http_request(request)
            .map_err(|error| Failure { kind: FailureKind::Other, detail: error.to_string() })?;
        let (head, body) = self.clients.send(request, timeout).await?.into_parts();
        let header = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
            (name.to_string(), value.as_bytes().to_vec())
        };
        Ok((head.status.as_u16(), head.headers.iter().map(header).collect(), body))
    }
}

/// Status, headers and body of a response.
type ResponseParts = (u16, Vec<(String, Vec<u8>)>, Bytes);

fn to_http_request(request: &Request) -> Result<http::Request<Bytes>, http::Error> {
    let url = format!("{}{}", request.origin, request.path_and_query);
    let mut built = http::Request::builder().method(request.method.as_str()).uri(url);
    for (name, value) in &request.headers {
        built = built.header(name.as_str(), value.as_str());
    }
    built.body(Bytes::copy_from_slice(request.body.reveal().as_bytes()))
}

impl Transport for Account<'_> {
    fn now(&self) -> Moment {
        self.clock.now()
    }

    fn wall(&self) -> DateTime<Utc> {
        Utc::now()
    }

    async fn ask(&mut self, question: Question) -> Result<Reply, Failure> {
        let request = question.request(self.settings, Utc::now());
        let (status, headers, body) = self.send(&request, question.timeout).await?;
        let answer = Answer::from_parts(&question.operation, status, &headers).with_body(&body);
        Ok(Reply { answer, headers })
    }

    async fn fetch(&mut self, fetch: TokenRequest) -> TokenReply {
        let (status, _, body) = self.send(&fetch.request, fetch.timeout).await?;
        Ok((status, body.to_vec()))
    }
}

impl Chance for Account<'_> {
    fn bits(&mut self) -> u64 {
        let mut bytes = [0; 8];
        let random: &dyn SecureRandom = rustls::crypto::ring::default_provider().secure_random;
        // Without randomness there is no TLS either. A lease id of zeros harms no election.
        let _ = random.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }
}
