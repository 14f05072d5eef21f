//! The operations that a token permits, by its permissions and its scope.

use tenure_store::Request;

use super::super::send::{Direct, Transport};
use super::{account, answer, blob, container, detail, ok_or_code, outcome, sas};

const BLOB_LETTERS: &str = "racwdxyltfmeopi";

/// The steps before, the operation, and the permissions that each allow it (REST reference: *Create
/// a service SAS*, *Create an account SAS*).
#[rustfmt::skip]
const ON_BLOBS: [(&str, &str, &str); 10] = [
    ("put", "head", "r"),
    ("put", "get", "r"),
    ("put", "meta", "w"),
    ("put", "delete", "d"),
    ("!head", "put", "cw"),
    ("put", "acquire id=A", "w"),
    ("@leased", "renew id=A", "w"),
    ("@leased", "change id=A to=B", "w"),
    ("@leased", "release id=A", "w"),
    ("@leased", "break", "dw"),
];

/// The same for containers, which need an account SAS.
const ON_CONTAINERS: [(&str, &str); 3] =
    [("mkcontainer box=new", "cw"), ("headcontainer", "r"), ("rmcontainer", "d")];

#[test]
fn each_letter_permits_its_operations_and_no_others() {
    let mut wrong = Vec::new();
    for (before, step, letters) in ON_BLOBS {
        for letter in BLOB_LETTERS.chars() {
            let expected =
                if letters.contains(letter) { "ok" } else { "AuthorizationPermissionMismatch" };
            for scope in [account("b", "o"), container("leases"), blob("leases", "blob")] {
                let kind = format!("{step} with {letter} in {scope:?}");
                let found = outcome(&format!("{before}; {step}"), &sas(scope, &letter.to_string()));
                if found != expected {
                    wrong.push(format!("{kind}: {found}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_container_is_opened_by_an_account_sas_alone() {
    for (step, letters) in ON_CONTAINERS {
        for letter in BLOB_LETTERS.chars() {
            let expected =
                if letters.contains(letter) { "ok" } else { "AuthorizationPermissionMismatch" };
            let letter = letter.to_string();
            assert_eq!(outcome(step, &sas(account("bq", "sco"), &letter)), expected, "{step}");
            let name = if step.ends_with("new") { "leases-new" } else { "leases" };
            let container_token = sas(container(name), &letter);
            assert_eq!(outcome(step, &container_token), "AuthorizationFailure", "{step}");
            let of_blob = sas(blob(name, "blob"), &letter);
            assert_eq!(outcome(step, &of_blob), "AuthenticationFailed", "{step}");
        }
    }
}

#[test]
fn to_create_is_not_to_overwrite() {
    for scope in [account("b", "o"), container("leases"), blob("leases", "blob")] {
        let outcome_with = |letters| outcome("put; put", &sas(scope.clone(), letters));
        assert_eq!(outcome_with("c"), "UnauthorizedBlobOverwrite");
        assert_eq!(outcome_with("w"), "ok");
        assert_eq!(outcome_with("cw"), "ok");
        assert_eq!(outcome_with("r"), "AuthorizationPermissionMismatch");
    }
}

#[test]
fn an_account_sas_names_service_and_resource_type() {
    let outcome_with =
        |services, types, step| outcome(step, &sas(account(services, types), "rwdlac"));
    assert_eq!(outcome_with("b", "o", "put; acquire id=A"), "ok");
    assert_eq!(outcome_with("qft", "sco", "put; acquire id=A"), "AuthorizationServiceMismatch");
    assert_eq!(outcome_with("b", "sc", "put; acquire id=A"), "AuthorizationResourceTypeMismatch");
    assert_eq!(outcome_with("b", "so", "mkcontainer box=new"), "AuthorizationResourceTypeMismatch");
    assert_eq!(outcome_with("b", "c", "mkcontainer box=new"), "ok");
}

#[test]
fn every_blob_token_may_read_the_account_kind() {
    let ask = |services| {
        let token = sas(account(services, "o"), "l");
        let target = format!("/devstoreaccount1/?restype=account&comp=properties&{token}");
        let answer = Direct::new().send(&Request::new("GET", &target));
        (answer.status, answer.code().map(str::to_owned))
    };
    assert_eq!(ask("b"), (200, None));
    assert_eq!(ask("q"), (403, Some("AuthorizationServiceMismatch".to_owned())));
}

#[test]
fn sas_grants_only_its_signed_scope() {
    for other in [container("others"), blob("leases", "other"), blob("others", "blob")] {
        let token = sas(other.clone(), "rcw");
        let refused = answer("put; acquire id=A", &token);
        assert_eq!(ok_or_code(&refused), "AuthenticationFailed", "{other:?}");
        let detail = detail(&refused);
        assert!(detail.starts_with("Signature did not match. String to sign used was rcw\n"));
        assert!(detail.contains("\n/blob/devstoreaccount1/leases"), "{detail}");
        let (_, signature) = token.split_once("&sig=").unwrap();
        assert!(!detail.contains(&signature[..20]), "{detail}");
    }
    // A slash and characters that must be encoded; the signature covers the decoded name.
    let named = sas(blob("leases", "a/b c"), "rcw");
    assert_eq!(outcome("put at=a/b%20c; acquire id=A at=a/b%20c", &named), "ok");
    assert_eq!(outcome("put at=a/b; acquire id=A at=a/b", &named), "AuthenticationFailed");
}
