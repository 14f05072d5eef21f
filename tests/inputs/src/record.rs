//! The record and the side blobs, as commands that only look read them.

use tenure_azure::name::SideBlob;
use tenure_azure::{Answer, Operation};
use tenure_core::{Look, Record, Settings, listed, trigger};

use crate::answer::{Written, pieces, wall};

pub(crate) fn settings(more: &[(&str, &str)]) -> Settings {
    let common = [
        ("TENURE_ELECTION", "leases/leader"),
        ("TENURE_NAME", "ada"),
        ("TENURE_EVERY", "1m"),
        ("AZURE_STORAGE_CONNECTION_STRING", "UseDevelopmentStorage=true"),
    ];
    let all = [more, &common].concat();
    let variable = |wanted: &str| {
        let found = all.iter().find(|(name, _)| *name == wanted);
        found.map(|(_, value)| (*value).to_owned())
    };
    Settings::read(variable).expect("these settings are valid")
}

/// The answer to a read of the election's blob, and one to a read of a side blob. A record that is accepted is the same
/// after it was written and read again.
pub fn record(data: &[u8]) {
    let settings = settings(&[]);
    let mut answers = pieces(data).filter_map(Written::read);
    let mut answer = |operation: &Operation| {
        let written = answers.next()?;
        let read = Answer::read(operation, written.status, &written.headers);
        Some(read.with_body(written.body))
    };
    let Some(election) = answer(&Operation::Read { lease: None }) else { return };
    if let Some(properties) = &election.properties
        && let Ok(Some(record)) = Record::read(&properties.metadata)
    {
        let written = record.write();
        let again = Record::read(&written).expect("it was written by this version");
        assert_eq!(again.map(|record| record.write()), Some(written));
    }
    let _ = Look::read(&election, &settings, wall());
    let Some(beside) = answer(&Operation::ReadSideBlob(SideBlob::Orders)) else { return };
    let _ = listed(&beside, &settings);
    for place in [false, true] {
        let _ = trigger(("by-hand", place), (&beside, &election), &settings, wall());
    }
}
