//! Allow-list of the destinations of guest requests.

use crate::settings::InvalidSettings;
use reqwest::Url;
use std::fmt;
use tenure_core::{Complaint, Needs, SettingId, variable};
use thiserror::Error;

/// The destinations that a guest may reach. An empty list allows none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowList(Vec<Entry>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    /// `None` allows `http` and `https`.
    scheme: Option<String>,
    /// Host in the form of a URL: lower case, an IPv6 address in brackets.
    host: String,
    /// `None` is the default port of the request's scheme.
    port: Option<u16>,
}

/// Error for an allow-list entry that is not a destination.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{entry:?} must be HOST, HOST:PORT or SCHEME://HOST[:PORT] with the scheme http or https, an IPv6 address in \
     brackets"
)]
pub struct InvalidOrigin {
    /// The entry.
    pub entry: String,
}

impl AllowList {
    /// Creates the list of the origins that an election needs.
    ///
    /// # Errors
    ///
    /// Fails if an origin has no host that requests can be sent to.
    pub fn from_needs(needs: &Needs) -> Result<Self, InvalidSettings> {
        let mut allow = Self::default();
        for origin in &needs.origins {
            allow.allow(origin).map_err(|InvalidOrigin { entry }| {
                InvalidSettings(vec![Complaint {
                    setting: SettingId::new(variable::CONNECTION_STRING),
                    problem: format!(
                        "the endpoint {entry:?} does not name a host that can be reached"
                    ),
                    advice: "check the endpoint's host name or address, and its port".to_owned(),
                }])
            })?;
        }
        Ok(allow)
    }

    /// Adds a destination: `host`, `host:port` or `scheme://host[:port]`, with an IPv6 address in
    /// brackets.
    ///
    /// Without a scheme, both `http` and `https` are allowed. Without a port, the default port of
    /// the scheme is allowed.
    ///
    /// # Errors
    ///
    /// Fails if `entry` has another form, for example a path or a wildcard.
    pub fn allow(&mut self, entry: &str) -> Result<(), InvalidOrigin> {
        let parsed = Entry::parse(entry);
        self.0.push(parsed.ok_or_else(|| InvalidOrigin { entry: entry.to_owned() })?);
        Ok(())
    }

    /// Returns true if a request to `url` is allowed.
    ///
    /// This compares the URL as the client parses it: `127.1` and `127.0.0.1` are the same host.
    pub(crate) fn allows(&self, url: &Url) -> bool {
        let Some(host) = url.host_str() else { return false };
        let port = url.port_or_known_default();
        self.0.iter().any(|entry| {
            entry.scheme.as_deref().is_none_or(|scheme| scheme == url.scheme())
                && entry.host == host
                && port == entry.port.or(default_port(url.scheme()))
        })
    }

    /// Returns the reason why a request to `url` is denied, and the entry that would allow it.
    pub(crate) fn denial_message(&self, url: &Url) -> String {
        let (scheme, host) = (url.scheme(), url.host_str().unwrap_or_default());
        let same_host = self.0.iter().find(|entry| entry.host == host);
        let reason = match same_host {
            None => "is not allowed".to_owned(),
            Some(entry) if entry.scheme.as_deref().is_some_and(|allowed| allowed != scheme) => {
                format!("is not allowed: --allow-host {entry} has another scheme")
            }
            Some(entry) => {
                let (port, default) = match entry.port {
                    Some(port) => (Some(port), ""),
                    None => (default_port(scheme), "the default "),
                };
                let port = port.map(|port| port.to_string()).unwrap_or_default();
                format!("is not allowed: --allow-host {entry} allows {default}port {port}")
            }
        };
        let needed = Entry { scheme: None, host: host.to_owned(), port: url.port() };
        let origin = url.origin().ascii_serialization();
        format!("a request to {origin} {reason}; to allow it, give --allow-host {needed}")
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(scheme) = &self.scheme {
            write!(f, "{scheme}://")?;
        }
        f.write_str(&self.host)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl Entry {
    fn parse(entry: &str) -> Option<Self> {
        let (scheme, authority) = match entry.split_once("://") {
            Some((scheme, authority)) => (Some(scheme.to_ascii_lowercase()), authority),
            None => (None, entry),
        };
        if scheme.as_deref().is_some_and(|scheme| default_port(scheme).is_none()) {
            return None;
        }
        // The parser of request URLs reads the authority below. It would drop these characters or
        // take them for other parts of a URL.
        if authority.contains(['/', '\\', '?', '#', '@', '*']) || authority.ends_with(':') {
            return None;
        }
        if authority.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return None;
        }
        let url = Url::parse(&format!("http://{authority}")).ok()?;
        // The port comes from the text, because the parser drops the default port of `http`.
        let port = authority.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        let port = if authority.ends_with(']') { None } else { port };
        Some(Self { scheme, host: url.host_str()?.to_owned(), port })
    }
}

fn default_port(scheme: &str) -> Option<u16> {
    match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(entry: &str, url: &str) -> bool {
        let mut list = AllowList::default();
        list.allow(entry).unwrap();
        list.allows(&Url::parse(url).unwrap())
    }

    #[test]
    fn a_host_means_the_default_port_of_either_scheme() {
        assert!(allows("example.com", "http://example.com/a?b"));
        assert!(allows("Example.COM", "https://exAmple.com:443/"));
        assert!(!allows("example.com", "https://example.com:8443/"));
        assert!(!allows("example.com", "https://www.example.com/"));
        assert!(!allows("example.com", "https://example.com.evil/"));
    }

    #[test]
    fn a_port_is_exact_and_a_scheme_too() {
        assert!(allows("example.com:80", "http://example.com/"));
        assert!(!allows("example.com:80", "https://example.com/"));
        assert!(allows("example.com:8080", "https://example.com:8080/"));
        assert!(allows("https://example.com", "https://example.com/"));
        assert!(!allows("https://example.com", "http://example.com/"));
        assert!(!allows("https://example.com", "http://example.com:443/"));
        assert!(allows("HTTP://example.com:81", "http://example.com:81/"));
    }

    #[test]
    fn addresses_in_any_spelling() {
        assert!(allows("127.0.0.1:1", "http://127.1:1/"));
        assert!(allows("[::1]:1", "http://[0:0:0:0:0:0:0:1]:1/"));
        assert!(allows("[::1]", "http://[::1]/"));
        assert!(!allows("127.0.0.1", "http://localhost/"));
        assert!(!allows("example.com", "http://2130706433/"));
    }

    #[test]
    fn a_refusal_names_the_entry_that_allows_the_request() {
        for (entry, url, refusal) in [
            (
                "127.0.0.1",
                "http://127.0.0.1:3999/a",
                "http://127.0.0.1:3999 is not allowed: --allow-host 127.0.0.1 allows the default port 80; to allow \
                 it, give --allow-host 127.0.0.1:3999",
            ),
            (
                "a:8080",
                "https://a/",
                "https://a is not allowed: --allow-host a:8080 allows port 8080; to allow it, give --allow-host a",
            ),
            (
                "https://[::1]:1",
                "http://[::1]:1/",
                "http://[::1]:1 is not allowed: --allow-host https://[::1]:1 has another scheme; to allow it, give \
                 --allow-host [::1]:1",
            ),
            ("b", "http://a", "http://a is not allowed; to allow it, give --allow-host a"),
        ] {
            let mut list = AllowList::default();
            list.allow(entry).unwrap();
            let url = Url::parse(url).unwrap();
            assert_eq!(list.denial_message(&url), format!("a request to {refusal}"));
            let needed = refusal.rsplit(' ').next().unwrap();
            assert!(allows(needed, url.as_str()), "{needed}");
        }
    }

    #[test]
    fn other_forms_are_no_entries() {
        for entry in [
            "",
            " ",
            "*",
            "*.example.com",
            "a b",
            "example.com/",
            "http://",
            "ftp://a",
            "a:b",
            "a:",
            "a:70000",
            "::1",
            "user@a",
            "a?b",
            "http://a/b",
            "a\\b",
        ] {
            let mut list = AllowList::default();
            assert!(list.allow(entry).is_err(), "{entry:?} must be refused");
        }
    }
}
