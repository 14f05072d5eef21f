//! The call for a turn, and the meaning of its response.

use core::time::Duration;

use tenure_base::json::{Object, Value};
use tenure_base::text::cut;

use super::settings::{Credentials, Target};
use tenure_azure::encoding::{self, AsciiSet};
use tenure_azure::request::{Method, Request};
use tenure_azure::secret::Secret;
use tenure_base::prelude::*;
use tenure_core::{Failure, FailureKind, Share, Turn};

/// Header for the term of the leader that runs a turn.
pub const TERM_HEADER: &str = "tenure-term";

/// Header for the election of a turn. Its name is percent-encoded where a header requires it.
pub const ELECTION_HEADER: &str = "tenure-election";

/// Header for the idempotency key, which is common to all attempts at a turn.
pub const KEY_HEADER: &str = "idempotency-key";

/// Header for the id of the trigger that a turn runs for, if there is one.
pub const TRIGGER_HEADER: &str = "tenure-trigger";

/// The name of the target in messages. Messages do not name the variable, since in the runner an
/// option or a file may set the URL.
const WEBHOOK: &str = "the webhook";

/// Maximum bytes of an error response that are shown.
const MAX_SHOWN: usize = 300;

/// Characters of an election's name that a header value percent-encodes.
const HEADER_ESCAPES: &AsciiSet = &encoding::EXCEPT_UNRESERVED.remove(b'/').remove(b'$');

/// Minimum length of a part of a URL or token that may be a secret.
const SECRET_PART_LENGTH: usize = 8;

/// Characters of a key that are escaped in an event's id, because receivers of CloudEvents decode
/// them (HTTP binding, 3.1.3.2).
const EVENT_ID_ESCAPES: &AsciiSet = &AsciiSet::EMPTY.add(b'%');

/// Characters of a key that are escaped in a message's id, because they would end it (Standard
/// Webhooks, *Signature scheme*).
const MESSAGE_ID_ESCAPES: &AsciiSet = &AsciiSet::EMPTY.add(b'.');

/// One POST request. There is no `Debug`: the path may be a secret that permits the call.
pub struct Call {
    /// The request, with the turn as JSON.
    pub request: Request,
    /// Time-out of the whole call. A host that renews the lease during the call may extend it.
    pub timeout: Duration,
    /// The value of `authorization`, which messages must not repeat.
    token: Option<Secret>,
}

impl Call {
    /// Creates the call for a turn, sent at `now`, in seconds since 1970.
    #[must_use]
    pub fn new(turn: &Turn, target: &Target, credentials: &Credentials, now: i64) -> Self {
        let valid_for = turn.time_limit.unwrap_or(turn.valid_for).min(turn.valid_for);
        let body = body(turn, valid_for);
        let header = |name: &str, value: String| (name.to_string(), value);
        let slot = turn.slot.to_rfc3339();
        let event = encoding::percent_encode(&turn.key, EVENT_ID_ESCAPES);
        // The part of the key before its slot.
        let source = cut(&event, &format!("/{slot}")).map_or("", |(source, _)| source);
        let mut headers = vec![
            header("content-type", "application/json".into()),
            header("content-length", body.len().to_string()),
            header(TERM_HEADER, turn.term.to_string()),
            header(ELECTION_HEADER, election_value(&turn.election)),
            header(KEY_HEADER, turn.key.clone()),
            header("ce-specversion", "1.0".into()),
            header("ce-type", "tenure.turn".into()),
            header("ce-source", format!("tenure://{source}")),
            header("ce-id", event.clone()),
            header("ce-time", slot),
        ];
        if let Some(trigger) = &turn.trigger {
            headers.push(header(TRIGGER_HEADER, trigger.clone()));
        }
        if let Some(token) = &credentials.token {
            headers.push(header("authorization", token.reveal().into()));
        }
        let (message, now) =
            (encoding::percent_encode(&turn.key, MESSAGE_ID_ESCAPES), now.to_string());
        if let Some(signature) = credentials.sign(&message, &now, &body) {
            headers.push(header("webhook-id", message));
            headers.push(header("webhook-timestamp", now));
            headers.push(header("webhook-signature", signature));
        }
        let request = Request {
            method: Method::Post,
            origin: target.origin.clone(),
            path_and_query: target.path.reveal().into(),
            headers,
            body: body.into(),
        };
        let timeout = target.timeout.unwrap_or(valid_for).min(valid_for);
        Self { request, timeout, token: credentials.token.clone() }
    }

    /// Returns the reason why a call got no response.
    #[must_use]
    pub fn failure_text(&self, failure: &Failure) -> String {
        let description = match failure.kind {
            FailureKind::Timeout => {
                return format!("{WEBHOOK} did not answer within {} ms", self.timeout.as_millis());
            }
            FailureKind::Name => "cannot be resolved",
            FailureKind::Connect => "does not accept a connection",
            FailureKind::Reset => "closed the connection before it answered",
            FailureKind::Tls => "cannot be trusted over TLS",
            FailureKind::Denied => "is not an origin that this component may connect to",
            FailureKind::Other => "could not be called",
        };
        match failure.detail.as_str() {
            detail if !detail.is_empty() && self.quoted_secret(detail).is_none() => {
                format!("{WEBHOOK} {description} ({detail})")
            }
            _ => format!("{WEBHOOK} {description}"),
        }
    }

    /// Checks the status and the beginning of the response body.
    ///
    /// # Errors
    /// Fails if the status is not a success. The text shows the beginning of the body, unless it
    /// repeats a secret.
    pub fn check_response(&self, status: u16, beginning: &[u8]) -> Result<(), String> {
        if is_success(status) {
            return Ok(());
        }
        let text = String::from_utf8_lossy(beginning.get(..MAX_SHOWN).unwrap_or(beginning));
        let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let detail = match (text.trim(), self.quoted_secret(&text)) {
            ("", _) => String::new(),
            (_, Some(secret_kind)) => {
                format!(", with a text that is not shown, since it repeats the {secret_kind}")
            }
            (text, None) => format!(": {text}"),
        };
        Err(format!("{WEBHOOK} answered {status}{detail}"))
    }

    /// Returns the kind of the secret that a text seems to repeat, if any.
    fn quoted_secret(&self, text: &str) -> Option<&'static str> {
        if self.token.as_ref().is_some_and(|token| is_token_in(token.reveal(), text)) {
            return Some("token");
        }
        is_path_in(self.request.path_and_query.as_str(), text).then_some("URL")
    }
}

/// Returns true if a text contains a token. In `token`, a scheme may precede it. The text may be
/// truncated, so the beginning of the token is enough.
fn is_token_in(token: &str, text: &str) -> bool {
    let token = cut(token, " ").map_or(token, |(_, token)| token);
    let beginning = token.get(..SECRET_PART_LENGTH).unwrap_or(token);
    (beginning.len() > 1 && text_contains(text, beginning)) || is_part_in(token, text)
}

/// Returns true if a text contains a path or its query. A path is often repeated without its query,
/// so one of them is enough.
fn is_path_in(path: &str, text: &str) -> bool {
    path.split('?').any(|part| part.len() > 1 && text_contains(text, part))
        || is_part_in(path, text)
}

/// Returns true if a text contains one of the longer words of a secret, percent-encoded or not. The
/// text may be truncated, so the beginning of a word is enough.
fn is_part_in(secret: &str, text: &str) -> bool {
    let (decoded_text, parts) =
        (encoding::percent_decode_text(text), encoding::percent_decode_text(secret));
    let mut parts = parts.split(|c: char| !c.is_ascii_alphanumeric());
    parts.any(|part| {
        part.get(..SECRET_PART_LENGTH).is_some_and(|part| text_contains(&decoded_text, part))
    })
}

/// Returns true if a text contains `part`, which must not be empty. `str::contains` is made for
/// long texts, and would add 2 KB to the component.
fn text_contains(text: &str, part: &str) -> bool {
    text.as_bytes().windows(part.len()).any(|window| window == part.as_bytes())
}

/// Returns the number of bytes to read from a response body. Only the beginning of an error is
/// shown.
#[must_use]
pub fn body_limit(status: u16) -> usize {
    if is_success(status) { 0 } else { MAX_SHOWN }
}

fn is_success(status: u16) -> bool {
    (200..300).contains(&status)
}

/// Encodes the name of an election for [`ELECTION_HEADER`].
#[must_use]
pub fn election_value(election: &str) -> String {
    encoding::percent_encode(election, HEADER_ESCAPES)
}

fn body(turn: &Turn, valid_for: Duration) -> String {
    let share = turn.share.map(|Share { index, count }| {
        Object::new().with("index", u64::from(index)).with("count", u64::from(count)).finish()
    });
    Object::new()
        .with("election", &turn.election)
        .with("term", turn.term)
        .with("slot", &turn.slot.to_rfc3339())
        .with("trigger", turn.trigger.as_ref())
        .with("attempt", u64::from(turn.attempt))
        .with("past_due", turn.past_due)
        .with("missed", u64::from(turn.missed))
        .with("valid_for_ms", u64::try_from(valid_for.as_millis()).unwrap_or(u64::MAX))
        .with("share", share.as_deref().map(Value::Json))
        .finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tenure_core::Timestamp;

    fn turn() -> Turn {
        Turn {
            election: "jobs/report".into(),
            key: "acme/jobs/report/2026-11-20T07:00:00Z".into(),
            term: 7,
            slot: Timestamp(1_795_158_000_000_000_000),
            trigger: None,
            attempt: 2,
            past_due: true,
            missed: 3,
            valid_for: Duration::from_millis(40_500),
            time_limit: None,
            share: None,
        }
    }

    fn target(timeout: &'static str) -> Target {
        let read = Target::read(&|name: &str| {
            let value = match name {
                "TENURE_HANDLER_URL" => "https://example.com:8443/a?b=S3CRET",
                "TENURE_HANDLER_TIMEOUT" => timeout,
                _ => "",
            };
            Some(value.to_string())
        });
        read.unwrap().0
    }

    fn credentials(variables: &[(&str, &str)]) -> Credentials {
        let value = |name: &str| variables.iter().find(|(known, _)| *known == name);
        Credentials::read(&|name: &str| value(name).map(|(_, value)| value.to_string())).unwrap()
    }

    fn new_call(turn: &Turn, timeout: &'static str) -> Call {
        Call::new(turn, &target(timeout), &Credentials::default(), 1_795_158_001)
    }

    fn value<'c>(call: &'c Call, name: &str) -> Option<&'c str> {
        let mut found = call.request.headers.iter().filter(|(known, _)| known == name);
        let value = found.next().map(|(_, value)| value.as_str());
        assert_eq!(found.next(), None);
        value
    }

    #[test]
    fn a_turn_is_a_post() {
        let call = new_call(&turn(), "");
        let Request { method, origin, path_and_query, headers, body } = call.request;
        assert_eq!((method, origin.as_str()), (Method::Post, "https://example.com:8443"));
        assert_eq!(path_and_query, "/a?b=S3CRET");
        assert_eq!(call.timeout, turn().valid_for);
        let json: serde_json::Value = serde_json::from_str(body.reveal()).unwrap();
        let expected = json!({
            "election": "jobs/report", "term": 7, "slot": "2026-11-20T07:00:00Z", "trigger": null,
            "attempt": 2, "past_due": true, "missed": 3, "valid_for_ms": 40_500, "share": null,
        });
        assert_eq!(json, expected);
        let length = body.reveal().len().to_string();
        let expected = [
            ("content-type", "application/json"),
            ("content-length", &length),
            ("tenure-term", "7"),
            ("tenure-election", "jobs/report"),
            ("idempotency-key", "acme/jobs/report/2026-11-20T07:00:00Z"),
            ("ce-specversion", "1.0"),
            ("ce-type", "tenure.turn"),
            ("ce-source", "tenure://acme/jobs/report"),
            ("ce-id", "acme/jobs/report/2026-11-20T07:00:00Z"),
            ("ce-time", "2026-11-20T07:00:00Z"),
        ];
        assert_eq!(headers, expected.map(|(n, v)| (n.to_string(), v.to_string())));
    }

    #[test]
    fn triggered_turn_names_its_trigger() {
        let call = new_call(&Turn { trigger: Some("rerun-7".into()), ..turn() }, "");
        assert_eq!(value(&call, TRIGGER_HEADER), Some("rerun-7"));
        let json: serde_json::Value = serde_json::from_str(call.request.body.reveal()).unwrap();
        assert_eq!(json["trigger"], "rerun-7");
        assert_eq!(value(&new_call(&turn(), ""), TRIGGER_HEADER), None);
    }

    #[test]
    fn a_call_is_authorised_and_signed() {
        const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let variables = [("TENURE_HANDLER_TOKEN", "Abc.d"), ("TENURE_HANDLER_SECRET", SECRET)];
        let credentials = credentials(&variables);
        let key = "acme/jobs/a.b%20c/2026-11-20T07:00:00Z/v%2E1".into();
        let share = Some(Share { index: 3, count: 8 });
        let turn = Turn { election: "jobs/a.b c".into(), key, share, ..turn() };
        let call = Call::new(&turn, &target(""), &credentials, 1_795_158_001);
        for (name, expected) in [
            ("idempotency-key", turn.key.as_str()),
            ("ce-id", "acme/jobs/a.b%2520c/2026-11-20T07:00:00Z/v%252E1"),
            ("ce-source", "tenure://acme/jobs/a.b%2520c"),
            ("authorization", "Bearer Abc.d"),
            ("webhook-id", "acme/jobs/a%2Eb%20c/2026-11-20T07:00:00Z/v%2E1"),
            ("webhook-timestamp", "1795158001"),
        ] {
            assert_eq!(value(&call, name), Some(expected), "{name}");
        }
        let (message, body) = (value(&call, "webhook-id").unwrap(), call.request.body.reveal());
        let json: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(json["share"], json!({ "index": 3, "count": 8 }));
        let signed = credentials.sign(message, "1795158001", body);
        assert_eq!(value(&call, "webhook-signature"), signed.as_deref());
        let bare = new_call(&self::turn(), "");
        for name in ["authorization", "webhook-id", "webhook-timestamp", "webhook-signature"] {
            assert_eq!(value(&bare, name), None, "{name}");
        }
    }

    #[test]
    fn an_answer_that_repeats_the_token_is_not_shown() {
        let credentials = credentials(&[("TENURE_HANDLER_TOKEN", "S3CRETS3CRET.b")]);
        let call = Call::new(&turn(), &target(""), &credentials, 0);
        for quotes in ["no S3CRETS3CRET.b", "Bearer S3CRETS3CRET.b", "cut: S3CRETS3"] {
            let error = call.check_response(401, quotes.as_bytes()).unwrap_err();
            assert_eq!(
                error,
                "the webhook answered 401, with a text that is not shown, since it repeats the token",
                "{quotes}"
            );
        }
        assert_eq!(call.check_response(401, b"no").unwrap_err(), "the webhook answered 401: no");
        // No part of this token looks like a secret.
        let call = Call { token: Some("Bearer ??????????.??".into()), ..call };
        for quotes in ["no ??????????.??", "cut: ????????"] {
            let error = call.check_response(401, quotes.as_bytes()).unwrap_err();
            assert!(error.ends_with("repeats the token"), "{error}");
        }
        let call = Call { token: Some("Bearer short".into()), ..call };
        for (text, detail) in [
            ("short", ", with a text that is not shown, since it repeats the token"),
            ("Bearer?", ": Bearer?"),
        ] {
            let error = call.check_response(401, text.as_bytes()).unwrap_err();
            assert_eq!(error, format!("the webhook answered 401{detail}"));
        }
    }

    #[test]
    fn election_name_is_encoded_for_its_header() {
        assert_eq!(election_value("$root/a-b_c.d~/e"), "$root/a-b_c.d~/e");
        assert_eq!(election_value("jobs/ü%\n"), "jobs/%C3%BC%25%0A");
    }

    #[test]
    fn the_shortest_time_counts() {
        let timeout =
            |timeout, time_limit| new_call(&Turn { time_limit, ..turn() }, timeout).timeout;
        let seconds = Duration::from_secs;
        assert_eq!(timeout("5s", None), seconds(5));
        assert_eq!(timeout("5m", None), turn().valid_for);
        assert_eq!(timeout("", Some(seconds(6))), seconds(6));
        assert_eq!(timeout("", Some(seconds(60))), turn().valid_for);
        let limited = new_call(&Turn { time_limit: Some(seconds(6)), ..turn() }, "");
        assert!(limited.request.body.reveal().contains("\"valid_for_ms\":6000"));
    }

    #[test]
    fn only_2xx_is_success() {
        let call = new_call(&turn(), "");
        let check_response = |status, beginning: &[u8]| call.check_response(status, beginning);
        assert!(check_response(204, b"").is_ok());
        assert_eq!(check_response(302, b"").unwrap_err(), "the webhook answered 302");
        let error = check_response(500, &[b'x'; 4096]).unwrap_err();
        assert!(error.len() < MAX_SHOWN + 50, "{error}");
        assert_eq!(check_response(503, b"a\nb").unwrap_err(), "the webhook answered 503: a b");
        assert_eq!([200, 299, 199, 300].map(body_limit), [0, 0, MAX_SHOWN, MAX_SHOWN]);
    }

    #[test]
    fn an_answer_that_repeats_the_url_is_not_shown() {
        let mut call = new_call(&turn(), "");
        call.request.path_and_query = "/hooks/a?sig=Ab%2BSecretSecret&b=1".into();
        for quotes in [
            "Cannot POST /hooks/a?sig=Ab%2BSecretSecret&b=1",
            "Cannot POST /hooks/a",
            "&lt;/hooks/a?sig=Ab+SecretSecret&amp;b=1&gt;",
            "wrong sig: SecretSec",
            "sig%3DAb%252BSecretSecret",
        ] {
            let error = call.check_response(404, quotes.as_bytes()).unwrap_err();
            let hidden =
                "the webhook answered 404, with a text that is not shown, since it repeats the URL";
            assert_eq!(error, hidden, "{quotes}");
        }
        let error = call.check_response(404, b"no hooks of a today").unwrap_err();
        assert_eq!(error, "the webhook answered 404: no hooks of a today");
    }

    #[test]
    fn failure_text_never_shows_the_url() {
        let call = new_call(&turn(), "20ms");
        let failure_text =
            |kind, detail: &str| call.failure_text(&Failure { kind, detail: detail.into() });
        for (kind, detail, text) in [
            (FailureKind::Timeout, "", "the webhook did not answer within 20 ms"),
            (FailureKind::Connect, "", "the webhook does not accept a connection"),
            (FailureKind::Other, "no luck", "the webhook could not be called (no luck)"),
            (FailureKind::Other, "GET /a?b=S3CRET", "the webhook could not be called"),
        ] {
            assert_eq!(failure_text(kind, detail), text);
        }
    }
}
