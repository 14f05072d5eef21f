//! The response to a token request.
//!
//! Endpoints state a token's end as `expires_in` (seconds) or as `expires_on` (seconds since 1970).
//! Each can be a number or a string, with or without decimals; `expires_on` can also be a date in
//! one of three forms.

use core::time::Duration;

use chrono::{DateTime, Utc};
use tenure_base::json::{Member, members};

use super::rfc3339;
use super::secret::Secret;
use tenure_base::prelude::*;
use tenure_base::text::cut;

/// Maximum length of the error text that is shown.
const MOST_SHOWN: usize = 300;

/// Minimum seconds for which a token with an absolute end is tried.
const LEAST_VALIDITY: u64 = 60;

/// Maximum validity of a token.
const LONGEST_VALIDITY: Duration = Duration::from_secs(24 * 3600);

/// A token and its validity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The text for the header.
    pub secret: Secret,
    /// Time of validity, from the moment of the response.
    pub valid_for: Duration,
}

/// The reason why there is no token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenError {
    /// The identity is refused; the readable text of the response.
    Refused(String),
    /// Retry later: the endpoint is not ready, or throttles.
    Unavailable(u16),
    /// The response is not from an identity endpoint.
    Nonsense(&'static str),
}

/// The top-level members of a response.
#[derive(Default)]
struct JsonBody(Vec<(String, Member)>);

impl JsonBody {
    fn parse(body: &[u8]) -> Option<Self> {
        let text = core::str::from_utf8(body).ok()?;
        members(text.strip_prefix('\u{feff}').unwrap_or(text)).map(Self)
    }

    fn get(&self, member_name: &str) -> Option<&Member> {
        self.0.iter().find(|(name, _)| name == member_name).map(|(_, member)| member)
    }

    fn text(&self, name: &str) -> Option<&str> {
        match self.get(name) {
            Some(Member::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Returns a number or a string. `null` counts as absent.
    fn value(&self, name: &str) -> Option<&str> {
        match self.get(name) {
            Some(Member::Text(text)) => Some(text.trim()),
            Some(Member::Literal(text)) if text != "null" => Some(text),
            _ => None,
        }
    }
}

impl Token {
    /// Parses a response. `now` is the time of day of its receipt, for responses with an absolute
    /// end.
    ///
    /// # Errors
    /// There is no token in it.
    pub fn from_response(status: u16, body: &[u8], now: DateTime<Utc>) -> Result<Self, TokenError> {
        let body = JsonBody::parse(body);
        match status {
            200 => {}
            // The metadata service restarts (410), or does not know its identity yet (404).
            404 | 408 | 410 | 429 | 500..=599 => return Err(TokenError::Unavailable(status)),
            400..=499 => return Err(TokenError::Refused(error_text(status, body))),
            _ => return Err(TokenError::Nonsense("this is not an answer of an identity endpoint")),
        }
        let body = body.ok_or(TokenError::Nonsense("the answer is not JSON with a token"))?;
        let token = body.text("access_token").filter(|token| is_token(token));
        let token = token.ok_or(TokenError::Nonsense("the answer has no access_token"))?;
        let now = u64::try_from(now.timestamp()).unwrap_or(0);
        let (expires_in, expires_on) = (body.value("expires_in"), body.value("expires_on"));
        // With a wrong clock the token can look expired. Then the service decides.
        let seconds_left =
            || Some(expires_on.and_then(instant)?.saturating_sub(now).max(LEAST_VALIDITY));
        match expires_in.and_then(whole_seconds).or_else(seconds_left) {
            None if expires_in.or(expires_on).is_some() => {
                Err(TokenError::Nonsense("the answer's expires_in or expires_on cannot be read"))
            }
            None => Err(TokenError::Nonsense("the answer has neither expires_in nor expires_on")),
            Some(0) => Err(TokenError::Nonsense("the token has expired already")),
            Some(seconds) => Ok(Self {
                secret: token.into(),
                valid_for: Duration::from_secs(seconds).min(LONGEST_VALIDITY),
            }),
        }
    }
}

/// Parses seconds, without their decimals.
fn whole_seconds(text: &str) -> Option<u64> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    decimals.bytes().all(|byte| byte.is_ascii_digit()).then(|| whole.parse().ok()).flatten()
}

/// Parses seconds since 1970, or a date: `2026-01-02T03:04:05Z`, `01/02/2026 03:04:05 +00:00` or
/// `1/2/2026 3:04:05 AM +00:00`.
fn instant(text: &str) -> Option<u64> {
    if let Some(seconds) = whole_seconds(text) {
        return Some(seconds);
    }
    let date = rfc3339::parse(text).or_else(|| rfc3339::parse(&month_first_to_rfc3339(text)?))?;
    u64::try_from(date.timestamp()).ok()
}

/// Converts the month-first forms to RFC 3339.
fn month_first_to_rfc3339(text: &str) -> Option<String> {
    let mut parts = text.split_ascii_whitespace();
    let mut date = parts.next()?.split('/');
    let (month, day, year) = (date.next()?, date.next()?, date.next()?);
    let (hour, rest) = parts.next()?.split_once(':')?;
    let hour: u32 = hour.parse().ok()?;
    let (hour, offset) = match parts.next() {
        Some("AM") if hour <= 12 => (hour % 12, parts.next()),
        Some("PM") if hour <= 12 => (hour % 12 + 12, parts.next()),
        offset => (hour, offset),
    };
    let offset = offset.unwrap_or("Z");
    Some(format!("{year}-{month:0>2}-{day:0>2}T{hour:02}:{rest}{offset}"))
}

/// Returns true if the text can be sent in a header unchanged.
pub fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Returns the error of the response, in one line.
fn error_text(status: u16, body: Option<JsonBody>) -> String {
    let body = body.unwrap_or_default();
    // App Service calls it a message.
    let description = body.text("error_description").or(body.text("message"));
    let parts = [body.text("error"), description];
    let text = parts.into_iter().flatten().collect::<Vec<_>>().join(": ");
    // The rest are support ids and times, which differ at each try.
    let text_before = |text, mark| cut(text, mark).map_or(text, |(head, _)| head);
    let text = text_before(text_before(&text, "Trace ID:"), "Current time:").trim();
    let characters = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let line: String = characters.take(MOST_SHOWN).collect();
    match line.as_str() {
        "" => format!("{status}"),
        words => format!("{status} {words}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(status: u16, body: &str) -> Result<Token, TokenError> {
        Token::from_response(
            status,
            body.as_bytes(),
            DateTime::from_timestamp(1_000_000, 0).unwrap(),
        )
    }

    #[test]
    fn every_way_to_tell_the_end_is_understood() {
        for (ends, expected) in [
            (r#""expires_in":3599"#, 3599),
            (r#""expires_in":"3599""#, 3599),
            (r#""expires_on":1000090"#, 90),
            (r#""expires_on":"1000061""#, 61),
            (r#""expires_on":999"#, 60),
            (r#""expires_in":"10","expires_on":"1000060""#, 10),
            (r#""expires_in":999999999"#, 86_400),
            (r#""expires_in":"3599.0""#, 3599),
            (r#""expires_in":3599.99"#, 3599),
            (r#""expires_in":null,"expires_on":"1000090""#, 90),
            (r#""expires_on":1000090.5"#, 90),
            (r#""expires_on":"1000090.0""#, 90),
            // The instant 1,000,090 is 1970-01-12T13:48:10Z.
            (r#""expires_on":"1970-01-12T13:48:10Z""#, 90),
            (r#""expires_on":"1970-01-12T15:48:10.25+02:00""#, 90),
            (r#""expires_on":"1970-01-12 13:48:10+00:00""#, 90),
            (r#""expires_on":"01/12/1970 13:48:10 +00:00""#, 90),
            (r#""expires_on":"1/12/1970 1:48:10 PM +00:00""#, 90),
            (r#""expires_on":"01/12/1970 03:48:10 PM +02:00""#, 90),
            (r#""expires_on":"1/13/1970 12:48:10 AM +11:00""#, 90),
        ] {
            for mark in ["", "\u{feff}"] {
                let body = format!(r#"{mark}{{"access_token":"ey","token_type":"Bearer",{ends}}}"#);
                assert_eq!(
                    read(200, &body).map(|token| token.valid_for.as_secs()),
                    Ok(expected),
                    "{body}"
                );
            }
        }
    }

    #[test]
    fn error_text_is_one_line() {
        let expected = "401 invalid_client: AADSTS7000215: Invalid client secret provided.";
        for numbers in
            [" Trace ID: 1 Correlation ID: 2", "\\r\\nTrace ID: 1\\r\\nCorrelation ID: 2"]
        {
            let description = "AADSTS7000215: Invalid client secret provided.";
            let body = format!(
                r#"{{"error":"invalid_client","error_description":"{description}{numbers}"}}"#
            );
            assert_eq!(read(401, &body), Err(TokenError::Refused(expected.into())));
        }
        // The times differ at each try.
        let late = r#"{"error_description":"Assertion is not within its valid time range. Current time: 2026"}"#;
        let expected = "400 Assertion is not within its valid time range.";
        assert_eq!(read(400, late), Err(TokenError::Refused(expected.into())));
        assert_eq!(read(403, "<html>"), Err(TokenError::Refused("403".into())));
        assert_eq!(
            read(400, r#"{"statusCode":400,"message":"No managed identity found."}"#),
            Err(TokenError::Refused("400 No managed identity found.".into()))
        );
    }

    #[test]
    fn answers_without_token_are_classified() {
        for status in [404, 408, 410, 429, 500, 503] {
            assert_eq!(read(status, "{}"), Err(TokenError::Unavailable(status)));
        }
        for (status, body) in [
            (200, "<html>"),
            (200, "{}"),
            (200, r#"{"access_token":"ey"}"#),
            (200, r#"{"access_token":"","expires_in":1}"#),
            (200, r#"{"access_token":"a b","expires_in":1}"#),
            (200, r#"{"access_token":"a\r\nx: y","expires_in":1}"#),
            (200, r#"{"access_token":"ey","expires_in":0}"#),
            (200, r#"{"access_token":"ey","expires_in":"soon"}"#),
            (200, r#"{"access_token":"ey","expires_in":-1}"#),
            (302, r#"{"access_token":"ey","expires_in":1}"#),
        ] {
            assert!(matches!(read(status, body), Err(TokenError::Nonsense(_))), "{status} {body}");
        }
    }

    #[test]
    fn an_end_that_cannot_be_read_is_not_called_absent() {
        for end in [
            "soon",
            "",
            "-1",
            "13/12/1970 13:48:10 +00:00",
            "1/12/1970 13:48:10 PM +00:00",
            "1e400",
        ] {
            let body = format!(r#"{{"access_token":"ey","expires_on":"{end}"}}"#);
            let Err(TokenError::Nonsense(error)) = read(200, &body) else { panic!("{body}") };
            assert!(error.contains("cannot be read"), "{end}: {error}");
        }
    }

    proptest! {
        #[test]
        fn an_end_in_any_form_does_not_panic(end in "[0-9/: TZ+.-]{0,30}( ?[AaPp][Mm])?|\\PC{0,20}") {
            let body = serde_json::json!({"access_token": "ey", "expires_on": end}).to_string();
            let _ = read(200, &body);
        }

        #[test]
        fn from_response_never_panics(status: u16, body in any::<Vec<u8>>()) {
            let _ = Token::from_response(status, &body, DateTime::UNIX_EPOCH);
        }

        #[test]
        fn error_text_is_one_short_line(error in any::<String>(), more in any::<String>()) {
            let body = serde_json::json!({"error": error, "error_description": more}).to_string();
            let Err(TokenError::Refused(shown)) = read(400, &body) else { panic!("refused") };
            prop_assert!(!shown.contains(char::is_control));
            prop_assert!(shown.chars().count() <= MOST_SHOWN + 4);
        }
    }
}
