//! Pooled HTTP clients of elections.

use super::proxies::{Proxies, Proxy};
use super::{RootCertificates, tls};
use reqwest::Url;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Longest connect timeout. Guests can set shorter ones.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Default user agent.
pub(super) const USER_AGENT: &str = concat!("tenure/", env!("CARGO_PKG_VERSION"));

/// Time for which unused connections are kept, longer than any interval between renewals.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// Maximum unused connections to one host. Each election sends one request at a time, and this is
/// also the maximum number of simultaneous steps.
const MAX_IDLE_PER_HOST: usize = 64;

/// A connection pool. Each of its clients is created on first use.
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
    /// Creates clients for the storage account and the endpoints that issue its tokens.
    ///
    /// They trust these root certificates in addition to the platform's, and use the proxies of the
    /// environment.
    pub fn with_env_proxies(root_certificates: RootCertificates) -> Self {
        Self::with_proxies(Proxies::from_env(), root_certificates)
    }

    /// Creates clients that trust these root certificates in addition to the platform's, and use no
    /// proxy.
    pub fn without_proxies(root_certificates: RootCertificates) -> Self {
        Self::with_proxies(Proxies::default(), root_certificates)
    }

    pub(super) fn with_proxies(proxies: Proxies, root_certificates: RootCertificates) -> Self {
        Self { root_certificates, proxies, ..Self::default() }
    }

    /// Returns these clients if they trust the same root certificates, and new ones otherwise.
    #[must_use]
    pub fn with_root_certificates(
        self: Arc<Self>,
        root_certificates: RootCertificates,
    ) -> Arc<Self> {
        match self.root_certificates == root_certificates {
            true => self,
            false => Arc::new(Self::with_env_proxies(root_certificates)),
        }
    }

    /// Returns the client for requests to `url`.
    ///
    /// # Errors
    ///
    /// Fails if the client cannot be created, or the environment contains an invalid proxy. A later
    /// call may succeed, because the platform's certificates may then be available.
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
        // A proxy may require TLS.
        let config = match is_secure || proxy.is_some() {
            true => self.root_certificates.client_config(),
            false => tls::without_roots(),
        };
        let new_client = build(config, proxy)?;
        Ok(client.get_or_init(|| new_client))
    }

    /// Returns the proxy for requests to `url`.
    ///
    /// # Errors
    ///
    /// Fails if the environment contains an invalid proxy.
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
        // The error may contain the address with its password.
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
