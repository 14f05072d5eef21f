//! One look at an election, for `tenure status` and `tenure history`.

use super::configuration::Configuration;
use super::fail;
use super::settings::CommandLine;
use super::settings::table::JSON;
use super::status::{complain, could_not_ask};
use std::process::ExitCode;
use tenure::clock::BootClock;
use tenure::contract::Snapshot;
use tenure::settings::names;

/// What an absent blob means to those who would change something in its election.
pub(super) const NO_ELECTION: &str =
    "there is no such election: no candidate ever ran, or its blob was deleted";

/// What was seen, and by whom.
pub(super) struct Look {
    pub election: String,
    pub snapshot: Snapshot,
    pub configuration: Configuration,
    /// This machine's time of day before and after, in nanoseconds since 1970.
    pub within: (u64, u64),
}

/// Looks once.
///
/// # Errors
///
/// What the program ends with, once it is told why nothing can be seen.
pub(super) async fn look(line: &CommandLine) -> Result<Look, ExitCode> {
    let mut configuration = Configuration::of_look(line);
    let election = configuration.settings.get(names::ELECTION).unwrap_or_default().to_owned();
    let component = configuration.component(&BootClock::new()).await.map_err(fail)?;
    if !configuration.complaints.is_empty() {
        return Err(complain(&configuration.complaints, configuration.given.is_on(&JSON)));
    }
    let before = now();
    match component.inspect().await {
        Ok(Ok(snapshot)) => Ok(Look { election, snapshot, configuration, within: (before, now()) }),
        Ok(Err(problem)) => {
            Err(could_not_ask(&election, &problem, configuration.given.is_on(&JSON)))
        }
        Err(error) => Err(fail(error)),
    }
}

fn now() -> u64 {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
