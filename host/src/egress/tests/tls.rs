//! Requests over TLS, to a server with the certificate of a test authority.

use super::super::tls::CA_AS_END_ENTITY;
use super::super::turn::Connections;
use super::super::{Clients, Error, RootCertificates};
use super::{Budget, Gate, Outlet, ResponseMode, policy, send, unlimited_lease};
use http::StatusCode;
use rcgen::{BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, HandshakeKind, RootCertStore, ServerConfig};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

pub(super) struct Server {
    pub(super) address: SocketAddr,
    /// Certificate of the authority, in PEM.
    pub(super) authority: String,
    /// Trusts only the authority.
    client: ClientConfig,
    /// Handshake kind and head of the first request of each connection.
    received: Arc<Mutex<Vec<(HandshakeKind, String)>>>,
}

pub(super) async fn server() -> Server {
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params =
        CertificateParams::new(["127.0.0.1".to_owned(), "account.test".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap().der().clone();
    serve(authority.as_ref(), certificate, &key).await
}

/// Starts a server whose certificate is its own authority.
async fn self_signed(is_ca: IsCa) -> Server {
    let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    params.is_ca = is_ca;
    let key = KeyPair::generate().unwrap();
    let copy = KeyPair::try_from(key.serialize_der()).unwrap();
    let authority = CertifiedIssuer::self_signed(params, key).unwrap();
    serve(authority.as_ref(), authority.der().clone(), &copy).await
}

async fn serve(
    authority: &Certificate,
    certificate: CertificateDer<'static>,
    key: &KeyPair,
) -> Server {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(authority.der().clone()).unwrap();
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let received = Arc::<Mutex<Vec<_>>>::default();
    let (acceptor, heads) = (TlsAcceptor::from(Arc::new(config)), received.clone());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut head = vec![0; 4096];
            let length = stream.read(&mut head).await.unwrap();
            let head = String::from_utf8(head[..length].to_vec()).unwrap();
            let kind = stream.get_ref().1.handshake_kind().unwrap();
            heads.lock().unwrap().push((kind, head));
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
        }
    });
    Server { address, authority: authority.pem(), client, received }
}

fn turn(outlet: &Outlet, server: &Server, term: u64) -> (Gate, Connections) {
    let connections = outlet.open(term, "jobs/report", unlimited_lease());
    let policy = policy(&server.address.to_string(), ResponseMode::Streamed(1000));
    (Gate::for_turn(policy, &connections, Arc::new(|_| {}), Budget::unlimited()), connections)
}

#[tokio::test]
async fn a_session_is_resumed_by_the_next_turn() {
    let server = server().await;
    let outlet = Outlet::for_component();
    outlet.tls.set(Arc::new(server.client.clone())).unwrap();
    let url = format!("https://{}/", server.address);
    for term in [7, 8] {
        let (gate, _connections) = turn(&outlet, &server, term);
        let answer = send(&gate, &url, "").await.unwrap();
        assert_eq!(answer, (StatusCode::OK, "ok".to_owned()));
    }
    let received = server.received.lock().unwrap();
    let kinds: Vec<_> = received.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, [HandshakeKind::Full, HandshakeKind::Resumed]);
    assert!(received[1].1.contains("\r\ntenure-term: 8\r\n"), "{received:?}");
}

/// Returns the gate of an election component that trusts `pem` in addition to the platform's
/// certificates.
fn component(server: &Server, pem: &str) -> Gate {
    let authorities = RootCertificates::from_pem(pem.as_bytes()).unwrap();
    let policy = policy(&server.address.to_string(), ResponseMode::Collected(1000));
    Gate::pooled(policy, Arc::new(Clients::with_env_proxies(authorities)))
}

#[tokio::test]
async fn the_component_trusts_its_configured_roots() {
    let (server, other) = (server().await, server().await);
    let both = format!("{}{}", other.authority, server.authority);
    let url = format!("https://{}/", server.address);
    let answer = send(&component(&server, &both), &url, "").await.unwrap();
    assert_eq!(answer, (StatusCode::OK, "ok".to_owned()));
    assert_eq!(server.received.lock().unwrap().len(), 1);

    let refused = send(&component(&server, &other.authority), &url, "").await.unwrap_err();
    assert!(matches!(refused, Error::Tls(_)), "{refused:?}");
    assert_eq!(server.received.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_trusted_self_signed_certificate_is_accepted_unless_it_is_a_ca() {
    let single = self_signed(IsCa::ExplicitNoCa).await;
    let answer =
        send(&component(&single, &single.authority), &format!("https://{}/", single.address), "")
            .await;
    assert_eq!(answer.unwrap(), (StatusCode::OK, "ok".to_owned()));

    let ca_server = self_signed(IsCa::Ca(BasicConstraints::Unconstrained)).await;
    let url = format!("https://{}/", ca_server.address);
    let refused = send(&component(&ca_server, &ca_server.authority), &url, "").await.unwrap_err();
    assert_eq!(refused, Error::Tls(CA_AS_END_ENTITY.to_owned()));
}

#[tokio::test]
async fn a_turn_trusts_the_roots_of_its_outlet() {
    let (server, other) = (server().await, server().await);
    let url = format!("https://{}/", server.address);
    let outlet = |pem: &str| {
        let authorities = RootCertificates::from_pem(pem.as_bytes()).unwrap();
        Outlet::for_component().with_root_certificates(authorities)
    };
    let (gate, _connections) = turn(&outlet(&other.authority), &server, 7);
    let refused = send(&gate, &url, "").await.unwrap_err();
    assert!(matches!(refused, Error::Tls(_)), "{refused:?}");
    assert!(server.received.lock().unwrap().is_empty());
    let (gate, _connections) = turn(&outlet(&server.authority), &server, 7);
    let answer = send(&gate, &url, "").await.unwrap();
    assert_eq!(answer, (StatusCode::OK, "ok".to_owned()));
}

#[tokio::test]
async fn an_untrusted_server_receives_nothing() {
    let server = server().await;
    // Trusts only the platform's certificates.
    let outlet = Outlet::for_component();
    let (gate, _connections) = turn(&outlet, &server, 7);
    let refused = send(&gate, &format!("https://{}/", server.address), "").await;
    assert!(matches!(refused, Err(Error::Tls(_))), "{refused:?}");
    assert!(server.received.lock().unwrap().is_empty());
}
