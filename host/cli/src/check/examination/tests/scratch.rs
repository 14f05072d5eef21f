//! Tests of the names of the scratch blob.

use super::super::*;
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
    let election =
        format!("jobs/{}{PERMANENT_SUFFIX}", "a".repeat(MAX_NAME_LENGTH - PERMANENT_SUFFIX.len()));
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
