//! Credentials and the authorisation of requests.

use super::identity::Identity;
use super::sas::Sas;
use super::secret::Secret;
use super::shared_key::Key;

/// A credential for an account, or for a part of it. `Debug` prints nothing secret.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one of it in a call")]
pub enum Credential {
    /// A key of the account: every request is signed.
    SharedKey(Key),
    /// A shared access signature: it is added to the query of every request.
    Sas(Sas),
    /// A token of Microsoft Entra ID that another program requested.
    Token(Secret),
    /// An identity that requests tokens.
    Identity(Identity),
}

/// The means of authorisation of a request: the credential itself, or a token that was requested
/// with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthSource {
    /// The credential of the settings.
    Credential,
    /// A requested token.
    Token(Secret),
}

/// The authorisation of one request.
#[derive(Clone, Copy, Debug)]
pub enum Authorization<'a> {
    /// Signed with a key of the account.
    SharedKey(&'a Key),
    /// A signature in the query.
    Sas(&'a Sas),
    /// A bearer token.
    Bearer(&'a Secret),
    /// No authorisation: a token is needed first.
    Nothing,
}

impl Credential {
    /// Returns the authorisation of a request with that source.
    pub fn authorization<'a>(&'a self, source: &'a AuthSource) -> Authorization<'a> {
        match (self, source) {
            (Self::SharedKey(key), _) => Authorization::SharedKey(key),
            (Self::Sas(sas), _) => Authorization::Sas(sas),
            (Self::Token(token), _) | (Self::Identity(_), AuthSource::Token(token)) => {
                Authorization::Bearer(token)
            }
            (Self::Identity(_), _) => Authorization::Nothing,
        }
    }

    /// Returns true if the credential would be readable in transit without TLS.
    pub(super) fn needs_tls(&self) -> bool {
        !matches!(self, Self::SharedKey(..))
    }
}
