use super::*;
use crate::blob::SideBlob;
use crate::operation::ETag;
use crate::{LeaseId, Metadata};

#[test]
fn the_page_on_security_has_the_same_table() {
    let page = include_str!("../../../../docs/security.md");
    let lease = LeaseId::parse("aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee").unwrap();
    let if_match = ETag("x".into());
    for operation in [
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
            replaces: None,
            metadata: Metadata::default(),
        },
        Operation::WriteSideBlob {
            blob: SideBlob::Orders,
            replaces: None,
            metadata: Metadata::default(),
        },
        Operation::WriteSideBlob {
            blob: SideBlob::Successor,
            replaces: None,
            metadata: Metadata::default(),
        },
        Operation::WriteMetadata { lease, if_match, metadata: Metadata::default() },
        Operation::Change { lease, proposed: lease },
        Operation::Delete { lease: None, if_match: None },
        Operation::ReadAccount,
        Operation::ReadContent { if_none_match: None },
        Operation::WriteContent {
            condition: WriteCondition::Unconditional,
            content: String::new(),
            metadata: Metadata::default(),
        },
        Operation::List { prefix: String::new(), marker: None },
    ] {
        let Permission { letters, data_action } = operation.permission();
        let row = format!("| {} | {letters} | `{data_action}` |", operation.name());
        assert!(page.contains(&row), "docs/security.md lacks: {row}");
    }
}
