//! Steps that cannot be made, because the settings cannot be used now.
//!
//! Such a step decides nothing, but its event is not lost: it waits in the state, and comes first in the
//! next step that can be made. So every event that a host told once has been told.

use core::mem::discriminant;
use core::time::Duration;

use super::candidate::{files_of, recalls};
use super::environment::{Environment, Remembered};
use super::problem::{Problem, ProblemClass};
use super::report::{Event, Report, Role};
use super::settings::{Complaint, Settings};
use super::state::Postponed;
use tenure_base::prelude::*;

/// How long until a candidate whose settings cannot be used is to be asked again.
const PAUSE: Duration = Duration::from_secs(60);

impl Settings {
    /// As [`Settings::read`] for a candidate that has state: where the settings cannot be used,
    /// because a file is just being replaced or replaced wrongly, all files are what they were when
    /// they last could. The complaints are reported beside that.
    ///
    /// # Errors
    /// As [`Settings::read`].
    pub fn read_on(
        environment: impl Environment,
        state: Option<&[u8]>,
    ) -> Result<(Self, Vec<Complaint>), Vec<Complaint>> {
        let complaints = match Self::read_from(&environment) {
            Ok(settings) => return Ok((settings, Vec::new())),
            Err(complaints) => complaints,
        };
        let Some(files) = state.and_then(files_of) else { return Err(complaints) };
        let remembered = Remembered { environment: &environment, files: &files };
        match Self::read_from(&remembered) {
            Ok(settings) => Ok((settings, complaints)),
            Err(_) => Err(complaints),
        }
    }
}

impl Report {
    /// The report of a step that cannot be made, for these reasons.
    #[must_use]
    pub fn undone(state: Option<&[u8]>, event: Option<Event>, complaints: &[Complaint]) -> Self {
        let mut postponed = state.map(Postponed::read).unwrap_or_default();
        // A wish to leave that is repeated may not know how the turn ended.
        let known = postponed.events.iter().any(|known| matches!(known, Event::Leave(_)));
        if let Some(event) = event.filter(|event| !known || *event != Event::Leave(None)) {
            // The newest of a kind says what those before said, and more.
            postponed.events.retain(|known| discriminant(known) != discriminant(&event));
            postponed.events.push(event);
        }
        // Who never made a step holds nothing that could be given back.
        let leaves = postponed.events.iter().any(|event| matches!(event, Event::Leave(_)));
        let left = leaves && !recalls(&postponed.state);
        let state = postponed.written();
        let detail = Complaint::sentences(complaints);
        Self {
            state,
            role: if left { Role::Left } else { Role::Undecided },
            wins_within: None,
            ending: None,
            renewed: false,
            wind_down: false,
            wind_down_limit: None,
            successor: None,
            promise: None,
            turns: None,
            run: None,
            problems: vec![Problem { class: ProblemClass::Configuration, detail }],
            candidates: None,
            exchanges: Vec::new(),
            service_time: None,
            again_in: PAUSE,
        }
    }
}
