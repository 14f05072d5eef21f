//! What is answered to the request for a token.
//!
//! The sources differ in how they say how long a token is good: `expires_in` (seconds) or `expires_on`
//! (seconds since 1970), each as a number or as a string.

use core::time::Duration;

use chrono::{DateTime, Utc};
use tenure_base::json::{Member, members};

use super::secret::Secret;
use tenure_base::prelude::*;
use tenure_base::text::cut;

/// Of what went wrong, no more is shown.
const MOST_SHOWN: usize = 300;

/// A token whose end is told by the time of day is tried for so many seconds at least.
const LEAST: u64 = 60;

/// A token is never taken to be good for longer.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// A token, and for how long it is good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// What goes into the header.
    pub secret: Secret,
    /// From the moment of the answer on.
    pub valid_for: Duration,
}

/// Why there is no token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoToken {
    /// The identity is refused. What the answer says of it, for people.
    Refused(String),
    /// Ask again later: the endpoint is not ready, or throttles.
    Unavailable(u16),
    /// The answer is none that an identity endpoint gives.
    Nonsense(&'static str),
}

/// What an answer says at its top.
#[derive(Default)]
struct Body(Vec<(String, Member)>);

impl Body {
    fn read(body: &[u8]) -> Option<Self> {
        members(core::str::from_utf8(body).ok()?).map(Self)
    }

    fn get(&self, wanted: &str) -> Option<&Member> {
        self.0.iter().find(|(name, _)| name == wanted).map(|(_, member)| member)
    }

    fn text(&self, name: &str) -> Option<&str> {
        match self.get(name) {
            Some(Member::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// A number, or a string that is one.
    fn seconds(&self, name: &str) -> Option<u64> {
        match self.get(name) {
            Some(Member::Text(text) | Member::Plain(text)) => text.trim().parse().ok(),
            _ => None,
        }
    }
}

impl Token {
    /// Reads an answer. `now` is the time of day when it came, for answers that say until when and not
    /// for how long.
    ///
    /// # Errors
    /// There is no token in it.
    pub fn read(status: u16, body: &[u8], now: DateTime<Utc>) -> Result<Self, NoToken> {
        let body = Body::read(body);
        match status {
            200 => {}
            // The metadata service restarts (410), or does not know its identity yet (404).
            404 | 408 | 410 | 429 | 500..=599 => return Err(NoToken::Unavailable(status)),
            400..=499 => return Err(NoToken::Refused(told(status, body))),
            _ => return Err(NoToken::Nonsense("this is not an answer of an identity endpoint")),
        }
        let body = body.ok_or(NoToken::Nonsense("the answer is not JSON with a token"))?;
        let token = body.text("access_token").filter(|token| is_token(token));
        let token = token.ok_or(NoToken::Nonsense("the answer has no access_token"))?;
        let now = u64::try_from(now.timestamp()).unwrap_or(0);
        // By a clock that is wrong it may seem to be over: then the service is the judge.
        let until = || Some(body.seconds("expires_on")?.saturating_sub(now).max(LEAST));
        match body.seconds("expires_in").or_else(until) {
            None => Err(NoToken::Nonsense("the answer has neither expires_in nor expires_on")),
            Some(0) => Err(NoToken::Nonsense("the token has expired already")),
            Some(seconds) => Ok(Self {
                secret: token.into(),
                valid_for: Duration::from_secs(seconds).min(LONGEST),
            }),
        }
    }
}

/// Whether it can be put into a header as it is.
pub fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// What the answer says, in one line.
fn told(status: u16, body: Option<Body>) -> String {
    let body = body.unwrap_or_default();
    // App Service calls it a message.
    let description = body.text("error_description").or(body.text("message"));
    let words = [body.text("error"), description];
    let words = words.into_iter().flatten().collect::<Vec<_>>().join(": ");
    // What follows are numbers for the support and times, others at each try.
    let before = |words, mark| cut(words, mark).map_or(words, |(words, _)| words);
    let words = before(before(&words, "Trace ID:"), "Current time:").trim();
    let words = words.chars().map(|c| if c.is_control() { ' ' } else { c });
    let words: String = words.take(MOST_SHOWN).collect();
    match words.as_str() {
        "" => format!("{status}"),
        words => format!("{status} {words}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(status: u16, body: &str) -> Result<Token, NoToken> {
        Token::read(status, body.as_bytes(), DateTime::from_timestamp(1_000_000, 0).unwrap())
    }

    fn seconds(body: &str) -> u64 {
        read(200, body).unwrap().valid_for.as_secs()
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
        ] {
            let body = format!(r#"{{"access_token":"ey","token_type":"Bearer",{ends}}}"#);
            assert_eq!(seconds(&body), expected, "{body}");
        }
    }

    #[test]
    fn what_the_answer_says_is_told_in_one_line() {
        let told = "401 invalid_client: AADSTS7000215: Invalid client secret provided.";
        for numbers in
            [" Trace ID: 1 Correlation ID: 2", "\\r\\nTrace ID: 1\\r\\nCorrelation ID: 2"]
        {
            let said = "AADSTS7000215: Invalid client secret provided.";
            let body =
                format!(r#"{{"error":"invalid_client","error_description":"{said}{numbers}"}}"#);
            assert_eq!(read(401, &body), Err(NoToken::Refused(told.into())));
        }
        // Other times at each try.
        let late = r#"{"error_description":"Assertion is not within its valid time range. Current time: 2026"}"#;
        let told = "400 Assertion is not within its valid time range.";
        assert_eq!(read(400, late), Err(NoToken::Refused(told.into())));
        assert_eq!(read(403, "<html>"), Err(NoToken::Refused("403".into())));
        assert_eq!(
            read(400, r#"{"statusCode":400,"message":"No managed identity found."}"#),
            Err(NoToken::Refused("400 No managed identity found.".into()))
        );
    }

    #[test]
    fn some_answers_mean_later_and_some_nothing() {
        for status in [404, 408, 410, 429, 500, 503] {
            assert_eq!(read(status, "{}"), Err(NoToken::Unavailable(status)));
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
            assert!(matches!(read(status, body), Err(NoToken::Nonsense(_))), "{status} {body}");
        }
    }

    proptest! {
        #[test]
        fn anything_can_come(status: u16, body in any::<Vec<u8>>()) {
            let _ = Token::read(status, &body, DateTime::UNIX_EPOCH);
        }

        #[test]
        fn what_is_told_is_one_short_line(error in any::<String>(), more in any::<String>()) {
            let body = serde_json::json!({"error": error, "error_description": more}).to_string();
            let Err(NoToken::Refused(told)) = read(400, &body) else { panic!("refused") };
            prop_assert!(!told.contains(char::is_control));
            prop_assert!(told.chars().count() <= MOST_SHOWN + 4);
        }
    }
}
