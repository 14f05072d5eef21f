//! Steps that cannot run, because the settings are unusable now.
//!
//! Such a step decides nothing, but its event is not lost. It waits in the state, and is applied
//! first in the next step that can run. So the host sends every event only once.

use core::mem::discriminant;
use core::time::Duration;

use super::options::{Complaint, Environment, FormerFileEnvironment, SettingId};
use super::problem::{Problem, ProblemClass};
use super::report::{Event, Postponed, Report, Role};
use super::settings::Settings;
use super::variable;
use crate::protocol::candidate::{is_state, stored_secret_file};
use tenure_base::prelude::*;

/// Time until the next step of a candidate with unusable settings.
const PAUSE: Duration = Duration::from_secs(60);

impl Settings {
    /// Reads the settings of a candidate that has state. A secret file may be invalid while it is
    /// replaced, or because it was replaced wrongly. Then its former content stays in use, and the
    /// complaints are returned too. The same applies to a file that leads to another account: the
    /// record is in the first account, and the host granted no other.
    ///
    /// # Errors
    /// Same as [`Settings::read`].
    pub fn reread(
        environment: impl Environment,
        state: Option<&[u8]>,
    ) -> Result<(Self, Vec<Complaint>), Vec<Complaint>> {
        Self::reread_from(&environment, state)
    }

    pub(crate) fn reread_from(
        environment: &dyn Environment,
        state: Option<&[u8]>,
    ) -> Result<(Self, Vec<Complaint>), Vec<Complaint>> {
        let current = match Self::read_from(environment) {
            Ok(settings) if settings.file.is_none() => return Ok((settings, Vec::new())),
            read => read,
        };
        let former_file = state.and_then(stored_secret_file);
        let Some(former_file) = former_file.filter(|former| {
            current.as_ref().map_or(true, |read| read.file.as_ref() != Some(former))
        }) else {
            return current.map(|settings| (settings, Vec::new()));
        };
        let former_environment = FormerFileEnvironment { environment, file: &former_file };
        match (Self::read_from(&former_environment), current) {
            (Ok(former), Ok(settings)) if !former.has_same_account(&settings) => {
                let complaints = vec![former.account_changed(&settings, environment)];
                Ok((former, complaints))
            }
            (_, Ok(settings)) => Ok((settings, Vec::new())),
            (Ok(former), Err(complaints)) => Ok((former, complaints)),
            (Err(_), Err(complaints)) => Err(complaints),
        }
    }

    fn has_same_account(&self, other: &Self) -> bool {
        let account_address = |settings: &Self| {
            let account = &settings.account;
            (account.origin().to_string(), account.prefix().to_string(), account.name().to_string())
        };
        account_address(self) == account_address(other)
    }

    /// Returns the complaint about a file that leads from the account of `self` to that of `other`.
    fn account_changed(&self, other: &Self, environment: &dyn Environment) -> Complaint {
        let from_connection_string =
            environment.variable(variable::CONNECTION_STRING_FILE).is_some();
        let (before, current) = (&self.account, &other.account);
        Complaint {
            setting: SettingId::new(match from_connection_string {
                true => variable::CONNECTION_STRING_FILE,
                false => variable::SAS_TOKEN_FILE,
            }),
            problem: format!(
                "the file leads to the account {} at {} now, and led to {} at {} before",
                current.name(),
                current.origin(),
                before.name(),
                before.origin()
            ),
            advice: "restart this process to use another account or endpoint".into(),
        }
    }
}

impl Report {
    /// Returns the report of a step that cannot run because of these complaints. The event waits in
    /// the state.
    #[must_use]
    pub fn invalid_settings(
        state: Option<&[u8]>,
        event: Option<Event>,
        complaints: &[Complaint],
    ) -> Self {
        let mut postponed = state.map(Postponed::from_bytes).unwrap_or_default();
        // A repeated order to leave may lack the result of the turn, so the first one is kept.
        let was_leaving = postponed.events.iter().any(|known| matches!(known, Event::Leave(_)));
        if let Some(event) = event.filter(|event| !was_leaving || *event != Event::Leave(None)) {
            // The newest event of a kind supersedes the earlier ones.
            postponed.events.retain(|known| discriminant(known) != discriminant(&event));
            postponed.events.push(event);
        }
        // A candidate that never ran a step holds nothing to release.
        let is_leaving = postponed.events.iter().any(|event| matches!(event, Event::Leave(_)));
        let has_left = is_leaving && !is_state(&postponed.state);
        let state = postponed.to_bytes();
        let detail = Complaint::join_all(complaints);
        Self {
            state: state.into(),
            problems: vec![Problem { class: ProblemClass::Configuration, detail }],
            ..Self::new(if has_left { Role::Left } else { Role::Undecided }, PAUSE)
        }
    }
}
