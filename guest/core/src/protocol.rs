//! The phases of a candidate, and what each sends and decides. protocol.md §4, §5, §7, §13.

pub(crate) mod acquiring;
pub(crate) mod candidate;
pub(crate) mod context;
pub(crate) mod failover;
pub(crate) mod handing_over;
pub(crate) mod health;
pub(crate) mod holding;
pub(crate) mod last_will;
pub(crate) mod one_turn;
pub(crate) mod phase;
pub(crate) mod pulse;
pub(crate) mod raising;
pub(crate) mod releasing;
pub(crate) mod steering;
pub(crate) mod watching;
