//! The work of a turn: one POST to a URL.

use super::clock;
use super::host::Host;
use tenure_base::prelude::*;
use tenure_core::{Complaint, Turn};
use tenure_webhook::{Call, Credentials, Target, body_limit};

/// The target of the calls, and their credentials.
pub struct Work(Target, Credentials);

impl Work {
    /// Reads the target and the credentials. Returns all complaints before there is a turn.
    pub fn read(host: &Host) -> Result<Self, Vec<Complaint>> {
        let (target, credentials) = Target::read(&host)?;
        Ok(Self(target, credentials))
    }

    /// Posts a turn.
    pub fn run(&self, turn: Turn) -> Result<(), String> {
        let (Self(target, credentials), now) = (self, clock::wall().timestamp());
        let call = Call::new(&turn, target, credentials, now);
        match tenure_wasi::send(&call.request, call.timeout, body_limit) {
            Ok(answer) => call.check_response(answer.status, &answer.body),
            Err(failure) => Err(call.failure_text(&failure)),
        }
    }
}
