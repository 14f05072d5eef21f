//! The work of a turn: one POST to a URL.

use super::host::Host;
use tenure_base::prelude::*;
use tenure_core::{Complaint, Settings, Turn, TurnId};
use tenure_webhook::{Call, Target, wanted};

/// Where turns are posted to.
pub struct Work(Target);

impl Work {
    /// All that keeps it from being called, before there is a turn.
    pub fn read(host: &Host) -> Result<Self, Vec<Complaint>> {
        Target::read(|name| host.get(name)).map(Self)
    }

    /// Posts a turn.
    pub fn run(&self, turn: Turn, settings: &Settings) -> Result<(), String> {
        let call = Call::of(&turn, &TurnId::of(&turn, settings), &self.0);
        match tenure_wasi::send(&call.request, call.timeout, wanted) {
            Ok(answer) => call.judge(answer.status, &answer.body),
            Err(failure) => Err(call.failed(&failure)),
        }
    }
}
