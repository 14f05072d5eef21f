//! Whether a server can be reached from here, step by step: its name, a connection, TLS.

use super::findings::Finding;
use reqwest::Url;
use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConfig};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tenure::Authorities;
use tenure::engine::{Clients, Error, Proxy};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

const CHECK: &str = "connection";

/// Connects to `origin` as its requests will, through a proxy if one is set.
pub(super) async fn examine(origin: &str, authorities: &Authorities) -> Finding {
    let clients = Clients::for_component(authorities.clone());
    match Url::parse(origin).ok().map_or(Ok(None), |url| clients.proxy(&url)) {
        Ok(None) => judge(origin, probe(origin, authorities).await),
        // The name of the account may be known to the proxy alone.
        Ok(Some(Proxy { variable, address })) => {
            let route = format!("{origin} through the proxy {address} of {variable}");
            judge(&route, probe(&address, authorities).await)
        }
        Err(why) => Finding::failed(CHECK, format!("{origin}: {why}")),
    }
}

fn judge(origin: &str, probed: Result<Reached, Unreached>) -> Finding {
    match probed {
        Ok(reached) => {
            let mut told = format!("{origin}: {}", reached.address);
            let steps = [
                ("name", reached.name),
                ("connection", Some(reached.connection)),
                ("TLS", reached.tls),
            ];
            for (step, time) in steps {
                if let Some(time) = time {
                    told.push_str(&format!(", {step} {}", short(time)));
                }
            }
            if reached.passed_over.is_empty() {
                return Finding::good(CHECK, told);
            }
            let others = reached.passed_over.join("; ");
            Finding::warning(
                CHECK,
                format!("{told}; its other addresses did not answer ({others}): check the network"),
            )
        }
        Err(Unreached::Name(why)) => Finding::failed(
            CHECK,
            format!(
                "{origin}: the name cannot be resolved ({why}); check the account's name, the \
                 endpoint, and DNS on this machine"
            ),
        ),
        Err(Unreached::Connection(why)) => Finding::failed(
            CHECK,
            format!(
                "{origin}: no connection ({why}); check the endpoint and its port, and firewalls in \
                 between"
            ),
        ),
        Err(Unreached::Here(why)) => Finding::failed(CHECK, format!("{origin}: {why}")),
        Err(Unreached::Tls { address, why }) => {
            Finding::failed(CHECK, format!("{origin} ({address}): no TLS: {why}"))
        }
    }
}

/// In milliseconds: people compare them.
fn short(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1_000.0)
}

/// The longest that each step may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Of several addresses, so many are tried.
const ADDRESSES: usize = 4;

/// A server that was reached, and how long each step took.
#[derive(Clone, Debug)]
struct Reached {
    pub address: SocketAddr,
    /// None: it was named by its address.
    pub name: Option<Duration>,
    pub connection: Duration,
    /// None: it is spoken to without TLS.
    pub tls: Option<Duration>,
    /// Why others of its addresses were not the ones.
    pub passed_over: Vec<String>,
}

/// Which step failed, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Unreached {
    Name(String),
    Connection(String),
    Tls {
        address: SocketAddr,
        why: String,
    },
    /// This machine cannot try it.
    Here(String),
}

/// Goes as far as it gets towards `origin`, and sends nothing. Trusts the platform, and `authorities`.
async fn probe(origin: &str, authorities: &Authorities) -> Result<Reached, Unreached> {
    let url = Url::parse(origin).map_err(|error| Unreached::Name(error.to_string()))?;
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let port = url.port_or_known_default().unwrap_or_default();
    let began = Instant::now();
    let addresses = match timeout(PATIENCE, lookup_host((host.as_str(), port))).await {
        Ok(Ok(addresses)) => addresses.collect::<Vec<_>>(),
        Ok(Err(error)) => {
            let local = Error::too_many_files(&error).map(Unreached::Here);
            return Err(local.unwrap_or_else(|| Unreached::Name(error.to_string())));
        }
        Err(_) => return Err(Unreached::Name(format!("no answer within {PATIENCE:?}"))),
    };
    let is_address = host.parse::<std::net::IpAddr>().is_ok();
    let name = (!is_address).then(|| began.elapsed());
    let (address, stream, connection, passed_over) = connect(&addresses).await?;
    let tls = match url.scheme() {
        "https" => {
            let why = |why| Unreached::Tls { address, why };
            let config = authorities.client_config().map_err(|error| why(error.to_string()))?;
            Some(shake_hands(config, &host, stream).await.map_err(why)?)
        }
        _ => None,
    };
    Ok(Reached { address, name, connection, tls, passed_over })
}

type Connected = (SocketAddr, TcpStream, Duration, Vec<String>);

/// The first address that answers.
async fn connect(addresses: &[SocketAddr]) -> Result<Connected, Unreached> {
    let mut failed = Vec::new();
    for &address in addresses.iter().take(ADDRESSES) {
        let began = Instant::now();
        let why = match timeout(PATIENCE, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok((address, stream, began.elapsed(), failed)),
            Ok(Err(error)) => match Error::too_many_files(&error) {
                Some(why) => return Err(Unreached::Here(why)),
                None => error.to_string(),
            },
            Err(_) => format!("no answer within {PATIENCE:?}"),
        };
        failed.push(format!("{address}: {why}"));
    }
    Err(Unreached::Connection(match failed.is_empty() {
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
    // Reading whom the platform trusts is not the server's time.
    let began = Instant::now();
    match timeout(PATIENCE, TlsConnector::from(Arc::new(config)).connect(name, stream)).await {
        Ok(Ok(_)) => Ok(began.elapsed()),
        Ok(Err(error)) => Err(explain(&error)),
        Err(_) => Err(format!("no answer within {PATIENCE:?}")),
    }
}

/// What is wrong with a certificate, and what to do about it.
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
            _ => Error::of_authority(bad).unwrap_or("its certificate is not accepted"),
        },
        Some(rustls::Error::InvalidMessage(_)) => {
            "what answers does not speak TLS; check scheme and port of the endpoint"
        }
        _ => "the TLS handshake failed; look for a firewall or a proxy in between",
    };
    format!("{advice} ({error})")
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
        let told = judge("https://acc", Ok(reached(&[])));
        assert_eq!(told.verdict, Verdict::Good);
        let steps = "10.0.0.4:443, name 1.5 ms, connection 12.0 ms, TLS 30.0 ms";
        assert_eq!(told.detail, format!("https://acc: {steps}"));
        let told = judge("https://acc", Ok(reached(&["[::1]:443: unreachable"])));
        assert_eq!(told.verdict, Verdict::Warning);
        assert!(told.detail.contains("[::1]:443: unreachable"), "{told:?}");
    }

    #[test]
    fn each_failure_names_its_step() {
        let address = ([10, 0, 0, 4], 443).into();
        for (failure, words) in [
            (Unreached::Name("x".to_owned()), "DNS"),
            (Unreached::Connection("x".to_owned()), "firewalls"),
            (Unreached::Here("too many".to_owned()), "https://acc: too many"),
            (Unreached::Tls { address, why: "x".to_owned() }, "10.0.0.4:443): no TLS: x"),
        ] {
            let told = judge("https://acc", Err(failure));
            assert_eq!(told.verdict, Verdict::Failed);
            assert!(told.detail.contains(words), "{told:?}");
        }
    }

    async fn at(url: String) -> Result<Reached, Unreached> {
        probe(&url, &Authorities::default()).await
    }

    #[tokio::test]
    async fn each_step_is_told_by_its_name() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let reached = at(format!("http://{address}")).await.unwrap();
        assert_eq!((reached.address, reached.name, reached.tls), (address, None, None));
        let named = at(format!("http://localhost:{}", address.port())).await.unwrap();
        assert!(named.name.is_some());

        let nobody = at("http://nobody.invalid".to_owned()).await.unwrap_err();
        assert!(matches!(nobody, Unreached::Name(_)), "{nobody:?}");
        // A port that is taken, and where nobody listens.
        let silent = TcpSocket::new_v4().unwrap();
        silent.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = silent.local_addr().unwrap();
        let refused = at(format!("http://{address}")).await.unwrap_err();
        let Unreached::Connection(why) = refused else { panic!("{refused:?}") };
        assert!(why.contains(&address.to_string()), "{why}");
    }

    #[tokio::test]
    async fn what_speaks_no_tls_is_told() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            use tokio::io::AsyncWriteExt;
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
            std::future::pending::<()>().await;
        });
        let refused = at(format!("https://{address}")).await.unwrap_err();
        let Unreached::Tls { why, .. } = refused else { panic!("{refused:?}") };
        assert!(why.contains("does not speak TLS"), "{why}");
    }
}
