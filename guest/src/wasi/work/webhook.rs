//! The work of a turn: one POST to a URL.

use super::clock;
use super::host::Host;
use tenure_base::prelude::*;
use tenure_core::{Complaint, Turn};
use tenure_webhook::{Call, Credentials, Target, wanted};

/// Where turns are posted to, and what they are trusted by.
pub struct Work(Target, Credentials);

impl Work {
    /// All that keeps it from being called, before there is a turn.
    pub fn read(host: &Host) -> Result<Self, Vec<Complaint>> {
        let (target, credentials) = Target::read(&host)?;
        Ok(Self(target, credentials))
    }

    /// Posts a turn.
    pub fn run(&self, turn: Turn) -> Result<(), String> {
        let (Self(target, credentials), now) = (self, clock::wall().timestamp());
        let call = Call::of(&turn, target, credentials, now);
        match tenure_wasi::send(&call.request, call.timeout, wanted) {
            Ok(answer) => call.judge(answer.status, &answer.body),
            Err(failure) => Err(call.failed(&failure)),
        }
    }
}
