//! Pooled HTTP clients of elections, for requests to the storage account and to the endpoints that
//! issue its tokens, and their proxies.

use super::lookup::is_local;
use super::{RootCertificates, tls};
use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use reqwest::Url;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Longest connect timeout. Guests can set shorter ones.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Default user agent.
pub(super) const USER_AGENT: &str = concat!("tenure/", env!("CARGO_PKG_VERSION"));

/// Time for which unused connections are kept, longer than any interval between renewals.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// A connection pool. Each of its clients is created on first use.
#[derive(Default)]
pub struct Clients {
    root_certificates: RootCertificates,
    proxies: Arc<Proxies>,
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
        Self { root_certificates, proxies: Arc::new(proxies), ..Self::default() }
    }

    /// Returns these clients if they trust the same root certificates. Otherwise returns new ones,
    /// which use the same proxies.
    #[must_use]
    pub fn with_root_certificates(
        self: Arc<Self>,
        root_certificates: RootCertificates,
    ) -> Arc<Self> {
        match self.root_certificates == root_certificates {
            true => self,
            false => {
                let proxies = self.proxies.clone();
                Arc::new(Self { root_certificates, proxies, ..Self::default() })
            }
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
        .tls_backend_preconfigured(config.map_err(|error| format!("TLS: {error}"))?)
        .build()
        .map_err(|error| error.to_string())
}

const HTTP: [&str; 2] = ["HTTP_PROXY", "http_proxy"];
const HTTPS: [&str; 2] = ["HTTPS_PROXY", "https_proxy"];
const NO_PROXY: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// Placeholder for a matcher that only decides which requests use a proxy.
const ANY_PROXY: &str = "http://proxy.invalid";

/// Variables with the endpoint of a managed identity. Requests to it use no proxy: it serves only
/// this machine, and receives a secret over plain HTTP.
const IDENTITY_ENDPOINTS: [&str; 2] = ["IDENTITY_ENDPOINT", "AZURE_POD_IDENTITY_AUTHORITY_HOST"];

/// Proxies of the environment. Empty by default.
#[derive(Default)]
pub struct Proxies {
    http: Option<ConfiguredProxy>,
    https: Option<ConfiguredProxy>,
    /// Applies `NO_PROXY`: it intercepts requests to all other hosts.
    matcher: Option<Matcher>,
    /// Hosts of endpoints that only this machine reaches.
    direct_hosts: Vec<String>,
}

/// Value of a proxy variable.
struct ConfiguredProxy {
    variable: &'static str,
    /// Address of the proxy. It may contain a password.
    value: String,
    /// Scheme, host and port, or `None` if the value is not the address of an HTTP proxy.
    address: Option<String>,
}

/// Proxy of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// Variable that configures the proxy.
    pub variable: &'static str,
    /// Scheme, host and port, without a password.
    pub address: String,
}

impl Proxies {
    /// Reads `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`, or the same in lower case.
    pub fn from_env() -> Self {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    pub(super) fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let first_set = |names: [&'static str; 2]| {
            names.into_iter().find_map(|name| {
                let value = variable(name)?;
                let value = value.trim();
                (!value.is_empty()).then(|| (name, value.to_owned()))
            })
        };
        let no_proxy = first_set(NO_PROXY).map_or_else(String::new, |(_, value)| value);
        let configured = |names| {
            let (variable, value) = first_set(names)?;
            let value = if value.contains("://") { value } else { format!("http://{value}") };
            let address = http_proxy(&value);
            Some(ConfiguredProxy { variable, value, address })
        };
        let host = |name: &&str| host(&Url::parse(&variable(name)?).ok()?);
        Self {
            http: configured(HTTP),
            https: configured(HTTPS),
            matcher: Some(Matcher::builder().all(ANY_PROXY).no(no_proxy).build()),
            direct_hosts: IDENTITY_ENDPOINTS.iter().filter_map(host).collect(),
        }
    }

    /// Returns the proxy for a request to `url`, or `None` if the request goes directly to its
    /// host.
    ///
    /// This machine, its link, the endpoint of a managed identity and the hosts of `NO_PROXY` have
    /// no proxy.
    ///
    /// # Errors
    ///
    /// Fails if the variable for this scheme does not contain the address of an HTTP proxy.
    pub fn select(&self, url: &Url) -> Result<Option<Proxy>, String> {
        let Some(ConfiguredProxy { variable, address, .. }) = self.configured(url) else {
            return Ok(None);
        };
        if self.is_direct(url) {
            return Ok(None);
        }
        match address.clone() {
            Some(address) => Ok(Some(Proxy { variable, address })),
            None => Err(format!(
                "{variable} does not hold the address of an HTTP proxy; write it like http://proxy.example.com:3128"
            )),
        }
    }

    /// Returns the address of the proxy for the scheme of `url`, with its password.
    fn configured_address(&self, url: &Url) -> Option<&str> {
        self.configured(url).map(|named| named.value.as_str())
    }

    fn configured(&self, url: &Url) -> Option<&ConfiguredProxy> {
        if url.scheme() == "https" { self.https.as_ref() } else { self.http.as_ref() }
    }

    fn is_direct(&self, url: &Url) -> bool {
        let Some(host) = host(url) else { return true };
        match host.parse::<IpAddr>() {
            Ok(address) if is_local(address, &[]) => true,
            _ => {
                host == "localhost"
                    || host.ends_with(".localhost")
                    || self.direct_hosts.contains(&host)
                    || !self.is_intercepted(url)
            }
        }
    }

    /// Returns true unless `NO_PROXY` names the host.
    fn is_intercepted(&self, url: &Url) -> bool {
        let uri: Option<Uri> = url.as_str().parse().ok();
        let matcher = self.matcher.as_ref();
        uri.is_some_and(|uri| matcher.is_some_and(|matcher| matcher.intercept(&uri).is_some()))
    }
}

/// Returns the host as a name or an address, without brackets and without a final dot.
fn host(url: &Url) -> Option<String> {
    Some(url.host_str()?.trim_matches(['[', ']']).trim_end_matches('.').to_owned())
}

/// Returns scheme, host and port of the address of an HTTP proxy, or `None` for any other text.
fn http_proxy(address: &str) -> Option<String> {
    // The client passes the parsed URL to a matcher. If the matcher rejected the URL, the request
    // would go directly to its host.
    let url = Url::parse(address).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    let matcher = Matcher::builder().all(url.as_str()).build();
    matcher.intercept(&Uri::from_static("http://example.com/"))?;
    Some(url.origin().ascii_serialization())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies_from(variables: &[(&str, &str)]) -> Proxies {
        Proxies::from_variables(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    fn selected(variables: &[(&str, &str)], url: &str) -> Option<(&'static str, String)> {
        let proxy = proxies_from(variables).select(&Url::parse(url).unwrap()).unwrap();
        proxy.map(|proxy| (proxy.variable, proxy.address))
    }

    const BOTH: [(&str, &str); 2] = [
        ("HTTP_PROXY", "proxy.test:3128"),
        ("https_proxy", "https://user:S3CRET@secure.test:8443/"),
    ];

    #[test]
    fn each_scheme_has_its_proxy_and_no_password_is_shown() {
        let plain = ("HTTP_PROXY", "http://proxy.test:3128".to_owned());
        let secure = ("https_proxy", "https://secure.test:8443".to_owned());
        assert_eq!(selected(&BOTH, "http://account.test/"), Some(plain));
        assert_eq!(selected(&BOTH, "https://account.test/"), Some(secure));
        assert_eq!(
            selected(&[("HTTP_PROXY", "a:1"), ("HTTPS_PROXY", " ")], "https://account.test/"),
            None
        );
        assert_eq!(selected(&[("ALL_PROXY", "a:1")], "https://account.test/"), None);
    }

    #[test]
    fn the_address_is_shown_without_any_part_of_a_password() {
        for (value, shown) in [
            ("http://user:p@S3CRET@proxy.test:3128", "http://proxy.test:3128"),
            ("user:p@S3CRET@proxy.test:3128", "http://proxy.test:3128"),
            ("https://S3CRET@proxy.test", "https://proxy.test"),
            ("http://user:S3CRET@[fd00::1]:3128/S3CRET?S3CRET", "http://[fd00::1]:3128"),
        ] {
            let address = selected(&[("HTTPS_PROXY", value)], "https://account.test/");
            assert_eq!(address, Some(("HTTPS_PROXY", shown.to_owned())), "{value}");
        }
    }

    #[test]
    fn requests_without_a_proxy_do_not_depend_on_its_address() {
        let variables = [
            ("HTTP_PROXY", "socks5://proxy.test:1080"),
            ("NO_PROXY", "store.test"),
            ("IDENTITY_ENDPOINT", "http://identity.test:40342/token"),
        ];
        let proxies = proxies_from(&variables);
        for url in [
            "http://169.254.169.254/",
            "http://127.0.0.1:10000/",
            "http://localhost/",
            "http://identity.test:40342/token",
            "http://account.store.test/",
        ] {
            assert_eq!(proxies.select(&Url::parse(url).unwrap()), Ok(None), "{url}");
        }
        assert!(proxies.select(&Url::parse("http://account.test/").unwrap()).is_err());
    }

    #[test]
    fn hosts_of_no_proxy_are_reached_directly() {
        let mut variables = BOTH.to_vec();
        variables.push(("NO_PROXY", "blob.core.windows.net, 10.0.0.0/8"));
        assert_eq!(selected(&variables, "https://account.blob.core.windows.net/"), None);
        assert_eq!(selected(&variables, "http://10.1.2.3/"), None);
        assert!(selected(&variables, "https://login.microsoftonline.com/").is_some());
        variables.push(("no_proxy", "unused"));
        assert!(selected(&variables, "https://unused/").is_some());
        assert_eq!(selected(&[BOTH[0], ("no_proxy", "*")], "http://account.test/"), None);
    }

    #[test]
    fn this_machine_and_the_endpoints_of_identities_have_no_proxy() {
        let mut variables = BOTH.to_vec();
        variables.push(("IDENTITY_ENDPOINT", "http://identity.test:40342/token"));
        variables.push(("AZURE_POD_IDENTITY_AUTHORITY_HOST", "http://10.0.0.4"));
        for url in [
            "http://169.254.169.254/metadata",
            "http://127.0.0.1:10000/",
            "http://127.1:10000/",
            "https://[::1]/",
            "http://[fe80::1]/",
            "https://localhost/",
            "http://LOCALHOST.:1/",
            "http://store.localhost/",
            "http://168.63.129.16/",
            "http://identity.test:40342/token",
            "http://10.0.0.4/metadata",
        ] {
            assert_eq!(selected(&variables, url), None, "{url}");
        }
        assert!(selected(&variables, "http://10.0.0.5/").is_some());
    }

    #[test]
    fn an_address_that_is_no_http_proxy_is_refused_without_its_value() {
        for wrong in
            ["socks5://S3CRET:1", "ftp://S3CRET", "http://", "http://S3CRET:x", "S3CRET proxy"]
        {
            let refused = proxies_from(&[("HTTPS_PROXY", wrong)]);
            let refused =
                refused.select(&Url::parse("https://account.test/").unwrap()).unwrap_err();
            assert!(refused.starts_with("HTTPS_PROXY does not hold"), "{refused}");
            assert!(!refused.contains("S3CRET"), "{refused}");
        }
    }
}
