//! The record on the election's blob: reading, checking, writing, history. protocol.md §9.

pub(crate) mod history;
pub(crate) mod metadata;
pub(crate) mod next_record;
pub(crate) mod snapshot;
pub(crate) mod text;
pub(crate) mod write;
