//! Outgoing HTTP of one turn, with its own connections, which end with it.

use super::RootCertificates;
use super::client::{CONNECT_TIMEOUT, USER_AGENT};
use super::lookup::{Directory, Lookups, NamePolicy, SystemDirectory};
use super::wire::{Permit, RevokeGuard, Wire};
use crate::future::{BoxError, BoxFuture};
use crate::lease::{Lease, TraceParent};
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
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tower_service::Service;

/// Maximum unused connections of a turn to one host.
const MAX_IDLE_PER_HOST: usize = 4;

/// Maximum simultaneous requests of a turn, including responses that are not read completely.
/// Further requests wait.
///
/// Otherwise elections could run out of descriptors for their connections, and the host out of
/// memory for bodies.
pub(super) const MAX_REQUESTS: usize = 64;

/// Maximum bytes that are read from a connection ahead of the guest. A response head cannot be
/// longer.
pub(super) const READ_AHEAD: usize = 128 * 1024;

/// Keepalive settings. They detect dead peers, and keep the connection of a call that waits long
/// for its response: load balancers forget idle connections, often after minutes.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_RETRIES: u32 = 3;

const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");

/// Resources shared by all turns of a handler.
pub struct Outlet {
    tcp: HttpConnector<Lookups>,
    /// Root certificates that are trusted in addition to the platform's.
    root_certificates: Arc<RootCertificates>,
    /// Created on first use and then kept, so that another turn can resume a TLS session.
    pub(super) tls: Tls,
    /// Its receivers are the permits of all turns.
    permits: watch::Sender<()>,
}

/// Slot of a request among those of its turn. Freed when all clones are dropped.
pub(super) type RequestSlot = Arc<OwnedSemaphorePermit>;

/// Waits for a free request slot.
pub(super) type QueuedSlot = BoxFuture<'static, Option<RequestSlot>>;

type Tls = Arc<OnceLock<Arc<ClientConfig>>>;

/// Connections of one turn. Dropping this closes them, and no gate of the turn can send any more.
pub struct Connections {
    pub(super) turn_client: Arc<TurnClient>,
    _revoke: RevokeGuard,
}

/// Sends the requests of one turn, with its term and its election in headers.
pub(super) struct TurnClient {
    client: Client<Connector, Full<Bytes>>,
    fencing_headers: [(HeaderName, HeaderValue); 2],
    /// Trace of the turn.
    trace_parent: Option<HeaderValue>,
    pub(super) permit: Permit,
    slots: Arc<Semaphore>,
}

impl Outlet {
    /// Creates the outlet of a handler that chooses its URLs.
    ///
    /// A name never resolves to this machine, its link or the platform's own services. Otherwise an
    /// allowed name could point to the machine's identity endpoint, or to a port that only the
    /// machine itself can reach.
    pub fn for_component() -> Self {
        Self::with_directory(NamePolicy::RemoteOnly, SystemDirectory)
    }

    /// Creates the outlet for the URL of an operator. A name may resolve to any address.
    pub(crate) fn for_operator() -> Self {
        Self::with_directory(NamePolicy::Any, SystemDirectory)
    }

    /// Creates an outlet that uses `directory` for names and addresses.
    pub(super) fn with_directory(names: NamePolicy, directory: impl Directory) -> Self {
        let mut tcp = HttpConnector::new_with_resolver(Lookups::new(names, directory));
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        tcp.set_keepalive(Some(KEEPALIVE_IDLE));
        tcp.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
        tcp.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
        let permits = watch::Sender::new(());
        Self { tcp, root_certificates: Arc::default(), tls: Arc::default(), permits }
    }

    /// Trusts these root certificates in addition to the platform's.
    pub(crate) fn with_root_certificates(self, root_certificates: RootCertificates) -> Self {
        Self { root_certificates: Arc::new(root_certificates), ..self }
    }

    /// Lets a turn of `election` in `term` send while its lease is valid.
    pub fn open(&self, term: u64, election: &str, lease: Lease) -> Connections {
        let (permit, revoke) = Permit::new(lease, &self.permits);
        let connector = Connector {
            tcp: self.tcp.clone(),
            root_certificates: self.root_certificates.clone(),
            tls: self.tls.clone(),
            permit: permit.clone(),
        };
        let client = Client::builder(RevocableExecutor(permit.clone()))
            // The handler decides about retries.
            .retry_canceled_requests(false)
            .pool_max_idle_per_host(MAX_IDLE_PER_HOST)
            .http1_max_buf_size(READ_AHEAD)
            .build(connector);
        // The encoded name contains only characters that are valid in a header.
        let election_header = HeaderValue::try_from(election_value(election));
        let election_header = election_header.unwrap_or(HeaderValue::from_static(""));
        let fencing_headers = [
            (HeaderName::from_static(TERM_HEADER), term.into()),
            (HeaderName::from_static(ELECTION_HEADER), election_header),
        ];
        let turn_client = Arc::new(TurnClient {
            client,
            fencing_headers,
            trace_parent: TraceParent::current()
                .and_then(|parent| parent.to_string().try_into().ok()),
            permit,
            slots: Arc::new(Semaphore::new(MAX_REQUESTS)),
        });
        Connections { turn_client, _revoke: revoke }
    }

    /// Waits until all connections of ended turns are closed, and no such connection is being made.
    pub async fn closed(&self) {
        self.permits.closed().await;
    }
}

impl TurnClient {
    /// Joins the queue of requests in this call.
    ///
    /// A handler waits for its responses in the order of its requests, so a later request must not
    /// overtake an earlier one.
    pub(super) fn queue(&self) -> QueuedSlot {
        let mut queued = Box::pin(self.slots.clone().acquire_owned());
        match queued.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            // The semaphore is never closed.
            Poll::Ready(slot) => Box::pin(ready(slot.ok().map(Arc::new))),
            Poll::Pending => Box::pin(async { queued.await.ok().map(Arc::new) }),
        }
    }

    pub(super) async fn send(
        &self,
        mut request: http::Request<Full<Bytes>>,
        slot: Option<RequestSlot>,
        connect_within: Duration,
    ) -> Result<http::Response<Incoming>, legacy::Error> {
        let headers = request.headers_mut();
        // The client sets it from the URL.
        headers.remove(HOST);
        // This header could make a proxy remove the fencing headers.
        headers.remove(CONNECTION);
        headers.entry(http::header::USER_AGENT).or_insert(HeaderValue::from_static(USER_AGENT));
        // Keeps the span that a handler has set because it traces its own work.
        if let Some(parent) = &self.trace_parent {
            headers.entry(TRACE_PARENT).or_insert(parent.clone());
        }
        for (header_name, value) in &self.fencing_headers {
            // The handler may have set this header, or one that a server may confuse with it.
            let replaced: Vec<_> =
                headers.keys().filter(|name| is_same_header(header_name, name)).cloned().collect();
            for name in replaced {
                headers.remove(name);
            }
            headers.insert(header_name.clone(), value.clone());
        }
        REQUEST.scope((slot, connect_within), self.client.request(request)).await
    }
}

/// Returns true if a server may confuse the header `name` with `header_name`.
///
/// Many servers replace all characters other than letters and digits by the same one, like `_`,
/// before an application reads the name.
fn is_same_header(header_name: &HeaderName, name: &HeaderName) -> bool {
    let normalized_byte = |byte: u8| if byte.is_ascii_alphanumeric() { byte } else { b'-' };
    let normalized =
        |name: &HeaderName| name.as_str().bytes().map(normalized_byte).collect::<Vec<_>>();
    normalized(name) == normalized(header_name)
}

tokio::task_local! {
    /// Slot and connect timeout of the request that this task sends. The client cannot pass them to
    /// its connector.
    static REQUEST: (Option<RequestSlot>, Duration);
}

/// Returns the slot of the current request.
pub(super) fn current_slot() -> Option<RequestSlot> {
    REQUEST.try_with(|(slot, _)| slot.clone()).ok().flatten()
}

/// Returns the connect timeout of the current request.
fn current_connect_timeout() -> Duration {
    REQUEST.try_with(|(_, within)| *within).unwrap_or(CONNECT_TIMEOUT)
}

/// Makes connections that write under the permit.
#[derive(Clone)]
struct Connector {
    tcp: HttpConnector<Lookups>,
    root_certificates: Arc<RootCertificates>,
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
                let new_config =
                    self.root_certificates.client_config().map_err(|e| format!("TLS: {e}"))?;
                self.tls.get_or_init(|| Arc::new(new_config))
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
        let (connecting, within) = (self.clone().connect(to), current_connect_timeout());
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

/// Runs the tasks of the client until the turn ends. Their connections are dropped with them.
#[derive(Clone)]
struct RevocableExecutor(Permit);

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for RevocableExecutor {
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
