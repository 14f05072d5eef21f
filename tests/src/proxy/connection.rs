//! One connection through the proxy.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::watch;
use tokio::time::sleep;

use super::Witness;
use super::mode::{Fate, Mode, Way};

/// Passes bytes both ways until both sides are done, or until the connection has to go.
pub(super) async fn connect(
    mut client: TcpStream,
    to: SocketAddr,
    mut mode: watch::Receiver<Mode>,
    witness: Witness,
) {
    let Ok(mut server) = TcpStream::connect(to).await else {
        return reset(&client);
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let lossy = AtomicBool::new(false);
    // Nobody can speak on where bytes are missing: when bytes pass again, such a connection is
    // reset, as by a router that has lost its state.
    let is_over =
        |mode: &Mode| *mode == Mode::Reset || (!mode.cuts_off() && lossy.load(Ordering::Relaxed));
    let ended = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let requests = pump(from_client, to_server, Way::Request, mode.clone(), &lossy, &*witness);
        let answers = pump(from_server, to_client, Way::Answer, mode.clone(), &lossy, &|_| {});
        tokio::select! {
            biased;
            _ = mode.wait_for(is_over) => false,
            ended = async { tokio::try_join!(requests, answers) } => ended.is_ok(),
        }
    };
    if !ended {
        reset(&client);
        reset(&server);
    }
}

/// When it is dropped, the other side learns so at once, and not as of an orderly end.
fn reset(stream: &TcpStream) {
    let _ = stream.set_zero_linger();
}

async fn pump(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    way: Way,
    mut mode: watch::Receiver<Mode>,
    lossy: &AtomicBool,
    witness: &(dyn Fn(&[u8]) + Send + Sync),
) -> io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    let mut lost = false;
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return to.shutdown().await;
        }
        let bytes = &buffer[..count];
        witness(bytes);
        let fate = mode.borrow_and_update().fate(way);
        match fate {
            _ if lost => {}
            Fate::Lost => {
                lost = true;
                lossy.store(true, Ordering::Relaxed);
            }
            Fate::Pass => to.write_all(bytes).await?,
            Fate::Late(late) => {
                sleep(late).await;
                to.write_all(bytes).await?;
            }
            Fate::Slow(pause) => trickle(bytes, &mut to, pause, &mut mode).await?,
        }
    }
}

/// Byte by byte, until the mode changes; then the rest at once.
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
