//! The pooled HTTP clients of the election component.

use super::proxies::{Proxies, Proxy};
use super::{RootCertificates, tls};
use reqwest::Url;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A connection that could not be made for this long is given up. Guests set shorter limits.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// What requests say who sends them, unless they say something else.
pub(super) const USER_AGENT: &str = concat!("tenure/", env!("CARGO_PKG_VERSION"));

/// Unused connections are kept for this long: longer than any interval between renewals.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// So many of them to one host: each election sends one request at a time, and so many steps there
/// are at a time.
const MAX_IDLE_PER_HOST: usize = 64;

/// One pool of connections, each part of which is made when it is first needed.
#[derive(Default)]
pub struct Clients {
    root_certificates: RootCertificates,
    proxies: Proxies,
    direct: ClientPair,
    proxied: ClientPair,
}

#[derive(Default)]
struct ClientPair {
    plain: OnceLock<reqwest::Client>,
    tls: OnceLock<reqwest::Client>,
}

impl Clients {
    /// Clients for the account and the endpoints that issue its tokens: they trust `authorities` beside the platform's, and
    /// use the proxies that the environment names.
    pub fn with_env_proxies(root_certificates: RootCertificates) -> Self {
        Self::with_proxies(Proxies::from_env(), root_certificates)
    }

    /// Clients that trust `authorities` beside the platform's, and use no proxy.
    pub fn without_proxies(root_certificates: RootCertificates) -> Self {
        Self::with_proxies(Proxies::default(), root_certificates)
    }

    pub(super) fn with_proxies(proxies: Proxies, root_certificates: RootCertificates) -> Self {
        Self { root_certificates, proxies, ..Self::default() }
    }

    /// Returns these where they trust `authorities`, else others that do.
    #[must_use]
    pub fn with_root_certificates(self: Arc<Self>, root_certificates: RootCertificates) -> Arc<Self> {
        match self.root_certificates == root_certificates {
            true => self,
            false => Arc::new(Self::with_env_proxies(root_certificates)),
        }
    }

    /// Returns the client for requests to `url`. An error may be over the next time: the platform's certificates may be
    /// there by then.
    ///
    /// # Errors
    ///
    /// When the client cannot be made, or the environment names no usable proxy.
    pub fn get(&self, url: &Url) -> Result<&reqwest::Client, String> {
        let is_secure = url.scheme() == "https";
        let proxy = match self.proxy(url)? {
            Some(_) => self.proxies.configured_address(url),
            None => None,
        };
        let pair = if proxy.is_some() { &self.proxied } else { &self.direct };
        let client = if is_secure { &pair.tls } else { &pair.plain };
        if let Some(client) = client.get() {
            return Ok(client);
        }
        // A proxy may be spoken to over TLS.
        let config = match is_secure || proxy.is_some() {
            true => self.root_certificates.client_config(),
            false => tls::without_roots(),
        };
        let new_client = build(config, proxy)?;
        Ok(client.get_or_init(|| new_client))
    }

    /// Returns the proxy that requests to `url` go through.
    ///
    /// # Errors
    ///
    /// When the environment names no usable proxy.
    pub fn proxy(&self, url: &Url) -> Result<Option<Proxy>, String> {
        self.proxies.select(url)
    }
}

fn build(
    config: Result<rustls::ClientConfig, rustls::Error>,
    proxy: Option<&str>,
) -> Result<reqwest::Client, String> {
    let mut builder = reqwest::Client::builder().no_proxy();
    if let Some(proxy) = proxy {
        // The error may repeat the address, with its password.
        let proxy = reqwest::Proxy::all(proxy).map_err(|_| "the proxy's address is not valid")?;
        builder = builder.proxy(proxy);
    }
    builder
        .http1_only()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .user_agent(USER_AGENT)
        .tcp_nodelay(true)
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(MAX_IDLE_PER_HOST)
        .tls_backend_preconfigured(config.map_err(|error| format!("TLS: {error}"))?)
        .build()
        .map_err(|error| error.to_string())
}
