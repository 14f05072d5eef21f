//! Replies of an endpoint, in the format of the emulated service.

use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};

use super::Expected;
use crate::token::{AUDIENCE, token};

/// Placeholder for identifiers in answers.
const SOME_ID: &str = "4457d068-2a03-42b2-97f2-d55325289d86";

/// Answer to one request of the right form.
#[derive(Clone, Debug)]
pub struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    delay: Duration,
    content: Content,
}

#[derive(Clone, Debug)]
enum Content {
    Token { lifetime: Duration, expiry: Option<ExpiryFields> },
    Text(String),
    Error { error: &'static str, code: u32, description: &'static str },
}

/// Fields that carry the expiry of a token.
#[derive(Clone, Copy, Debug, Default)]
struct ExpiryFields {
    expires_in: Option<Spelling>,
    expires_on: Option<Spelling>,
}

/// JSON type of a number.
#[derive(Clone, Copy, Debug)]
pub enum Spelling {
    /// `3599`.
    Number,
    /// `"3599"`.
    Text,
}

impl Reply {
    /// Creates a reply with a token for storage accounts, with the service's own expiry fields.
    /// IMDS uses `expires_in` and `expires_on`, both as text; App Service `expires_on` as text;
    /// Entra ID `expires_in` as a number.
    #[must_use]
    pub fn token(lifetime: Duration) -> Self {
        Self::new(200, Content::Token { lifetime, expiry: None })
    }

    /// Adds `expires_in`, the seconds until expiry. Only requested expiry fields appear in the
    /// reply.
    #[must_use]
    pub fn expires_in(self, spelling: Spelling) -> Self {
        self.set_expiry(|expiry| expiry.expires_in = Some(spelling))
    }

    /// Adds `expires_on`, the expiry in seconds since 1970. Only requested expiry fields appear in
    /// the reply.
    #[must_use]
    pub fn expires_on(self, spelling: Spelling) -> Self {
        self.set_expiry(|expiry| expiry.expires_on = Some(spelling))
    }

    /// Creates another answer, with this body.
    #[must_use]
    pub fn text(status: u16, body: &str) -> Self {
        Self::new(status, Content::Text(body.to_owned()))
    }

    /// Creates the answer of Entra ID to an unknown secret.
    #[must_use]
    pub fn invalid_client() -> Self {
        let description = "Invalid client secret provided. Ensure the secret being sent in the \
                           request is the client secret value, not the client secret ID, for a \
                           secret added to app.";
        Self::new(401, Content::Error { error: "invalid_client", code: 7_000_215, description })
    }

    /// Creates the answer of a tenant that does not know the requested resource.
    #[must_use]
    pub fn invalid_resource() -> Self {
        let description = "The resource principal was not found in the tenant. This can happen if \
                           the application has not been installed by the administrator of the \
                           tenant.";
        Self::new(400, Content::Error { error: "invalid_resource", code: 500_011, description })
    }

    /// Adds a header, in addition to those that describe the body.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    /// Delays the answer.
    #[must_use]
    pub fn delayed_by(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    fn new(status: u16, content: Content) -> Self {
        Self { status, headers: Vec::new(), delay: Duration::ZERO, content }
    }

    fn set_expiry(mut self, update: impl FnOnce(&mut ExpiryFields)) -> Self {
        if let Content::Token { expiry, .. } = &mut self.content {
            update(expiry.get_or_insert_default());
        }
        self
    }

    pub(super) fn delay(&self) -> Duration {
        self.delay
    }

    /// Returns the answer, and the token in it.
    pub(super) fn render(
        &self,
        expected: &Expected,
        now: DateTime<Utc>,
    ) -> (Response, Option<String>) {
        let (content_type, body, token) = match &self.content {
            Content::Text(text) => ("text/html", text.clone(), None),
            Content::Error { error, code, description } => {
                ("application/json", error_body(error, *code, description).to_string(), None)
            }
            Content::Token { lifetime, expiry } => {
                let until = now + TimeDelta::from_std(*lifetime).expect("less than centuries");
                let token = token(AUDIENCE, now - TimeDelta::minutes(5), until);
                let expiry = expiry.unwrap_or_else(|| ExpiryFields::for_service(expected));
                let body = token_body(expected, &token, expiry.fields(*lifetime, until));
                ("application/json", body.to_string(), Some(token))
            }
        };
        (response(self.status, content_type, &self.headers, body), token)
    }
}

impl ExpiryFields {
    fn for_service(expected: &Expected) -> Self {
        let (number, text) = (Some(Spelling::Number), Some(Spelling::Text));
        match expected {
            Expected::Imds { .. } => Self { expires_in: text, expires_on: text },
            Expected::AppService { .. } => Self { expires_in: None, expires_on: text },
            Expected::Entra { .. } => Self { expires_in: number, expires_on: None },
        }
    }

    fn fields(self, lifetime: Duration, until: DateTime<Utc>) -> Vec<(&'static str, Value)> {
        let until = u64::try_from(until.timestamp()).expect("after 1970");
        let fields = [
            ("expires_in", self.expires_in, lifetime.as_secs()),
            ("expires_on", self.expires_on, until),
        ];
        let spell = |spelling, number: u64| match spelling {
            Spelling::Number => json!(number),
            Spelling::Text => json!(number.to_string()),
        };
        let field_specs = fields.into_iter();
        field_specs
            .filter_map(|(name, spelling, number)| Some((name, spell(spelling?, number))))
            .collect()
    }
}

fn token_body(expected: &Expected, token: &str, expiry_fields: Vec<(&str, Value)>) -> Value {
    let mut body = json!({ "access_token": token, "token_type": "Bearer" });
    if !matches!(expected, Expected::Entra { .. }) {
        body["resource"] = AUDIENCE.into();
        body["client_id"] = expected.client_id().unwrap_or(SOME_ID).into();
    }
    for (name, value) in expiry_fields {
        body[name] = value;
    }
    body
}

fn error_body(error: &str, code: u32, description: &str) -> Value {
    let time = Utc::now().format("%Y-%m-%d %H:%M:%SZ").to_string();
    json!({
        "error": error,
        "error_description": format!(
            "AADSTS{code}: {description} Trace ID: {SOME_ID} Correlation ID: {SOME_ID} \
             Timestamp: {time}"
        ),
        "error_codes": [code],
        "timestamp": time,
        "trace_id": SOME_ID,
        "correlation_id": SOME_ID,
    })
}

/// Returns the answer to a request that has the wrong form.
pub(super) fn refusal(expected: &Expected, complaints: &[String]) -> Response {
    let description = complaints.join("; ");
    let body = match expected {
        Expected::Imds { .. } => {
            json!({ "error": "invalid_request", "error_description": description })
        }
        Expected::AppService { .. } => json!({ "statusCode": 400, "message": description }),
        Expected::Entra { .. } => error_body("invalid_request", 900_144, &description),
    };
    response(400, "application/json", &[], body.to_string())
}

fn response(status: u16, content_type: &str, headers: &[(&str, String)], body: String) -> Response {
    let mut response = Response::builder().status(status).header("content-type", content_type);
    for (name, value) in headers {
        response = response.header(*name, value);
    }
    response.body(Body::from(body)).expect("a status and headers")
}
