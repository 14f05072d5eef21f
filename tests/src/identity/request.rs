//! A received request.

use std::fmt;
use std::time::Instant;

use http::Method;
use percent_encoding::percent_decode_str;

/// Largest body that is read, in bytes. Assertions have a few thousand.
const MAX_BODY: usize = 64 * 1024;

/// One request for a token. `Debug` shows names without values, because some values are secret.
#[derive(Clone)]
pub struct Request {
    /// Time at which the request was complete.
    pub received_at: Instant,
    /// Method.
    pub method: Method,
    /// Path, as on the wire.
    pub path: String,
    /// Query, as on the wire.
    pub query: String,
    /// Headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// Body.
    pub body: String,
}

impl Request {
    pub(super) async fn read(request: axum::extract::Request) -> Self {
        let (head, body) = request.into_parts();
        // A body that is too large or incomplete becomes text that is no valid form.
        let body = axum::body::to_bytes(body, MAX_BODY).await.unwrap_or_else(|_| "…".into());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let headers = head.headers.iter();
        Self {
            received_at: Instant::now(),
            method: head.method,
            path: head.uri.path().to_owned(),
            query: head.uri.query().unwrap_or_default().to_owned(),
            headers: headers
                .map(|(name, value)| (name.to_string(), text(value.as_ref())))
                .collect(),
            body: text(&body),
        }
    }

    /// Returns the value of a header, a query parameter or a form field.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<String> {
        let (query, form) = (pairs(&self.query), pairs(&self.body));
        let sources = [&self.headers, &query.pairs, &form.pairs];
        let found = sources.into_iter().flatten().find(|(key, _)| key == name);
        found.map(|(_, value)| value.clone())
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |pairs: &[(String, String)]| -> Vec<String> {
            pairs.iter().map(|(name, _)| name.clone()).collect()
        };
        f.debug_struct("Request")
            .field("method", &self.method)
            .field("path", &self.path)
            .field("query", &names(&pairs(&self.query).pairs))
            .field("headers", &names(&self.headers))
            .field("form", &names(&pairs(&self.body).pairs))
            .finish_non_exhaustive()
    }
}

/// Parsed query or form.
pub(super) struct Pairs {
    pub pairs: Vec<(String, String)>,
    /// True if everything used form encoding.
    pub well_formed: bool,
}

/// Parses `application/x-www-form-urlencoded`. It encodes all characters except letters, digits and
/// `-._~*`; a space becomes a plus.
pub(super) fn pairs(text: &str) -> Pairs {
    let parts: Vec<&str> = text.split('&').filter(|_| !text.is_empty()).collect();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~*+%".contains(&byte);
    let is_encoded = |part: &&str| {
        let escapes_complete = part.split('%').skip(1).all(|escape| {
            escape.len() >= 2 && escape.bytes().take(2).all(|byte| byte.is_ascii_hexdigit())
        });
        let name_and_value = part.split_once('=');
        name_and_value.is_some_and(|(name, value)| name.bytes().chain(value.bytes()).all(is_plain))
            && escapes_complete
    };
    let decode =
        |part: &str| percent_decode_str(&part.replace('+', " ")).decode_utf8_lossy().into_owned();
    let pair = |part: &&str| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        (decode(name), decode(value))
    };
    Pairs { pairs: parts.iter().map(pair).collect(), well_formed: parts.iter().all(is_encoded) }
}
