//! The handler: one POST for each turn.

use core::time::Duration;

use super::{Call, Target, wanted};
use tenure_base::prelude::*;
use tenure_core::{Complaint, Timestamp, TurnId};

/// What the macro makes of `wit/`.
mod bindings {
    #![allow(unsafe_code, missing_docs, clippy::all)]
    wit_bindgen::generate!({ path: "wit", world: "leader-with-settings" });
    export!(Webhook with_types_in self);
    use super::Webhook;
}

use bindings::exports::tenure::election::handler_settings;
use bindings::exports::tenure::election::leader_handler::{self, Turn};

struct Webhook;

impl handler_settings::Guest for Webhook {
    fn check() -> Result<(), Vec<handler_settings::Complaint>> {
        let told = |complaints: Vec<Complaint>| complaints.into_iter().map(Into::into).collect();
        target().map(drop).map_err(told)
    }
}

impl leader_handler::Guest for Webhook {
    fn on_tick(turn: Turn) -> Result<(), String> {
        let target = target().map_err(|complaints| Complaint::sentences(&complaints))?;
        let (turn, id) = known(turn);
        let call = Call::of(&turn, &id, &target);
        match tenure_wasi::send(&call.request, call.timeout, wanted) {
            Ok(answer) => call.judge(answer.status, &answer.body),
            Err(failure) => Err(call.failed(&failure)),
        }
    }
}

fn target() -> Result<Target, Vec<Complaint>> {
    let variables = wasip2::cli::environment::get_environment();
    let value = |name: &str| variables.iter().find(|(known, _)| known == name);
    Target::read(|name| value(name).map(|(_, value)| value.clone()))
}

/// The same turn, as the core knows it.
fn known(turn: Turn) -> (tenure_core::Turn, TurnId) {
    let id = TurnId { election: turn.election, key: turn.key };
    let turn = tenure_core::Turn {
        term: turn.term,
        slot: Timestamp(turn.slot),
        value: turn.value,
        attempt: turn.attempt,
        past_due: turn.past_due,
        missed: turn.missed,
        valid_for: Duration::from_nanos(turn.valid_for),
        time_limit: turn.time_limit.map(Duration::from_nanos),
    };
    (turn, id)
}

impl From<Complaint> for handler_settings::Complaint {
    fn from(complaint: Complaint) -> Self {
        Self {
            setting: complaint.setting.into(),
            problem: complaint.problem,
            advice: complaint.advice,
        }
    }
}
