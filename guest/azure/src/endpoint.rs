//! The address of an account: origin and path prefix, checked without a URL library.

use tenure_base::prelude::*;
use tenure_base::text::cut;

/// The endpoint of an account's blobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Scheme, host and port, such as `http://127.0.0.1:10000`; no slash at the end.
    pub origin: String,
    /// The part before the container in every path: empty, or such as `/devstoreaccount1`.
    pub prefix: String,
}

impl Endpoint {
    /// Parses an `http://` or `https://` address. One slash at the end is dropped.
    ///
    /// # Errors
    /// Returns the problem as a predicate, such as "has a query". It never quotes the address,
    /// which can hold a secret.
    pub fn parse(url: &str) -> Result<Endpoint, &'static str> {
        const NO_ADDRESS: &str = "is not an http:// or https:// address";
        let (scheme, rest) = url.split_once(':').ok_or(NO_ADDRESS)?;
        let rest = rest.strip_prefix("//").ok_or(NO_ADDRESS)?;
        let scheme = scheme.to_ascii_lowercase();
        if scheme != "http" && scheme != "https" {
            return Err(NO_ADDRESS);
        }
        if rest.as_bytes().contains(&b'?') {
            return Err("has a query (a part after ?)");
        }
        if rest.as_bytes().contains(&b'#') {
            return Err("has a fragment (a part after #)");
        }
        let (authority, path) = match rest.find('/') {
            Some(slash) => rest.split_at(slash),
            None => (rest, ""),
        };
        if authority.as_bytes().contains(&b'@') {
            return Err("has a user or password (a part before @)");
        }
        check_authority(authority)?;
        let prefix = path.strip_suffix('/').unwrap_or(path);
        check_prefix(prefix)?;
        Ok(Endpoint {
            origin: scheme + "://" + &authority.to_ascii_lowercase(),
            prefix: prefix.into(),
        })
    }

    /// Parses the address of an account, which has no path if its host names the account.
    ///
    /// # Errors
    /// Fails like [`parse`](Self::parse), and if there is a path although the host names the
    /// account. The service would take the path for the container, so each request would reach
    /// another blob.
    pub fn parse_account(url: &str) -> Result<Endpoint, &'static str> {
        let endpoint = Self::parse(url)?;
        match !endpoint.prefix.is_empty() && cut(endpoint.host(), ".blob.").is_some() {
            true => Err("has a path"),
            false => Ok(endpoint),
        }
    }

    /// Returns the account's name if the address contains it: in the first label of the host, or in
    /// the first segment of the path. A custom domain does not contain it.
    pub fn account_in_url(&self) -> Option<String> {
        let name = match cut(self.host(), ".blob.") {
            Some(_) => self.host().split('.').next(),
            None if self.is_path_style() => self.segments().first().copied(),
            None => None,
        };
        name.map(Into::into)
    }

    /// Returns the parts of the path.
    pub fn segments(&self) -> Vec<&str> {
        self.prefix.split('/').filter(|segment| !segment.is_empty()).collect()
    }

    /// Returns true if the path names the account: the host is an IP address or a single label.
    pub fn is_path_style(&self) -> bool {
        let host = self.host();
        let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        host.starts_with('[') || !host.as_bytes().contains(&b'.') || host.split('.').all(is_number)
    }

    /// Returns true if requests do not leave this machine.
    pub fn is_loopback(&self) -> bool {
        let host = self.host();
        let is_ipv4 =
            host.split('.').count() == 4 && host.split('.').all(|part| part.parse::<u8>().is_ok());
        host.eq_ignore_ascii_case("localhost")
            || host == "[::1]"
            || (is_ipv4 && host.starts_with("127."))
    }

    pub(super) fn host(&self) -> &str {
        let authority = cut(&self.origin, "://").map_or("", |(_, authority)| authority);
        match authority.strip_prefix('[') {
            Some(_) => authority.split_inclusive(']').next().unwrap_or_default(),
            None => authority.split(':').next().unwrap_or_default(),
        }
    }

    /// Returns true if the port is explicit.
    pub(super) fn has_port(&self) -> bool {
        if self.origin.as_bytes().contains(&b'[') {
            !self.origin.ends_with(']')
        } else {
            self.origin.matches(':').count() > 1
        }
    }
}

/// Checks an authority: `host`, `host:port`, `1.2.3.4`, `[::1]:port`. An error is a predicate, such
/// as "has no proper host name".
pub fn check_authority(authority: &str) -> Result<(), &'static str> {
    let (host_is_good, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, tail) =
                rest.split_once(']').ok_or("has no closing bracket after the IPv6 address")?;
            let is_valid = !host.is_empty()
                && host
                    .bytes()
                    .all(|byte| byte.is_ascii_hexdigit() || byte == b':' || byte == b'.');
            if !tail.is_empty() && !tail.starts_with(':') {
                return Err("has something between the IPv6 address and the port");
            }
            (is_valid, tail.strip_prefix(':'))
        }
        None => {
            let (host, port) = authority
                .split_once(':')
                .map_or((authority, None), |(host, port)| (host, Some(port)));
            (is_host(host), port)
        }
    };
    if !host_is_good {
        return Err("has no proper host name");
    }
    match port {
        None => Ok(()),
        Some(port)
            if port.bytes().all(|byte| byte.is_ascii_digit())
                && port.parse::<u16>().is_ok_and(|port| port > 0) =>
        {
            Ok(())
        }
        Some(_) => Err("has a port that is not 1 to 65535"),
    }
}

/// Returns true if the text has the form of a host name: labels of letters, digits, hyphens and
/// underscores, with dots between them.
pub(super) fn is_host(host: &str) -> bool {
    host.split('.').all(|label| {
        !label.is_empty()
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    })
}

fn check_prefix(prefix: &str) -> Result<(), &'static str> {
    // The characters that RFC 3986 allows in a path.
    let is_allowed =
        |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%/!$&'()*+,;=:@".contains(&byte);
    if !prefix.bytes().all(is_allowed) {
        return Err("has a path with characters that need percent-encoding");
    }
    if prefix.split('/').skip(1).any(|part| part.is_empty() || part == "." || part == "..") {
        return Err("has a path with an empty part, . or ..");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses_are_taken_apart() {
        let valid = [
            (
                "http://127.0.0.1:10000/devstoreaccount1",
                "http://127.0.0.1:10000",
                "/devstoreaccount1",
                true,
            ),
            (
                "http://127.0.0.1:10000/devstoreaccount1/",
                "http://127.0.0.1:10000",
                "/devstoreaccount1",
                true,
            ),
            ("HTTPS://Acc.blob.Core.windows.net", "https://acc.blob.core.windows.net", "", false),
            ("https://acc.blob.core.windows.net/", "https://acc.blob.core.windows.net", "", false),
            ("http://[::1]:10000/Acc", "http://[::1]:10000", "/Acc", true),
            ("http://[::1]/a/b", "http://[::1]", "/a/b", false),
            ("http://azurite_1:1", "http://azurite_1:1", "", true),
        ];
        for (url, origin, prefix, has_port) in valid {
            let endpoint = Endpoint::parse(url).unwrap();
            assert_eq!(
                (endpoint.origin.as_str(), endpoint.prefix.as_str()),
                (origin, prefix),
                "{url}"
            );
            assert_eq!(endpoint.has_port(), has_port, "{url}");
        }
    }

    #[test]
    fn invalid_endpoints_are_refused() {
        let invalid = [
            ("", "not an http"),
            ("acc.blob.core.windows.net", "not an http"),
            ("ftp://host", "not an http"),
            ("http://", "host name"),
            ("http:///path", "host name"),
            ("http://:80", "host name"),
            ("http://a..b", "host name"),
            ("http://a b", "host name"),
            ("http://[::1", "closing bracket"),
            ("http://[]", "host name"),
            ("http://[::1]x", "between"),
            ("http://host:", "port"),
            ("http://host:0", "port"),
            ("http://host:+80", "port"),
            ("http://host:65536", "port"),
            ("http://host:1:2", "port"),
            ("http://user:pass@host", "user"),
            ("https://host/?sv=1", "query"),
            ("https://host/#x", "fragment"),
            ("https://host/a b", "percent-encoding"),
            ("https://host/é", "percent-encoding"),
            ("https://host//", "empty part"),
            ("https://host/a/..", "empty part"),
        ];
        for (url, reason) in invalid {
            let error = Endpoint::parse(url).unwrap_err();
            assert!(error.contains(reason), "{url}: {error}");
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(url in "(http://|https://)?[a-z0-9:/@?#.\\[\\]é ]{0,20}") {
            if let Ok(endpoint) = Endpoint::parse(&url) {
                let reparsed = Endpoint::parse(&format!("{}{}", endpoint.origin, endpoint.prefix));
                prop_assert_eq!(reparsed, Ok(endpoint));
            }
        }
    }
}
