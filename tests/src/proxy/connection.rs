//! One connection through the proxy.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::{Mutex, watch};
use tokio::time::sleep;

use super::Witness;
use super::mode::{ByteOutcome, Direction, Mode};

/// Answer of a busy service.
const BUSY_RESPONSE: &[u8] =
    b"HTTP/1.1 503 Server Busy\r\nx-ms-error-code: ServerBusy\r\nContent-Length: 0\r\n\r\n";

/// Forwards bytes in both directions until both sides are done or the mode ends the connection.
pub(super) async fn forward_connection(
    mut client: TcpStream,
    to: SocketAddr,
    mut mode: watch::Receiver<Mode>,
    witness: Witness,
) {
    let Ok(mut server) = TcpStream::connect(to).await else {
        return reset(&client);
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let has_lost_bytes = AtomicBool::new(false);
    // A connection with missing bytes is unusable. When bytes pass again, it is reset, as by a
    // router that has lost its state.
    let is_over = |mode: &Mode| {
        *mode == Mode::Reset || (!mode.cuts_off() && has_lost_bytes.load(Ordering::Relaxed))
    };
    let ended_in_order = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let (to_client, to_server) = (Mutex::new(to_client), Mutex::new(to_server));
        let request_pump = Pump {
            forward: &to_server,
            reverse: &to_client,
            direction: Direction::Request,
            has_lost_bytes: &has_lost_bytes,
        };
        let answer_pump = Pump {
            forward: &to_client,
            reverse: &to_server,
            direction: Direction::Answer,
            has_lost_bytes: &has_lost_bytes,
        };
        let requests = request_pump.run(from_client, mode.clone(), &*witness);
        let answers = answer_pump.run(from_server, mode.clone(), &|_| {});
        tokio::select! {
            biased;
            _ = mode.wait_for(is_over) => false,
            ended = async { tokio::try_join!(requests, answers) } => ended.is_ok(),
        }
    };
    if !ended_in_order {
        reset(&client);
        reset(&server);
    }
}

/// Makes the drop of the stream send a reset instead of an orderly end.
fn reset(stream: &TcpStream) {
    let _ = stream.set_zero_linger();
}

/// One direction through the proxy.
struct Pump<'a, 'b> {
    forward: &'a Mutex<WriteHalf<'b>>,
    /// Side that the bytes come from.
    reverse: &'a Mutex<WriteHalf<'b>>,
    direction: Direction,
    has_lost_bytes: &'a AtomicBool,
}

impl Pump<'_, '_> {
    async fn run(
        &self,
        mut from: ReadHalf<'_>,
        mut mode: watch::Receiver<Mode>,
        witness: &(dyn Fn(&[u8]) + Send + Sync),
    ) -> io::Result<()> {
        let mut buffer = vec![0; 16 * 1024];
        let mut lost_bytes = false;
        loop {
            let count = from.read(&mut buffer).await?;
            let bytes = &buffer[..count];
            let outcome = mode.borrow_and_update().outcome(self.direction, bytes);
            if count == 0 {
                // The end of a connection gets lost like any other data.
                if lost_bytes || outcome == ByteOutcome::Lost {
                    self.has_lost_bytes.store(true, Ordering::Relaxed);
                    return pending().await;
                }
                return self.forward.lock().await.shutdown().await;
            }
            witness(bytes);
            match outcome {
                _ if lost_bytes => {}
                ByteOutcome::Lost => {
                    lost_bytes = true;
                    self.has_lost_bytes.store(true, Ordering::Relaxed);
                }
                ByteOutcome::Pass => self.forward.lock().await.write_all(bytes).await?,
                ByteOutcome::Delayed(delay) => {
                    sleep(delay).await;
                    self.forward.lock().await.write_all(bytes).await?;
                }
                ByteOutcome::Trickle(pause) => {
                    trickle(bytes, &mut *self.forward.lock().await, pause, &mut mode).await?;
                }
                ByteOutcome::Refused => self.reverse.lock().await.write_all(BUSY_RESPONSE).await?,
            }
        }
    }
}

/// Forwards byte by byte until the mode changes, then the rest at once.
async fn trickle(
    bytes: &[u8],
    to: &mut WriteHalf<'_>,
    pause: Duration,
    mode: &mut watch::Receiver<Mode>,
) -> io::Result<()> {
    for (index, byte) in bytes.iter().enumerate() {
        to.write_all(&[*byte]).await?;
        tokio::select! {
            () = sleep(pause) => {}
            _ = mode.changed() => return to.write_all(&bytes[index + 1..]).await,
        }
    }
    Ok(())
}
