//! What to send, and what the answer means. No I/O.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tenure_base::duration::parse_duration;
use tenure_base::json::Object;

use crate::time::rfc3339;

/// Where to call.
pub const URL: &str = "TENURE_HANDLER_URL";
/// The longest that the call may take.
pub const TIMEOUT: &str = "TENURE_HANDLER_TIMEOUT";
/// The header that carries the term.
pub const TERM_HEADER: &str = "TENURE_TERM_HEADER";

/// Of an answer that is an error, no more is shown.
pub const MOST_SHOWN: usize = 300;

/// A turn, as the WIT describes it.
#[derive(Clone, Copy, Debug)]
pub struct Turn<'a> {
    /// The fencing token.
    pub term: u64,
    /// In nanoseconds since 1970.
    pub slot: u64,
    /// What it runs for once and for all.
    pub value: Option<&'a str>,
    /// 1 for the first.
    pub attempt: u32,
    /// It comes late.
    pub past_due: bool,
    /// How long it may go on.
    pub valid_for: Duration,
}

/// One POST request.
#[derive(Debug, PartialEq, Eq)]
pub struct Call {
    /// Over TLS.
    pub secure: bool,
    /// `HOST[:PORT]`
    pub authority: String,
    /// The path, with the query.
    pub path: String,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// JSON.
    pub body: String,
    /// The longest that all of it may take.
    pub timeout: Duration,
}

impl Call {
    /// The call for a turn, by the variables of the environment. One that is empty counts as not set.
    ///
    /// # Errors
    /// All that is wrong with the variables. Without their values: a URL may hold a secret.
    pub fn of<'v>(
        turn: &Turn<'_>,
        variable: impl Fn(&str) -> Option<&'v str>,
    ) -> Result<Self, String> {
        let get = |name| variable(name).map(str::trim).filter(|value| !value.is_empty());
        let mut problems = Vec::new();
        let url = split(get(URL)).map_err(|problem| problems.push(problem));
        let timeout = match get(TIMEOUT).map(parse_duration) {
            Some(None) => {
                problems.push(format!("{TIMEOUT} is no duration; write it like 30s or 1m"));
                None
            }
            Some(timeout) => timeout,
            None => None,
        };
        let header = get(TERM_HEADER).unwrap_or("tenure-term");
        if !is_token(header) {
            problems.push(format!("{TERM_HEADER} is no name of a header; try tenure-term"));
        }
        match url {
            Ok((secure, authority, path)) if problems.is_empty() => {
                let body = body(turn);
                Ok(Self {
                    secure,
                    authority,
                    path,
                    headers: headers(turn, header, body.len()),
                    body,
                    timeout: timeout.unwrap_or(turn.valid_for).min(turn.valid_for),
                })
            }
            _ => Err(problems.join(". ")),
        }
    }
}

/// What a status means, and the beginning of the answer's body.
///
/// # Errors
/// It is none of those that mean success.
pub fn judge(status: u16, beginning: &[u8]) -> Result<(), String> {
    if (200..300).contains(&status) {
        return Ok(());
    }
    let text = String::from_utf8_lossy(beginning.get(..MOST_SHOWN).unwrap_or(beginning));
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let colon = if text.trim().is_empty() { "" } else { ": " };
    Err(format!("{URL} answered {status}{colon}{}", text.trim()))
}

fn headers(turn: &Turn<'_>, term_header: &str, length: usize) -> Vec<(String, String)> {
    let mut key = rfc3339(turn.slot);
    if let Some(value) = turn.value {
        key = format!("{key}/{}", utf8_percent_encode(value, NON_ALPHANUMERIC));
    }
    let headers = [
        ("content-type", "application/json".to_string()),
        ("content-length", length.to_string()),
        (term_header, turn.term.to_string()),
        ("idempotency-key", key),
    ];
    headers.map(|(name, value)| (name.to_string(), value)).into()
}

fn body(turn: &Turn<'_>) -> String {
    Object::new()
        .with("term", turn.term)
        .with("slot", rfc3339(turn.slot).as_str())
        .with("value", turn.value)
        .with("attempt", u64::from(turn.attempt))
        .with("past_due", turn.past_due)
        .with("valid_for_ms", u64::try_from(turn.valid_for.as_millis()).unwrap_or(u64::MAX))
        .end()
}

/// Whether it is TLS, the authority, and the path with the query.
fn split(url: Option<&str>) -> Result<(bool, String, String), String> {
    const ADVICE: &str = "set it like https://example.com/tick";
    let url = url.ok_or_else(|| {
        format!(
            "{URL} is not set, so there is nothing to call; {ADVICE}, or plug a handler in with \
                 tenure compose"
        )
    })?;
    let (secure, rest) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
        (Some(rest), _) => (true, rest),
        (_, Some(rest)) => (false, rest),
        _ => return Err(format!("{URL} must begin with http:// or https://; {ADVICE}")),
    };
    let rest = rest.split('#').next().unwrap_or(rest);
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at_checked(end).unwrap_or((rest, ""));
    if authority.is_empty()
        || authority.contains('@')
        || !rest.bytes().all(|b| b.is_ascii_graphic())
    {
        return Err(format!("{URL} is no URL without a user and blanks; {ADVICE}"));
    }
    let slash = if path.starts_with('/') { "" } else { "/" };
    Ok((secure, authority.to_string(), format!("{slash}{path}")))
}

/// Whether `text` may name a header (RFC 9110, 5.6.2).
fn is_token(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const TURN: Turn<'static> = Turn {
        term: 7,
        slot: 1_795_158_000_000_000_000,
        value: None,
        attempt: 2,
        past_due: true,
        valid_for: Duration::from_millis(40_500),
    };

    fn call(turn: &Turn<'_>, variables: &[(&str, &'static str)]) -> Result<Call, String> {
        Call::of(turn, |name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
        })
    }

    #[test]
    fn a_turn_is_a_post() {
        let call = call(&TURN, &[(URL, "https://example.com:8443/a?b=c#d")]).unwrap();
        assert!(call.secure);
        assert_eq!((call.authority.as_str(), call.path.as_str()), ("example.com:8443", "/a?b=c"));
        assert_eq!(call.timeout, TURN.valid_for);
        let body: serde_json::Value = serde_json::from_str(&call.body).unwrap();
        let expected = json!({
            "term": 7, "slot": "2026-11-20T07:00:00Z", "value": null, "attempt": 2,
            "past_due": true, "valid_for_ms": 40_500,
        });
        assert_eq!(body, expected);
        let length = call.body.len().to_string();
        let expected = [
            ("content-type", "application/json"),
            ("content-length", &length),
            ("tenure-term", "7"),
            ("idempotency-key", "2026-11-20T07:00:00Z"),
        ];
        assert_eq!(call.headers, expected.map(|(n, v)| (n.to_string(), v.to_string())));
    }

    #[test]
    fn the_key_is_that_of_the_turn_and_not_of_the_attempt() {
        let key = |turn: &Turn<'_>| {
            let call = call(turn, &[(URL, "http://a")]).unwrap();
            call.headers.into_iter().find(|(name, _)| name == "idempotency-key").unwrap().1
        };
        assert_eq!(key(&TURN), key(&Turn { attempt: 3, term: 8, ..TURN }));
        let release = Turn { value: Some("v1 ü"), ..TURN };
        assert_eq!(key(&release), "2026-11-20T07:00:00Z/v1%20%C3%BC");
    }

    #[test]
    fn the_shorter_time_counts() {
        let with = |timeout| call(&TURN, &[(URL, "http://a"), (TIMEOUT, timeout)]).unwrap().timeout;
        assert_eq!(with("5s"), Duration::from_secs(5));
        assert_eq!(with("5m"), TURN.valid_for);
        assert_eq!(with(" "), TURN.valid_for);
    }

    #[test]
    fn all_that_is_wrong_is_told_at_once_and_without_values() {
        let problems =
            call(&TURN, &[(URL, "secret"), (TIMEOUT, "soon"), (TERM_HEADER, "a b")]).unwrap_err();
        for name in [URL, TIMEOUT, TERM_HEADER] {
            assert!(problems.contains(name), "{problems}");
        }
        assert!(!problems.contains("secret"), "{problems}");
        assert!(call(&TURN, &[]).unwrap_err().contains("set it like"));
    }

    #[test]
    fn what_is_no_url_is_refused() {
        for url in ["example.com", "ftp://a", "http://", "http:///a", "http://u:p@a", "http://a b"]
        {
            assert!(split(Some(url)).is_err(), "{url}");
        }
        let path = |url| split(Some(url)).unwrap().2;
        assert_eq!(path("http://a"), "/");
        assert_eq!(path("http://a?b"), "/?b");
    }

    #[test]
    fn only_2xx_is_success() {
        assert!(judge(204, b"").is_ok());
        assert_eq!(judge(302, b"").unwrap_err(), "TENURE_HANDLER_URL answered 302");
        let error = judge(500, &[b'x'; 4096]).unwrap_err();
        assert!(error.len() < MOST_SHOWN + 50, "{error}");
        assert_eq!(judge(503, b"a\nb").unwrap_err(), "TENURE_HANDLER_URL answered 503: a b");
    }
}
