//! A wire and its permit, in isolation.

use super::super::wire::{Permit, RevokeGuard, Wire};
use super::lease::{ManualClock, count_to_end, listen};
use super::unlimited_lease;
use std::future::poll_fn;
use std::io::{ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::task::Poll;
use std::thread;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

/// Returns a wire and its peer.
async fn connected(clock: &ManualClock) -> (Wire, TcpStream, RevokeGuard) {
    let listener = listen();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (peer, _) = listener.accept().await.unwrap();
    let (permit, revoke) = Permit::new(clock.lease(), &watch::Sender::new(()));
    (Wire::new(stream, permit).unwrap(), peer, revoke)
}

/// Fills the kernel's buffers. Returns the wire, its peer, and the number of accepted bytes.
async fn full(clock: &ManualClock) -> (Wire, TcpStream, usize, RevokeGuard) {
    let (mut wire, peer, revoke) = connected(clock).await;
    let mut accepted = 0;
    while let Poll::Ready(written) =
        poll_fn(|cx| Poll::Ready(Pin::new(&mut wire).poll_write(cx, &[b'x'; 65536]))).await
    {
        accepted += written.unwrap();
    }
    (wire, peer, accepted, revoke)
}

#[tokio::test]
async fn a_wire_hands_over_no_byte_after_the_deadline() {
    let clock = ManualClock::default();
    let (mut wire, mut peer, accepted, _open) = full(&clock).await;
    clock.expire();
    // There is room again.
    peer.read_exact(&mut vec![0; accepted]).await.unwrap();
    let denied = |result: std::io::Result<usize>| result.unwrap_err().kind();
    assert_eq!(denied(wire.write(b"x").await), ErrorKind::PermissionDenied);
    assert_eq!(
        denied(wire.write_vectored(&[IoSlice::new(b"x")]).await),
        ErrorKind::PermissionDenied
    );
    drop(wire);
    assert_eq!(count_to_end(&mut peer).await, 0);
}

#[tokio::test]
async fn unsent_bytes_are_discarded_at_the_deadline() {
    let clock = ManualClock::default();
    let (wire, mut peer, accepted, _open) = full(&clock).await;
    clock.expire();
    drop(wire);
    let arrived = count_to_end(&mut peer).await;
    assert!(arrived < accepted, "all {accepted} bytes arrived");
}

#[tokio::test]
async fn unsent_bytes_are_discarded_when_a_connection_is_given_up() {
    // Otherwise the kernel would send it long after the end of the lease.
    let clock = ManualClock::default();
    let (mut wire, mut peer, accepted, _open) = full(&clock).await;
    let _ = wire.shutdown().await;
    drop(wire);
    let arrived = count_to_end(&mut peer).await;
    assert!(arrived < accepted, "all {accepted} bytes arrived");
}

#[tokio::test]
async fn an_answered_connection_closes_cleanly() {
    let clock = ManualClock::default();
    let (mut wire, mut peer, _open) = connected(&clock).await;
    wire.write_all(b"ask").await.unwrap();
    peer.write_all(b"answer").await.unwrap();
    wire.read_exact(&mut [0; 6]).await.unwrap();
    drop(wire);
    assert_eq!(peer.read_to_end(&mut Vec::new()).await.unwrap(), 3);
}

#[test]
fn the_end_of_a_turn_waits_for_a_write_in_progress() {
    let (permit, revoke) = Permit::new(unlimited_lease(), &watch::Sender::new(()));
    let (inside, entered) = channel();
    let (ending, end_requested) = channel();
    let (permit, sent) = (&permit, &AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(move || {
            let action = || {
                inside.send(()).unwrap();
                end_requested.recv().unwrap();
                // Gives the other thread time to act wrongly.
                (0..1000).for_each(|_| thread::yield_now());
                sent.store(true, Ordering::SeqCst);
            };
            permit.run(action).unwrap();
        });
        entered.recv().unwrap();
        ending.send(()).unwrap();
        drop(revoke);
        assert!(sent.load(Ordering::SeqCst));
        assert!(permit.is_expired());
    });
}
