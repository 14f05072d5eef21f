//! Identities of Microsoft Entra ID: the endpoint and the form of their token requests, and the
//! tokens in the responses.
//!
//! The requests are the same as those of the Azure SDKs. Sources: *How to use managed identities on
//! an Azure VM*, *REST endpoint reference* of managed identities in App Service, *OAuth 2.0 client
//! credentials flow*.

use core::time::Duration;

use chrono::{DateTime, Utc};
use tenure_base::json::{Member, members};

use super::encoding;
use super::endpoint::Endpoint;
use super::request::{Method, Request};
use super::secret::Secret;
use tenure_base::prelude::*;
use tenure_base::text::cut;

/// The audience of the tokens, which is the same in every cloud.
pub const AUDIENCE: &str = "https://storage.azure.com";

/// The authority of the public cloud.
pub const AUTHORITY: &str = "https://login.microsoftonline.com";

/// The authorities of the other clouds, by the suffix of the storage host.
const AUTHORITIES: [(&str, &str); 2] = [
    (".core.chinacloudapi.cn", "https://login.chinacloudapi.cn"),
    (".core.usgovcloudapi.net", "https://login.microsoftonline.us"),
];

/// The endpoint at which a virtual machine requests its identity's tokens.
pub const IMDS: &str = "http://169.254.169.254";

/// An identity, and the endpoint of its tokens. `Debug` prints nothing secret.
#[derive(Clone, Debug)]
pub enum Identity {
    /// The managed identity of a virtual machine or of a node of AKS.
    Imds {
        /// The metadata service.
        endpoint: Endpoint,
        /// Client id that selects one of several identities.
        client: Option<String>,
    },
    /// The managed identity of App Service, Functions and Container Apps.
    Endpoint {
        /// `IDENTITY_ENDPOINT`.
        endpoint: Endpoint,
        /// `IDENTITY_HEADER`: proves that the request comes from within the app.
        header: Secret,
        /// Client id that selects one of several identities.
        client: Option<String>,
    },
    /// An application of Entra ID.
    Application {
        /// The authority host.
        authority: Endpoint,
        /// The directory (tenant) of the application.
        tenant: String,
        /// Client id of the application.
        client: String,
        /// The application's proof of identity.
        proof: Proof,
    },
}

/// An application's proof of identity.
#[derive(Clone, Debug)]
pub enum Proof {
    /// A client secret of the application.
    Secret(Secret),
    /// A token from an issuer that Entra ID trusts for the application (workload identity).
    Assertion(Secret),
}

/// Returns the authority of the storage account's cloud.
pub fn authority_for(endpoint: &Endpoint) -> &'static str {
    let host = endpoint.host();
    let cloud = AUTHORITIES.into_iter().find(|(end, _)| host.ends_with(end));
    cloud.map_or(AUTHORITY, |(_, authority)| authority)
}

impl Identity {
    /// Returns scheme, host and port of the endpoint that issues the tokens.
    pub fn origin(&self) -> &str {
        match self {
            Self::Imds { endpoint, .. }
            | Self::Endpoint { endpoint, .. }
            | Self::Application { authority: endpoint, .. } => &endpoint.origin,
        }
    }

    /// Returns a description of the identity for messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Imds { .. } => "the managed identity of this machine",
            Self::Endpoint { .. } => "the managed identity of this app",
            Self::Application { proof: Proof::Secret(_), .. } => "the application's secret",
            Self::Application { proof: Proof::Assertion(_), .. } => "the workload identity",
        }
    }

    /// Returns true if a text from the endpoint contains this identity's secret, or its first 16
    /// bytes.
    pub fn is_quoted_in(&self, text: &str) -> bool {
        let secret = match self {
            Self::Imds { .. } => return false,
            Self::Endpoint { header, .. } => header,
            Self::Application {
                proof: Proof::Secret(secret) | Proof::Assertion(secret), ..
            } => secret,
        };
        // The text may be truncated, so the beginning of the secret is enough.
        let secret = secret.reveal();
        cut(text, secret.get(..16).unwrap_or(secret)).is_some()
    }

    /// Returns the request for a token.
    pub fn request(&self) -> Request {
        let (path_and_query, headers, body) = match self {
            Self::Imds { endpoint, client } => (
                format!(
                    "{}/metadata/identity/oauth2/token?api-version=2018-02-01{}",
                    endpoint.prefix,
                    resource_query(client.as_deref())
                ),
                vec![("metadata".into(), "true".into())],
                None,
            ),
            Self::Endpoint { endpoint, header, client } => (
                format!(
                    "{}?api-version=2019-08-01{}",
                    if endpoint.prefix.is_empty() { "/" } else { &endpoint.prefix },
                    resource_query(client.as_deref())
                ),
                vec![("x-identity-header".into(), header.reveal().into())],
                None,
            ),
            Self::Application { authority, tenant, client, proof } => {
                let body = form(client, proof);
                let tenant = encoding::percent_encode(tenant, encoding::EXCEPT_UNRESERVED);
                (
                    format!("{}/{tenant}/oauth2/v2.0/token", authority.prefix),
                    vec![
                        ("content-type".into(), "application/x-www-form-urlencoded".into()),
                        ("content-length".into(), body.len().to_string()),
                    ],
                    Some(body),
                )
            }
        };
        let method = if body.is_some() { Method::Post } else { Method::Get };
        let body = body.unwrap_or_default().into();
        Request { method, origin: self.origin().into(), path_and_query, headers, body }
    }
}

fn resource_query(client: Option<&str>) -> String {
    let client = client.map(|client| {
        format!("&client_id={}", encoding::percent_encode(client, encoding::EXCEPT_UNRESERVED))
    });
    let resource = encoding::percent_encode(AUDIENCE, encoding::EXCEPT_UNRESERVED);
    format!("&resource={resource}{}", client.unwrap_or_default())
}

fn form(client: &str, proof: &Proof) -> String {
    const BEARER: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
    let scope = format!("{AUDIENCE}/.default");
    let mut fields =
        vec![("client_id", client), ("grant_type", "client_credentials"), ("scope", &scope)];
    match proof {
        Proof::Secret(secret) => fields.push(("client_secret", secret.reveal())),
        Proof::Assertion(assertion) => fields
            .extend([("client_assertion", assertion.reveal()), ("client_assertion_type", BEARER)]),
    }
    let fields = fields.iter().map(|(name, value)| {
        let value = encoding::percent_encode(value, encoding::EXCEPT_UNRESERVED);
        format!("{name}={value}")
    });
    fields.collect::<Vec<_>>().join("&")
}

/// Maximum characters of a response's error text in a message.
const MAX_SHOWN: usize = 300;

/// Minimum validity of a token whose end is stated as a date, in seconds.
const MIN_VALIDITY: u64 = 60;

/// Maximum validity of a token. A response that states more is shortened to this.
const MAX_VALIDITY: Duration = Duration::from_secs(24 * 3600);

/// A token and its validity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The text for the header `authorization`.
    pub secret: Secret,
    /// Period of validity, from the receipt of the response.
    pub valid_for: Duration,
}

/// The reason why there is no token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenError {
    /// The endpoint refused the identity. Contains the error text of the response.
    Refused(String),
    /// The endpoint is not ready or throttles: retry later. Contains the HTTP status.
    Unavailable(u16),
    /// The response is not a valid one of an identity endpoint. Contains the reason.
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
    /// Parses a response. `now` is the date of its receipt, which responses with an absolute end
    /// need.
    ///
    /// Endpoints state a token's end as `expires_in` (seconds) or as `expires_on` (seconds since
    /// 1970). Each can be a number or a string, with or without decimals; `expires_on` can also be
    /// a date in one of three forms.
    ///
    /// # Errors
    /// Fails if the response contains no valid token.
    pub fn from_response(status: u16, body: &[u8], now: DateTime<Utc>) -> Result<Self, TokenError> {
        let body = JsonBody::parse(body);
        match status {
            200 => {}
            // The metadata service is restarting (410), or does not know its identity yet (404).
            404 | 408 | 410 | 429 | 500..=599 => return Err(TokenError::Unavailable(status)),
            400..=499 => return Err(TokenError::Refused(error_text(status, body))),
            _ => return Err(TokenError::Nonsense("this is not an answer of an identity endpoint")),
        }
        let body = body.ok_or(TokenError::Nonsense("the answer is not JSON with a token"))?;
        let token = body.text("access_token").filter(|token| is_token(token));
        let token = token.ok_or(TokenError::Nonsense("the answer has no access_token"))?;
        let now = u64::try_from(now.timestamp()).unwrap_or(0);
        let (expires_in, expires_on) = (body.value("expires_in"), body.value("expires_on"));
        // With a wrong clock, a valid token can look expired. Such a token is used, since the
        // service decides.
        let seconds_left =
            || Some(expires_on.and_then(instant)?.saturating_sub(now).max(MIN_VALIDITY));
        match expires_in.and_then(whole_seconds).or_else(seconds_left) {
            None if expires_in.or(expires_on).is_some() => {
                Err(TokenError::Nonsense("the answer's expires_in or expires_on cannot be read"))
            }
            None => Err(TokenError::Nonsense("the answer has neither expires_in nor expires_on")),
            Some(0) => Err(TokenError::Nonsense("the token has expired already")),
            Some(seconds) => Ok(Self {
                secret: token.into(),
                valid_for: Duration::from_secs(seconds).min(MAX_VALIDITY),
            }),
        }
    }
}

/// Parses a number of seconds, and drops its decimals.
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
    let date = encoding::parse_rfc3339(text)
        .or_else(|| encoding::parse_rfc3339(&month_first_to_rfc3339(text)?))?;
    u64::try_from(date.timestamp()).ok()
}

/// Converts a date that begins with its month to RFC 3339: the last two forms of [`instant`].
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
    // App Service names this member `message`.
    let description = body.text("error_description").or(body.text("message"));
    let parts = [body.text("error"), description];
    let text = parts.into_iter().flatten().collect::<Vec<_>>().join(": ");
    // The rest of the text is support ids and times, which differ in each response.
    let text_before = |text, mark| cut(text, mark).map_or(text, |(head, _)| head);
    let text = text_before(text_before(&text, "Trace ID:"), "Current time:").trim();
    let characters = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let line: String = characters.take(MAX_SHOWN).collect();
    match line.as_str() {
        "" => format!("{status}"),
        words => format!("{status} {words}"),
    }
}

#[cfg(test)]
mod token_tests;

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(url: &str) -> Endpoint {
        Endpoint::parse(url).unwrap()
    }

    fn sent(identity: &Identity) -> (String, Vec<String>, String) {
        let request = identity.request();
        let headers = request.headers.iter().map(|(name, value)| format!("{name}: {value}"));
        (
            format!("{} {}{}", request.method.as_str(), request.origin, request.path_and_query),
            headers.collect(),
            request.body.reveal().into(),
        )
    }

    #[test]
    fn a_machine_asks_its_metadata_service() {
        let line = "GET http://169.254.169.254/metadata/identity/oauth2/token?api-version=2018-02-01\
                    &resource=https%3A%2F%2Fstorage.azure.com";
        let header = vec!["metadata: true".to_string()];
        let any = Identity::Imds { endpoint: endpoint(IMDS), client: None };
        assert_eq!(sent(&any), (line.into(), header.clone(), String::new()));
        let one = Identity::Imds { endpoint: endpoint(IMDS), client: Some("a-1".into()) };
        assert_eq!(sent(&one), (format!("{line}&client_id=a-1"), header, String::new()));
    }

    #[test]
    fn an_app_asks_the_endpoint_that_it_was_given() {
        let identity = Identity::Endpoint {
            endpoint: endpoint("http://127.0.0.1:41741/msi/token/"),
            header: "853b9a84".into(),
            client: Some("a-1".into()),
        };
        let line = "GET http://127.0.0.1:41741/msi/token?api-version=2019-08-01\
                    &resource=https%3A%2F%2Fstorage.azure.com&client_id=a-1";
        let header = "x-identity-header: 853b9a84".to_string();
        assert_eq!(sent(&identity), (line.into(), vec![header], String::new()));
    }

    #[test]
    fn an_application_asks_its_authority() {
        let application_with = |proof| Identity::Application {
            authority: endpoint("https://login.microsoftonline.us/"),
            tenant: "t-1".into(),
            client: "c-1".into(),
            proof,
        };
        let form_start = "client_id=c-1&grant_type=client_credentials\
                     &scope=https%3A%2F%2Fstorage.azure.com%2F.default";
        let by_secret = format!("{form_start}&client_secret=s~%2B%26");
        let (line, headers, body) = sent(&application_with(Proof::Secret("s~+&".into())));
        assert_eq!(line, "POST https://login.microsoftonline.us/t-1/oauth2/v2.0/token");
        assert_eq!(
            headers,
            [
                "content-type: application/x-www-form-urlencoded".to_string(),
                format!("content-length: {}", by_secret.len()),
            ]
        );
        assert_eq!(body, by_secret);
        let (.., body) = sent(&application_with(Proof::Assertion("ey.J".into())));
        let assertion = "&client_assertion=ey.J&client_assertion_type=\
                         urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer";
        assert_eq!(body, format!("{form_start}{assertion}"));
    }

    #[test]
    fn each_cloud_has_its_authority() {
        for (storage, authority) in [
            ("https://a.blob.core.windows.net", "https://login.microsoftonline.com"),
            ("https://a.blob.core.chinacloudapi.cn", "https://login.chinacloudapi.cn"),
            ("https://a.blob.core.usgovcloudapi.net", "https://login.microsoftonline.us"),
            ("https://blobs.example.com", "https://login.microsoftonline.com"),
        ] {
            assert_eq!(authority_for(&endpoint(storage)), authority);
        }
    }

    #[test]
    fn truncated_secret_is_detected() {
        let secret = "c2VjcmV0IG9mIGFuIGFwcA~.1234";
        let identity = Identity::Endpoint {
            endpoint: endpoint("http://127.0.0.1:1"),
            header: secret.into(),
            client: None,
        };
        assert!(identity.is_quoted_in(&format!("header {} is wrong", &secret[..20])));
        assert!(!identity.is_quoted_in("the header is wrong"));
    }

    #[test]
    fn nothing_secret_is_printed() {
        let identity = Identity::Endpoint {
            endpoint: endpoint("http://127.0.0.1:1"),
            header: "853b9a84".into(),
            client: None,
        };
        let printed = format!("{identity:?} {:?}", identity.request());
        assert!(!printed.contains("853b9a84"), "{printed}");
    }
}
