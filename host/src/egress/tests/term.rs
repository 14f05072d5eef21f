//! Every request of a turn carries its term.

use super::super::Limits;
use super::{Budget, Gate, Outlet, ResponseMode, policy, unlimited_lease};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// Sends a request with these headers, and returns its head as it arrives.
async fn received_head(headers: &[(&'static str, &'static str)]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Outlet::for_component().open(7, "jobs/ü", unlimited_lease());
    let gate = Gate::for_turn(
        policy(&address.to_string(), ResponseMode::Streamed(0)),
        &connections,
        std::sync::Arc::new(|_| {}),
        Budget::unlimited(),
    );
    let body = Empty::<Bytes>::new().map_err(|never| match never {}).boxed_unsync();
    let mut request = http::Request::get(format!("http://{address}/")).body(body).unwrap();
    for (name, value) in headers {
        request.headers_mut().append(*name, value.parse().unwrap());
    }
    let receive = async {
        let (mut peer, _) = listener.accept().await.unwrap();
        let mut head = vec![0; 4096];
        let length = peer.read(&mut head).await.unwrap();
        peer.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
        String::from_utf8(head[..length].to_vec()).unwrap()
    };
    let (sent, head) = tokio::join!(gate.send(request, Limits::default()), receive);
    assert_eq!(sent.unwrap().status(), 204);
    assert!(head.contains(&format!("\r\nhost: {address}\r\n")), "{head}");
    head
}

#[tokio::test]
async fn the_term_header_of_the_guest_is_replaced() {
    let forged = [("tenure-term", "99"), ("x", "y"), ("Tenure-Term", "98"), ("host", "evil")];
    for headers in [&[][..], &forged[..]] {
        let head = received_head(headers).await;
        assert_eq!(head.matches("tenure-term:").count(), 1, "{head}");
        assert!(head.contains("\r\ntenure-term: 7\r\n"), "{head}");
        assert_eq!(head.contains("\r\nx: y\r\n"), !headers.is_empty(), "{head}");
    }
}

#[tokio::test]
async fn similar_header_names_are_removed() {
    let forged =
        [("tenure_term", "99"), ("Tenure_term", "98"), ("tenure.term", "97"), ("x_y", "z")];
    let head = received_head(&forged).await;
    for value in ["99", "98", "97"] {
        assert!(!head.contains(&format!(": {value}\r\n")), "{head}");
    }
    assert!(head.contains("\r\ntenure-term: 7\r\n") && head.contains("\r\nx_y: z\r\n"), "{head}");
}

#[tokio::test]
async fn the_election_header_is_set() {
    for headers in [&[][..], &[("tenure-election", "jobs/other"), ("Tenure_Election", "no/other")]]
    {
        let head = received_head(headers).await;
        assert_eq!(head.matches("tenure-election:").count(), 1, "{head}");
        // The name contains characters that are invalid in headers.
        assert!(head.contains("\r\ntenure-election: jobs/%C3%BC\r\n"), "{head}");
    }
}

#[tokio::test]
async fn the_connection_header_is_removed() {
    let head = received_head(&[("connection", "tenure-term")]).await;
    assert!(!head.contains("connection"), "{head}");
}
