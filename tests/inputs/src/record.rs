//! The record and the side blobs, as read by read-only commands.

use tenure_azure::blob::SideBlob;
use tenure_azure::{Answer, Operation};
use tenure_core::{Inspection, Record, Settings, listed, trigger};

use crate::answer::{RawAnswer, pieces, wall};

pub(crate) fn settings(overrides: &[(&str, &str)]) -> Settings {
    let defaults = [
        ("TENURE_ELECTION", "leases/leader"),
        ("TENURE_NAME", "ada"),
        ("TENURE_EVERY", "1m"),
        ("AZURE_STORAGE_CONNECTION_STRING", "UseDevelopmentStorage=true"),
    ];
    let variables = [overrides, &defaults].concat();
    let lookup = |key: &str| {
        let found = variables.iter().find(|(name, _)| *name == key);
        found.map(|(_, value)| (*value).to_owned())
    };
    Settings::read(lookup).expect("these settings are valid")
}

/// Tests the response to a read of the election's blob, and to a read of a side blob.
///
/// An accepted record survives a write and a read.
pub fn record(data: &[u8]) {
    let settings = settings(&[]);
    let mut answers = pieces(data).filter_map(RawAnswer::read);
    let mut answer = |operation: &Operation| {
        let written = answers.next()?;
        let parsed = Answer::from_parts(operation, written.status, &written.headers);
        Some(parsed.with_body(written.body))
    };
    let Some(election) = answer(&Operation::Read { lease: None }) else { return };
    if let Some(properties) = &election.properties
        && let Ok(Some(record)) = Record::from_metadata(&properties.metadata)
    {
        let written = record.to_metadata();
        let reread = Record::from_metadata(&written).expect("it was written by this version");
        assert_eq!(reread.map(|record| record.to_metadata()), Some(written));
    }
    let _ = Inspection::from_answer(&election, &settings, wall());
    let Some(orders) = answer(&Operation::ReadSideBlob(SideBlob::Orders)) else { return };
    let _ = listed(&orders, &settings);
    for is_placing in [false, true] {
        let _ = trigger(("by-hand", is_placing), (&orders, &election), &settings, wall());
    }
}
