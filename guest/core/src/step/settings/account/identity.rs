//! Identities of Microsoft Entra ID from the environment.

use super::super::{SettingsReader, variable};
use super::CredentialKind;
use tenure_azure::endpoint::Endpoint;
use tenure_azure::identity::{AUTHORITY, IMDS, Identity, Proof, authority_for, is_token};
use tenure_base::prelude::*;
use tenure_base::text::cut;

impl SettingsReader<'_> {
    pub(super) fn identity(
        &mut self,
        kind: CredentialKind,
        storage: Option<&Endpoint>,
    ) -> Option<Identity> {
        let client = self.trimmed_variable(variable::CLIENT_ID);
        match kind {
            CredentialKind::Imds => {
                let url = self.trimmed_variable(variable::IMDS_HOST).unwrap_or_else(|| IMDS.into());
                let endpoint = self.url(variable::IMDS_HOST, &url)?;
                Some(Identity::Imds { endpoint, client })
            }
            CredentialKind::IdentityEndpoint => {
                let url = self.trimmed_variable(variable::IDENTITY_ENDPOINT);
                let url = url.and_then(|url| self.url(variable::IDENTITY_ENDPOINT, &url));
                let header = self.trimmed_variable(variable::IDENTITY_HEADER);
                let header = header.or_else(|| self.missing(variable::IDENTITY_HEADER));
                if header.as_deref().is_some_and(|header| !is_token(header)) {
                    let problem = "has characters that cannot be in a header";
                    let advice = "take it as the platform sets it";
                    self.complain(variable::IDENTITY_HEADER, problem, advice);
                }
                Some(Identity::Endpoint { endpoint: url?, header: header?.into(), client })
            }
            _ => {
                let authority = match (self.trimmed_variable(variable::AUTHORITY_HOST), storage) {
                    (Some(url), _) if cut(&url, "://").is_some() => url,
                    (Some(host), _) => format!("https://{host}"),
                    (None, Some(storage)) => authority_for(storage).into(),
                    (None, None) => AUTHORITY.into(), // There is no account, so the value is not used.
                };
                let authority = self.url(variable::AUTHORITY_HOST, &authority);
                let [tenant, client] = [variable::TENANT_ID, variable::CLIENT_ID].map(|name| {
                    let id = self.trimmed_variable(name);
                    id.or_else(|| self.missing(name))
                });
                let proof = if kind == CredentialKind::ClientSecret {
                    let secret = self.secret(variable::CLIENT_SECRET);
                    secret.or_else(|| self.missing(variable::CLIENT_SECRET)).map(Proof::Secret)
                } else {
                    let path = self.trimmed_variable(variable::FEDERATED_TOKEN_FILE);
                    let path = path.or_else(|| self.missing(variable::FEDERATED_TOKEN_FILE))?;
                    self.file(variable::FEDERATED_TOKEN_FILE, path).map(Proof::Assertion)
                };
                let authority = authority?;
                Some(Identity::Application {
                    authority,
                    tenant: tenant?,
                    client: client?,
                    proof: proof?,
                })
            }
        }
    }

    /// Parses the address of an identity endpoint.
    fn url(&mut self, name: &'static str, url: &str) -> Option<Endpoint> {
        let endpoint = Endpoint::parse(url.trim());
        let endpoint = endpoint.map_err(|reason| {
            let advice = "take it as the platform sets it, or leave it out";
            self.complain(name, format!("it {reason}"), advice);
        });
        let endpoint = endpoint.ok()?;
        // The endpoints of managed identities are on the machine itself, and have no TLS.
        let is_remote_authority = name == variable::AUTHORITY_HOST && !endpoint.is_loopback();
        if is_remote_authority && !endpoint.origin.starts_with("https://") {
            let problem = "is plain http, so secrets could be read on the way";
            self.complain(name, problem, "use an https:// address");
        }
        Some(endpoint)
    }
}
