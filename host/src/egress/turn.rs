//! The outgoing HTTP of one turn: connections of its own, which end with it.

use super::Authorities;
use super::client::{CONNECT, USER_AGENT};
use super::lookup::{Directory, Lookups, Machine};
use super::names::Names;
use super::permit::{Permit, Revoke};
use super::place::{Place, REQUEST, connect_within};
use super::wire::Wire;
use crate::future::{BoxError, BoxFuture};
use crate::lease::Lease;
use crate::trace_parent::TraceParent;
use bytes::Bytes;
use http::header::{CONNECTION, HOST, HeaderName, HeaderValue};
use http::{Uri, uri::Scheme};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::legacy::{self, Client};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::future::ready;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tenure_webhook::{ELECTION_HEADER, TERM_HEADER, election_value};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tower_service::Service;

/// Unused connections that a turn keeps to one host.
const IDLE_PER_HOST: usize = 4;

/// Requests of a turn that are under way at a time, answers that are not read to their end
/// included. More of them wait: the connections of the election must not run short of descriptors,
/// nor the host of memory for bodies.
pub(super) const AT_A_TIME: usize = 64;

/// Bytes that are read of a connection before they are taken: no head of an answer is longer.
pub(super) const READ_AHEAD: usize = 128 * 1024;

/// A peer that acknowledged everything and is not heard of for so long is asked whether it is still there, and asked
/// again after [`ASK_AGAIN`], and once more. That keeps alive a call that waits for long, too: load balancers forget
/// idle connections, often after minutes.
const IDLE: Duration = Duration::from_secs(30);
const ASK_AGAIN: Duration = Duration::from_secs(10);
const ASKED: u32 = 3;

const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");

/// What all turns of a handler have in common.
pub struct Outlet {
    tcp: HttpConnector<Lookups>,
    /// Who is trusted beside whom the platform trusts.
    authorities: Arc<Authorities>,
    /// Made when it is first needed, and then kept: a TLS session can be resumed in another turn.
    pub(super) tls: Tls,
    /// Its receivers are the permits of all turns.
    permits: watch::Sender<()>,
}

/// Waits until there is room for one more request.
pub(super) type Queued = BoxFuture<'static, Option<Place>>;

type Tls = Arc<OnceLock<Arc<ClientConfig>>>;

/// The connections of one turn. When this is dropped they are closed, and nothing can be sent by
/// anybody who still holds a gate of the turn.
pub struct Connections {
    pub(super) courier: Arc<Courier>,
    _revoke: Revoke,
}

/// Sends the requests of one turn, stamped with its term and its election.
pub(super) struct Courier {
    client: Client<Connector, Full<Bytes>>,
    stamps: [(HeaderName, HeaderValue); 2],
    /// The trace that the turn belongs to.
    trace: Option<HeaderValue>,
    pub(super) permit: Permit,
    places: Arc<Semaphore>,
}

impl Outlet {
    /// The connections of the turns of a handler that chooses its URLs. A name never leads to this machine, its link or the
    /// platform's own services: an allowed name could be pointed at the identity endpoint of the machine, or at a port that
    /// is open to the machine itself only.
    pub fn of_component() -> Self {
        Self::with_directory(Names::OfOthers, Machine)
    }

    /// The same for the URL of an operator. A name may lead anywhere.
    pub(crate) fn of_operator() -> Self {
        Self::with_directory(Names::OfAll, Machine)
    }

    /// Asks `directory` about names and addresses.
    pub(super) fn with_directory(names: Names, directory: impl Directory) -> Self {
        let mut tcp = HttpConnector::new_with_resolver(Lookups::new(names, directory));
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT));
        tcp.set_keepalive(Some(IDLE));
        tcp.set_keepalive_interval(Some(ASK_AGAIN));
        tcp.set_keepalive_retries(Some(ASKED));
        let permits = watch::Sender::new(());
        Self { tcp, authorities: Arc::default(), tls: Arc::default(), permits }
    }

    /// Trusts `authorities` beside the platform's.
    pub(crate) fn trusting(self, authorities: Authorities) -> Self {
        Self { authorities: Arc::new(authorities), ..self }
    }

    /// Lets a turn of `election` under `term` send while its lease holds.
    pub fn open(&self, term: u64, election: &str, lease: Lease) -> Connections {
        let (permit, revoke) = Permit::new(lease, &self.permits);
        let connector = Connector {
            tcp: self.tcp.clone(),
            authorities: self.authorities.clone(),
            tls: self.tls.clone(),
            permit: permit.clone(),
        };
        let client = Client::builder(UntilRevoked(permit.clone()))
            // What could not be sent is for the handler to decide about.
            .retry_canceled_requests(false)
            .pool_max_idle_per_host(IDLE_PER_HOST)
            .http1_max_buf_size(READ_AHEAD)
            .build(connector);
        // Its characters are those that a header may have.
        let election = HeaderValue::try_from(election_value(election));
        let election = election.unwrap_or(HeaderValue::from_static(""));
        let stamps = [
            (HeaderName::from_static(TERM_HEADER), term.into()),
            (HeaderName::from_static(ELECTION_HEADER), election),
        ];
        let courier = Arc::new(Courier {
            client,
            stamps,
            trace: TraceParent::current().and_then(|parent| parent.to_string().try_into().ok()),
            permit,
            places: Arc::new(Semaphore::new(AT_A_TIME)),
        });
        Connections { courier, _revoke: revoke }
    }

    /// Completes when all connections of turns that are over have been closed, and nobody makes another one.
    pub async fn closed(&self) {
        self.permits.closed().await;
    }
}

impl Courier {
    /// Joins the queue of the requests, in this call: a handler waits for its answers in the order
    /// in which it asked, so that none may overtake an earlier one on the way here.
    pub(super) fn queue(&self) -> Queued {
        let mut queued = Box::pin(self.places.clone().acquire_owned());
        match queued.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            // The semaphore is never closed.
            Poll::Ready(place) => Box::pin(ready(place.ok().map(Arc::new))),
            Poll::Pending => Box::pin(async { queued.await.ok().map(Arc::new) }),
        }
    }

    pub(super) async fn send(
        &self,
        mut request: http::Request<Full<Bytes>>,
        place: Option<Place>,
        connect_within: Duration,
    ) -> Result<http::Response<Incoming>, legacy::Error> {
        let headers = request.headers_mut();
        // The client sets it from the URL.
        headers.remove(HOST);
        // It could tell a proxy to take the stamp away.
        headers.remove(CONNECTION);
        headers.entry(http::header::USER_AGENT).or_insert(HeaderValue::from_static(USER_AGENT));
        // A handler that traces its own work has named a span of its own.
        if let Some(parent) = &self.trace {
            headers.entry(TRACE_PARENT).or_insert(parent.clone());
        }
        for (stamp, value) in &self.stamps {
            // Whatever the handler put there, and what its server may take for it.
            let forged: Vec<_> =
                headers.keys().filter(|name| reads_as(stamp, name)).cloned().collect();
            for name in forged {
                headers.remove(name);
            }
            headers.insert(stamp.clone(), value.clone());
        }
        REQUEST.scope((place, connect_within), self.client.request(request)).await
    }
}

/// Returns true if a server may take the header `name` for `stamp`: many replace every character that is
/// no letter or digit by the same one, for example `_`, before an application reads the name.
fn reads_as(stamp: &HeaderName, name: &HeaderName) -> bool {
    let plain = |byte: u8| if byte.is_ascii_alphanumeric() { byte } else { b'-' };
    let plain = |name: &HeaderName| name.as_str().bytes().map(plain).collect::<Vec<_>>();
    plain(name) == plain(stamp)
}

/// Makes connections that write under the permit.
#[derive(Clone)]
struct Connector {
    tcp: HttpConnector<Lookups>,
    authorities: Arc<Authorities>,
    tls: Tls,
    permit: Permit,
}

impl Connector {
    async fn connect(mut self, to: Uri) -> Result<TokioIo<Box<dyn Stream>>, BoxError> {
        let tcp = self.permit.drive(self.tcp.call(to.clone())).await??;
        let wire = Wire::new(tcp.into_inner(), self.permit)?;
        if to.scheme() != Some(&Scheme::HTTPS) {
            return Ok(TokioIo::new(Box::new(wire)));
        }
        let config = match self.tls.get() {
            Some(config) => config,
            None => {
                let made = self.authorities.client_config().map_err(|e| format!("TLS: {e}"))?;
                self.tls.get_or_init(|| Arc::new(made))
            }
        };
        let host = to.host().unwrap_or_default().trim_matches(['[', ']']);
        let server = ServerName::try_from(host)?.to_owned();
        let tls = TlsConnector::from(config.clone()).connect(server, wire).await?;
        Ok(TokioIo::new(Box::new(tls)))
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Box<dyn Stream>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let (connecting, within) = (self.clone().connect(to), connect_within());
        Box::pin(async move { timeout(within, connecting).await? })
    }
}

/// A [`Wire`], or TLS over it.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Connection for Box<dyn Stream> {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

/// Runs the tasks of the client for as long as the turn lasts. Connections are dropped with them.
#[derive(Clone)]
struct UntilRevoked(Permit);

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for UntilRevoked {
    fn execute(&self, task: F) {
        let revoked = self.0.clone().revoked();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = revoked => {}
                () = task => {}
            }
        });
    }
}
