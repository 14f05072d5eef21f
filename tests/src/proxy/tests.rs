//! Tests of each mode, with real connections to an echo server.

use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Duration, timeout};

use super::*;

const TIMEOUT: Duration = crate::PATIENCE;
/// Time without data after which a test assumes silence.
const SILENCE_TIMEOUT: Duration = Duration::from_millis(200);

/// Starts an echo server with a proxy in front. The receiver holds the text that the server
/// received.
async fn start_echo() -> (Proxy, watch::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = Proxy::start(listener.local_addr().unwrap()).await.unwrap();
    let (received_sender, received) = watch::channel(String::new());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let received_sender = received_sender.clone();
            tokio::spawn(async move {
                let mut buffer = [0; 64];
                while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                    received_sender.send_modify(|all| {
                        all.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
                    });
                    let _ = stream.write_all(&buffer[..count]).await;
                }
            });
        }
    });
    (proxy, received)
}

async fn client(proxy: &Proxy) -> TcpStream {
    TcpStream::connect(proxy.address).await.unwrap()
}

async fn write_text(client: &mut TcpStream, text: &str) {
    client.write_all(text.as_bytes()).await.unwrap();
}

/// Reads as many bytes as were sent; returns an empty text after a reset.
async fn read_back(client: &mut TcpStream, text: &str) -> String {
    let mut buffer = vec![0; text.len()];
    match client.read_exact(&mut buffer).await {
        Ok(_) => String::from_utf8(buffer).unwrap(),
        Err(_) => String::new(),
    }
}

async fn is_silent(client: &mut TcpStream) -> bool {
    timeout(SILENCE_TIMEOUT, client.read_u8()).await.is_err()
}

async fn wait_for_received(received: &mut watch::Receiver<String>, expected: &str) {
    timeout(TIMEOUT, received.wait_for(|all| all == expected)).await.unwrap().unwrap();
}

#[tokio::test]
async fn the_proxy_passes_everything_on() {
    let (proxy, mut received) = start_echo().await;
    let mut client = client(&proxy).await;
    write_text(&mut client, "one").await;
    assert_eq!(read_back(&mut client, "one").await, "one");
    client.shutdown().await.unwrap();
    assert_eq!(client.read(&mut [0]).await.unwrap(), 0, "the end too");
    wait_for_received(&mut received, "one").await;
}

#[tokio::test]
async fn delayed_requests_arrive_after_the_client_left() {
    let (proxy, mut received) = start_echo().await;
    let delay = Duration::from_millis(100);
    proxy.set_mode(Mode::Delay(delay));
    let mut waiting_client = client(&proxy).await;
    let sent_at = Instant::now();
    write_text(&mut waiting_client, "one").await;
    assert_eq!(read_back(&mut waiting_client, "one").await, "one");
    assert!(sent_at.elapsed() >= delay, "{:?}", sent_at.elapsed());
    let mut departing_client = client(&proxy).await;
    write_text(&mut departing_client, "two").await;
    drop(departing_client);
    wait_for_received(&mut received, "onetwo").await;
}

#[tokio::test]
async fn dropped_requests_never_arrive_and_their_connection_ends_with_the_fault() {
    let (proxy, received) = start_echo().await;
    let mut old_client = client(&proxy).await;
    write_text(&mut old_client, "one").await;
    assert_eq!(read_back(&mut old_client, "one").await, "one");
    proxy.set_mode(Mode::Drop);
    let mut new_client = client(&proxy).await;
    for client in [&mut old_client, &mut new_client] {
        write_text(client, "two").await;
        assert!(is_silent(client).await);
    }
    proxy.set_mode(Mode::Pass);
    for client in [&mut old_client, &mut new_client] {
        let result = timeout(TIMEOUT, client.read_u8()).await.unwrap();
        assert_eq!(result.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    }
    assert_eq!(*received.borrow(), "one");
}

#[tokio::test]
async fn half_open_requests_arrive_and_answers_do_not() {
    let (proxy, mut received) = start_echo().await;
    proxy.set_mode(Mode::HalfOpen);
    let mut client = client(&proxy).await;
    write_text(&mut client, "one").await;
    wait_for_received(&mut received, "one").await;
    assert!(is_silent(&mut client).await);
}

#[tokio::test]
async fn the_end_of_a_connection_gets_lost_in_a_black_hole() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = Proxy::start(listener.local_addr().unwrap()).await.unwrap();
    let mut client = client(&proxy).await;
    let (server, _) = listener.accept().await.unwrap();
    proxy.set_mode(Mode::BlackHole);
    drop(server);
    assert!(is_silent(&mut client).await);
    proxy.set_mode(Mode::Pass);
    let result = timeout(TIMEOUT, client.read_u8()).await.unwrap();
    assert_eq!(result.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_black_hole_passes_nothing_and_accepts_no_connection() {
    let (proxy, received) = start_echo().await;
    let mut old_client = client(&proxy).await;
    write_text(&mut old_client, "one").await;
    assert_eq!(read_back(&mut old_client, "one").await, "one");
    proxy.set_mode(Mode::BlackHole);
    write_text(&mut old_client, "two").await;
    // The kernel completes the handshake, but the proxy never accepts the connection.
    let mut new_client = client(&proxy).await;
    write_text(&mut new_client, "three").await;
    assert!(is_silent(&mut old_client).await && is_silent(&mut new_client).await);
    assert_eq!(*received.borrow(), "one");
    proxy.set_mode(Mode::Pass);
    assert_eq!(read_back(&mut new_client, "three").await, "three", "it waited");
    assert_eq!(read_back(&mut old_client, "two").await, "", "what was swallowed is gone");
}

#[tokio::test]
async fn connections_are_reset() {
    let (proxy, received) = start_echo().await;
    let mut old_client = client(&proxy).await;
    write_text(&mut old_client, "one").await;
    assert_eq!(read_back(&mut old_client, "one").await, "one");
    proxy.set_mode(Mode::Reset);
    let mut new_client = client(&proxy).await;
    for client in [&mut old_client, &mut new_client] {
        let result = timeout(TIMEOUT, client.read_u8()).await.unwrap();
        assert_eq!(result.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    }
    assert_eq!(*received.borrow(), "one");
}

#[tokio::test]
async fn answers_trickle_until_the_fault_ends() {
    let (proxy, _received) = start_echo().await;
    let pause = Duration::from_millis(50);
    proxy.set_mode(Mode::Trickle(pause));
    let mut client = client(&proxy).await;
    let sent_at = Instant::now();
    write_text(&mut client, "one").await;
    assert_eq!(read_back(&mut client, "one").await, "one");
    assert!(sent_at.elapsed() >= 2 * pause, "{:?}", sent_at.elapsed());
    proxy.set_mode(Mode::Trickle(2 * TIMEOUT));
    write_text(&mut client, "four").await;
    assert_eq!(read_back(&mut client, "f").await, "f");
    proxy.set_mode(Mode::Pass);
    assert_eq!(timeout(TIMEOUT, read_back(&mut client, "our")).await.unwrap(), "our");
}

#[tokio::test]
async fn a_witness_sees_requests_that_never_arrive_and_no_answers() {
    let (received_sender, mut witnessed) = watch::channel(String::new());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let witness = move |bytes: &[u8]| {
        received_sender.send_modify(|all| all.push_str(std::str::from_utf8(bytes).unwrap()));
    };
    let server_address = listener.local_addr().unwrap();
    let proxy = Proxy::start_with_witness(server_address, witness).await.unwrap();
    let mut client = client(&proxy).await;
    write_text(&mut client, "one").await;
    let (mut server, _) = listener.accept().await.unwrap();
    write_text(&mut server, "answer").await;
    assert_eq!(read_back(&mut client, "answer").await, "answer");
    proxy.set_mode(Mode::Drop);
    write_text(&mut client, "two").await;
    wait_for_received(&mut witnessed, "onetwo").await;
}

#[tokio::test]
async fn answers_alone_may_be_late() {
    let (proxy, mut received) = start_echo().await;
    let delay = Duration::from_millis(300);
    proxy.set_mode(Mode::LateAnswers(delay));
    let mut client = client(&proxy).await;
    let sent_at = Instant::now();
    write_text(&mut client, "one").await;
    wait_for_received(&mut received, "one").await;
    assert_eq!(read_back(&mut client, "one").await, "one");
    assert!(sent_at.elapsed() >= delay);
}

#[tokio::test]
async fn a_write_of_metadata_is_refused_and_everything_else_passes() {
    let (proxy, mut received) = start_echo().await;
    proxy.set_mode(Mode::RefuseMetadata);
    let mut client = client(&proxy).await;
    write_text(&mut client, "PUT /c/b?comp=metadata HTTP/1.1\r\n\r\n").await;
    assert_eq!(read_back(&mut client, "HTTP/1.1 503").await, "HTTP/1.1 503");
    let renewal = "PUT /c/b?comp=lease HTTP/1.1\r\nx: comp=metadata\r\n\r\n";
    write_text(&mut client, renewal).await;
    wait_for_received(&mut received, renewal).await;
}
