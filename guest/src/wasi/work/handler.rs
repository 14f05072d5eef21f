//! The work of a turn: the leader handler that is plugged in.

use super::bindings::tenure::election::leader_handler::on_tick;
use super::convert::Convert as _;
use super::host::Host;
use tenure_base::prelude::*;
use tenure_core::{Complaint, Turn};

/// The handler. It validates its settings itself, in its turns.
pub struct Work;

impl Work {
    pub fn read(_: &Host) -> Result<Self, Vec<Complaint>> {
        Ok(Self)
    }

    /// Runs a turn.
    pub fn run(&self, turn: Turn) -> Result<(), String> {
        on_tick(&turn.convert())
    }
}
