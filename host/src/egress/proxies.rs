//! Proxies on the way to the account, and to the endpoints that issue its tokens.

use super::names::is_near;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use reqwest::Url;
use std::net::IpAddr;

const HTTP: [&str; 2] = ["HTTP_PROXY", "http_proxy"];
const HTTPS: [&str; 2] = ["HTTPS_PROXY", "https_proxy"];
const NONE: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// Variables with the endpoint of a managed identity. It serves this machine alone, and is given a secret over plain
/// HTTP.
const IDENTITY: [&str; 2] = ["IDENTITY_ENDPOINT", "AZURE_POD_IDENTITY_AUTHORITY_HOST"];

/// The proxies that the environment names. By default none.
#[derive(Default)]
pub struct Proxies {
    http: Option<Named>,
    https: Option<Named>,
    /// Hosts that are reached without a proxy, beside this machine and its link.
    direct: Vec<String>,
}

/// The value of a variable.
struct Named {
    variable: &'static str,
    /// The address of the proxy. It may hold a password.
    value: String,
    /// None: the value is not the address of an HTTP proxy.
    matcher: Option<Matcher>,
}

/// A proxy that a request goes through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// The variable that names it.
    pub variable: &'static str,
    /// Scheme, host and port, without a password.
    pub address: String,
}

impl Proxies {
    /// Reads `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`, or the same in lower case.
    pub fn from_env() -> Self {
        Self::read(|name| std::env::var(name).ok())
    }

    pub(super) fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let first = |names: [&'static str; 2]| {
            names.into_iter().find_map(|name| {
                let value = variable(name)?;
                let value = value.trim();
                (!value.is_empty()).then(|| (name, value.to_owned()))
            })
        };
        let none = first(NONE).map_or_else(String::new, |(_, value)| value);
        let named = |names| {
            let (variable, value) = first(names)?;
            let value = if value.contains("://") { value } else { format!("http://{value}") };
            let matcher = is_http(&value)
                .then(|| Matcher::builder().all(value.as_str()).no(none.as_str()).build());
            Some(Named { variable, value, matcher })
        };
        let host = |name: &&str| host(&Url::parse(&variable(name)?).ok()?);
        Self {
            http: named(HTTP),
            https: named(HTTPS),
            direct: IDENTITY.iter().filter_map(host).collect(),
        }
    }

    /// Returns the proxy for a request to `url`, or none if the request goes to the host itself. This machine, its link
    /// and the endpoint of a managed identity have no proxy.
    ///
    /// # Errors
    ///
    /// When the variable for this scheme does not hold the address of an HTTP proxy.
    pub fn select(&self, url: &Url) -> Result<Option<Proxy>, String> {
        let Some(Named { variable, matcher, .. }) = self.named(url) else { return Ok(None) };
        let Some(matcher) = matcher else {
            return Err(format!(
                "{variable} does not hold the address of an HTTP proxy; write it like http://proxy.example.com:3128"
            ));
        };
        if self.is_direct(url) {
            return Ok(None);
        }
        let proxy = url.as_str().parse().ok().and_then(|uri| matcher.intercept(&uri));
        Ok(proxy.map(|proxy| {
            let uri = proxy.uri();
            let (scheme, authority) = (uri.scheme_str(), uri.authority());
            let authority = authority.map_or("", |authority| authority.as_str());
            Proxy { variable, address: format!("{}://{authority}", scheme.unwrap_or("http")) }
        }))
    }

    /// The address of the proxy for the scheme of `url`, with its password.
    pub(super) fn address(&self, url: &Url) -> Option<&str> {
        self.named(url).map(|named| named.value.as_str())
    }

    fn named(&self, url: &Url) -> Option<&Named> {
        if url.scheme() == "https" { self.https.as_ref() } else { self.http.as_ref() }
    }

    fn is_direct(&self, url: &Url) -> bool {
        let Some(host) = host(url) else { return true };
        match host.parse::<IpAddr>() {
            Ok(address) if is_near(address, &[]) => true,
            _ => host == "localhost" || host.ends_with(".localhost") || self.direct.contains(&host),
        }
    }
}

/// The host as a name or an address, without brackets and without a final dot.
fn host(url: &Url) -> Option<String> {
    Some(url.host_str()?.trim_matches(['[', ']']).trim_end_matches('.').to_owned())
}

fn is_http(address: &str) -> bool {
    let anywhere = http::Uri::from_static("http://example.com/");
    let proxy = Matcher::builder().all(address).build().intercept(&anywhere);
    let is_http = |proxy: &Intercept| matches!(proxy.uri().scheme_str(), Some("http" | "https"));
    // The client reads the address as a URL.
    proxy.as_ref().is_some_and(is_http) && Url::parse(address).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(variables: &[(&str, &str)]) -> Proxies {
        Proxies::read(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    fn selected(variables: &[(&str, &str)], url: &str) -> Option<(&'static str, String)> {
        let proxy = proxies(variables).select(&Url::parse(url).unwrap()).unwrap();
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
            let refused = proxies(&[("HTTPS_PROXY", wrong)]);
            let refused =
                refused.select(&Url::parse("https://account.test/").unwrap()).unwrap_err();
            assert!(refused.starts_with("HTTPS_PROXY does not hold"), "{refused}");
            assert!(!refused.contains("S3CRET"), "{refused}");
        }
    }
}
