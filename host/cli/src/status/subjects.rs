//! The elections that `tenure status` shows.

use crate::configuration::Configuration;
use crate::output::complain;
use crate::settings::table::{INTERVAL, JSON};
use crate::settings::{CommandLine, Elections};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tenure::engine::{CandidateSettings, Election};
use tenure_clock::BootClock;

/// The number of elections that are read at the same time.
pub(super) const AT_ONCE: usize = 16;

/// An election with settings in which there is nothing wrong.
pub(super) struct Subject {
    pub election: String,
    pub configuration: Configuration,
    pub reached: Arc<Election>,
}

/// The elections that are meant.
pub(super) struct Subjects {
    pub each: Vec<Subject>,
    /// True if they are all that a file has, so that they are shown as a list.
    pub all_of_a_file: bool,
    pub json: bool,
    /// The value of `--interval`.
    pub interval: Option<Duration>,
}

impl Subjects {
    /// Validates the settings of all of them. Sends nothing.
    ///
    /// # Errors
    ///
    /// The exit code, once it was written why nothing can be read.
    pub(super) fn of(line: &CommandLine, clock: &BootClock) -> Result<Self, ExitCode> {
        let json = line.has(&JSON);
        let mut elections = Elections::of(line);
        let shared = Election::new(CandidateSettings::default(), clock);
        let (mut each, mut interval) = (Vec::new(), None);
        for given in std::mem::take(&mut elections.given) {
            let mut configuration = Configuration::of_look(given);
            let reached = Arc::new(configuration.reach(&shared).0);
            interval = configuration.duration(&INTERVAL);
            elections.complain(std::mem::take(&mut configuration.complaints));
            each.push(Subject { election: configuration.election(), configuration, reached });
        }
        if !elections.complaints.is_empty() {
            return Err(complain(&elections.complaints, json));
        }
        Ok(Self { each, all_of_a_file: elections.all_of_a_file, json, interval })
    }
}
