//! A wire and its permit, by themselves.

use super::super::permit::{Permit, Revoke};
use super::super::wire::Wire;
use super::for_ever;
use super::lease::{Hand, listen, rest};
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

/// A wire and its peer.
async fn connected(clock: &Hand) -> (Wire, TcpStream, Revoke) {
    let listener = listen();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (peer, _) = listener.accept().await.unwrap();
    let (permit, revoke) = Permit::new(clock.deadline(), &watch::Sender::new(()));
    (Wire::new(stream, permit).unwrap(), peer, revoke)
}

/// A wire that has taken all that the kernel takes, its peer, and how many bytes that was.
async fn full(clock: &Hand) -> (Wire, TcpStream, usize, Revoke) {
    let (mut wire, peer, revoke) = connected(clock).await;
    let mut handed = 0;
    while let Poll::Ready(written) =
        poll_fn(|cx| Poll::Ready(Pin::new(&mut wire).poll_write(cx, &[b'x'; 65536]))).await
    {
        handed += written.unwrap();
    }
    (wire, peer, handed, revoke)
}

#[tokio::test]
async fn a_wire_hands_over_no_byte_after_the_deadline() {
    let clock = Hand::default();
    let (mut wire, mut peer, handed, _open) = full(&clock).await;
    clock.pass_the_deadline();
    // There is room again.
    peer.read_exact(&mut vec![0; handed]).await.unwrap();
    let denied = |result: std::io::Result<usize>| result.unwrap_err().kind();
    assert_eq!(denied(wire.write(b"x").await), ErrorKind::PermissionDenied);
    assert_eq!(
        denied(wire.write_vectored(&[IoSlice::new(b"x")]).await),
        ErrorKind::PermissionDenied
    );
    drop(wire);
    assert_eq!(rest(&mut peer).await, 0);
}

#[tokio::test]
async fn what_waits_in_the_kernel_at_the_deadline_is_thrown_away() {
    let clock = Hand::default();
    let (wire, mut peer, handed, _open) = full(&clock).await;
    clock.pass_the_deadline();
    drop(wire);
    let arrived = rest(&mut peer).await;
    assert!(arrived < handed, "all {handed} bytes arrived");
}

#[tokio::test]
async fn what_waits_in_the_kernel_when_a_connection_is_given_up_is_thrown_away() {
    // It would be sent when the lease is long over.
    let clock = Hand::default();
    let (mut wire, mut peer, handed, _open) = full(&clock).await;
    let _ = wire.shutdown().await;
    drop(wire);
    let arrived = rest(&mut peer).await;
    assert!(arrived < handed, "all {handed} bytes arrived");
}

#[tokio::test]
async fn a_connection_that_was_answered_ends_in_good_order() {
    let clock = Hand::default();
    let (mut wire, mut peer, _open) = connected(&clock).await;
    wire.write_all(b"ask").await.unwrap();
    peer.write_all(b"answer").await.unwrap();
    wire.read_exact(&mut [0; 6]).await.unwrap();
    drop(wire);
    assert_eq!(peer.read_to_end(&mut Vec::new()).await.unwrap(), 3);
}

#[test]
fn the_end_of_a_turn_waits_for_what_is_being_sent() {
    let (permit, revoke) = Permit::new(for_ever(), &watch::Sender::new(()));
    let (inside, entered) = channel();
    let (ending, begun) = channel();
    let (permit, sent) = (&permit, &AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(move || {
            let act = || {
                inside.send(()).unwrap();
                begun.recv().unwrap();
                // Time for the other one to be wrong in.
                (0..1000).for_each(|_| thread::yield_now());
                sent.store(true, Ordering::SeqCst);
            };
            permit.act(act).unwrap();
        });
        entered.recv().unwrap();
        ending.send(()).unwrap();
        drop(revoke);
        assert!(sent.load(Ordering::SeqCst));
        assert!(permit.is_over());
    });
}
