//! One connection: requests in, answers out, each within a time and a size.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use super::http1::{Chunk, Framing, Head, answer_head, chunk, head};
use super::service::Service;
use super::wire::{Clock, MAX_BODY, Response};

/// How long a connection may be idle between two requests.
const IDLE_TIME: Duration = Duration::from_secs(120);

/// How long a head may take, from its first byte to its last.
const HEAD_TIME: Duration = Duration::from_secs(10);

/// How long a client may neither send nor take a byte in the middle of a request.
const SILENT_TIME: Duration = Duration::from_secs(30);

/// How long a body may take, from its first byte to its last.
const BODY_TIME: Duration = Duration::from_secs(300);

/// How long what follows a refusal is read.
const DRAIN_TIME: Duration = Duration::from_secs(10);

/// The longest head.
const MAX_HEAD: usize = 64 * 1024;

/// How much is still read of a client that sends what was refused: closed before, it would not see the answer.
const MAX_REST: usize = 4 * MAX_BODY;

/// How much is written at once.
const STEP: usize = 64 * 1024;

/// For how much there is room at least when something is read.
const LEAST: usize = 8 * 1024;

/// What every connection answers from.
#[derive(Clone)]
pub(super) struct Face {
    pub(super) clock: Clock,
    pub(super) service: Arc<Mutex<Service>>,
}

/// Why no request comes of what arrived.
enum End {
    /// There is nobody to answer to.
    Gone,
    /// Answered with this status, and closed.
    Refused(StatusCode),
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> End {
        End::Gone
    }
}

/// What follows an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// The next request.
    Next,
    /// Nothing.
    End,
    /// Nothing, but the client has not sent all of its request.
    Drain,
}

/// A body, or of one that is too large what is needed to refuse it.
enum Body {
    Whole(Bytes),
    TooLarge(Bytes),
}

/// Answers requests until either side has enough, or until `stop` says so and nothing is under way.
pub(super) async fn converse(socket: TcpStream, face: Face, mut stop: watch::Receiver<bool>) {
    let mut wire = Wire { socket, arrived: BytesMut::new() };
    loop {
        let next = tokio::select! {
            next = wire.head() => next,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        let answered = match next {
            Ok(head) => wire.request(head, &face, &stop).await,
            Err(end) => Err(end),
        };
        match answered {
            Ok(Then::Next) => {}
            Ok(Then::End) | Err(End::Gone) => return,
            Ok(Then::Drain) => return wire.drain().await,
            Err(End::Refused(status)) => {
                let response = Response::new(status.as_u16()).with("Content-Length", "0");
                if wire.write(&answer_head(&response, true)).await.is_ok() {
                    wire.drain().await;
                }
                return;
            }
        }
    }
}

struct Wire {
    socket: TcpStream,
    /// What arrived and is not read yet.
    arrived: BytesMut,
}

impl Wire {
    /// The next head. Dropped in the middle it loses nothing that arrived.
    async fn head(&mut self) -> Result<Head, End> {
        if self.arrived.is_empty() {
            self.more(IDLE_TIME).await.map_err(|_| End::Gone)?;
        }
        let whole = async {
            loop {
                match head(&self.arrived).map_err(End::Refused)? {
                    Some((head, length)) => {
                        self.arrived.advance(length);
                        return Ok(head);
                    }
                    None if self.arrived.len() > MAX_HEAD => {
                        return Err(End::Refused(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE));
                    }
                    None => self.more(HEAD_TIME).await?,
                }
            }
        };
        timeout(HEAD_TIME, whole).await.unwrap_or(Err(End::Refused(StatusCode::REQUEST_TIMEOUT)))
    }

    /// Reads what belongs to the request and answers it.
    async fn request(
        &mut self,
        head: Head,
        face: &Face,
        stop: &watch::Receiver<bool>,
    ) -> Result<Then, End> {
        let mut request = head.request;
        let mut then = if head.last { Then::End } else { Then::Next };
        match self.body(head.framing, head.waits).await? {
            Body::Whole(body) => request.body = body,
            Body::TooLarge(body) => (request.body, then) = (body, Then::Drain),
        }
        let response = {
            let mut service = face.service.lock().unwrap_or_else(PoisonError::into_inner);
            // Inside the lock, so that time never goes back from one request to the next.
            let now = (face.clock)();
            service.handle(now, &request)
        };
        if then == Then::Next && *stop.borrow() {
            then = Then::End;
        }
        self.answer(&response, then != Then::Next).await?;
        Ok(then)
    }

    async fn body(&mut self, framing: Framing, waits: bool) -> Result<Body, End> {
        let whole = self.whole_body(framing, waits);
        timeout(BODY_TIME, whole).await.unwrap_or(Err(End::Refused(StatusCode::REQUEST_TIMEOUT)))
    }

    async fn whole_body(&mut self, framing: Framing, waits: bool) -> Result<Body, End> {
        // The service refuses it by its length, so nothing of it is needed.
        if let Framing::Length(length) = framing
            && length > MAX_BODY as u64
        {
            return Ok(Body::TooLarge(Bytes::new()));
        }
        if waits && framing != Framing::Length(0) && self.arrived.is_empty() {
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        match framing {
            Framing::Length(length) => self.bytes(length as usize).await.map(Body::Whole),
            Framing::Chunked => self.chunks().await,
        }
    }

    async fn chunks(&mut self) -> Result<Body, End> {
        let mut body = BytesMut::new();
        loop {
            match chunk(&self.arrived).map_err(End::Refused)? {
                Chunk::Partial => self.more(SILENT_TIME).await?,
                Chunk::End(length) => {
                    self.arrived.advance(length);
                    return Ok(Body::Whole(body.freeze()));
                }
                Chunk::Data { skip, data } => {
                    let room = (MAX_BODY + 1).saturating_sub(body.len());
                    self.arrived.advance(skip);
                    if data >= room as u64 {
                        let part = self.bytes(room).await?;
                        body.extend_from_slice(&part);
                        return Ok(Body::TooLarge(body.freeze()));
                    }
                    let part = self.bytes(data as usize).await?;
                    body.extend_from_slice(&part);
                    if self.bytes(2).await? != "\r\n" {
                        return Err(End::Refused(StatusCode::BAD_REQUEST));
                    }
                }
            }
        }
    }

    async fn bytes(&mut self, count: usize) -> Result<Bytes, End> {
        while self.arrived.len() < count {
            self.more(SILENT_TIME).await?;
        }
        // A copy: what is kept of it for long must not keep all else that arrived with it.
        let bytes = Bytes::copy_from_slice(&self.arrived[..count]);
        self.arrived.advance(count);
        if self.arrived.is_empty() {
            self.arrived = BytesMut::new();
        }
        Ok(bytes)
    }

    /// Waits for more to arrive.
    async fn more(&mut self, time: Duration) -> Result<(), End> {
        self.arrived.reserve(LEAST);
        match timeout(time, self.socket.read_buf(&mut self.arrived)).await {
            Ok(Ok(0) | Err(_)) => Err(End::Gone),
            Ok(Ok(_)) => Ok(()),
            Err(_) => Err(End::Refused(StatusCode::REQUEST_TIMEOUT)),
        }
    }

    async fn answer(&mut self, response: &Response, last: bool) -> Result<(), End> {
        let mut bytes = answer_head(response, last);
        // One write for what is small: held back, the rest would wait for an acknowledgement.
        let (with_head, rest) = response.body.split_at(response.body.len().min(STEP));
        bytes.extend_from_slice(with_head);
        self.write(&bytes).await?;
        self.write(rest).await
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), End> {
        for part in bytes.chunks(STEP) {
            timeout(SILENT_TIME, self.socket.write_all(part)).await.map_err(|_| End::Gone)??;
        }
        Ok(())
    }

    /// Says that nothing follows, and reads for a while what the client still sends.
    async fn drain(&mut self) {
        if self.socket.shutdown().await.is_err() {
            return;
        }
        let reading = async {
            let mut rest = MAX_REST;
            while rest > 0 {
                self.arrived.clear();
                if self.more(DRAIN_TIME).await.is_err() {
                    return;
                }
                rest = rest.saturating_sub(self.arrived.len());
            }
        };
        // Over or not, the connection ends.
        let _ = timeout(DRAIN_TIME, reading).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;
    use tokio::time::sleep;

    async fn wire() -> (Wire, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (socket, _) = listener.accept().await.unwrap();
        (Wire { socket, arrived: BytesMut::new() }, client)
    }

    /// Sends a byte now and then, for an hour.
    async fn dribble(mut client: TcpStream) {
        for _ in 0..60 * 12 {
            client.write_all(b"x").await.unwrap();
            sleep(Duration::from_secs(5)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_not_waited_for_without_end() {
        let (mut wire, client) = wire().await;
        tokio::select! {
            body = wire.body(Framing::Length(60 * 60), false) => {
                assert!(matches!(body, Err(End::Refused(StatusCode::REQUEST_TIMEOUT))));
            }
            () = dribble(client) => panic!("it is still waited for"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_follows_a_refusal_is_not_read_without_end() {
        let (mut wire, client) = wire().await;
        tokio::select! {
            () = wire.drain() => {}
            () = dribble(client) => panic!("it is still read"),
        }
    }
}
