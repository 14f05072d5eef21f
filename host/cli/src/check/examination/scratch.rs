//! The examination's own blob, beside the election's.

use tenure_azure::BlobName;

/// The most characters that a blob's name has.
const LONGEST: usize = 1024;

/// Ends the name of a blob that cannot be removed: later examinations use it again.
const LASTING: &str = ".check";

/// Names of the examination's blob.
pub(super) struct Scratch {
    passing: BlobName,
    lasting: BlobName,
    /// Whether it can be removed; not known before it was asked.
    pub removable: bool,
}

impl Scratch {
    /// Beside the blob of an election; none when its name leaves no room for another. `random` keeps
    /// several examinations apart.
    pub fn beside(election: &BlobName, random: u64) -> Option<Self> {
        Some(Self {
            passing: named(election, &format!("{LASTING}-{random:016x}"))?,
            lasting: named(election, LASTING)?,
            removable: true,
        })
    }

    pub fn name(&self) -> &BlobName {
        if self.removable { &self.passing } else { &self.lasting }
    }
}

/// A name that is too long loses its end. Never that of the election.
fn named(election: &BlobName, suffix: &str) -> Option<BlobName> {
    let room = LONGEST - suffix.len();
    let blob: String = election.blob().chars().take(room).collect();
    let name = BlobName::parse(&format!("{}/{blob}{suffix}", election.container())).ok()?;
    (name != *election).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn it_is_beside_the_blob() {
        let election = BlobName::parse("jobs/a b").unwrap();
        let mut scratch = Scratch::beside(&election, 0xab).unwrap();
        assert_eq!(scratch.name().to_string(), "jobs/a b.check-00000000000000ab");
        scratch.removable = false;
        assert_eq!(scratch.name().to_string(), "jobs/a b.check");
    }

    #[test]
    fn there_is_none_where_it_would_be_the_blob_itself() {
        let election = format!("jobs/{}{LASTING}", "a".repeat(LONGEST - LASTING.len()));
        assert!(Scratch::beside(&BlobName::parse(&election).unwrap(), 1).is_none());
    }

    proptest! {
        #[test]
        fn it_is_never_the_blob_itself(blob in "[a-zé./]{1,30}|[é/]{900,1024}", random in any::<u64>()) {
            if let Ok(election) = BlobName::parse(&format!("jobs/{blob}"))
                && let Some(mut scratch) = Scratch::beside(&election, random)
            {
                prop_assert_ne!(scratch.name(), &election);
                scratch.removable = false;
                prop_assert_ne!(scratch.name(), &election);
            }
        }
    }
}
