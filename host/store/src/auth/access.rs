//! What an admitted request may do: everything, or what its shared access signature permits.

use super::super::code::{Code, Failure};
use super::super::verb::Verb;

/// The right to an operation, judged once it is known which one it is.
#[derive(Clone, Debug)]
pub(crate) enum Access {
    /// By the account's key.
    Full,
    /// By a shared access signature.
    Sas(SasGrant),
}

/// What a shared access signature permits; its signature, time and protocol are judged.
#[derive(Clone, Debug)]
pub(crate) struct SasGrant {
    /// `sp`.
    pub permissions: String,
    /// `ss` and `srt` of an account SAS. A service SAS has neither, and is for blobs alone.
    pub account: Option<(String, String)>,
    /// `sv`: also the version of a request that names none.
    pub version: String,
}

impl Access {
    /// The version by which a request is answered that names none.
    pub(crate) fn version(&self) -> Option<&str> {
        match self {
            Access::Full => None,
            Access::Sas(permit) => Some(&permit.version),
        }
    }

    /// Whether an operation is permitted that has that right in its row (REST reference: *Shared access signature error codes*).
    pub(crate) fn authorize(
        &self,
        verb: Verb,
        (resource, letters): (char, &str),
    ) -> Result<(), Failure> {
        let Access::Sas(permit) = self else { return Ok(()) };
        match &permit.account {
            Some((services, _)) if !services.contains('b') => {
                return Err(Code::AuthorizationServiceMismatch.into());
            }
            // What kind of account it is, every signature may ask that is good there.
            _ if verb == Verb::GetAccount => return Ok(()),
            Some((_, types)) if !types.contains(resource) => {
                return Err(Code::AuthorizationResourceTypeMismatch.into());
            }
            // Seen of the service in Azurite #637 and azure-sdk-for-net #17142: no service SAS is for a container
            // itself, whatever its letters. Its blobs may be listed (REST reference: *Create a service SAS*).
            None if resource != 'o' && verb != Verb::ListBlobs => {
                return Err(Code::AuthorizationFailure.into());
            }
            Some(_) | None => {}
        }
        if permit.permissions.chars().any(|letter| letters.contains(letter)) {
            Ok(())
        } else {
            Err(Code::AuthorizationPermissionMismatch.into())
        }
    }

    /// Whether what exists may be put anew: to create (`c`) is not to overwrite.
    pub(crate) fn authorize_overwrite(&self) -> Result<(), Failure> {
        match self {
            Access::Sas(permit) if !permit.permissions.contains('w') => {
                Err(Code::UnauthorizedBlobOverwrite.into())
            }
            Access::Full | Access::Sas(_) => Ok(()),
        }
    }
}
