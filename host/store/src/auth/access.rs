//! The rights of an authenticated request: full access, or the grant of a shared access signature.

use super::super::code::{Code, Failure};
use super::super::verb::Verb;

/// The rights of a request, checked once its operation is known.
#[derive(Clone, Debug)]
pub(crate) enum Access {
    /// Signed with the account's key.
    Full,
    /// Signed with a shared access signature.
    Sas(SasGrant),
}

/// The grant of a shared access signature, after checks of its signature, time and protocol.
#[derive(Clone, Debug)]
pub(crate) struct SasGrant {
    /// `sp`.
    pub permissions: String,
    /// `ss` and `srt` of an account SAS. A service SAS has neither and covers blobs only.
    pub account: Option<(String, String)>,
    /// `sv`, also the version of a request that names none.
    pub version: String,
}

impl Access {
    /// Returns the version for a request that names none.
    pub(crate) fn version(&self) -> Option<&str> {
        match self {
            Access::Full => None,
            Access::Sas(permit) => Some(&permit.version),
        }
    }

    /// Authorizes an operation with this right in its row (REST reference: *Shared access signature
    /// error codes*).
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
            // Every signature valid for the account may read the kind of account.
            _ if verb == Verb::GetAccount => return Ok(()),
            Some((_, types)) if !types.contains(resource) => {
                return Err(Code::AuthorizationResourceTypeMismatch.into());
            }
            // Observed in the service (Azurite #637, azure-sdk-for-net #17142): no service SAS
            // covers a container itself, whatever its permissions. Its blobs may be listed (REST
            // reference: *Create a service SAS*).
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

    /// Authorizes overwriting an existing blob. The permission to create (`c`) does not include it.
    pub(crate) fn authorize_overwrite(&self) -> Result<(), Failure> {
        match self {
            Access::Sas(permit) if !permit.permissions.contains('w') => {
                Err(Code::UnauthorizedBlobOverwrite.into())
            }
            Access::Full | Access::Sas(_) => Ok(()),
        }
    }
}
