//! What an answer means and what to do about it, for people: one sentence, never a secret.

use super::answer::{Answer, Class};
use super::name::BlobName;
use super::operation::Operation;
use super::permission::Permission;
use tenure_base::prelude::*;

impl Answer {
    /// One sentence for a log or a status page: what was refused, why, and what to do next.
    ///
    /// `account` is the account's name. The text holds no key, signature or lease id.
    pub fn explain(&self, operation: &Operation, election: &BlobName, account: &str) -> String {
        let mut text = format!(
            "{} on {election} (account {account}) was answered {}",
            operation.name(),
            self.status
        );
        if let Some(code) = &self.code {
            text.push(' ');
            text.push_str(code);
        }
        text.push_str(": ");
        text.push_str(self.meaning(operation));
        let code = self.code.as_deref();
        if matches!(
            code,
            Some("AuthorizationPermissionMismatch" | "InsufficientAccountPermissions")
        ) {
            let Permission { letters, action } = operation.permission();
            text.push_str("; it needs a SAS with ");
            text.push_str(letters);
            text.push_str(", or a role with the data action ");
            text.push_str(action);
        }
        if let Some(detail) = &self.detail {
            text.push_str(" (the service says: ");
            text.push_str(detail);
            text.push(')');
        }
        text
    }

    fn meaning(&self, operation: &Operation) -> &'static str {
        let code = self.code.as_deref().unwrap_or("");
        match self.class {
            // Told only when it is none: the answer is about somebody else's lease.
            Class::Done => "the answer names a different lease, so the request did not act on ours",
            Class::MissingBlob => {
                "the blob does not exist; if an election ran on it, somebody deleted it, and the \
                next candidate creates it again"
            }
            Class::MissingContainer => {
                "the container does not exist; create it, or let Tenure create it"
            }
            Class::Conflict => conflict(operation, code),
            Class::ConditionNotMet => "the blob has changed since it was read; it is read again",
            Class::LeaseMismatch => lease_mismatch(code),
            Class::Refused => refused(self.status, code),
            Class::Unavailable => unavailable(self.status, code),
            Class::Nonsense => {
                "this is not an answer of the Blob service; check that the endpoint is right and \
                that no proxy answers in its place"
            }
        }
    }
}

fn conflict(operation: &Operation, code: &str) -> &'static str {
    match code {
        "LeaseAlreadyPresent" => {
            "another candidate holds the lease; this one waits until it is free"
        }
        "LeaseIdMismatchWithLeaseOperation" | "LeaseNotPresentWithLeaseOperation" => {
            match operation {
                Operation::Release { .. } => {
                    "the lease is lost: it was released, or it expired and was acquired"
                }
                Operation::Break { .. } => "nobody holds the lease, so there is nothing to break",
                _ => {
                    "the lease is lost: it expired, and was then acquired or broken, or the blob was written"
                }
            }
        }
        "LeaseIsBreakingAndCannotBeAcquired" | "LeaseIsBreakingAndCannotBeChanged" => {
            "somebody broke the lease; it can be acquired when the break period is over"
        }
        "LeaseIsBrokenAndCannotBeRenewed" => {
            "somebody broke the lease, so its leader must stop and win again"
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

fn lease_mismatch(code: &str) -> &'static str {
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

fn refused(status: u16, code: &str) -> &'static str {
    match (status, code) {
        (403, "AuthenticationFailed") => {
            "the signature or token was refused; check this machine's clock, and that AccountKey is this account's \
             key and not regenerated, that the SAS has started and not expired, or that the token is for \
             https://storage.azure.com and of the account's tenant"
        }
        (403, "AuthorizationFailure") => {
            "access was refused; on Azure a network rule of the account keeps this machine out \
            (page \"Networking\"), on Azurite the AccountKey is wrong, \
            or the SAS is for something else"
        }
        (403, "AuthorizationPermissionMismatch" | "InsufficientAccountPermissions") => {
            "the credential lacks a permission; grant the role Storage Blob Data Contributor on \
            the container, or make a SAS with sp=rcw"
        }
        (403, "AuthorizationProtocolMismatch") => {
            "the account accepts https only; use an https endpoint"
        }
        (403, "AuthorizationSourceIPMismatch") => {
            "the SAS is not valid for this machine's address; make one whose range (sip) includes it, or one without \
             a range"
        }
        (403, "AuthorizationResourceTypeMismatch" | "AuthorizationServiceMismatch") => {
            "the credential is not valid for blobs and containers; use one that is"
        }
        (403, "KeyBasedAuthenticationNotPermitted") => {
            "the account refuses its own keys; use an identity of Microsoft Entra ID, or allow storage \
            account key access on its page \"Configuration\""
        }
        (403, "AccountIsDisabled") => {
            "the account is disabled; check for an unpaid or suspended subscription"
        }
        (403, _) => {
            "access was refused; check AccountKey, the account's network rules and this \
            machine's clock"
        }
        (401, _) => {
            "the service found no credential that it accepts; check AccountName and AccountKey, or that the token is \
             for https://storage.azure.com, of the account's tenant, and has not expired"
        }
        (404, _) => {
            "the account was not found at this endpoint; check AccountName and BlobEndpoint"
        }
        (400, "InvalidHeaderValue" | "OutOfRangeInput" | "InvalidQueryParameterValue") => {
            "the service does not accept a value, such as the lease's duration (15 to 60 seconds), or the API \
             version on an old Azurite"
        }
        (400, "InvalidAuthenticationInfo") => {
            "the service does not accept the credential; check that AccountKey is this account's key, or that the \
             token is complete"
        }
        (400, _) => {
            "the service did not understand the request; check that the endpoint is a Blob \
            endpoint and names the account once"
        }
        (405, _) => "the endpoint does not accept this method; check that it is a Blob endpoint",
        (407, _) => "a proxy asks for a login; let this machine reach the endpoint directly",
        _ => "the request was refused; check endpoint, account and key",
    }
}

fn unavailable(status: u16, code: &str) -> &'static str {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LeaseId;
    use proptest::prelude::*;

    const A: &str = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee";

    fn renew() -> Operation {
        Operation::Renew { lease: LeaseId::parse(A).unwrap() }
    }

    fn explain(operation: &Operation, status: u16, code: &str) -> String {
        let mut headers = vec![("x-ms-lease-id".to_string(), A.as_bytes().to_vec())];
        if !code.is_empty() {
            headers.push(("x-ms-error-code".to_string(), code.as_bytes().to_vec()));
        }
        let election = BlobName::parse("leases/leader").unwrap();
        Answer::read(operation, status, &headers).explain(operation, &election, "acc")
    }

    #[test]
    fn one_sentence_says_what_why_and_what_next() {
        assert_eq!(
            explain(&renew(), 403, "KeyBasedAuthenticationNotPermitted"),
            "renew lease on leases/leader (account acc) was answered 403 KeyBasedAuthenticationNotPermitted: the account refuses its own keys; \
            use an identity of Microsoft Entra ID, or allow storage account key access on its page \"Configuration\""
        );
    }

    #[test]
    fn each_case_has_its_own_words() {
        let cases = [
            (200, "", "a different lease"),
            (403, "AuthenticationFailed", "AccountKey"),
            (403, "AuthenticationFailed", "clock"),
            (403, "AuthorizationFailure", "Azurite"),
            (403, "AuthorizationFailure", "network rule"),
            (403, "AuthorizationPermissionMismatch", "Storage Blob Data Contributor"),
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
            (400, "InvalidAuthenticationInfo", "AccountKey"),
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
            explain(&Operation::CreateContainer, 404, "ResourceNotFound").contains("AccountName")
        );
    }

    proptest! {
        #[test]
        fn one_line_and_no_lease_id_whatever_comes(status: u16, code in any::<String>()) {
            let text = explain(&renew(), status, &code);
            prop_assert!(!text.contains(char::is_control));
            prop_assert!(!text.contains(&A[..8]));
        }
    }
}
