//! Those who give out tokens, played on this machine: the instance metadata service of a virtual
//! machine (IMDS), the endpoint of App Service, Functions and Container Apps, and Entra ID.
//!
//! A fake takes exactly one shape of request, the one that Microsoft's own client libraries
//! send. Anything else is answered with 400, and held against whoever sent it:
//! [`Endpoint::complaints`]. A request of that shape gets a token, unless the test had another
//! [`Reply`] in mind.

mod expected;
mod judge;
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

/// How long a token is valid, unless the test says otherwise: as those of IMDS.
const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// An endpoint that gives out tokens. It ends when it is dropped.
#[derive(Debug)]
pub struct Endpoint {
    address: SocketAddr,
    scheme: &'static str,
    book: Arc<Book>,
    server: JoinHandle<()>,
}

#[derive(Debug)]
struct Book {
    pages: Mutex<Pages>,
    count: watch::Sender<usize>,
}

#[derive(Debug)]
struct Pages {
    expected: Expected,
    script: VecDeque<Reply>,
    otherwise: Reply,
    requests: Vec<Request>,
    complaints: Vec<String>,
    issued: Vec<Token>,
}

/// A token that was given out. Not shown.
#[derive(Clone)]
struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Endpoint {
    /// Listens over plain HTTP, on a port of the loopback that the kernel picks.
    ///
    /// # Errors
    /// It cannot listen.
    pub async fn start(expected: Expected) -> Result<Self> {
        let listener = listen::plain().await?;
        let address = listener.local_addr()?;
        Ok(Self::serve("http", address, listener, expected))
    }

    /// Listens over TLS, as Entra ID does.
    ///
    /// # Errors
    /// It cannot listen.
    pub async fn start_tls(expected: Expected, certificates: &Certificates) -> Result<Self> {
        let listener = listen::tls(certificates).await?;
        Ok(Self::serve("https", listener.address(), listener, expected))
    }

    fn serve<L>(scheme: &'static str, address: SocketAddr, listener: L, expected: Expected) -> Self
    where
        L: axum::serve::Listener<Addr = SocketAddr>,
    {
        let pages = Pages {
            expected,
            script: VecDeque::new(),
            otherwise: Reply::token(LIFETIME),
            requests: Vec::new(),
            complaints: Vec::new(),
            issued: Vec::new(),
        };
        let book = Arc::new(Book { pages: Mutex::new(pages), count: watch::Sender::new(0) });
        let router = Router::new().fallback(answer).with_state(Arc::clone(&book));
        let server = tokio::spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        Self { address, scheme, book, server }
    }

    /// `http://127.0.0.1:PORT`: where IMDS or Entra ID would be.
    #[must_use]
    pub fn origin(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// Where tokens are asked for: what `IDENTITY_ENDPOINT` holds.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}{}", self.origin(), self.book.pages().expected.path())
    }

    /// From now on it takes this: another assertion, for example.
    pub fn expect(&self, expected: Expected) {
        self.book.pages().expected = expected;
    }

    /// The next requests, as long as they are of the right shape, are answered by these in turn.
    pub fn script(&self, replies: impl IntoIterator<Item = Reply>) {
        self.book.pages().script.extend(replies);
    }

    /// All requests that nothing is scripted for are answered by this; at first by a token that
    /// is valid for a day.
    pub fn otherwise(&self, reply: Reply) {
        self.book.pages().otherwise = reply;
    }

    /// What was wrong with requests, in the order of their arrival.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        self.book.pages().complaints.clone()
    }

    /// All requests so far, in the order of their arrival.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.book.pages().requests.clone()
    }

    /// The tokens that were given out so far.
    #[must_use]
    pub fn issued(&self) -> Vec<String> {
        self.book.pages().issued.iter().map(|token| token.0.clone()).collect()
    }

    /// Waits until so many requests have arrived. Waits for ever if need be.
    pub async fn wait_for(&self, count: usize) {
        let mut arrived = self.book.count.subscribe();
        arrived.wait_for(|arrived| *arrived >= count).await.expect("the endpoint lives");
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Book {
    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap()
    }
}

async fn answer(State(book): State<Arc<Book>>, request: axum::extract::Request) -> Response {
    let request = Request::read(request).await;
    let (expected, reply) = {
        let mut pages = book.pages();
        let complaints = judge::judge(&pages.expected.wanted(), &request);
        pages.requests.push(request);
        let expected = pages.expected.clone();
        if !complaints.is_empty() {
            let refusal = reply::refusal(&expected, &complaints);
            pages.complaints.extend(complaints);
            book.count.send_modify(|count| *count += 1);
            return refusal;
        }
        let reply = pages.script.pop_front().unwrap_or_else(|| pages.otherwise.clone());
        (expected, reply)
    };
    book.count.send_modify(|count| *count += 1);
    tokio::time::sleep(reply.delay()).await;
    let (response, token) = reply.render(&expected, Utc::now());
    book.pages().issued.extend(token.map(Token));
    response
}
