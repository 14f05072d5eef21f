//! Identities of Microsoft Entra ID: the endpoint and the form of their token requests.
//!
//! The requests are the same as those of the Azure SDKs. Sources: *How to use managed identities on
//! an Azure VM*, *REST endpoint reference* of managed identities in App Service, *OAuth 2.0 client
//! credentials flow*.

use super::endpoint::Endpoint;
use super::percent;
use super::request::{Method, Request};
use super::secret::Secret;
use tenure_base::prelude::*;
use tenure_base::text::cut;

/// The audience of the tokens. The same in every cloud.
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
        /// Selects one of several identities.
        client: Option<String>,
    },
    /// The managed identity of App Service, Functions and Container Apps.
    Endpoint {
        /// `IDENTITY_ENDPOINT`.
        endpoint: Endpoint,
        /// `IDENTITY_HEADER`: proves that the request comes from within.
        header: Secret,
        /// Selects one of several identities.
        client: Option<String>,
    },
    /// An application of Entra ID.
    Application {
        /// The authority host.
        authority: Endpoint,
        /// The directory.
        tenant: String,
        /// The application.
        client: String,
        /// Its proof of identity.
        proof: Proof,
    },
}

/// An application's proof of identity.
#[derive(Clone, Debug)]
pub enum Proof {
    /// A secret of its own.
    Secret(Secret),
    /// A token of an issuer that Entra ID trusts for it (workload identity).
    Assertion(Secret),
}

/// Returns the authority of the storage account's cloud.
pub fn authority_for(endpoint: &Endpoint) -> &'static str {
    let host = endpoint.host();
    let cloud = AUTHORITIES.into_iter().find(|(end, _)| host.ends_with(end));
    cloud.map_or(AUTHORITY, |(_, authority)| authority)
}

impl Identity {
    /// Returns the origin of the token requests.
    pub fn origin(&self) -> &str {
        match self {
            Self::Imds { endpoint, .. }
            | Self::Endpoint { endpoint, .. }
            | Self::Application { authority: endpoint, .. } => &endpoint.origin,
        }
    }

    /// Returns its name for messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Imds { .. } => "the managed identity of this machine",
            Self::Endpoint { .. } => "the managed identity of this app",
            Self::Application { proof: Proof::Secret(_), .. } => "the application's secret",
            Self::Application { proof: Proof::Assertion(_), .. } => "the workload identity",
        }
    }

    /// Returns true if a text of the endpoint holds this identity's secret.
    pub fn is_quoted_in(&self, text: &str) -> bool {
        let secret = match self {
            Self::Imds { .. } => return false,
            Self::Endpoint { header, .. } => header,
            Self::Application {
                proof: Proof::Secret(secret) | Proof::Assertion(secret), ..
            } => secret,
        };
        // The text may be truncated.
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
                let tenant = percent::encode(tenant, percent::UNRESERVED);
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
    let client =
        client.map(|client| format!("&client_id={}", percent::encode(client, percent::UNRESERVED)));
    let resource = percent::encode(AUDIENCE, percent::UNRESERVED);
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
        let value = percent::encode(value, percent::UNRESERVED);
        format!("{name}={value}")
    });
    fields.collect::<Vec<_>>().join("&")
}

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
