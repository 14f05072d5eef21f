//! How far one gets on the way to a server: its name, a connection, TLS.

use reqwest::Url;
use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConfig};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tenure::egress::Authorities;
use tenure::program::http::{OF_AUTHORITY, is_of_authority, too_many_files, trusting};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// The longest that each step may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Of several addresses, so many are tried.
const ADDRESSES: usize = 4;

/// A server that was reached, and how long each step took.
#[derive(Clone, Debug)]
pub(super) struct Reached {
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
pub(super) enum Unreached {
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
pub(super) async fn probe(origin: &str, authorities: &Authorities) -> Result<Reached, Unreached> {
    let url = Url::parse(origin).map_err(|error| Unreached::Name(error.to_string()))?;
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let port = url.port_or_known_default().unwrap_or_default();
    let began = Instant::now();
    let addresses = match timeout(PATIENCE, lookup_host((host.as_str(), port))).await {
        Ok(Ok(addresses)) => addresses.collect::<Vec<_>>(),
        Ok(Err(error)) => {
            let local = too_many_files(&error).map(Unreached::Here);
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
            let config = trusting(authorities).map_err(|error| why(error.to_string()))?;
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
            Ok(Err(error)) => match too_many_files(&error) {
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
            _ if is_of_authority(bad) => OF_AUTHORITY,
            _ => "its certificate is not accepted",
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
    use tokio::net::{TcpListener, TcpSocket};

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
