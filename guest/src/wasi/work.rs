//! The work of a turn: the leader handler that is plugged in.

use super::bindings::tenure::election::handler_settings;
use super::bindings::tenure::election::leader_handler::on_tick;
use super::convert;
use tenure_base::prelude::*;
use tenure_core::{Complaint, Settings, Turn};

/// All that keeps the handler from its work, before there is any.
pub fn complaints() -> Vec<Complaint> {
    let told = handler_settings::check().err().unwrap_or_default();
    let known = |complaint: handler_settings::Complaint| Complaint {
        // The instance ends with this call.
        setting: complaint.setting.leak(),
        problem: complaint.problem,
        advice: complaint.advice,
    };
    told.into_iter().map(known).collect()
}

/// Runs a turn.
pub fn run(turn: Turn, settings: &Settings) -> Result<(), String> {
    on_tick(&convert::turn(turn, settings))
}
