//! What an admitted request may do: everything, or what its shared access signature permits.

use super::super::code::{Code, Failure};
use super::super::log::Verb;

/// The right to an operation, judged once it is known which one it is.
#[derive(Clone, Debug)]
pub(in crate::store) enum Access {
    /// By the account's key.
    Full,
    /// By a shared access signature.
    Sas(Permit),
}

/// What a shared access signature permits; its signature, time and protocol are judged.
#[derive(Clone, Debug)]
pub(in crate::store) struct Permit {
    /// `sp`.
    pub permissions: String,
    /// `ss` and `srt` of an account SAS. A service SAS has neither, and is for blobs alone.
    pub account: Option<(String, String)>,
    /// `sv`: also the version of a request that names none.
    pub version: String,
}

/// What an operation requires of an account SAS: a kind of resource (`srt`), and one of some permissions. The blob
/// operations require the same permission of a service SAS.
fn required(verb: Verb) -> (char, &'static str) {
    match verb {
        Verb::CreateContainer => ('c', "cw"),
        Verb::DeleteContainer => ('c', "d"),
        Verb::GetContainer => ('c', "r"),
        Verb::PutBlob | Verb::Snapshot => ('o', "cw"),
        Verb::GetBlob | Verb::HeadBlob => ('o', "r"),
        Verb::DeleteBlob => ('o', "d"),
        Verb::SetMetadata | Verb::SetProperties => ('o', "w"),
        Verb::Acquire | Verb::Renew | Verb::Change | Verb::Release => ('o', "w"),
        Verb::Break => ('o', "dw"),
        // Nothing permits what is not known.
        Verb::GetAccount | Verb::Other => ('o', ""),
    }
}

impl Access {
    /// The version by which a request is answered that names none.
    pub(in crate::store) fn version(&self) -> Option<&str> {
        match self {
            Access::Full => None,
            Access::Sas(permit) => Some(&permit.version),
        }
    }

    /// Whether the operation is permitted (REST reference: *Shared access signature error codes*).
    pub(in crate::store) fn permit(&self, verb: Verb) -> Result<(), Failure> {
        let Access::Sas(permit) = self else { return Ok(()) };
        // What kind of account it is, every signature may ask that is good there.
        if verb == Verb::GetAccount {
            return Ok(());
        }
        let (resource, letters) = required(verb);
        match &permit.account {
            Some((services, _)) if !services.contains('b') => {
                return Err(Code::AuthorizationServiceMismatch.into());
            }
            Some((_, types)) if !types.contains(resource) => {
                return Err(Code::AuthorizationResourceTypeMismatch.into());
            }
            // Seen of the service in Azurite #637 and azure-sdk-for-net #17142: no service SAS is for a container
            // itself, whatever its letters.
            None if resource == 'c' => return Err(Code::AuthorizationFailure.into()),
            Some(_) | None => {}
        }
        if permit.permissions.chars().any(|letter| letters.contains(letter)) {
            Ok(())
        } else {
            Err(Code::AuthorizationPermissionMismatch.into())
        }
    }

    /// Whether what exists may be put anew: to create (`c`) is not to overwrite.
    pub(in crate::store) fn permit_overwrite(&self) -> Result<(), Failure> {
        match self {
            Access::Sas(permit) if !permit.permissions.contains('w') => {
                Err(Code::UnauthorizedBlobOverwrite.into())
            }
            Access::Full | Access::Sas(_) => Ok(()),
        }
    }
}
