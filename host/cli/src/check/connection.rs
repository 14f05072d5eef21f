//! Connections to the account. [`examine`] tests step by step whether this machine can reach the
//! server: name, connection, TLS. [`Account`] sends the requests of an examination as a candidate
//! would.

use super::examination::{Question, Reply, Transport};
use super::findings::Finding;
use chrono::{DateTime, Utc};
use reqwest::Url;
use rustls::crypto::SecureRandom;
use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConfig};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tenure::RootCertificates;
use tenure::engine::{Clients, Error, Proxy};
use tenure_azure::answer::Answer;
use tenure_azure::request::Request;
use tenure_clock::{BootClock, Clock as _};
use tenure_core::{Chance, Failure, Moment, Response, Settings, TokenReply, TokenRequest};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

const CHECK: &str = "connection";

/// Connects to `origin` as a candidate's requests do, through a proxy if one is set.
pub(super) async fn examine(origin: &str, authorities: &RootCertificates) -> Finding {
    let clients = Clients::with_env_proxies(authorities.clone());
    match Url::parse(origin).ok().map_or(Ok(None), |url| clients.proxy(&url)) {
        Ok(None) => to_finding(origin, probe(origin, authorities).await),
        // Tests the connection to the proxy. This machine may be unable to resolve the account's
        // name.
        Ok(Some(Proxy { variable, address })) => {
            let route = format!("{origin} through the proxy {address} of {variable}");
            to_finding(&route, probe(&address, authorities).await)
        }
        Err(why) => Finding::failed(CHECK, format!("{origin}: {why}")),
    }
}

fn to_finding(origin: &str, probed: Result<Reached, ProbeError>) -> Finding {
    match probed {
        Ok(reached) => {
            let mut detail = format!("{origin}: {}", reached.address);
            let steps = [
                ("name", reached.name),
                ("connection", Some(reached.connection)),
                ("TLS", reached.tls),
            ];
            for (step, time) in steps {
                if let Some(time) = time {
                    detail.push_str(&format!(", {step} {}", milliseconds(time)));
                }
            }
            if reached.passed_over.is_empty() {
                return Finding::good(CHECK, detail);
            }
            let others = reached.passed_over.join("; ");
            Finding::warning(
                CHECK,
                format!(
                    "{detail}; its other addresses did not answer ({others}): check the network"
                ),
            )
        }
        Err(ProbeError::Name(why)) => Finding::failed(
            CHECK,
            format!(
                "{origin}: the name cannot be resolved ({why}); check the account's name, the \
                 endpoint, and DNS on this machine"
            ),
        ),
        Err(ProbeError::Connection(why)) => Finding::failed(
            CHECK,
            format!(
                "{origin}: no connection ({why}); check the endpoint and its port, and firewalls in \
                 between"
            ),
        ),
        Err(ProbeError::Local(why)) => Finding::failed(CHECK, format!("{origin}: {why}")),
        Err(ProbeError::Tls { address, why }) => {
            Finding::failed(CHECK, format!("{origin} ({address}): no TLS: {why}"))
        }
    }
}

/// Formats every duration in milliseconds, so that the numbers are easy to compare.
fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1_000.0)
}

/// Time limit for each step.
const STEP_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of addresses to try.
const MAX_ADDRESSES: usize = 4;

/// A server that was reached, and the time that each step took.
#[derive(Clone, Debug)]
struct Reached {
    pub address: SocketAddr,
    /// None if the origin contains an IP address.
    pub name: Option<Duration>,
    pub connection: Duration,
    /// None without TLS.
    pub tls: Option<Duration>,
    /// Addresses that were tried before, each with its error.
    pub passed_over: Vec<String>,
}

/// The step that failed, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ProbeError {
    Name(String),
    Connection(String),
    Tls {
        address: SocketAddr,
        why: String,
    },
    /// A problem of this machine prevented the attempt.
    Local(String),
}

/// Connects to `origin` as far as possible, without sending a request. Trusts the platform's
/// authorities and `authorities`.
async fn probe(origin: &str, authorities: &RootCertificates) -> Result<Reached, ProbeError> {
    let url = Url::parse(origin).map_err(|error| ProbeError::Name(error.to_string()))?;
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let port = url.port_or_known_default().unwrap_or_default();
    let began = Instant::now();
    let addresses = match timeout(STEP_TIMEOUT, lookup_host((host.as_str(), port))).await {
        Ok(Ok(addresses)) => addresses.collect::<Vec<_>>(),
        Ok(Err(error)) => {
            let local = Error::too_many_files(&error).map(ProbeError::Local);
            return Err(local.unwrap_or_else(|| ProbeError::Name(error.to_string())));
        }
        Err(_) => return Err(ProbeError::Name(format!("no answer within {STEP_TIMEOUT:?}"))),
    };
    let is_address = host.parse::<std::net::IpAddr>().is_ok();
    let name = (!is_address).then(|| began.elapsed());
    let (address, stream, connection, passed_over) = connect(&addresses).await?;
    let tls = match url.scheme() {
        "https" => {
            let why = |why| ProbeError::Tls { address, why };
            let config = authorities.client_config().map_err(|error| why(error.to_string()))?;
            Some(shake_hands(config, &host, stream).await.map_err(why)?)
        }
        _ => None,
    };
    Ok(Reached { address, name, connection, tls, passed_over })
}

/// The address, its connection, the time to connect, and the errors of the addresses before it.
type Connected = (SocketAddr, TcpStream, Duration, Vec<String>);

/// Connects to the first address that answers.
async fn connect(addresses: &[SocketAddr]) -> Result<Connected, ProbeError> {
    let mut failed = Vec::new();
    for &address in addresses.iter().take(MAX_ADDRESSES) {
        let began = Instant::now();
        let why = match timeout(STEP_TIMEOUT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok((address, stream, began.elapsed(), failed)),
            Ok(Err(error)) => match Error::too_many_files(&error) {
                Some(why) => return Err(ProbeError::Local(why)),
                None => error.to_string(),
            },
            Err(_) => format!("no answer within {STEP_TIMEOUT:?}"),
        };
        failed.push(format!("{address}: {why}"));
    }
    Err(ProbeError::Connection(match failed.is_empty() {
        true => "the name has no address".to_owned(),
        false => failed.join("; "),
    }))
}

async fn shake_hands(
    config: ClientConfig,
    host: &str,
    stream: TcpStream,
) -> Result<Duration, String> {
    let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
    // Measures only the handshake: the platform's authorities are already loaded.
    let began = Instant::now();
    match timeout(STEP_TIMEOUT, TlsConnector::from(Arc::new(config)).connect(name, stream)).await {
        Ok(Ok(_)) => Ok(began.elapsed()),
        Ok(Err(error)) => Err(explain(&error)),
        Err(_) => Err(format!("no answer within {STEP_TIMEOUT:?}")),
    }
}

/// Explains why a TLS handshake failed, and what to do about it.
fn explain(error: &std::io::Error) -> String {
    use CertificateError as Bad;
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let advice = match tls {
        Some(rustls::Error::InvalidCertificate(bad)) => match bad {
            Bad::UnknownIssuer => {
                "its certificate is from an authority that this machine does not trust; add that authority with \
                 --ca-file, or look for a proxy that intercepts TLS"
            }
            Bad::Expired | Bad::ExpiredContext { .. } => {
                "its certificate has expired, unless this machine's clock is wrong"
            }
            Bad::NotValidYet | Bad::NotValidYetContext { .. } => {
                "its certificate is not valid yet, unless this machine's clock is wrong"
            }
            Bad::NotValidForName | Bad::NotValidForNameContext { .. } => {
                "its certificate is for another name; check the endpoint, and DNS"
            }
            Bad::Revoked => "its certificate was revoked",
            _ => Error::ca_as_end_entity(bad).unwrap_or("its certificate is not accepted"),
        },
        Some(rustls::Error::InvalidMessage(_)) => {
            "the server does not speak TLS; check scheme and port of the endpoint"
        }
        _ => "the TLS handshake failed; look for a firewall or a proxy in between",
    };
    format!("{advice} ({error})")
}

/// The account that the settings name, and the connections to it.
pub(super) struct Account<'s> {
    settings: &'s Settings,
    clients: Arc<Clients>,
    clock: BootClock,
}

impl<'s> Account<'s> {
    /// Trusts `authorities` in addition to those of the platform.
    pub(super) fn new(settings: &'s Settings, authorities: RootCertificates) -> Self {
        let clients = Arc::new(Clients::with_env_proxies(authorities));
        Self { settings, clients, clock: BootClock::new() }
    }

    async fn send(&self, request: Request, timeout: Duration) -> Result<Response, Failure> {
        self.clients.send(&tenure_core::Request::new(request, timeout)).await
    }
}

impl Transport for Account<'_> {
    fn now(&self) -> Moment {
        self.clock.now()
    }

    fn wall(&self) -> DateTime<Utc> {
        Utc::now()
    }

    async fn ask(&mut self, question: Question) -> Result<Reply, Failure> {
        let request = question.request(self.settings, Utc::now());
        let Response { status, headers, body } = self.send(request, question.timeout).await?;
        let answer = Answer::from_parts(&question.operation, status, &headers).with_body(&body);
        Ok(Reply { answer, headers })
    }

    async fn fetch(&mut self, fetch: TokenRequest) -> TokenReply {
        let response = self.send(fetch.request, fetch.timeout).await?;
        Ok((response.status, response.body))
    }

    async fn pause(&mut self, time: Duration) {
        sleep(time).await;
    }
}

impl Chance for Account<'_> {
    fn bits(&mut self) -> u64 {
        let mut bytes = [0; 8];
        let random: &dyn SecureRandom = rustls::crypto::ring::default_provider().secure_random;
        // Without randomness there is no TLS either. A lease id of zeros harms no election.
        let _ = random.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::findings::Verdict;
    use tokio::net::{TcpListener, TcpSocket};

    fn reached(passed_over: &[&str]) -> Reached {
        Reached {
            address: ([10, 0, 0, 4], 443).into(),
            name: Some(Duration::from_micros(1_540)),
            connection: Duration::from_millis(12),
            tls: Some(Duration::from_millis(30)),
            passed_over: passed_over.iter().map(|&why| why.to_owned()).collect(),
        }
    }

    #[test]
    fn each_step_has_its_time() {
        let finding = to_finding("https://acc", Ok(reached(&[])));
        assert_eq!(finding.verdict, Verdict::Good);
        let steps = "10.0.0.4:443, name 1.5 ms, connection 12.0 ms, TLS 30.0 ms";
        assert_eq!(finding.detail, format!("https://acc: {steps}"));
        let finding = to_finding("https://acc", Ok(reached(&["[::1]:443: unreachable"])));
        assert_eq!(finding.verdict, Verdict::Warning);
        assert!(finding.detail.contains("[::1]:443: unreachable"), "{finding:?}");
    }

    #[test]
    fn each_failure_names_its_step() {
        let address = ([10, 0, 0, 4], 443).into();
        for (failure, expected) in [
            (ProbeError::Name("x".to_owned()), "DNS"),
            (ProbeError::Connection("x".to_owned()), "firewalls"),
            (ProbeError::Local("too many".to_owned()), "https://acc: too many"),
            (ProbeError::Tls { address, why: "x".to_owned() }, "10.0.0.4:443): no TLS: x"),
        ] {
            let finding = to_finding("https://acc", Err(failure));
            assert_eq!(finding.verdict, Verdict::Failed);
            assert!(finding.detail.contains(expected), "{finding:?}");
        }
    }

    async fn probe_url(url: String) -> Result<Reached, ProbeError> {
        probe(&url, &RootCertificates::default()).await
    }

    #[tokio::test]
    async fn each_failed_step_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let reached = probe_url(format!("http://{address}")).await.unwrap();
        assert_eq!((reached.address, reached.name, reached.tls), (address, None, None));
        let named = probe_url(format!("http://localhost:{}", address.port())).await.unwrap();
        assert!(named.name.is_some());

        let unresolved = probe_url("http://nobody.invalid".to_owned()).await.unwrap_err();
        assert!(matches!(unresolved, ProbeError::Name(_)), "{unresolved:?}");
        // A port that is bound but does not listen.
        let silent = TcpSocket::new_v4().unwrap();
        silent.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = silent.local_addr().unwrap();
        let refused = probe_url(format!("http://{address}")).await.unwrap_err();
        let ProbeError::Connection(why) = refused else { panic!("{refused:?}") };
        assert!(why.contains(&address.to_string()), "{why}");
    }

    #[tokio::test]
    async fn server_without_tls_is_reported() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            use tokio::io::AsyncWriteExt;
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
            std::future::pending::<()>().await;
        });
        let refused = probe_url(format!("https://{address}")).await.unwrap_err();
        let ProbeError::Tls { why, .. } = refused else { panic!("{refused:?}") };
        assert!(why.contains("does not speak TLS"), "{why}");
    }
}
