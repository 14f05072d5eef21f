//! Gate for guest requests: checks each request, bounds its size and time, and sends it.

use super::body::{StreamedBody, TurnResources};
use super::budget::{Budget, Charge, ChargedBytes};
use super::client::CONNECT_TIMEOUT;
use super::error::{LookupError, find_cause, translate, translate_proxied};
use super::turn::{Connections, QueuedSlot, READ_AHEAD, RequestSlot, TurnClient};
use super::wire::Permit;
use super::{AllowList, Body, Clients, Error};
use bytes::Bytes;
use http::Method;
use http_body::Body as _;
use http_body_util::{BodyExt, Full};
use hyper::upgrade::OnUpgrade;
use reqwest::Url;
use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Maximum bytes of a request body. The body is collected before the request is sent, so that a
/// guest that stops halfway has sent nothing.
const MAX_REQUEST_BODY: usize = 8 * 1024 * 1024;

/// Bytes that are reserved for the response head before a request is sent. Without them, a response
/// could arrive and not fit. A longer head may still not fit.
const RESPONSE_HEAD_SIZE: usize = 16 * 1024;

/// Longest timeout of one request of an election.
const ELECTION_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum bytes of a response to an election. The longest is a page of a list of blobs; most have
/// a few hundred bytes.
const MAX_ELECTION_RESPONSE: usize = 4 * 1024 * 1024;

/// Policy for the requests of one guest.
pub struct Policy {
    /// Allowed destinations.
    pub allow: AllowList,
    /// Longest timeout of each part of a request. Guests can set shorter ones.
    pub timeout: Duration,
    /// Mode in which responses reach the guest.
    pub(crate) response_mode: ResponseMode,
}

impl Policy {
    /// Creates a policy whose responses are streamed, up to `max_bytes` each.
    pub fn streamed(allow: AllowList, timeout: Duration, max_bytes: u64) -> Self {
        Self { allow, timeout, response_mode: ResponseMode::Streamed(max_bytes) }
    }
}

/// Receives notices of denied requests and how to allow them. The guest only gets a code.
pub type NoticeSink = Arc<dyn Fn(String) + Send + Sync>;

/// Mode in which a response body reaches the guest.
#[derive(Clone, Copy)]
pub(crate) enum ResponseMode {
    /// Read completely before the guest sees it, so that the connection can always be reused. The
    /// value is the maximum number of bytes.
    Collected(usize),
    /// Forwarded as it arrives. The value is the maximum number of bytes.
    Streamed(u64),
}

/// Timeouts that a guest sets for a request. `None` is the timeout of the policy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Time until the connection is established.
    pub connect: Option<Duration>,
    /// Time until the response head, including the connection. The wait for a request slot has the
    /// same limit.
    pub first_byte: Option<Duration>,
    /// Time between two parts of the response.
    pub between_bytes: Option<Duration>,
}

/// Outgoing HTTP of one guest call.
#[derive(Clone)]
pub struct Gate {
    policy: Arc<Policy>,
    notices: NoticeSink,
    budget: Budget,
    transport: Transport,
}

#[derive(Clone)]
enum Transport {
    Pooled(Arc<Clients>),
    Turn(Arc<TurnClient>),
}

impl Gate {
    /// Creates a gate with connections that outlast the call.
    pub fn pooled(policy: Arc<Policy>, clients: Arc<Clients>) -> Self {
        // The caller needs no notices, because it gets detailed errors. It needs no budget, because
        // it sends one request at a time.
        let (notices, budget) = (Arc::new(|_| {}), Budget::unlimited());
        Self { policy, notices, budget, transport: Transport::Pooled(clients) }
    }

    /// Creates a gate to the origins of an election, with connections that outlast the call.
    pub fn for_election(allow: AllowList, clients: Arc<Clients>) -> Self {
        let policy = Policy {
            allow,
            timeout: ELECTION_TIMEOUT,
            response_mode: ResponseMode::Collected(MAX_ELECTION_RESPONSE),
        };
        Self::pooled(Arc::new(policy), clients)
    }

    /// Creates a gate with the connections of a turn. It sends nothing after they are dropped.
    pub fn for_turn(
        policy: Arc<Policy>,
        connections: &Connections,
        notices: NoticeSink,
        budget: Budget,
    ) -> Self {
        Self {
            policy,
            notices,
            budget,
            transport: Transport::Turn(connections.turn_client.clone()),
        }
    }

    /// Queues a request at once. The returned future sends it and waits for the response head.
    pub fn send(
        self,
        request: http::Request<Body>,
        limits: Limits,
    ) -> impl Future<Output = Result<http::Response<Body>, Error>> {
        // The request may be queued for long, so its memory is charged from here on.
        let request_line_size = request.method().as_str().len() + request.uri().to_string().len();
        let head = self.budget.charge(request_line_size + Budget::weight(request.headers()));
        let open_body_size = if request.body().is_end_stream() { 0 } else { Budget::OPEN_BODY };
        let charges = head.zip(self.budget.charge(open_body_size));
        let queued_slot = match &self.transport {
            Transport::Pooled(_) => None,
            Transport::Turn(client) => Some(client.queue()),
        };
        self.send_queued(charges, queued_slot, request, limits)
    }

    async fn send_queued(
        self,
        charges: Option<(Charge, Charge)>,
        queued_slot: Option<QueuedSlot>,
        request: http::Request<Body>,
        limits: Limits,
    ) -> Result<http::Response<Body>, Error> {
        let policy = &*self.policy;
        let url = Url::parse(&request.uri().to_string()).map_err(|_| Error::InvalidUrl)?;
        // The client would convert credentials to a header.
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Error::InvalidUrl);
        }
        // Requests inside a tunnel would carry no term.
        if request.method() == Method::CONNECT {
            return Err(Error::InvalidMethod);
        }
        if !policy.allow.allows(&url) {
            (self.notices)(policy.allow.denial_message(&url));
            return Err(Error::Denied);
        }
        let Some((_head, open_charge)) = charges else {
            return Err(Error::Other(self.report_exhausted("a request")));
        };
        let first_byte = policy.timeout.min(limits.first_byte.unwrap_or(Duration::MAX));
        let slot = match queued_slot {
            None => None,
            Some(queued) => {
                let slot = timeout(first_byte, queued).await.ok().flatten();
                Some(slot.ok_or(Error::TooManyRequests)?)
            }
        };
        let turn = match self.permit() {
            None => None,
            Some(permit) => {
                let Some(charge) = self.budget.charge(READ_AHEAD + RESPONSE_HEAD_SIZE) else {
                    return Err(Error::Other(self.report_exhausted("the answer to a request")));
                };
                Some(TurnResources {
                    permit: permit.clone(),
                    slot: slot.clone(),
                    head_size: 0,
                    charge,
                })
            }
        };
        let (head, body) = request.into_parts();
        let body = match body.is_end_stream() {
            true => Bytes::new(),
            false => {
                let read = timeout(policy.timeout, self.read_body(body)).await;
                read.map_err(|_| Error::RequestTimeout)??
            }
        };
        drop(open_charge);

        let connect = CONNECT_TIMEOUT.min(limits.connect.unwrap_or(CONNECT_TIMEOUT));
        let sent = timeout(first_byte, self.exchange(head, url, body, slot.clone(), connect)).await;
        let response = sent.map_err(|_| Error::ResponseTimeout)??;
        let chunk_timeout = policy.timeout.min(limits.between_bytes.unwrap_or(Duration::MAX));
        let turn = match turn {
            None => None,
            Some(turn) => Some(self.charge_response(turn, &response)?),
        };
        let streamed_body =
            |body, max_bytes| StreamedBody::new(body, max_bytes, chunk_timeout, turn);
        match policy.response_mode {
            ResponseMode::Streamed(max_bytes) => {
                Ok(response.map(|body| streamed_body(body, max_bytes).boxed_unsync()))
            }
            ResponseMode::Collected(max_bytes) => {
                let (head, body) = response.into_parts();
                let body = match body.is_end_stream() {
                    true => Bytes::new(),
                    false => collect(streamed_body(body, max_bytes as u64)).await?,
                };
                let body = Full::new(body).map_err(|never| match never {});
                Ok(http::Response::from_parts(head, body.boxed_unsync()))
            }
        }
    }

    /// Adjusts the charge to the size of the response head.
    fn charge_response<B: http_body::Body>(
        &self,
        mut turn: TurnResources,
        response: &http::Response<B>,
    ) -> Result<TurnResources, Error> {
        turn.head_size = Budget::weight(response.headers());
        let read_ahead = if response.body().is_end_stream() { 0 } else { READ_AHEAD };
        if turn.charge.resize(turn.head_size + read_ahead) {
            return Ok(turn);
        }
        self.report_exhausted("the head of an answer");
        Err(Error::ResponseHeadTooLarge)
    }

    /// Reads the whole request body and charges it to the budget.
    async fn read_body(&self, mut body: Body) -> Result<Bytes, Error> {
        let mut charge = self.budget.charge(0);
        let mut bytes = Vec::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            let size = bytes.len() + data.len();
            if size > MAX_REQUEST_BODY {
                return Err(Error::RequestTooLarge(MAX_REQUEST_BODY as u64));
            }
            if size > bytes.capacity() {
                let capacity = size.max(2 * bytes.capacity()).min(MAX_REQUEST_BODY);
                if !charge.as_mut().is_some_and(|charge| charge.resize(capacity)) {
                    self.report_exhausted("the body of a request");
                    return Err(Error::RequestTooLarge(size as u64));
                }
                bytes.reserve_exact(capacity - bytes.len());
            }
            bytes.extend_from_slice(&data);
        }
        // The charge lives as long as the bytes. A connection may keep them beyond the response.
        let charged = |_charge| Bytes::from_owner(ChargedBytes { bytes, _charge });
        Ok(charge.map(charged).unwrap_or_default())
    }

    /// Sends a notice that the budget is exhausted, and returns its text.
    fn report_exhausted(&self, subject: &str) -> String {
        let limit = self.budget.limit();
        let text = format!(
            "{subject} did not fit: the host holds at most {limit} for the requests, answers and handles of a turn; \
             make fewer requests at a time, or raise --memory-limit: the host holds half of it, and at least 16 MiB"
        );
        (self.notices)(text.clone());
        text
    }

    /// Sends a request, and returns when the response head has arrived.
    async fn exchange(
        &self,
        head: http::request::Parts,
        url: Url,
        body: Bytes,
        slot: Option<RequestSlot>,
        connect_within: Duration,
    ) -> Result<http::Response<Body>, Error> {
        match &self.transport {
            Transport::Pooled(clients) => {
                let client = clients.get(&url);
                let client = client.map_err(Error::Other)?;
                let proxy = clients.proxy(&url).ok().flatten();
                let mut request = reqwest::Request::new(head.method, url);
                *request.headers_mut() = head.headers;
                // The client sets `Host` from the URL.
                request.headers_mut().remove(http::header::HOST);
                if !body.is_empty() {
                    *request.body_mut() = Some(body.into());
                }
                // Errors omit URLs, because their queries may contain secrets.
                let sent = client.execute(request).await;
                let answer = sent.map_err(|error| {
                    let error = error.without_url();
                    match proxy {
                        Some(proxy) => translate_proxied(&error, &proxy),
                        None => self.explain(&error),
                    }
                })?;
                Ok(http::Response::<reqwest::Body>::from(answer).map(|body| {
                    body.map_err(|error| translate(&error.without_url())).boxed_unsync()
                }))
            }
            Transport::Turn(turn_client) => {
                let mut request = http::Request::new(Full::new(body));
                *request.method_mut() = head.method;
                // Uses the parsed URL that was checked, not the guest's spelling.
                *request.uri_mut() = url.as_str().parse().map_err(|_| Error::InvalidUrl)?;
                *request.headers_mut() = head.headers;
                let answer = turn_client.send(request, slot, connect_within).await;
                let mut answer = answer.map_err(|error| self.explain(&error))?;
                // An upgraded connection would outlast its request slot.
                answer.extensions_mut().remove::<OnUpgrade>();
                Ok(answer.map(|body| body.map_err(|error| translate(&error)).boxed_unsync()))
            }
        }
    }

    /// Translates an error, and reports it if the host caused it.
    fn explain(&self, error: &(dyn StdError + 'static)) -> Error {
        if self.permit().is_some_and(Permit::is_expired) {
            // The expired permit is the cause, regardless of the connection's error.
            return Error::Denied;
        }
        if let Some(prohibited @ LookupError::Prohibited { .. }) = find_cause(error) {
            (self.notices)(format!("a request was refused: {prohibited}"));
        }
        translate(error)
    }

    fn permit(&self) -> Option<&Permit> {
        match &self.transport {
            Transport::Pooled(_) => None,
            Transport::Turn(turn_client) => Some(&turn_client.permit),
        }
    }
}

async fn collect(body: StreamedBody) -> Result<Bytes, Error> {
    Ok(body.collect().await?.to_bytes())
}
