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
pub(super) const MAX_CONCURRENT: usize = 16;

/// An election with valid settings.
pub(super) struct Subject {
    pub election: String,
    pub configuration: Configuration,
    pub handle: Arc<Election>,
}

/// The elections of the command line.
pub(super) struct Subjects {
    pub subjects: Vec<Subject>,
    /// True if the elections are a whole file, which is shown as a list.
    pub is_whole_file: bool,
    pub json: bool,
    /// The value of `--interval`.
    pub interval: Option<Duration>,
}

impl Subjects {
    /// Validates the settings of all elections. Sends nothing.
    ///
    /// # Errors
    ///
    /// Returns the exit code, after printing the complaints.
    pub(super) fn from_command_line(
        line: &CommandLine,
        clock: &BootClock,
    ) -> Result<Self, ExitCode> {
        let json = line.has(&JSON);
        let mut elections = Elections::from_command_line(line);
        let shared = Election::new(CandidateSettings::default(), clock);
        let (mut subjects, mut interval) = (Vec::new(), None);
        for resolved in std::mem::take(&mut elections.resolved) {
            let mut configuration = Configuration::for_status(resolved);
            let handle = Arc::new(configuration.resolve_election(&shared).0);
            interval = configuration.duration(&INTERVAL);
            elections.complain(std::mem::take(&mut configuration.complaints));
            subjects.push(Subject { election: configuration.election(), configuration, handle });
        }
        if !elections.complaints.is_empty() {
            return Err(complain(&elections.complaints, json));
        }
        Ok(Self { subjects, is_whole_file: elections.is_whole_file, json, interval })
    }
}
