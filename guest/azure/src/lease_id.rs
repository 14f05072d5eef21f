//! The id of a lease: a client that knows it holds the lease. One per attempt to win a term
//! (protocol.md §1).

use core::fmt;

use serde::{Deserialize, Serialize};
use uuid::{Builder, Uuid};

/// A lease id in Azure's form: a GUID, sent in lower case with dashes.
///
/// It is secret in logs, because any client that knows it can release the lease. `Debug` prints
/// nothing of it; `Display` is for the wire only.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LeaseId(Uuid);

impl LeaseId {
    /// Creates an id from 16 random bytes; sets the version (4) and variant bits.
    pub fn from_random(bytes: [u8; 16]) -> LeaseId {
        LeaseId(Builder::from_random_bytes(bytes).into_uuid())
    }

    /// Parses every spelling that the service accepts: dashed, plain hex, `{braced}`,
    /// `(parenthesised)`, in any case.
    ///
    /// `None` for everything else; nothing is trimmed.
    pub fn parse(text: &str) -> Option<LeaseId> {
        let unbraced = match text.as_bytes() {
            [b'{', .., b'}'] | [b'(', .., b')'] => text.get(1..text.len() - 1)?,
            _ => text,
        };
        // The library knows more spellings.
        let is_known_form = unbraced.len() == 36 || text.len() == 32;
        Uuid::try_parse(unbraced).ok().filter(|_| is_known_form).map(LeaseId)
    }
}

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_hyphenated().fmt(f)
    }
}

impl fmt::Debug for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeaseId(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_bytes_become_a_version_4_guid() {
        let zeros = LeaseId::from_random([0; 16]).to_string();
        let ones = LeaseId::from_random([0xff; 16]).to_string();
        assert_eq!(zeros, "00000000-0000-4000-8000-000000000000");
        assert_eq!(ones, "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }

    #[test]
    fn every_spelling_of_the_service_is_read() {
        let id = "cafebabe-0000-4000-8000-00000000000a";
        let spellings = [
            "cafebabe-0000-4000-8000-00000000000a",
            "CAFEBABE-0000-4000-8000-00000000000A",
            "cafebabe00004000800000000000000a",
            "{cafebabe-0000-4000-8000-00000000000a}",
            "(CAFEBABE-0000-4000-8000-00000000000a)",
        ];
        for spelling in spellings {
            let read = LeaseId::parse(spelling).map(|id| id.to_string());
            assert_eq!(read.as_deref(), Some(id), "{spelling}");
        }
    }

    #[test]
    fn anything_else_is_not_read() {
        let invalid = [
            "",
            "{",
            "{}",
            "()",
            "not-a-guid",
            " cafebabe-0000-4000-8000-00000000000a",
            "cafebabe-0000-4000-8000-00000000000a ",
            "cafebabe-0000-4000-8000-00000000000",
            "cafebabe-0000-4000-8000-00000000000g",
            "{cafebabe-0000-4000-8000-00000000000a)",
            "{cafebabe-0000-4000-8000-00000000000a",
            "{cafebabe00004000800000000000000a}",
            "{{cafebabe-0000-4000-8000-00000000000a}}",
            "urn:uuid:cafebabe-0000-4000-8000-00000000000a",
            "cafebabe-00004000-8000-00000000-0000a",
            "éafebabe-0000-4000-8000-00000000000a",
            "(é)",
        ];
        for text in invalid {
            assert_eq!(LeaseId::parse(text), None, "{text}");
        }
    }

    #[test]
    fn debug_keeps_the_secret() {
        assert_eq!(format!("{:?}", LeaseId::from_random([7; 16])), "LeaseId(..)");
    }
}
