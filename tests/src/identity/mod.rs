//! Local fakes of token services: the instance metadata service of a virtual machine (IMDS), the
//! endpoint of App Service, Functions and Container Apps, and Entra ID.
//!
//! A fake accepts exactly one form of request, the one that Microsoft's own client libraries send.
//! It answers any other request with 400, and records a complaint: [`Endpoint::complaints`]. A
//! request of the right form gets a token, unless the test scripted another [`Reply`].

mod check;
mod expected;
mod listen;
mod reply;
mod request;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use anyhow::Result;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use chrono::Utc;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::Certificates;
pub use expected::{Expected, Proof};
pub use reply::{Reply, Spelling};
pub use request::Request;

/// Default lifetime of a token, the same as at IMDS.
const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Endpoint that issues tokens. Dropping it ends the server.
#[derive(Debug)]
pub struct Endpoint {
    address: SocketAddr,
    scheme: &'static str,
    shared: Arc<SharedState>,
    server: JoinHandle<()>,
}

#[derive(Debug)]
struct SharedState {
    inner: Mutex<EndpointState>,
    count: watch::Sender<usize>,
}

#[derive(Debug)]
struct EndpointState {
    expected: Expected,
    script: VecDeque<Reply>,
    default_reply: Reply,
    requests: Vec<Request>,
    complaints: Vec<String>,
    issued: Vec<Token>,
}

/// An issued token. `Debug` does not show it.
#[derive(Clone)]
struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Endpoint {
    /// Starts on plain HTTP, on a free loopback port.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub async fn start(expected: Expected) -> Result<Self> {
        let listener = listen::listen_plain().await?;
        let address = listener.local_addr()?;
        Ok(Self::serve("http", address, listener, expected))
    }

    /// Starts on TLS, like Entra ID.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub async fn start_tls(expected: Expected, certificates: &Certificates) -> Result<Self> {
        let listener = listen::listen_tls(certificates).await?;
        Ok(Self::serve("https", listener.address(), listener, expected))
    }

    fn serve<L>(scheme: &'static str, address: SocketAddr, listener: L, expected: Expected) -> Self
    where
        L: axum::serve::Listener<Addr = SocketAddr>,
    {
        let endpoint_state = EndpointState {
            expected,
            script: VecDeque::new(),
            default_reply: Reply::token(LIFETIME),
            requests: Vec::new(),
            complaints: Vec::new(),
            issued: Vec::new(),
        };
        let shared = Arc::new(SharedState {
            inner: Mutex::new(endpoint_state),
            count: watch::Sender::new(0),
        });
        let router = Router::new().fallback(answer).with_state(Arc::clone(&shared));
        let server = tokio::spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        Self { address, scheme, shared, server }
    }

    /// Returns `http://127.0.0.1:PORT`, which replaces the address of IMDS or Entra ID.
    #[must_use]
    pub fn origin(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// Returns the URL for token requests, the value of `IDENTITY_ENDPOINT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}{}", self.origin(), self.shared.lock().expected.path())
    }

    /// Changes the accepted request from now on, for example to another assertion.
    pub fn set_expected(&self, expected: Expected) {
        self.shared.lock().expected = expected;
    }

    /// Scripts the replies to the next requests of the right form, in order.
    pub fn add_replies(&self, replies: impl IntoIterator<Item = Reply>) {
        self.shared.lock().script.extend(replies);
    }

    /// Sets the reply to requests without a scripted one. The initial default is a token that is
    /// valid for a day.
    pub fn set_default_reply(&self, reply: Reply) {
        self.shared.lock().default_reply = reply;
    }

    /// Returns the complaints about requests, in order of arrival.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        self.shared.lock().complaints.clone()
    }

    /// Returns all requests so far, in order of arrival.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.shared.lock().requests.clone()
    }

    /// Returns the tokens issued so far.
    #[must_use]
    pub fn issued(&self) -> Vec<String> {
        self.shared.lock().issued.iter().map(|token| token.0.clone()).collect()
    }

    /// Waits until `count` requests have arrived, without a time limit.
    pub async fn wait_for(&self, count: usize) {
        let mut request_count = self.shared.count.subscribe();
        request_count
            .wait_for(|request_count| *request_count >= count)
            .await
            .expect("the endpoint lives");
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl SharedState {
    fn lock(&self) -> MutexGuard<'_, EndpointState> {
        self.inner.lock().unwrap()
    }
}

async fn answer(
    State(shared): State<Arc<SharedState>>,
    request: axum::extract::Request,
) -> Response {
    let request = Request::read(request).await;
    let (expected, reply) = {
        let mut endpoint_state = shared.lock();
        let complaints =
            check::check_request(&endpoint_state.expected.expected_request(), &request);
        endpoint_state.requests.push(request);
        let expected = endpoint_state.expected.clone();
        if !complaints.is_empty() {
            let refusal = reply::refusal(&expected, &complaints);
            endpoint_state.complaints.extend(complaints);
            shared.count.send_modify(|count| *count += 1);
            return refusal;
        }
        let reply = endpoint_state
            .script
            .pop_front()
            .unwrap_or_else(|| endpoint_state.default_reply.clone());
        (expected, reply)
    };
    shared.count.send_modify(|count| *count += 1);
    tokio::time::sleep(reply.delay()).await;
    let (response, token) = reply.render(&expected, Utc::now());
    shared.lock().issued.extend(token.map(Token));
    response
}
