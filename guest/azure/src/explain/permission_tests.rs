use super::*;
use crate::blob::SideBlob;
use crate::operation::ETag;
use crate::{LeaseId, Metadata};

fn operations() -> Vec<Operation> {
    let lease = LeaseId::parse("aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee").unwrap();
    let if_match = ETag("x".into());
    vec![
        Operation::Read { lease: None },
        Operation::CreateContainer,
        Operation::CreateBlob,
        Operation::Acquire { lease, seconds: 15, if_match: None },
        Operation::Renew { lease },
        Operation::Release { lease },
        Operation::Change { lease, proposed: lease },
        Operation::Break { period: None, if_match: None },
        Operation::ReadSideBlob(SideBlob::Orders),
        Operation::ReadSideBlob(SideBlob::Successor),
        Operation::ReadSideBlob(SideBlob::Candidates),
        Operation::WriteSideBlob {
            blob: SideBlob::Candidates,
            replaces: Some(if_match.clone()),
            metadata: Metadata::default(),
        },
        Operation::WriteSideBlob {
            blob: SideBlob::Orders,
            replaces: Some(if_match.clone()),
            metadata: Metadata::default(),
        },
        Operation::WriteSideBlob {
            blob: SideBlob::Successor,
            replaces: Some(if_match.clone()),
            metadata: Metadata::default(),
        },
        Operation::WriteMetadata { lease, if_match, metadata: Metadata::default() },
        Operation::Delete { lease: None, if_match: None },
        Operation::ReadAccount,
        Operation::ReadContent { if_none_match: None },
        Operation::WriteContent {
            condition: WriteCondition::Unconditional,
            content: String::new(),
            metadata: Metadata::default(),
        },
        Operation::List { prefix: String::new(), marker: None },
    ]
}

#[test]
fn the_page_on_security_has_the_same_table() {
    let page = include_str!("../../../../docs/security.md");
    for operation in operations() {
        let Permission { letters, data_action } = operation.permission();
        let row = format!("| {} | {letters} | `{data_action}` |", operation.name());
        assert!(page.contains(&row), "docs/security.md lacks: {row}");
    }
}

fn explain_to_sas(operation: &Operation, code: &str) -> String {
    const SAS: &str = "BlobEndpoint=https://acc.blob.core.windows.net;SharedAccessSignature=sv=1&\
                       sr=c&sp=rw&sig=c2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2k=";
    let account = Account::from_connection_string(SAS).unwrap();
    let headers = [("x-ms-error-code".to_string(), code.as_bytes().to_vec())];
    let election = BlobName::parse("leases/leader").unwrap();
    Answer::from_parts(operation, 403, &headers).explain(operation, &election, &account)
}

#[test]
fn advice_to_make_a_sas_follows_from_the_refused_operation() {
    for operation in operations() {
        let needed = operation.permission().letters;
        for code in ["AuthorizationPermissionMismatch", "AuthorizationResourceTypeMismatch"] {
            let text = explain_to_sas(&operation, code);
            assert!(text.contains(&format!("it needs a SAS with {needed}")), "{code}: {text}");
            assert!(!text.contains("sp="), "{code}: {text}");
        }
    }
}

#[test]
fn advice_says_which_requests_need_an_account_sas() {
    for operation in operations() {
        let account_sas = match operation {
            Operation::CreateContainer => {
                Some("an account SAS with ss=b and srt=c, never in a service SAS")
            }
            Operation::ReadAccount => {
                Some("an account SAS with ss=b and srt=s, never in a service SAS")
            }
            _ => None,
        };
        for code in [
            "AuthorizationPermissionMismatch",
            "AuthorizationResourceTypeMismatch",
            "AuthorizationFailure",
        ] {
            let text = explain_to_sas(&operation, code);
            assert_eq!(text.contains("service SAS"), account_sas.is_some(), "{code}: {text}");
            assert!(text.contains(account_sas.unwrap_or_default()), "{code}: {text}");
        }
    }
}

#[test]
fn overwriting_a_side_blob_needs_w() {
    let letters = |replaces| {
        let (blob, metadata) = (SideBlob::Orders, Metadata::default());
        Operation::WriteSideBlob { blob, replaces, metadata }.permission().letters
    };
    assert_eq!((letters(None), letters(Some(ETag("x".into())))), ("c or w", "w"));
}
