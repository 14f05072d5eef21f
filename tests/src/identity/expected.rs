//! The only form of request that an endpoint accepts.

use std::fmt;

use http::Method;

use crate::token::AUDIENCE;

/// Service that an endpoint emulates, and the credentials of its clients. `Debug` shows no secret.
#[derive(Clone)]
pub enum Expected {
    /// The metadata service of a virtual machine.
    Imds {
        /// Identity to use, if there are several.
        client_id: Option<String>,
    },
    /// App Service, Functions or Container Apps.
    AppService {
        /// Path of `IDENTITY_ENDPOINT`.
        path: String,
        /// Value of `IDENTITY_HEADER`, a secret.
        header: String,
        /// Identity to use, if there are several.
        client_id: Option<String>,
    },
    /// Entra ID.
    Entra {
        /// Tenant.
        tenant: String,
        /// Application.
        client_id: String,
        /// Credential of the application.
        proof: Proof,
    },
}

/// Credential of an application.
#[derive(Clone)]
pub enum Proof {
    /// A client secret.
    Secret(String),
    /// A token of another issuer, which workload identity reads from a file.
    Assertion(String),
}

/// Names with their required values.
pub(super) type Values = Vec<(&'static str, String)>;

/// Complete content of a request, except for the standard headers of HTTP clients.
pub(super) struct ExpectedRequest {
    pub method: Method,
    pub path: String,
    pub headers: Values,
    pub query: Values,
    pub form: Values,
}

impl Expected {
    pub(super) fn path(&self) -> String {
        match self {
            Self::Imds { .. } => "/metadata/identity/oauth2/token".to_owned(),
            Self::AppService { path, .. } => path.clone(),
            Self::Entra { tenant, .. } => format!("/{tenant}/oauth2/v2.0/token"),
        }
    }

    pub(super) fn client_id(&self) -> Option<&str> {
        match self {
            Self::Imds { client_id } | Self::AppService { client_id, .. } => client_id.as_deref(),
            Self::Entra { client_id, .. } => Some(client_id),
        }
    }

    pub(super) fn expected_request(&self) -> ExpectedRequest {
        let path = self.path();
        let resource = |version: &str| {
            let mut query = values([("api-version", version), ("resource", AUDIENCE)]);
            query.extend(self.client_id().map(|id| ("client_id", id.to_owned())));
            query
        };
        let get = |headers, query| ExpectedRequest {
            method: Method::GET,
            path: path.clone(),
            headers,
            query,
            form: Vec::new(),
        };
        match self {
            Self::Imds { .. } => get(values([("metadata", "true")]), resource("2018-02-01")),
            Self::AppService { header, .. } => {
                get(values([("x-identity-header", header)]), resource("2019-08-01"))
            }
            Self::Entra { client_id, proof, .. } => ExpectedRequest {
                method: Method::POST,
                headers: values([("content-type", "application/x-www-form-urlencoded")]),
                query: Vec::new(),
                form: [
                    values([
                        ("grant_type", "client_credentials"),
                        ("client_id", client_id),
                        ("scope", &format!("{AUDIENCE}/.default")),
                    ]),
                    proof.form(),
                ]
                .concat(),
                path,
            },
        }
    }
}

impl Proof {
    fn form(&self) -> Values {
        const JWT: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
        match self {
            Self::Secret(secret) => values([("client_secret", secret)]),
            Self::Assertion(assertion) => {
                values([("client_assertion_type", JWT), ("client_assertion", assertion)])
            }
        }
    }
}

fn values<const N: usize>(pairs: [(&'static str, &str); N]) -> Values {
    pairs.map(|(name, value)| (name, value.to_owned())).to_vec()
}

impl fmt::Debug for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Imds { .. } => "Imds",
            Self::AppService { .. } => "AppService",
            Self::Entra { .. } => "Entra",
        };
        let mut debug = f.debug_struct(name);
        debug.field("path", &self.path()).field("client_id", &self.client_id());
        debug.finish_non_exhaustive()
    }
}

impl fmt::Debug for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Secret(_) => "Secret(…)",
            Self::Assertion(_) => "Assertion(…)",
        })
    }
}
