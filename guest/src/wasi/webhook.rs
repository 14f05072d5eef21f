//! The work of a turn, where it is built in: one POST, by [`crate::webhook`].

use super::host::Host;
use super::transport;
use crate::webhook::{Call, Target, wanted};
use tenure_base::prelude::*;
use tenure_core::{Complaint, Settings, Turn, TurnId};

/// The URL, and how it is called.
pub struct Work(Target);

impl Work {
    pub fn read(host: &Host) -> Result<Self, Vec<Complaint>> {
        Target::read(|name| host.get(name)).map(Self)
    }

    pub fn run(&self, turn: Turn, settings: &Settings) -> Result<(), String> {
        let call = Call::of(&turn, &TurnId::of(&turn, settings), &self.0);
        match transport::send(&call.request, call.timeout, wanted) {
            Ok(answer) => call.judge(answer.status, &answer.body),
            Err(failure) => Err(call.failed(&failure)),
        }
    }
}
