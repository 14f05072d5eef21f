//! Slots, and which of them a leader claims next. protocol.md §6.

pub(crate) mod agenda;
pub(crate) mod slots;
pub(crate) mod turn_key;
pub(crate) mod turns;
