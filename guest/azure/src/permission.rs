//! The permissions that each operation needs (REST: *Create a service SAS*, *Permissions for
//! calling blob data operations*). The page on security has the same table.

use super::credential::Credential;
use super::operation::{Operation, WriteCondition};
use tenure_base::prelude::*;

/// The permission for one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permission {
    /// Permission letters of a SAS. One of them is enough.
    pub letters: &'static str,
    /// Data action of a role, without its prefix `Microsoft.Storage/storageAccounts/blobServices/`.
    pub action: &'static str,
}

impl Permission {
    /// Describes the permission in terms of the credential in use. An account key has all
    /// permissions.
    pub fn describe(self, credential: &Credential) -> String {
        let Self { letters, action } = self;
        match credential {
            Credential::Sas(_) => format!("a SAS with {letters}"),
            Credential::Token(_) | Credential::Identity(_) => {
                format!("a role with the data action {action}")
            }
            Credential::SharedKey(..) => {
                format!("a SAS with {letters}, or a role with the data action {action}")
            }
        }
    }
}

impl Operation {
    /// Returns the permission that this operation needs.
    pub fn permission(&self) -> Permission {
        let (letters, action) = match self {
            Operation::Read { .. } | Operation::ReadSideBlob(_) | Operation::ReadContent { .. } => {
                ("r", "containers/blobs/read")
            }
            Operation::List { .. } => ("l", "containers/blobs/read"),
            Operation::CreateContainer => ("c or w (account SAS only)", "containers/write"),
            Operation::CreateBlob | Operation::WriteSideBlob { .. } => {
                ("c or w", "containers/blobs/write")
            }
            Operation::WriteContent { condition: WriteCondition::IfAbsent, .. } => {
                ("c or w", "containers/blobs/write")
            }
            Operation::WriteContent { .. } => ("w", "containers/blobs/write"),
            Operation::Acquire { .. }
            | Operation::Renew { .. }
            | Operation::Change { .. }
            | Operation::Release { .. }
            | Operation::WriteMetadata { .. } => ("w", "containers/blobs/write"),
            Operation::Break { .. } => ("w or d", "containers/blobs/write"),
            Operation::Delete { .. } => ("d", "containers/blobs/delete"),
            Operation::ReadAccount => ("any permission (account SAS only)", "getInfo/action"),
        };
        Permission { letters, action }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::SideBlob;
    use crate::operation::ETag;
    use crate::{LeaseId, Metadata};

    #[test]
    fn the_page_on_security_has_the_same_table() {
        let page = include_str!("../../../docs/security.md");
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
            let Permission { letters, action } = operation.permission();
            let row = format!("| {} | {letters} | `{action}` |", operation.name());
            assert!(page.contains(&row), "docs/security.md lacks: {row}");
        }
    }
}
