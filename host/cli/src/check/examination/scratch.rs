//! The examination's own blob, beside the election's.

use tenure_azure::BlobName;

/// The most characters that a blob's name has.
const MAX_NAME_LENGTH: usize = 1024;

/// Ends the name of a blob that cannot be removed: later examinations use it again.
const PERMANENT_SUFFIX: &str = ".check";

/// Names of the examination's blob.
pub(super) struct Scratch {
    temporary: BlobName,
    permanent: BlobName,
    /// Whether it can be removed; not known before it was asked.
    pub removable: bool,
}

impl Scratch {
    /// Beside the blob of an election; none when its name leaves no room for another. `random` keeps
    /// several examinations apart.
    pub fn new(election: &BlobName, random: u64) -> Option<Self> {
        Some(Self {
            temporary: with_suffix(election, &format!("{PERMANENT_SUFFIX}-{random:016x}"))?,
            permanent: with_suffix(election, PERMANENT_SUFFIX)?,
            removable: true,
        })
    }

    pub fn name(&self) -> &BlobName {
        if self.removable { &self.temporary } else { &self.permanent }
    }
}

/// A name that is too long loses its end. Never that of the election.
fn with_suffix(election: &BlobName, suffix: &str) -> Option<BlobName> {
    let max_length = MAX_NAME_LENGTH - suffix.len();
    let blob: String = election.blob().chars().take(max_length).collect();
    let name = BlobName::parse(&format!("{}/{blob}{suffix}", election.container())).ok()?;
    (name != *election).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn scratch_name_extends_the_election_blob() {
        let election = BlobName::parse("jobs/a b").unwrap();
        let mut scratch = Scratch::new(&election, 0xab).unwrap();
        assert_eq!(scratch.name().to_string(), "jobs/a b.check-00000000000000ab");
        scratch.removable = false;
        assert_eq!(scratch.name().to_string(), "jobs/a b.check");
    }

    #[test]
    fn no_scratch_blob_if_it_would_equal_the_election_blob() {
        let election = format!("jobs/{}{PERMANENT_SUFFIX}", "a".repeat(MAX_NAME_LENGTH - PERMANENT_SUFFIX.len()));
        assert!(Scratch::new(&BlobName::parse(&election).unwrap(), 1).is_none());
    }

    proptest! {
        #[test]
        fn scratch_blob_never_equals_the_election_blob(blob in "[a-zé./]{1,30}|[é/]{900,1024}", random in any::<u64>()) {
            if let Ok(election) = BlobName::parse(&format!("jobs/{blob}"))
                && let Some(mut scratch) = Scratch::new(&election, random)
            {
                prop_assert_ne!(scratch.name(), &election);
                scratch.removable = false;
                prop_assert_ne!(scratch.name(), &election);
            }
        }
    }
}
