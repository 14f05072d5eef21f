//! One connection: reads requests and writes responses, within limits of time and size.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use super::http1::{Chunk, Framing, Head, parse_chunk, parse_head, response_head};
use super::service::Service;
use super::wire::{Clock, MAX_BODY, Response};

/// Maximum idle time between two requests.
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);

/// Maximum time of a head, from its first byte to its last.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum wait for the next bytes of a body, and maximum time of one write.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum time of a body, from its first byte to its last.
const BODY_TIMEOUT: Duration = Duration::from_secs(300);

/// Maximum time of reading the rest of a refused request.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum length of a head, in bytes.
const MAX_HEAD: usize = 64 * 1024;

/// Maximum number of bytes that are read of a refused request. If the connection closed with unread
/// bytes, the client might not see the response.
const MAX_DRAINED: usize = 4 * MAX_BODY;

/// Maximum number of bytes in one write, which has to end within [`SILENCE_TIMEOUT`].
const WRITE_CHUNK: usize = 64 * 1024;

/// Minimum free space in the buffer for a read, in bytes.
const MIN_READ_BUFFER: usize = 8 * 1024;

/// The state that all connections share.
#[derive(Clone)]
pub(super) struct ServerContext {
    pub(super) clock: Clock,
    pub(super) service: Arc<Mutex<Service>>,
}

/// The reason why a connection delivers no request.
enum RequestError {
    /// The client has disconnected.
    Disconnected,
    /// The request gets this status, and the connection closes.
    Refused(StatusCode),
}

impl From<io::Error> for RequestError {
    fn from(_: io::Error) -> RequestError {
        RequestError::Disconnected
    }
}

/// The action after a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextAction {
    /// Read the next request.
    Continue,
    /// Close the connection.
    Close,
    /// Read the rest of the request, then close.
    Drain,
}

/// The body of a request.
enum Body {
    Whole(Bytes),
    /// A body of more than [`MAX_BODY`] bytes: only the part that is needed to refuse it.
    TooLarge(Bytes),
}

/// Serves requests until either side closes, or until `shutdown` is true and no request is in
/// progress.
pub(super) async fn serve_connection(
    socket: TcpStream,
    context: ServerContext,
    mut shutdown: watch::Receiver<bool>,
) {
    let mut connection = Connection { socket, buffer: BytesMut::new() };
    loop {
        let next = tokio::select! {
            next = connection.read_head() => next,
            _ = shutdown.wait_for(|stop| *stop) => return,
        };
        let outcome = match next {
            Ok(head) => connection.handle_request(head, &context, &shutdown).await,
            Err(error) => Err(error),
        };
        match outcome {
            Ok(NextAction::Continue) => {}
            Ok(NextAction::Close) | Err(RequestError::Disconnected) => return,
            Ok(NextAction::Drain) => return connection.drain().await,
            Err(RequestError::Refused(status)) => {
                let response = Response::new(status.as_u16()).with("Content-Length", "0");
                if connection.write(&response_head(&response, true)).await.is_ok() {
                    connection.drain().await;
                }
                return;
            }
        }
    }
}

struct Connection {
    socket: TcpStream,
    /// Received bytes that are not parsed yet.
    buffer: BytesMut,
}

impl Connection {
    /// Reads the next head. Cancellation loses no received bytes.
    async fn read_head(&mut self) -> Result<Head, RequestError> {
        if self.buffer.is_empty() {
            self.read_more(IDLE_TIMEOUT).await.map_err(|_| RequestError::Disconnected)?;
        }
        let complete_head = async {
            loop {
                match parse_head(&self.buffer).map_err(RequestError::Refused)? {
                    Some((head, length)) => {
                        self.buffer.advance(length);
                        return Ok(head);
                    }
                    None if self.buffer.len() > MAX_HEAD => {
                        return Err(RequestError::Refused(
                            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                        ));
                    }
                    None => self.read_more(HEAD_TIMEOUT).await?,
                }
            }
        };
        timeout(HEAD_TIMEOUT, complete_head)
            .await
            .unwrap_or(Err(RequestError::Refused(StatusCode::REQUEST_TIMEOUT)))
    }

    /// Reads the rest of the request and responds.
    async fn handle_request(
        &mut self,
        head: Head,
        context: &ServerContext,
        shutdown: &watch::Receiver<bool>,
    ) -> Result<NextAction, RequestError> {
        let mut request = head.request;
        let mut next_action = if head.closes { NextAction::Close } else { NextAction::Continue };
        match self.read_body(head.framing, head.expects_continue).await? {
            Body::Whole(body) => request.body = body,
            Body::TooLarge(body) => (request.body, next_action) = (body, NextAction::Drain),
        }
        let response = {
            let mut service = context.service.lock().unwrap_or_else(PoisonError::into_inner);
            // Read inside the lock, so that time never decreases between requests.
            let now = (context.clock)();
            service.handle(now, &request)
        };
        if next_action == NextAction::Continue && *shutdown.borrow() {
            next_action = NextAction::Close;
        }
        self.write_response(&response, next_action != NextAction::Continue).await?;
        Ok(next_action)
    }

    async fn read_body(
        &mut self,
        framing: Framing,
        expects_continue: bool,
    ) -> Result<Body, RequestError> {
        let complete_body = self.read_whole_body(framing, expects_continue);
        timeout(BODY_TIMEOUT, complete_body)
            .await
            .unwrap_or(Err(RequestError::Refused(StatusCode::REQUEST_TIMEOUT)))
    }

    async fn read_whole_body(
        &mut self,
        framing: Framing,
        expects_continue: bool,
    ) -> Result<Body, RequestError> {
        // The service refuses the request by its length, so the body is not needed.
        if let Framing::Length(length) = framing
            && length > MAX_BODY as u64
        {
            return Ok(Body::TooLarge(Bytes::new()));
        }
        if expects_continue && framing != Framing::Length(0) && self.buffer.is_empty() {
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        match framing {
            Framing::Length(length) => self.read_exact(length as usize).await.map(Body::Whole),
            Framing::Chunked => self.read_chunks().await,
        }
    }

    async fn read_chunks(&mut self) -> Result<Body, RequestError> {
        let mut body = BytesMut::new();
        loop {
            match parse_chunk(&self.buffer).map_err(RequestError::Refused)? {
                Chunk::Partial => self.read_more(SILENCE_TIMEOUT).await?,
                Chunk::End(length) => {
                    self.buffer.advance(length);
                    return Ok(Body::Whole(body.freeze()));
                }
                Chunk::Data { skip, data } => {
                    let remaining = (MAX_BODY + 1).saturating_sub(body.len());
                    self.buffer.advance(skip);
                    if data >= remaining as u64 {
                        let part = self.read_exact(remaining).await?;
                        body.extend_from_slice(&part);
                        return Ok(Body::TooLarge(body.freeze()));
                    }
                    let part = self.read_exact(data as usize).await?;
                    body.extend_from_slice(&part);
                    if self.read_exact(2).await? != "\r\n" {
                        return Err(RequestError::Refused(StatusCode::BAD_REQUEST));
                    }
                }
            }
        }
    }

    async fn read_exact(&mut self, count: usize) -> Result<Bytes, RequestError> {
        while self.buffer.len() < count {
            self.read_more(SILENCE_TIMEOUT).await?;
        }
        // A copy, because a slice would keep the whole buffer in memory as long as the blob.
        let bytes = Bytes::copy_from_slice(&self.buffer[..count]);
        self.buffer.advance(count);
        if self.buffer.is_empty() {
            self.buffer = BytesMut::new();
        }
        Ok(bytes)
    }

    /// Waits until more bytes arrive, for at most `time_limit`.
    async fn read_more(&mut self, time_limit: Duration) -> Result<(), RequestError> {
        self.buffer.reserve(MIN_READ_BUFFER);
        match timeout(time_limit, self.socket.read_buf(&mut self.buffer)).await {
            Ok(Ok(0) | Err(_)) => Err(RequestError::Disconnected),
            Ok(Ok(_)) => Ok(()),
            Err(_) => Err(RequestError::Refused(StatusCode::REQUEST_TIMEOUT)),
        }
    }

    async fn write_response(
        &mut self,
        response: &Response,
        closes: bool,
    ) -> Result<(), RequestError> {
        let mut bytes = response_head(response, closes);
        // Head and body of a small response are one write, so they do not become two packets.
        let (first_part, remaining) = response.body.split_at(response.body.len().min(WRITE_CHUNK));
        bytes.extend_from_slice(first_part);
        self.write(&bytes).await?;
        self.write(remaining).await
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), RequestError> {
        for part in bytes.chunks(WRITE_CHUNK) {
            timeout(SILENCE_TIMEOUT, self.socket.write_all(part))
                .await
                .map_err(|_| RequestError::Disconnected)??;
        }
        Ok(())
    }

    /// Closes the write side, and reads the client's remaining bytes for a limited time.
    async fn drain(&mut self) {
        if self.socket.shutdown().await.is_err() {
            return;
        }
        let reading = async {
            let mut remaining = MAX_DRAINED;
            while remaining > 0 {
                self.buffer.clear();
                if self.read_more(DRAIN_TIMEOUT).await.is_err() {
                    return;
                }
                remaining = remaining.saturating_sub(self.buffer.len());
            }
        };
        // The connection closes whether the client has sent everything or not.
        let _ = timeout(DRAIN_TIMEOUT, reading).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;
    use tokio::time::sleep;

    async fn connect() -> (Connection, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (socket, _) = listener.accept().await.unwrap();
        (Connection { socket, buffer: BytesMut::new() }, client)
    }

    /// Sends a byte every five seconds, for an hour.
    async fn send_slowly(mut client: TcpStream) {
        for _ in 0..60 * 12 {
            client.write_all(b"x").await.unwrap();
            sleep(Duration::from_secs(5)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_body_times_out() {
        let (mut connection, client) = connect().await;
        tokio::select! {
            body = connection.read_body(Framing::Length(60 * 60), false) => {
                assert!(matches!(body, Err(RequestError::Refused(StatusCode::REQUEST_TIMEOUT))));
            }
            () = send_slowly(client) => panic!("reading the body did not time out"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn draining_times_out() {
        let (mut connection, client) = connect().await;
        tokio::select! {
            () = connection.drain() => {}
            () = send_slowly(client) => panic!("draining did not time out"),
        }
    }
}
