//! The settings of calls from the environment, validated before there is a turn: the target, and
//! the credentials by which a receiver trusts a call.

use core::time::Duration;

use tenure_azure::endpoint::check_authority;
use tenure_azure::identity::is_token;
use tenure_azure::secret::Secret;
use tenure_azure::shared_key::Key;
use tenure_base::duration::parse_duration;
use tenure_base::prelude::*;
use tenure_core::{Complaint, Environment, SettingId, read_secret};

/// Names of the variables that configure calls.
pub mod variable {
    /// The URL to call.
    pub const URL: &str = "TENURE_HANDLER_URL";
    /// Time-out of the call.
    pub const TIMEOUT: &str = "TENURE_HANDLER_TIMEOUT";
    /// A bearer token.
    pub const TOKEN: &str = "TENURE_HANDLER_TOKEN";
    /// A file with the token, read again for each call.
    pub const TOKEN_FILE: &str = "TENURE_HANDLER_TOKEN_FILE";
    /// Secrets that sign calls.
    pub const SECRET: &str = "TENURE_HANDLER_SECRET";
    /// A file with the secrets, read again for each call.
    pub const SECRET_FILE: &str = "TENURE_HANDLER_SECRET_FILE";
}

/// The URL to post turns to, and the time-out.
#[derive(Debug)]
pub struct Target {
    /// Scheme, host and port, such as `https://example.com:8443`.
    pub(super) origin: String,
    /// The path with the query, which may be a secret that permits the call.
    pub(super) path: Secret,
    /// Time-out of a call, if it is set.
    pub(super) timeout: Option<Duration>,
}

impl Target {
    /// Reads and validates the settings of calls, including the credentials. A setting that is
    /// empty counts as not set.
    ///
    /// # Errors
    /// Returns all complaints at once. They quote no values, since a URL may hold a secret.
    pub fn read(environment: &dyn Environment) -> Result<(Self, Credentials), Vec<Complaint>> {
        let get = |name| {
            let value = environment.variable(name)?;
            let value = value.trim();
            (!value.is_empty()).then(|| value.to_string())
        };
        let mut complaints = Vec::new();
        let mut complain = |setting: &'static str, problem: &str, advice: &str| {
            complaints.push(Complaint {
                setting: SettingId::new(setting),
                problem: problem.into(),
                advice: advice.into(),
            });
        };
        let url = split_url(get(variable::URL).as_deref())
            .map_err(|(problem, advice)| complain(variable::URL, problem, advice))
            .ok();
        let timeout = get(variable::TIMEOUT).map(|value| parse_duration(&value));
        const TIMEOUT_EXAMPLE: &str = "write it like 30s or 1m";
        match timeout {
            Some(None) => complain(variable::TIMEOUT, "is not a duration", TIMEOUT_EXAMPLE),
            Some(Some(Duration::ZERO)) => {
                complain(variable::TIMEOUT, "leaves no time", TIMEOUT_EXAMPLE)
            }
            _ => {}
        }
        let credentials = Credentials::read(environment)
            .map_err(|more| complaints.extend(more))
            .unwrap_or_default();
        match url {
            Some((origin, path)) if complaints.is_empty() => {
                let timeout = timeout.flatten();
                Ok((Self { origin, path, timeout }, credentials))
            }
            _ => Err(complaints),
        }
    }
}

impl Target {
    /// Returns scheme, host and port, such as `https://example.com:8443`: the only part of the URL
    /// that may be shown.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Returns the time-out of a call, if it is set.
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout
    }
}

/// Splits a URL into its origin and its path with query. An error has the problem and the advice.
fn split_url(url: Option<&str>) -> Result<(String, Secret), (&'static str, &'static str)> {
    const URL_EXAMPLE: &str = "set it like https://example.com/tick";
    const NEEDS_ENCODING: &str = "has characters that need percent-encoding";
    let url = url.ok_or((
        "is not set, so there is nothing to call",
        "set it like https://example.com/tick, or plug a handler in with tenure compose",
    ))?;
    let scheme_prefix = ["https://", "http://"].into_iter().find(|begin| url.starts_with(begin));
    let scheme_length =
        scheme_prefix.ok_or(("does not begin with http:// or https://", URL_EXAMPLE))?.len();
    let url = url.split('#').next().unwrap_or(url);
    let (scheme, rest) = url.split_at_checked(scheme_length).unwrap_or_default();
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at_checked(end).unwrap_or((rest, ""));
    if authority.as_bytes().contains(&b'@') {
        return Err(("has a user or password (a part before @)", URL_EXAMPLE));
    }
    check_authority(authority).map_err(|problem| (problem, URL_EXAMPLE))?;
    // No valid URL contains the excluded characters, and hosts refuse them.
    if !path.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"<>`".contains(&byte)) {
        return Err((NEEDS_ENCODING, URL_EXAMPLE));
    }
    let slash = if path.starts_with('/') { "" } else { "/" };
    Ok((format!("{scheme}{authority}"), format!("{slash}{path}").into()))
}

/// The prefix of a secret.
const SECRET_PREFIX: &str = "whsec_";

/// The length of a secret in bytes (Standard Webhooks, *Signature scheme*).
const SECRET_LENGTH: core::ops::RangeInclusive<usize> = 24..=64;

/// The credentials of calls: a token, and signatures by the scheme of [Standard
/// Webhooks](https://www.standardwebhooks.com). `Debug` prints nothing of them.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// The value of `authorization`.
    pub(super) token: Option<Secret>,
    /// The keys of all secrets. There are several while receivers change from one to another.
    keys: Vec<Key>,
}

impl Credentials {
    /// Reads the variables and the files that they name.
    ///
    /// # Errors
    /// Returns all complaints at once. They quote no values.
    pub fn read(environment: &dyn Environment) -> Result<Self, Vec<Complaint>> {
        let mut reader = CredentialsReader { environment, complaints: Vec::new() };
        let token = reader.token();
        let keys = reader.keys();
        match reader.complaints {
            complaints if complaints.is_empty() => Ok(Self { token, keys }),
            complaints => Err(complaints),
        }
    }

    /// Returns the value of `webhook-signature`, if there is a secret.
    pub(super) fn sign(&self, id: &str, timestamp: &str, body: &str) -> Option<String> {
        let content = format!("{id}.{timestamp}.{body}");
        let mut signatures = String::new();
        for key in &self.keys {
            let separator = if signatures.is_empty() { "" } else { " " };
            signatures = format!("{signatures}{separator}v1,{}", key.sign(&content));
        }
        (!signatures.is_empty()).then_some(signatures)
    }
}

struct CredentialsReader<'e> {
    environment: &'e dyn Environment,
    complaints: Vec<Complaint>,
}

impl CredentialsReader<'_> {
    fn get(&self, name: &str) -> Option<String> {
        self.environment
            .variable(name)
            .map(|value| value.trim().into())
            .filter(|v: &String| !v.is_empty())
    }

    fn complain(&mut self, setting: &'static str, problem: impl Into<String>, advice: &str) {
        let (problem, advice) = (problem.into(), advice.into());
        self.complaints.push(Complaint { setting: SettingId::new(setting), problem, advice });
    }

    /// Returns the value of `authorization`.
    fn token(&mut self) -> Option<Secret> {
        let (setting, token) = self.secret(variable::TOKEN, variable::TOKEN_FILE)?;
        if !is_token(token.reveal()) {
            let problem = "holds more than one word, or characters that a header cannot carry";
            self.complain(setting, problem, "let it hold the token alone, in one line");
        }
        Some(format!("Bearer {}", token.reveal()).into())
    }

    fn keys(&mut self) -> Vec<Key> {
        let Some((setting, text)) = self.secret(variable::SECRET, variable::SECRET_FILE) else {
            return Vec::new();
        };
        let keys: Option<Vec<_>> = text.reveal().split_ascii_whitespace().map(parse_key).collect();
        keys.unwrap_or_else(|| {
            let problem = "is not whsec_ and 24 to 64 bytes in Base64";
            let advice = "make a secret with: echo whsec_$(openssl rand -base64 32). Put several on separate lines";
            self.complain(setting, problem, advice);
            Vec::new()
        })
    }

    /// Returns a secret and the variable that provides it, directly or through a file.
    fn secret(&mut self, name: &'static str, file: &'static str) -> Option<(&'static str, Secret)> {
        match (self.get(name), self.get(file)) {
            (None, None) => None,
            (Some(text), None) => Some((name, text.into())),
            (None, Some(path)) => match read_secret(self.environment, &path) {
                Ok(text) => Some((file, text)),
                Err((problem, advice)) => {
                    self.complain(file, problem, advice);
                    None
                }
            },
            (Some(_), Some(_)) => {
                self.complain(file, format!("excludes {name}"), "keep one of the two");
                None
            }
        }
    }
}

fn parse_key(text: &str) -> Option<Key> {
    let text = text.strip_prefix(SECRET_PREFIX)?;
    let bytes = text.bytes().filter(|letter| *letter != b'=').count() * 3 / 4;
    Key::from_base64(text).filter(|_| SECRET_LENGTH.contains(&bytes))
}

#[cfg(test)]
mod credentials_tests;

#[cfg(test)]
mod tests {
    use super::variable::{TIMEOUT, URL};
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Target, Vec<Complaint>> {
        let value = |name: &str| variables.iter().find(|(known, _)| *known == name);
        let read = Target::read(&|name: &str| value(name).map(|(_, value)| value.to_string()));
        read.map(|(target, _)| target)
    }

    fn settings(complaints: &[Complaint]) -> Vec<&str> {
        complaints.iter().map(|complaint| complaint.setting.variable()).collect()
    }

    #[test]
    fn a_url_is_enough() {
        let target = read(&[(URL, " https://example.com:8443/a?b=c#d "), (TIMEOUT, " ")]).unwrap();
        assert_eq!(target.origin, "https://example.com:8443");
        assert_eq!(target.path.reveal(), "/a?b=c");
        assert_eq!(target.timeout, None);
        assert!(!format!("{target:?}").contains("b=c"), "{target:?}");
    }

    #[test]
    fn a_path_begins_with_a_slash() {
        for (url, path) in [("http://a", "/"), ("http://a?b", "/?b"), ("http://[::1]:80/c", "/c")] {
            assert_eq!(read(&[(URL, url)]).unwrap().path.reveal(), path);
        }
    }

    #[test]
    fn all_problems_are_reported_without_values() {
        let complaints = read(&[(URL, "S3CRET"), (TIMEOUT, "S3CRET")]).unwrap_err();
        assert_eq!(settings(&complaints), [URL, TIMEOUT]);
        assert!(!Complaint::join_all(&complaints).contains("S3CRET"), "{complaints:?}");
        assert!(complaints.iter().all(|c| !c.problem.is_empty() && !c.advice.is_empty()));
    }

    #[test]
    fn missing_url_is_reported() {
        for variables in [&[][..], &[(URL, " ")]] {
            let complaints = read(variables).unwrap_err();
            assert_eq!(settings(&complaints), [URL]);
            assert!(Complaint::join_all(&complaints).contains("is not set"), "{complaints:?}");
        }
    }

    #[test]
    fn invalid_urls_are_refused() {
        for url in [
            "example.com",
            "ftp://a",
            "http://",
            "http:///a",
            "http://u:p@a",
            "http://a b",
            "http://a/b c",
            "http://a/<b>",
            "http://a/ü",
            "http://ü",
            "http://a:0",
            "http://a:65536",
            "http://a:b",
            "http://[::1",
        ] {
            assert_eq!(settings(&read(&[(URL, url)]).unwrap_err()), [URL], "{url}");
        }
    }

    #[test]
    fn timeout_must_be_a_positive_duration() {
        let read = |timeout| read(&[(URL, "http://a"), (TIMEOUT, timeout)]);
        assert_eq!(read("5s").unwrap().timeout, Some(Duration::from_secs(5)));
        for wrong in ["0s", "5", "soon"] {
            assert_eq!(settings(&read(wrong).unwrap_err()), [TIMEOUT], "{wrong}");
        }
    }
}
