//! The examination's scratch blob, next to the election's.

use tenure_azure::BlobName;

/// Maximum length of a blob name, in characters.
const MAX_NAME_LENGTH: usize = 1024;

/// Suffix of a scratch blob that cannot be deleted. Later examinations use it again.
const PERMANENT_SUFFIX: &str = ".check";

/// Names of the scratch blob.
pub(super) struct Scratch {
    temporary: BlobName,
    permanent: BlobName,
    /// True if the blob can be deleted. Assumed until a delete request was refused.
    pub removable: bool,
}

impl Scratch {
    /// Returns the names for the blob of an election, or none if that name is too long. `random`
    /// keeps concurrent examinations apart.
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

/// Appends the suffix, and truncates a name that is too long. Never returns the election's own
/// name.
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
        let election = format!(
            "jobs/{}{PERMANENT_SUFFIX}",
            "a".repeat(MAX_NAME_LENGTH - PERMANENT_SUFFIX.len())
        );
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
