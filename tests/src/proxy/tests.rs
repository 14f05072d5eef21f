//! Each mode, with real connections to a server that echoes.

use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Duration, timeout};

use super::*;

const SOON: Duration = crate::PATIENCE;
/// What never comes does not come within this time.
const NEVER: Duration = Duration::from_millis(200);

/// An echo, what it heard, and a proxy in front of it.
async fn echo() -> (Proxy, watch::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = Proxy::start(listener.local_addr().unwrap()).await.unwrap();
    let (told, heard) = watch::channel(String::new());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let told = told.clone();
            tokio::spawn(async move {
                let mut buffer = [0; 64];
                while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                    told.send_modify(|all| {
                        all.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
                    });
                    let _ = stream.write_all(&buffer[..count]).await;
                }
            });
        }
    });
    (proxy, heard)
}

async fn client(proxy: &Proxy) -> TcpStream {
    TcpStream::connect(proxy.address).await.unwrap()
}

async fn say(client: &mut TcpStream, word: &str) {
    client.write_all(word.as_bytes()).await.unwrap();
}

/// What comes back, as many bytes as were said; empty after a reset.
async fn answer(client: &mut TcpStream, word: &str) -> String {
    let mut buffer = vec![0; word.len()];
    match client.read_exact(&mut buffer).await {
        Ok(_) => String::from_utf8(buffer).unwrap(),
        Err(_) => String::new(),
    }
}

async fn silent(client: &mut TcpStream) -> bool {
    timeout(NEVER, client.read_u8()).await.is_err()
}

async fn hears(heard: &mut watch::Receiver<String>, what: &str) {
    timeout(SOON, heard.wait_for(|all| all == what)).await.unwrap().unwrap();
}

#[tokio::test]
async fn it_passes_everything_on() {
    let (proxy, mut heard) = echo().await;
    let mut client = client(&proxy).await;
    say(&mut client, "one").await;
    assert_eq!(answer(&mut client, "one").await, "one");
    client.shutdown().await.unwrap();
    assert_eq!(client.read(&mut [0]).await.unwrap(), 0, "the end too");
    hears(&mut heard, "one").await;
}

#[tokio::test]
async fn delayed_requests_arrive_although_nobody_waits() {
    let (proxy, mut heard) = echo().await;
    let late = Duration::from_millis(100);
    proxy.set(Mode::Delay(late));
    let mut patient = client(&proxy).await;
    let said = Instant::now();
    say(&mut patient, "one").await;
    assert_eq!(answer(&mut patient, "one").await, "one");
    assert!(said.elapsed() >= late, "{:?}", said.elapsed());
    let mut hasty = client(&proxy).await;
    say(&mut hasty, "two").await;
    drop(hasty);
    hears(&mut heard, "onetwo").await;
}

#[tokio::test]
async fn dropped_requests_never_arrive_and_their_connection_ends_with_the_fault() {
    let (proxy, heard) = echo().await;
    let mut old = client(&proxy).await;
    say(&mut old, "one").await;
    assert_eq!(answer(&mut old, "one").await, "one");
    proxy.set(Mode::Drop);
    let mut new = client(&proxy).await;
    for client in [&mut old, &mut new] {
        say(client, "two").await;
        assert!(silent(client).await);
    }
    proxy.set(Mode::Pass);
    for client in [&mut old, &mut new] {
        let read = timeout(SOON, client.read_u8()).await.unwrap();
        assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    }
    assert_eq!(*heard.borrow(), "one");
}

#[tokio::test]
async fn half_open_requests_arrive_and_answers_do_not() {
    let (proxy, mut heard) = echo().await;
    proxy.set(Mode::HalfOpen);
    let mut client = client(&proxy).await;
    say(&mut client, "one").await;
    hears(&mut heard, "one").await;
    assert!(silent(&mut client).await);
}

#[tokio::test]
async fn the_end_of_a_connection_gets_lost_in_a_black_hole() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = Proxy::start(listener.local_addr().unwrap()).await.unwrap();
    let mut client = client(&proxy).await;
    let (server, _) = listener.accept().await.unwrap();
    proxy.set(Mode::BlackHole);
    drop(server);
    assert!(silent(&mut client).await);
    proxy.set(Mode::Pass);
    let read = timeout(SOON, client.read_u8()).await.unwrap();
    assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_black_hole_lets_nothing_through_and_nobody_in() {
    let (proxy, heard) = echo().await;
    let mut old = client(&proxy).await;
    say(&mut old, "one").await;
    assert_eq!(answer(&mut old, "one").await, "one");
    proxy.set(Mode::BlackHole);
    say(&mut old, "two").await;
    // The kernel shakes hands; nobody takes the connection.
    let mut new = client(&proxy).await;
    say(&mut new, "three").await;
    assert!(silent(&mut old).await && silent(&mut new).await);
    assert_eq!(*heard.borrow(), "one");
    proxy.set(Mode::Pass);
    assert_eq!(answer(&mut new, "three").await, "three", "it waited");
    assert_eq!(answer(&mut old, "two").await, "", "what was swallowed is gone");
}

#[tokio::test]
async fn connections_are_reset() {
    let (proxy, heard) = echo().await;
    let mut old = client(&proxy).await;
    say(&mut old, "one").await;
    assert_eq!(answer(&mut old, "one").await, "one");
    proxy.set(Mode::Reset);
    let mut new = client(&proxy).await;
    for client in [&mut old, &mut new] {
        let read = timeout(SOON, client.read_u8()).await.unwrap();
        assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    }
    assert_eq!(*heard.borrow(), "one");
}

#[tokio::test]
async fn answers_trickle_until_the_fault_ends() {
    let (proxy, _heard) = echo().await;
    let pause = Duration::from_millis(50);
    proxy.set(Mode::Trickle(pause));
    let mut client = client(&proxy).await;
    let said = Instant::now();
    say(&mut client, "one").await;
    assert_eq!(answer(&mut client, "one").await, "one");
    assert!(said.elapsed() >= 2 * pause, "{:?}", said.elapsed());
    proxy.set(Mode::Trickle(2 * SOON));
    say(&mut client, "four").await;
    assert_eq!(answer(&mut client, "f").await, "f");
    proxy.set(Mode::Pass);
    assert_eq!(timeout(SOON, answer(&mut client, "our")).await.unwrap(), "our");
}

#[tokio::test]
async fn a_witness_sees_requests_that_never_arrive_and_no_answers() {
    let (told, mut seen) = watch::channel(String::new());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let witness = move |bytes: &[u8]| {
        told.send_modify(|all| all.push_str(std::str::from_utf8(bytes).unwrap()));
    };
    let to = listener.local_addr().unwrap();
    let proxy = Proxy::start_with(to, witness).await.unwrap();
    let mut client = client(&proxy).await;
    say(&mut client, "one").await;
    let (mut server, _) = listener.accept().await.unwrap();
    say(&mut server, "answer").await;
    assert_eq!(answer(&mut client, "answer").await, "answer");
    proxy.set(Mode::Drop);
    say(&mut client, "two").await;
    hears(&mut seen, "onetwo").await;
}

#[tokio::test]
async fn answers_alone_may_be_late() {
    let (proxy, mut heard) = echo().await;
    let late = Duration::from_millis(300);
    proxy.set(Mode::LateAnswers(late));
    let mut client = client(&proxy).await;
    let said = Instant::now();
    say(&mut client, "one").await;
    hears(&mut heard, "one").await;
    assert_eq!(answer(&mut client, "one").await, "one");
    assert!(said.elapsed() >= late);
}

#[tokio::test]
async fn a_write_of_metadata_is_refused_and_everything_else_passes() {
    let (proxy, mut heard) = echo().await;
    proxy.set(Mode::RefuseMetadata);
    let mut client = client(&proxy).await;
    say(&mut client, "PUT /c/b?comp=metadata HTTP/1.1\r\n\r\n").await;
    assert_eq!(answer(&mut client, "HTTP/1.1 503").await, "HTTP/1.1 503");
    let renewal = "PUT /c/b?comp=lease HTTP/1.1\r\nx: comp=metadata\r\n\r\n";
    say(&mut client, renewal).await;
    hears(&mut heard, renewal).await;
}
