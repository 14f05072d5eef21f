//! The pooled HTTP clients.

use super::error::Prohibited;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A connection that could not be made for this long is given up. Guests set shorter limits.
const CONNECT: Duration = Duration::from_secs(10);

/// Unused connections are kept for this long: longer than any interval between renewals.
const IDLE: Duration = Duration::from_secs(90);

/// One pool of connections, whose TLS half is made when it is first needed: to read the
/// certificates of the platform takes longer than all else at the start.
pub(crate) struct Clients {
    idle_per_host: usize,
    public_only: bool,
    plain: OnceLock<Result<reqwest::Client, String>>,
    tls: OnceLock<Result<reqwest::Client, String>>,
}

impl Clients {
    /// For the election component: one request at a time, to where its settings point.
    pub(crate) fn for_component() -> Self {
        Self { idle_per_host: 1, public_only: false, plain: OnceLock::new(), tls: OnceLock::new() }
    }

    /// For handlers: a name that resolves to this machine or its link is refused.
    pub(crate) fn for_handlers() -> Self {
        Self { idle_per_host: 4, public_only: true, plain: OnceLock::new(), tls: OnceLock::new() }
    }

    pub(crate) fn get(&self, scheme: &str) -> Result<&reqwest::Client, String> {
        let tls = scheme == "https";
        let client = if tls { &self.tls } else { &self.plain };
        client.get_or_init(|| self.build(tls)).as_ref().map_err(Clone::clone)
    }

    fn build(&self, tls: bool) -> Result<reqwest::Client, String> {
        let mut builder = reqwest::Client::builder()
            .http1_only()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .user_agent(concat!("tenure/", env!("CARGO_PKG_VERSION")))
            .tcp_nodelay(true)
            .connect_timeout(CONNECT)
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(self.idle_per_host)
            .tls_backend_preconfigured(tls_config(tls).map_err(|error| format!("TLS: {error}"))?);
        if self.public_only {
            builder = builder.dns_resolver(PublicOnly);
        }
        builder.build().map_err(|error| error.to_string())
    }
}

/// The certificates that the platform trusts, or none for the client that needs none.
fn tls_config(trust: bool) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(if trust {
        builder.with_platform_verifier()?.with_no_client_auth()
    } else {
        builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth()
    })
}

/// Resolves names, but not to this machine or its link. Else an allowed name could be pointed
/// at the machine's identity endpoint.
struct PublicOnly;

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found: Vec<_> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let allowed: Vec<_> =
                found.iter().copied().filter(|address| !is_local(address.ip())).collect();
            if allowed.is_empty() && !found.is_empty() {
                return Err(Prohibited { name: name.as_str().to_owned() }.into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

/// Loopback, link-local or unspecified, also inside of IPv6.
fn is_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_link_local() || v4.is_unspecified(),
        IpAddr::V6(v6) => {
            v6.is_loopback()
                || v6.is_unicast_link_local()
                || v6.is_unspecified()
                || embedded(v6).is_some_and(|v4| is_local(v4.into()))
        }
    }
}

fn embedded(address: Ipv6Addr) -> Option<std::net::Ipv4Addr> {
    // ::a.b.c.d and ::ffff:a.b.c.d, and what NAT64 translates.
    match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => {
            let [.., a, b, c, d] = address.octets();
            Some([a, b, c, d].into())
        }
        _ => address.to_ipv4(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_addresses() {
        let local = |text: &str| is_local(text.parse().unwrap());
        for text in [
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "0.0.0.0",
            "::1",
            "::",
            "fe80::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "::127.0.0.1",
        ] {
            assert!(local(text), "{text}");
        }
        for text in ["10.0.0.1", "20.60.1.1", "2603:1030::1", "::ffff:20.60.1.1", "fd00::1"] {
            assert!(!local(text), "{text}");
        }
    }

    #[tokio::test]
    async fn a_name_of_this_machine_is_refused() {
        let Err(error) = PublicOnly.resolve("localhost".parse().unwrap()).await else {
            panic!("localhost must be refused");
        };
        assert!(error.is::<Prohibited>(), "{error}");
    }
}
