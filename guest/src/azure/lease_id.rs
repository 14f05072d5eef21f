//! The id of a lease: who knows it, holds the lease. One per attempt to win a term (`protocol.md`,
//! Words).

use core::fmt::{self, Write as _};

use crate::memory::{Recall, Remember};
use crate::prelude::*;

/// A lease id as Azure knows it: a GUID, sent in lower case with dashes.
///
/// Secret in logs, for whoever knows it can release the lease: `Debug` prints nothing of it.
/// `Display` is for the wire only.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseId([u8; 16]);

/// Where the dashes are.
const DASHES: [usize; 4] = [8, 13, 18, 23];

impl LeaseId {
    /// A fresh id out of 16 random bytes; version (4) and variant bits are set here.
    pub fn from_random(bytes: [u8; 16]) -> LeaseId {
        let mut id = bytes;
        id[6] = id[6] & 0x0f | 0x40;
        id[8] = id[8] & 0x3f | 0x80;
        LeaseId(id)
    }

    /// Reads every spelling that the service accepts: dashed, plain hex, `{braced}`,
    /// `(parenthesised)`, in any case.
    ///
    /// `None` for everything else; nothing is trimmed.
    pub fn parse(text: &str) -> Option<LeaseId> {
        let dashed = match text.as_bytes() {
            [b'{', .., b'}'] | [b'(', .., b')'] => text.get(1..text.len() - 1)?,
            _ if text.len() == 32 => return LeaseId::of_digits(text.bytes()),
            _ => text,
        };
        let bytes = || dashed.bytes().enumerate();
        let good =
            dashed.len() == 36 && bytes().all(|(at, byte)| DASHES.contains(&at) == (byte == b'-'));
        let digits = bytes().filter(|(at, _)| !DASHES.contains(at)).map(|(_, byte)| byte);
        if good { LeaseId::of_digits(digits) } else { None }
    }

    /// Out of 32 hexadecimal digits.
    fn of_digits(mut digits: impl Iterator<Item = u8>) -> Option<LeaseId> {
        let mut id = [0; 16];
        for byte in &mut id {
            for _ in 0..2 {
                let digit = char::from(digits.next()?).to_digit(16)?;
                *byte = *byte << 4 | digit as u8;
            }
        }
        Some(LeaseId(id))
    }
}

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut digits = self.0.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        for at in 0..36 {
            let digit = |digit: u8| char::from_digit(digit.into(), 16);
            let next = if DASHES.contains(&at) { None } else { digits.next().and_then(digit) };
            f.write_char(next.unwrap_or('-'))?;
        }
        Ok(())
    }
}

impl fmt::Debug for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeaseId(..)")
    }
}

impl Remember for LeaseId {
    fn write(&self, memory: &mut Vec<u8>) {
        memory.extend_from_slice(&self.0);
    }

    fn read(memory: &mut Recall<'_>) -> Self {
        Self(memory.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use uuid::Uuid;

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
        let wrong = [
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
        for text in wrong {
            assert_eq!(LeaseId::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_guid_is_written_and_read_as_others_do(bytes: [u8; 16]) {
            let (id, theirs) = (LeaseId(bytes), Uuid::from_bytes(bytes));
            prop_assert_eq!(id.to_string(), theirs.as_hyphenated().to_string());
            prop_assert_eq!(LeaseId::parse(&theirs.to_string()), Some(id));
            prop_assert_eq!(LeaseId::parse(&theirs.as_simple().to_string()), Some(id));
        }
    }

    #[test]
    fn sixteen_bytes_in_memory_and_back() {
        let id = LeaseId::from_random([7; 16]);
        let mut memory = Vec::new();
        id.write(&mut memory);
        assert_eq!(memory.len(), 16);
        assert_eq!(Recall::all(&memory), Some(id));
    }

    #[test]
    fn debug_keeps_the_secret() {
        assert_eq!(format!("{:?}", LeaseId::from_random([7; 16])), "LeaseId(..)");
    }
}
