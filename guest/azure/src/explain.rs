//! Explanations of answers for operators, with advice, and the permissions that operations need. No
//! explanation contains a secret.

use super::account::Account;
use super::answer::{Answer, Class};
use super::blob::BlobName;
use super::credential::Credential;
use super::operation::{Operation, WriteCondition};
use tenure_base::prelude::*;

impl Answer {
    /// Returns one sentence for a log or a status page: the refused operation, the reason and the
    /// advice. The advice fits the kind of the account's credential.
    ///
    /// The text holds no key, signature or lease id.
    pub fn explain(&self, operation: &Operation, election: &BlobName, account: &Account) -> String {
        let credential = account.credential();
        let mut text = format!(
            "{} on {election} (account {}) was answered {}",
            operation.name(),
            account.name(),
            self.status
        );
        if let Some(code) = &self.code {
            text.push(' ');
            text.push_str(code);
        }
        text.push_str(": ");
        text.push_str(self.class_text(operation, credential));
        let code = self.code.as_deref().unwrap_or("");
        let needs_permission = match code {
            "AuthorizationPermissionMismatch"
            | "InsufficientAccountPermissions"
            | "AuthorizationResourceTypeMismatch" => true,
            // The service also refuses a service SAS on a container or on the account with this
            // code.
            "AuthorizationFailure" => {
                matches!(credential, Credential::Sas(_))
                    && matches!(operation, Operation::CreateContainer | Operation::ReadAccount)
            }
            _ => false,
        };
        if needs_permission {
            text.push_str("; it needs ");
            text.push_str(&operation.permission().describe(credential));
        }
        if let Some(detail) = &self.detail {
            text.push_str(" (the service says: ");
            text.push_str(detail);
            text.push(')');
        }
        text
    }

    fn class_text(&self, operation: &Operation, credential: &Credential) -> &'static str {
        let code = self.code.as_deref().unwrap_or("");
        match self.class {
            // A success needs an explanation only if its lease id is not ours.
            Class::Done => "the answer names a different lease, so the request did not act on ours",
            Class::MissingBlob => {
                "the blob does not exist; if an election ran on it, it was deleted, and the \
                next candidate creates it again"
            }
            Class::MissingContainer => {
                "the container does not exist; create it, or let Tenure create it"
            }
            Class::Conflict => conflict_text(operation, code),
            Class::ConditionNotMet => "the blob has changed since it was read; it is read again",
            Class::LeaseMismatch => lease_mismatch_text(code),
            Class::Refused => refused_text(self.status, code, credential),
            Class::Unavailable => unavailable_text(self.status, code),
            Class::Nonsense => {
                "this is not an answer of the Blob service; check that the endpoint is right and \
                that no proxy answers in its place"
            }
        }
    }
}

fn conflict_text(operation: &Operation, code: &str) -> &'static str {
    match code {
        "LeaseAlreadyPresent" => {
            "another candidate holds the lease; this one waits until it is free"
        }
        "LeaseIdMismatchWithLeaseOperation" | "LeaseNotPresentWithLeaseOperation" => {
            match operation {
                Operation::Release { .. } => {
                    "the lease is lost: it was released, or it expired and was acquired"
                }
                Operation::Break { .. } => "the lease is free, so there is nothing to break",
                _ => {
                    "the lease is lost: it expired, and was then acquired or broken, or the blob was written"
                }
            }
        }
        "LeaseIsBreakingAndCannotBeAcquired" | "LeaseIsBreakingAndCannotBeChanged" => {
            "the lease was broken; it can be acquired when the break period is over"
        }
        "LeaseIsBrokenAndCannotBeRenewed" => {
            "the lease was broken, so its leader must stop and win again"
        }
        "LeaseAlreadyBroken" | "LeaseIsAlreadyBroken" => "the lease is broken already",
        "BlobAlreadyExists" | "ContainerAlreadyExists" => {
            "it exists already, so there is nothing to do"
        }
        "ContainerBeingDeleted" => {
            "the service is still deleting the container; wait a minute, or use another container"
        }
        "BlobImmutableDueToPolicy" => {
            "an immutability policy protects the blob; use a container without one"
        }
        _ => "the state of the blob or its lease does not allow it; it is read again",
    }
}

fn lease_mismatch_text(code: &str) -> &'static str {
    match code {
        "LeaseIdMissing" => "another candidate holds the lease",
        "LeaseLost" | "LeaseNotPresentWithBlobOperation" => {
            "the lease has expired or was broken, so this leader must stop and win again"
        }
        "LeaseIdMismatchWithBlobOperation" => {
            "another candidate holds the lease now, so the previous leader must stop"
        }
        _ => "the lease does not match the request; it is read again",
    }
}

fn refused_text(status: u16, code: &str, credential: &Credential) -> &'static str {
    match status {
        400 => bad_request_text(code, credential),
        401 => unauthorized_text(credential),
        403 => forbidden_text(code, credential),
        404 => {
            "the account was not found at this endpoint; check the account's name and the Blob endpoint"
        }
        405 => "the endpoint does not accept this method; check that it is a Blob endpoint",
        407 => "a proxy asks for a login; let this machine reach the endpoint directly",
        _ => "the request was refused; check the endpoint and the credential",
    }
}

fn forbidden_text(code: &str, credential: &Credential) -> &'static str {
    match code {
        "AuthenticationFailed" => match credential {
            Credential::SharedKey(..) => {
                "the signature was refused; check that the account key is this account's key and not regenerated, and \
                 this machine's clock"
            }
            Credential::Sas(_) => {
                "the SAS was refused; check that it has started and not expired, that the key that signed it was not \
                 regenerated, and this machine's clock"
            }
            Credential::Token(_) => {
                "the token was refused; check that it has not expired, and that it is for https://storage.azure.com \
                 and of the account's tenant"
            }
            Credential::Identity(_) => {
                "the token of the identity was refused; check that the identity is of the account's tenant"
            }
        },
        "AuthorizationFailure" => match credential {
            Credential::SharedKey(..) => {
                "access was refused; on Azure a network rule of the account keeps this machine out \
                 (page \"Networking\"), on Azurite the account key is wrong"
            }
            Credential::Sas(_) => {
                "access was refused; the SAS is for something else, or a network rule of the account keeps this \
                 machine out (page \"Networking\")"
            }
            Credential::Token(_) | Credential::Identity(_) => {
                "access was refused; a network rule of the account keeps this machine out (page \"Networking\")"
            }
        },
        "AuthorizationPermissionMismatch" | "InsufficientAccountPermissions" => match credential {
            Credential::Sas(_) => "the SAS lacks a permission; make one that has it too",
            Credential::Token(_) | Credential::Identity(_) => {
                "the identity lacks a permission; grant it the role Storage Blob Data Contributor on the container"
            }
            Credential::SharedKey(..) => "the credential lacks a permission",
        },
        "AuthorizationProtocolMismatch" => "the account accepts https only; use an https endpoint",
        "AuthorizationSourceIPMismatch" => {
            "the SAS is not valid for this machine's address; make one whose range (sip) includes it, or one without \
             a range"
        }
        "AuthorizationResourceTypeMismatch" | "AuthorizationServiceMismatch" => {
            "the credential is not valid for blobs and containers; use one that is"
        }
        "KeyBasedAuthenticationNotPermitted" => {
            "the account refuses its own keys; use an identity of Microsoft Entra ID, or allow storage \
            account key access on its page \"Configuration\""
        }
        "AccountIsDisabled" => {
            "the account is disabled; check for an unpaid or suspended subscription"
        }
        _ => match credential {
            Credential::SharedKey(..) => {
                "access was refused; check the account key, the account's network rules and this machine's clock"
            }
            Credential::Sas(_) => {
                "access was refused; check the SAS, the account's network rules and this machine's clock"
            }
            Credential::Token(_) | Credential::Identity(_) => {
                "access was refused; check the roles of the identity and the account's network rules"
            }
        },
    }
}

fn unauthorized_text(credential: &Credential) -> &'static str {
    match credential {
        Credential::SharedKey(..) => {
            "the service found no credential that it accepts; check the account's name and the account key"
        }
        Credential::Sas(_) => {
            "the service found no credential that it accepts; check the account's name and the SAS"
        }
        Credential::Token(_) | Credential::Identity(_) => {
            "the service found no credential that it accepts; check that the token is for \
                 https://storage.azure.com, of the account's tenant, and has not expired"
        }
    }
}

fn bad_request_text(code: &str, credential: &Credential) -> &'static str {
    match code {
        "InvalidHeaderValue" | "OutOfRangeInput" | "InvalidQueryParameterValue" => {
            "the service does not accept a value, such as the lease's duration (15 to 60 seconds), or the API \
             version on an old Azurite"
        }
        "InvalidAuthenticationInfo" => match credential {
            Credential::SharedKey(..) => {
                "the service does not accept the credential; check that the account key is this account's key"
            }
            Credential::Sas(_) => {
                "the service does not accept the credential; check that the SAS is complete"
            }
            Credential::Token(_) | Credential::Identity(_) => {
                "the service does not accept the credential; check that the token is complete"
            }
        },
        _ => {
            "the service did not understand the request; check that the endpoint is like \
             https://ACCOUNT.blob.core.windows.net or, on Azurite, http://HOST:10000/ACCOUNT"
        }
    }
}

fn unavailable_text(status: u16, code: &str) -> &'static str {
    match (status, code) {
        (429, _) | (503, "ServerBusy") => {
            "the service is throttling the account; the request is retried after a pause"
        }
        (408, _) | (500, "OperationTimedOut") | (504, _) => {
            "the service timed out, so the request may have been applied; it is retried"
        }
        (502 | 503, "") => {
            "the service, or a proxy in front of it, cannot be reached; the request is retried"
        }
        _ => "the service failed, so the request may have been applied; it is retried",
    }
}

/// The permission for one operation (REST: *Create a service SAS*, *Permissions for calling blob
/// data operations*). The page on security has the same table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permission {
    /// Permissions of a SAS, as text. One of several letters is enough, as in `c or w`. Text in
    /// parentheses limits the kind of SAS.
    pub letters: &'static str,
    /// Data action of a role, without its prefix `Microsoft.Storage/storageAccounts/blobServices/`.
    pub data_action: &'static str,
}

impl Permission {
    /// Describes the permission in terms of the credential in use. For an account key, which has
    /// all permissions, it describes both the SAS and the role.
    pub fn describe(self, credential: &Credential) -> String {
        let Self { letters, data_action } = self;
        match credential {
            Credential::Sas(_) => format!("a SAS with {letters}"),
            Credential::Token(_) | Credential::Identity(_) => {
                format!("a role with the data action {data_action}")
            }
            Credential::SharedKey(..) => {
                format!("a SAS with {letters}, or a role with the data action {data_action}")
            }
        }
    }
}

impl Operation {
    /// Returns the permission that this operation needs.
    pub fn permission(&self) -> Permission {
        let (letters, data_action) = match self {
            Operation::Read { .. } | Operation::ReadSideBlob(_) | Operation::ReadContent { .. } => {
                ("r", "containers/blobs/read")
            }
            Operation::List { .. } => ("l (and srt=c in an account SAS)", "containers/blobs/read"),
            Operation::CreateContainer => (
                "c or w (in an account SAS with ss=b and srt=c, never in a service SAS)",
                "containers/write",
            ),
            Operation::CreateBlob
            | Operation::WriteSideBlob { replaces: None, .. }
            | Operation::WriteContent { condition: WriteCondition::IfAbsent, .. } => {
                ("c or w", "containers/blobs/write")
            }
            // `c` does not permit to overwrite a blob.
            Operation::WriteSideBlob { .. }
            | Operation::WriteContent { .. }
            | Operation::Acquire { .. }
            | Operation::Renew { .. }
            | Operation::Change { .. }
            | Operation::Release { .. }
            | Operation::WriteMetadata { .. } => ("w", "containers/blobs/write"),
            Operation::Break { .. } => ("w or d", "containers/blobs/write"),
            Operation::Delete { .. } => ("d", "containers/blobs/delete"),
            Operation::ReadAccount => (
                "any permission (in an account SAS with ss=b and srt=s, never in a service SAS)",
                "getInfo/action",
            ),
        };
        Permission { letters, data_action }
    }
}

#[cfg(test)]
mod permission_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LeaseId;
    use crate::endpoint::Endpoint;
    use proptest::prelude::*;

    const A: &str = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee";

    fn renew() -> Operation {
        Operation::Renew { lease: LeaseId::parse(A).unwrap() }
    }

    fn explain(operation: &Operation, status: u16, code: &str) -> String {
        explain_with("AccountName=acc;AccountKey=c2VjcmV0", operation, status, code)
    }

    fn explain_with(credential: &str, operation: &Operation, status: u16, code: &str) -> String {
        let account = Account::from_connection_string(credential).unwrap();
        let mut headers = vec![("x-ms-lease-id".to_string(), A.as_bytes().to_vec())];
        if !code.is_empty() {
            headers.push(("x-ms-error-code".to_string(), code.as_bytes().to_vec()));
        }
        let election = BlobName::parse("leases/leader").unwrap();
        Answer::from_parts(operation, status, &headers).explain(operation, &election, &account)
    }

    #[test]
    fn explanation_is_one_sentence_with_cause_and_advice() {
        assert_eq!(
            explain(&renew(), 403, "KeyBasedAuthenticationNotPermitted"),
            "renew lease on leases/leader (account acc) was answered 403 KeyBasedAuthenticationNotPermitted: the account refuses its own keys; \
            use an identity of Microsoft Entra ID, or allow storage account key access on its page \"Configuration\""
        );
    }

    #[test]
    fn each_error_code_has_its_own_text() {
        let cases = [
            (200, "", "a different lease"),
            (403, "AuthenticationFailed", "account key"),
            (403, "AuthenticationFailed", "clock"),
            (403, "AuthorizationFailure", "Azurite"),
            (403, "AuthorizationFailure", "network rule"),
            (
                403,
                "AuthorizationPermissionMismatch",
                "it needs a SAS with w, or a role with the data action containers/blobs/write",
            ),
            (403, "AccountIsDisabled", "disabled"),
            (403, "", "network rules"),
            (401, "NoAuthenticationInformation", "no credential"),
            (400, "InvalidHeaderValue", "duration"),
            (400, "", "did not understand"),
            (400, "InvalidAuthenticationInfo", "account key"),
            (404, "BlobNotFound", "deleted"),
            (404, "ContainerNotFound", "create it"),
            (409, "LeaseAlreadyPresent", "another candidate"),
            (409, "LeaseIsBrokenAndCannotBeRenewed", "broke"),
            (409, "LeaseIdMismatchWithLeaseOperation", "is lost"),
            (409, "ContainerBeingDeleted", "wait a minute"),
            (412, "ConditionNotMet", "has changed"),
            (412, "LeaseIdMismatchWithBlobOperation", "another candidate"),
            (412, "LeaseLost", "expired"),
            (429, "", "throttling"),
            (503, "ServerBusy", "throttling"),
            (500, "OperationTimedOut", "may have been applied"),
            (302, "", "proxy"),
            (204, "", "proxy"),
        ];
        for (status, code, words) in cases {
            let text = explain(&renew(), status, code);
            assert!(text.contains(words), "{status} {code}: {text}");
        }
        let released = explain(
            &Operation::Release { lease: LeaseId::parse(A).unwrap() },
            409,
            "LeaseIdMismatchWithLeaseOperation",
        );
        assert!(released.contains("was released"), "{released}");
        assert!(
            explain(&Operation::CreateContainer, 404, "ResourceNotFound")
                .contains("the account's name")
        );
    }

    #[test]
    fn advice_names_only_the_credential_in_use() {
        let sas = "SharedAccessSignature=sv=1&sr=c&sp=rw&sig=c2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2k=";
        let sas = format!("BlobEndpoint=https://acc.blob.core.windows.net;{sas}");
        let endpoint = Endpoint::parse("https://acc.blob.core.windows.net").unwrap();
        let token = Credential::Token("ey.a".into());
        let token = Account::new("acc".into(), endpoint, token).unwrap();
        let key = Account::from_connection_string("AccountName=acc;AccountKey=c2VjcmV0").unwrap();
        let sas = Account::from_connection_string(&sas).unwrap();
        let election = BlobName::parse("leases/leader").unwrap();
        for (account, named, others) in [
            (key, "account key", ["SAS", "token"]),
            (sas, "SAS", ["account key", "token"]),
            (token, "token", ["account key", "SAS"]),
        ] {
            for (status, code) in [
                (403, "AuthenticationFailed"),
                (401, "NoAuthenticationInformation"),
                (400, "InvalidAuthenticationInfo"),
            ] {
                let headers = vec![("x-ms-error-code".to_string(), code.as_bytes().to_vec())];
                let answer = Answer::from_parts(&renew(), status, &headers);
                let text = answer.explain(&renew(), &election, &account);
                assert!(text.contains(named), "{status} {code}: {text}");
                for other in others {
                    assert!(!text.contains(other), "{status} {code} names {other}: {text}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn explanation_is_one_line_without_the_lease_id(status: u16, code in any::<String>()) {
            let text = explain(&renew(), status, &code);
            prop_assert!(!text.contains(char::is_control));
            prop_assert!(!text.contains(&A[..8]));
        }
    }
}
