//! Requests of the election component through a proxy, to a server that only the proxy can find.

use super::super::client::Proxies;
use super::super::{Clients, Error, RootCertificates};
use super::tls::{Server, server};
use super::{Gate, ResponseMode, policy, send};
use http::StatusCode;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

/// Forwards connections to `to`, regardless of the requested host. Returns its address and the
/// heads of the requests.
async fn proxy(to: SocketAddr) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let heads = Arc::<Mutex<Vec<_>>>::default();
    let received = heads.clone();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(client.read_u8().await.unwrap());
            }
            received.lock().unwrap().push(String::from_utf8(head).unwrap());
            client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            let mut server = TcpStream::connect(to).await.unwrap();
            tokio::spawn(async move { copy_bidirectional(&mut client, &mut server).await });
        }
    });
    (address, heads)
}

/// Returns the gate of an election component whose environment contains this proxy.
fn gate_through(proxy: &str, host: &str, server: &Server) -> Gate {
    let proxies = Proxies::from_variables(|name| (name == "HTTPS_PROXY").then(|| proxy.to_owned()));
    let authorities = RootCertificates::from_pem(server.authority.as_bytes()).unwrap();
    let policy = policy(host, ResponseMode::Collected(1000));
    Gate::pooled(policy, Arc::new(Clients::with_proxies(proxies, authorities)))
}

#[tokio::test]
async fn tls_goes_through_a_tunnel_of_the_proxy() {
    let server = server().await;
    let (proxy, heads) = proxy(server.address).await;
    let gate = gate_through(&format!("http://user:S3CRET@{proxy}"), "account.test", &server);
    let answer = send(&gate, "https://account.test/", "").await.unwrap();
    assert_eq!(answer, (StatusCode::OK, "ok".to_owned()));
    let heads = heads.lock().unwrap();
    assert_eq!(heads.len(), 1);
    let head = heads[0].to_ascii_lowercase();
    assert!(head.starts_with("connect account.test:443 http/1.1\r\n"), "{head}");
    // user:S3CRET
    assert!(heads[0].contains(": Basic dXNlcjpTM0NSRVQ="), "{head}");
}

#[tokio::test]
async fn clients_with_other_root_certificates_keep_their_proxies() {
    let server = server().await;
    let proxies =
        Proxies::from_variables(|name| (name == "HTTPS_PROXY").then(|| "proxy.test:1".to_owned()));
    let clients = Arc::new(Clients::with_proxies(proxies, RootCertificates::default()));
    let authorities = RootCertificates::from_pem(server.authority.as_bytes()).unwrap();
    let clients = clients.with_root_certificates(authorities);
    let proxy = clients.proxy(&"https://account.test/".parse().unwrap()).unwrap();
    assert_eq!(proxy.map(|proxy| proxy.address), Some("http://proxy.test:1".to_owned()));
}

#[tokio::test]
async fn loopback_has_no_proxy() {
    let server = server().await;
    let (proxy, heads) = proxy(server.address).await;
    let gate = gate_through(&proxy.to_string(), &server.address.to_string(), &server);
    let answer = send(&gate, &format!("https://{}/", server.address), "").await.unwrap();
    assert_eq!(answer, (StatusCode::OK, "ok".to_owned()));
    assert!(heads.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_proxy_that_cannot_be_reached_is_named_without_its_password() {
    let server = server().await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let gate = gate_through(&format!("http://user:S3CRET@{address}"), "account.test", &server);
    let failed = send(&gate, "https://account.test/", "").await.unwrap_err();
    let Error::Other(text) = failed else { panic!("{failed:?}") };
    let expected = format!("through the proxy http://{address} of HTTPS_PROXY: ");
    assert!(text.starts_with(&expected) && !text.contains("S3CRET"), "{text}");
    let gate = gate_through("socks5://S3CRET:1", "account.test", &server);
    let failed = send(&gate, "https://account.test/", "").await.unwrap_err();
    let Error::Other(text) = failed else { panic!("{failed:?}") };
    assert!(text.starts_with("HTTPS_PROXY does not hold the address"), "{text}");
}
