//! Steps that cannot be made, because the settings cannot be used now.
//!
//! Such a step decides nothing, but its event is not lost: it waits in the state, and comes first in the
//! next step that can be made. So every event that a host told once has been told.

use core::mem::discriminant;
use core::time::Duration;

use super::candidate::{file_of, recalls};
use super::complaint::{Complaint, SettingId};
use super::environment::{Environment, Remembered};
use super::problem::{Problem, ProblemClass};
use super::report::{Event, Report, Role};
use super::settings::Settings;
use super::state::Postponed;
use super::variable;
use tenure_base::prelude::*;

/// How long until a candidate whose settings cannot be used is to be asked again.
const PAUSE: Duration = Duration::from_secs(60);

impl Settings {
    /// Reads the settings of a candidate that has state. If they are invalid because the file with the secret is
    /// being replaced, or was replaced wrongly, its former content is used, and the complaints are reported. The same
    /// is true of a file that leads to another account: the host granted the origins of the account at the start,
    /// and the record is there.
    ///
    /// # Errors
    /// As [`Settings::read`].
    pub fn read_on(
        environment: impl Environment,
        state: Option<&[u8]>,
    ) -> Result<(Self, Vec<Complaint>), Vec<Complaint>> {
        Self::read_on_from(&environment, state)
    }

    pub(super) fn read_on_from(
        environment: &dyn Environment,
        state: Option<&[u8]>,
    ) -> Result<(Self, Vec<Complaint>), Vec<Complaint>> {
        let read = Self::read_from(environment);
        let former = state.and_then(file_of);
        let Some(former) = former
            .filter(|former| read.as_ref().map_or(true, |read| read.file.as_ref() != Some(former)))
        else {
            return read.map(|settings| (settings, Vec::new()));
        };
        let remembered = Remembered { environment, file: &former };
        match (Self::read_from(&remembered), read) {
            (Ok(before), Ok(settings)) if !before.has_account_of(&settings) => {
                let complaints = vec![before.other_account(&settings, environment)];
                Ok((before, complaints))
            }
            (_, Ok(settings)) => Ok((settings, Vec::new())),
            (Ok(before), Err(complaints)) => Ok((before, complaints)),
            (Err(_), Err(complaints)) => Err(complaints),
        }
    }

    fn has_account_of(&self, other: &Self) -> bool {
        let place = |settings: &Self| {
            let account = &settings.account;
            (account.origin().to_string(), account.prefix().to_string(), account.name().to_string())
        };
        place(self) == place(other)
    }

    /// The complaint of a candidate of this account about a file that leads to another one.
    fn other_account(&self, other: &Self, environment: &dyn Environment) -> Complaint {
        let by_string = environment.variable(variable::CONNECTION_STRING_FILE).is_some();
        let (before, now) = (&self.account, &other.account);
        Complaint {
            setting: SettingId::of(match by_string {
                true => variable::CONNECTION_STRING_FILE,
                false => variable::SAS_TOKEN_FILE,
            }),
            problem: format!(
                "the file leads to the account {} at {} now, and led to {} at {} before",
                now.name(),
                now.origin(),
                before.name(),
                before.origin()
            ),
            advice: "restart this process to use another account or endpoint".into(),
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
            state: state.into(),
            problems: vec![Problem { class: ProblemClass::Configuration, detail }],
            ..Self::of(if left { Role::Left } else { Role::Undecided }, PAUSE)
        }
    }
}
