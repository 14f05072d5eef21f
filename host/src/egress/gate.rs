//! The one way out: every request of a guest passes here.

use super::body::{OfTurn, Streamed};
use super::budget::{Budget, Charge, Charged};
use super::client::CONNECT;
use super::error::{NotFound, find, translate, translate_proxied};
use super::permit::Permit;
use super::place::Place;
use super::turn::{Connections, Courier, Queued, READ_AHEAD};
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

/// The largest body of a request, in bytes. It is collected before the request is sent, so that a
/// guest that stops halfway has sent nothing.
const REQUEST: usize = 8 * 1024 * 1024;

/// Bytes of the head of an answer that a request has room for before it is sent, so that what has
/// arrived is not lost for want of room. A head that takes more may find none.
const HEAD: usize = 16 * 1024;

/// The longest that one request of an election may take, whatever is asked for.
const PATIENCE: Duration = Duration::from_secs(30);

/// The largest answer to one, in bytes: a page of a list of blobs. Most have a few hundred.
const ANSWER: usize = 4 * 1024 * 1024;

/// What holds for the requests of one guest.
pub struct Policy {
    /// Where they may go.
    pub allow: AllowList,
    /// The longest that anything may take; guests may ask for less.
    pub patience: Duration,
    /// How answers reach the guest.
    pub(crate) answers: Answers,
}

impl Policy {
    /// The answers of these requests reach the guest as they come, of at most `most` bytes.
    pub fn streamed(allow: AllowList, patience: Duration, most: u64) -> Self {
        Self { allow, patience, answers: Answers::Streamed(most) }
    }
}

/// Told of what was refused, and what allows it: the guest only learns a code.
pub type Tell = Arc<dyn Fn(String) + Send + Sync>;

/// How the body of an answer reaches the guest.
#[derive(Clone, Copy)]
pub(crate) enum Answers {
    /// Read to its end before the guest sees it, so that the connection can be used again
    /// whatever the guest does. At most this many bytes.
    Collected(usize),
    /// As it comes. At most this many bytes.
    Streamed(u64),
}

/// The longest that a guest lets the parts of a request take. None: as long as its policy allows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Until there is a connection.
    pub connect: Option<Duration>,
    /// From then on, until the head of the answer is there.
    pub first_byte: Option<Duration>,
    /// Between two parts of the answer.
    pub between_bytes: Option<Duration>,
}

/// The outgoing HTTP of one guest call.
#[derive(Clone)]
pub struct Gate {
    policy: Arc<Policy>,
    tell: Tell,
    budget: Budget,
    way: Way,
}

#[derive(Clone)]
enum Way {
    Pooled(Arc<Clients>),
    Turn(Arc<Courier>),
}

impl Gate {
    /// Over connections that outlast the call.
    pub fn pooled(policy: Arc<Policy>, clients: Arc<Clients>) -> Self {
        // Its errors tell enough, and it has one request at a time.
        let (tell, budget) = (Arc::new(|_| {}), Budget::unlimited());
        Self { policy, tell, budget, way: Way::Pooled(clients) }
    }

    /// To where an election's requests may go, over connections that outlast them.
    pub fn of_election(allow: AllowList, clients: Arc<Clients>) -> Self {
        let policy = Policy { allow, patience: PATIENCE, answers: Answers::Collected(ANSWER) };
        Self::pooled(Arc::new(policy), clients)
    }

    /// Over the connections of a turn. It sends nothing once these are dropped.
    pub fn of_turn(
        policy: Arc<Policy>,
        connections: &Connections,
        tell: Tell,
        budget: Budget,
    ) -> Self {
        Self { policy, tell, budget, way: Way::Turn(connections.courier.clone()) }
    }

    /// Takes its place in the queue in this call, and sends when the future is driven.
    pub fn send(
        self,
        request: http::Request<Body>,
        limits: Limits,
    ) -> impl Future<Output = Result<http::Response<Body>, Error>> {
        // It is the host's from here on, and may wait for long.
        let line = request.method().as_str().len() + request.uri().to_string().len();
        let head = self.budget.charge(line + Budget::weight(request.headers()));
        let open = if request.body().is_end_stream() { 0 } else { Budget::OPEN_BODY };
        let charges = head.zip(self.budget.charge(open));
        let queued = match &self.way {
            Way::Pooled(_) => None,
            Way::Turn(courier) => Some(courier.queue()),
        };
        self.send_queued(charges, queued, request, limits)
    }

    async fn send_queued(
        self,
        charges: Option<(Charge, Charge)>,
        queued: Option<Queued>,
        request: http::Request<Body>,
        limits: Limits,
    ) -> Result<http::Response<Body>, Error> {
        let policy = &*self.policy;
        let url = Url::parse(&request.uri().to_string()).map_err(|_| Error::InvalidUrl)?;
        // The client would make a header of it.
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Error::InvalidUrl);
        }
        // A tunnel is no request: nothing in it would have the term.
        if request.method() == Method::CONNECT {
            return Err(Error::InvalidMethod);
        }
        if !policy.allow.allows(&url) {
            (self.tell)(policy.allow.refusal(&url));
            return Err(Error::Denied);
        }
        let Some((_head, open)) = charges else {
            return Err(Error::Other(self.used_up("a request")));
        };
        let first_byte = policy.patience.min(limits.first_byte.unwrap_or(Duration::MAX));
        let place = match queued {
            None => None,
            Some(queued) => {
                let place = timeout(first_byte, queued).await.ok().flatten();
                Some(place.ok_or(Error::Busy)?)
            }
        };
        let turn = match self.permit() {
            None => None,
            Some(permit) => {
                let Some(charge) = self.budget.charge(READ_AHEAD + HEAD) else {
                    return Err(Error::Other(self.used_up("the answer to a request")));
                };
                Some(OfTurn { permit: permit.clone(), place: place.clone(), head: 0, charge })
            }
        };
        let (head, body) = request.into_parts();
        let body = match body.is_end_stream() {
            true => Bytes::new(),
            false => {
                let taken = timeout(policy.patience, self.take(body)).await;
                taken.map_err(|_| Error::RequestTimeout)??
            }
        };
        drop(open);

        let connect = CONNECT.min(limits.connect.unwrap_or(CONNECT));
        let sent =
            timeout(first_byte, self.exchange(head, url, body, place.clone(), connect)).await;
        let response = sent.map_err(|_| Error::AnswerTimeout)??;
        let pause = policy.patience.min(limits.between_bytes.unwrap_or(Duration::MAX));
        let turn = match turn {
            None => None,
            Some(turn) => Some(self.answered(turn, &response)?),
        };
        let streamed = |body, most| Streamed::new(body, most, pause, turn);
        match policy.answers {
            Answers::Streamed(most) => Ok(response.map(|body| streamed(body, most).boxed_unsync())),
            Answers::Collected(most) => {
                let (head, body) = response.into_parts();
                let body = match body.is_end_stream() {
                    true => Bytes::new(),
                    false => collect(streamed(body, most as u64)).await?,
                };
                let body = Full::new(body).map_err(|never| match never {});
                Ok(http::Response::from_parts(head, body.boxed_unsync()))
            }
        }
    }

    /// Counts an answer as what it takes.
    fn answered<B: http_body::Body>(
        &self,
        mut turn: OfTurn,
        response: &http::Response<B>,
    ) -> Result<OfTurn, Error> {
        turn.head = Budget::weight(response.headers());
        let ahead = if response.body().is_end_stream() { 0 } else { READ_AHEAD };
        if turn.charge.set(turn.head + ahead) {
            return Ok(turn);
        }
        self.used_up("the head of an answer");
        Err(Error::HeadTooLarge)
    }

    /// Takes the whole body of a request.
    async fn take(&self, mut body: Body) -> Result<Bytes, Error> {
        let mut charge = self.budget.charge(0);
        let mut bytes = Vec::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            let size = bytes.len() + data.len();
            if size > REQUEST {
                return Err(Error::RequestTooLarge(REQUEST as u64));
            }
            if size > bytes.capacity() {
                let room = size.max(2 * bytes.capacity()).min(REQUEST);
                if !charge.as_mut().is_some_and(|charge| charge.set(room)) {
                    self.used_up("the body of a request");
                    return Err(Error::RequestTooLarge(size as u64));
                }
                bytes.reserve_exact(room - bytes.len());
            }
            bytes.extend_from_slice(&data);
        }
        // It is the connection's when the answer is there already, or nobody waits for one.
        let charged = |_charge| Bytes::from_owner(Charged { bytes, _charge });
        Ok(charge.map(charged).unwrap_or_default())
    }

    /// Tells that the budget has no room for something.
    fn used_up(&self, what: &str) -> String {
        let limit = self.budget.limit();
        let text = format!(
            "{what} did not fit: the host holds at most {limit} for the requests, answers and handles of a turn; \
             make fewer requests at a time, or raise --memory-limit: the host holds half of it, and at least 16 MiB"
        );
        (self.tell)(text.clone());
        text
    }

    /// Sends a request, as far as the head of its answer.
    async fn exchange(
        &self,
        head: http::request::Parts,
        url: Url,
        body: Bytes,
        place: Option<Place>,
        connect_within: Duration,
    ) -> Result<http::Response<Body>, Error> {
        match &self.way {
            Way::Pooled(clients) => {
                let client = clients.get(&url);
                let client = client.map_err(Error::Other)?;
                let proxy = clients.proxy(&url).ok().flatten();
                let mut request = reqwest::Request::new(head.method, url);
                *request.headers_mut() = head.headers;
                // The client sets it from the URL.
                request.headers_mut().remove(http::header::HOST);
                if !body.is_empty() {
                    *request.body_mut() = Some(body.into());
                }
                // URLs are left out of errors: their queries may hold a secret.
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
            Way::Turn(courier) => {
                let mut request = http::Request::new(Full::new(body));
                *request.method_mut() = head.method;
                // As it was judged, not as the guest spelt it.
                *request.uri_mut() = url.as_str().parse().map_err(|_| Error::InvalidUrl)?;
                *request.headers_mut() = head.headers;
                let answer = courier.send(request, place, connect_within).await;
                let mut answer = answer.map_err(|error| self.explain(&error))?;
                // The connection, if the server has it stand for something else from now on. Kept, it would outlast
                // its place.
                answer.extensions_mut().remove::<OnUpgrade>();
                Ok(answer.map(|body| body.map_err(|error| translate(&error)).boxed_unsync()))
            }
        }
    }

    /// Translates an error, and tells of it when the host is its cause.
    fn explain(&self, error: &(dyn StdError + 'static)) -> Error {
        if self.permit().is_some_and(Permit::is_over) {
            // Whatever became of the connection: this is why.
            return Error::Denied;
        }
        if let Some(prohibited @ NotFound::Prohibited { .. }) = find(error) {
            (self.tell)(format!("a request was refused: {prohibited}"));
        }
        translate(error)
    }

    fn permit(&self) -> Option<&Permit> {
        match &self.way {
            Way::Pooled(_) => None,
            Way::Turn(courier) => Some(&courier.permit),
        }
    }
}

async fn collect(body: Streamed) -> Result<Bytes, Error> {
    Ok(body.collect().await?.to_bytes())
}
