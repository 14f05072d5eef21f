//! With what requests are authorised.

use super::identity::Identity;
use super::sas::Sas;
use super::secret::Secret;
use super::shared_key::Key;

/// What the holder of an account, or of a part of it, has. `Debug` prints nothing secret.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one of it in a call")]
pub enum Credential {
    /// A key of the account: every request is signed.
    SharedKey(Key),
    /// A shared access signature: it goes into the query of every request.
    Sas(Sas),
    /// A token of Microsoft Entra ID that somebody else asked for.
    Token(Secret),
    /// An identity that tokens are asked for with.
    Identity(Identity),
}

/// The means by which a request is authorised: the credential itself, or a token that was fetched with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthSource {
    /// What the settings say.
    Credential,
    /// A token that was asked for.
    Token(Secret),
}

/// With what one request is authorised.
#[derive(Clone, Copy, Debug)]
pub enum Authorization<'a> {
    /// Signed with a key of the account.
    SharedKey(&'a Key),
    /// With a signature in the query.
    Sas(&'a Sas),
    /// With a token.
    Bearer(&'a Secret),
    /// With nothing: a token is needed first.
    Nothing,
}

impl Credential {
    /// What a request is authorised with by that pass.
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

    /// Whether it could be read by everybody on the way, where there is no TLS.
    pub(super) fn needs_tls(&self) -> bool {
        !matches!(self, Self::SharedKey(..))
    }
}
