//! Steps that cannot be made, because the settings cannot be used now.
//!
//! Such a step decides nothing, but its event is not lost: it waits in the memory, and comes first in the
//! next step that can be made. So every event that a host told once has been told.

use core::mem::discriminant;
use core::time::Duration;

use super::candidate::recalls;
use super::report::{Event, Report, Standing};
use super::settings::Complaint;
use super::trouble::{Trouble, TroubleClass};
use crate::state;
use serde::{Deserialize, Serialize};
use tenure_base::prelude::*;

/// What such a memory begins with; no version of another one has this number.
const POSTPONED: u8 = u8::MAX;

/// How long until a candidate whose settings cannot be used is to be asked again.
const PAUSE: Duration = Duration::from_secs(60);

/// What waits, and the memory of the last step that was made.
#[derive(Default, Serialize, Deserialize)]
struct Postponed {
    events: Vec<Event>,
    memory: Vec<u8>,
}

impl Postponed {
    fn read(memory: &[u8]) -> Self {
        match memory.split_first() {
            Some((&POSTPONED, rest)) => state::read(rest).unwrap_or_default(),
            _ => Self { events: Vec::new(), memory: memory.into() },
        }
    }
}

/// The events that wait in a memory, and the memory of the last step that was made.
pub(super) fn split(memory: &[u8]) -> (Vec<Event>, Vec<u8>) {
    let Postponed { events, memory } = Postponed::read(memory);
    (events, memory)
}

impl Report {
    /// The report of a step that cannot be made, for these reasons.
    #[must_use]
    pub fn undone(memory: Option<&[u8]>, event: Option<Event>, complaints: &[Complaint]) -> Self {
        let mut postponed = memory.map(Postponed::read).unwrap_or_default();
        // A wish to leave that is repeated may not know how the turn ended.
        let known = postponed.events.iter().any(|known| matches!(known, Event::Leave(_)));
        if let Some(event) = event.filter(|event| !known || *event != Event::Leave(None)) {
            // The newest of a kind says what those before said, and more.
            postponed.events.retain(|known| discriminant(known) != discriminant(&event));
            postponed.events.push(event);
        }
        // Who never made a step holds nothing that could be given back.
        let leaves = postponed.events.iter().any(|event| matches!(event, Event::Leave(_)));
        let left = leaves && !recalls(&postponed.memory);
        let memory = state::written(POSTPONED, &postponed);
        let detail = Complaint::sentences(complaints);
        Self {
            memory,
            standing: if left { Standing::Left } else { Standing::Undecided },
            ending: None,
            renewed: false,
            wind_down: false,
            heir: None,
            run: None,
            trouble: vec![Trouble { class: TroubleClass::Configuration, detail }],
            exchanges: Vec::new(),
            again_in: PAUSE,
        }
    }
}
