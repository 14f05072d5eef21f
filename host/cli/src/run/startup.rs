//! Startup of `tenure run`, `tenure check` and `tenure lock`, before the first request.

use super::candidacy::{Candidacy, CandidateFront};
use super::engine;
use crate::configuration::{Configuration, unread_variables};
use crate::output::log::Log;
use crate::settings::Elections;
use crate::settings::table::{COMMAND, HANDLER, LISTEN, NO_WORK};
use crate::supervisor::Link;
#[cfg(unix)]
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::net::SocketAddr;
use std::sync::Arc;
use tenure::RootCertificates;
use tenure::engine::{CandidateSettings, Election, Variables};
use tenure_clock::BootClock;
use tenure_server::Hosts;
use tenure_wasmtime::{ElectionComponent, Engine};
use tokio::net::TcpListener;

/// Descriptors that every process needs: the log, the listener and its connections, and the
/// connections to the storage service.
const BASE_DESCRIPTORS: u64 = 512;

/// Descriptors that an election may need at a time: timers, and the pipes or connections of its
/// turn.
const DESCRIPTORS_PER_ELECTION: u64 = 12;

/// The state of a process before its elections are validated. Validation takes time if components
/// have to be compiled.
pub(crate) struct ProcessSetup {
    pub listener: Option<TcpListener>,
    pub hosts: Hosts,
    pub authorities: RootCertificates,
    /// Notes about the whole process.
    pub notes: Vec<String>,
    /// The front of each election, in the order of the configurations.
    pub fronts: Vec<CandidateFront>,
    /// Address of the listener.
    pub address: Option<SocketAddr>,
}

/// State that the candidates of a process share.
pub(crate) struct Shared {
    pub engine: Engine,
    pub clock: BootClock,
    component: ElectionComponent,
    /// For requests outside the steps of candidates. It shares their connections.
    election: Election,
}

/// Binds the listener and prepares the fronts. If `in_use_notes` is set, a candidate with these
/// settings may already be running, so an address in use is only a note.
pub(crate) async fn set_up_process(
    clock: &BootClock,
    configurations: &mut [Configuration],
    in_use_notes: Option<&mut Vec<String>>,
) -> ProcessSetup {
    let mut listener = None;
    let (mut hosts, mut authorities) = (Hosts::default(), RootCertificates::default());
    let mut notes = Vec::new();
    if let Some(first) = configurations.first_mut() {
        listener = first.listener(in_use_notes).await;
        hosts = first.hosts();
        if first.resolved.text(&LISTEN).is_none() {
            first.check_unused_options();
        }
        authorities = first.authorities.clone();
        notes.extend(unread_variables(&first.resolved.table));
    }
    configurations.iter().filter_map(Configuration::recorded_host).for_each(|h| hosts.add(&h));
    let address = listener.as_ref().and_then(|listener| listener.local_addr().ok());
    configurations.iter_mut().for_each(|c| c.default_address(address));
    let fronts = configurations.iter().map(|c| CandidateFront::new(c, clock)).collect();
    ProcessSetup { listener, hosts, authorities, notes, fronts, address }
}

impl Shared {
    /// Loads the election component, which takes a while if it has to be compiled.
    ///
    /// # Errors
    ///
    /// Returns the reason if no candidate can run, whatever its settings.
    pub(crate) async fn load(
        (engine, clock): (Engine, BootClock),
        authorities: RootCertificates,
        log: &Log,
    ) -> Result<Self, String> {
        let (component_engine, component_clock) = (engine.clone(), clock.clone());
        let load =
            move || ElectionComponent::new(&component_engine, Variables::new(), &component_clock);
        let component = engine::load(log, "the election component", load).await;
        let component = component.map_err(|error| error.to_string())?;
        // The component and the election share connections, because their authorities are the same.
        let component = component.trusting(authorities.clone());
        let election =
            Election::new(CandidateSettings::default(), &clock).with_root_certificates(authorities);
        Ok(Self { engine, clock, component, election })
    }

    /// Validates the settings of one candidate, and loads its handler. Returns none if there are
    /// complaints.
    ///
    /// # Errors
    ///
    /// The same as for [`load`](Self::load).
    pub(crate) async fn prepare(
        &self,
        configuration: &mut Configuration,
        log: Log,
        front: CandidateFront,
    ) -> Result<Option<Candidacy>, String> {
        let Self { engine, clock, component, election } = self;
        Candidacy::prepare(engine, (component, election), clock, configuration, log, front).await
    }

    /// Prepares all candidates. Returns none if there are complaints, which are added to
    /// `elections`.
    ///
    /// # Errors
    ///
    /// The same as for [`load`](Self::load).
    pub(crate) async fn prepare_all(
        &self,
        elections: &mut Elections,
        configurations: &mut [Configuration],
        logs: Vec<Log>,
        fronts: Vec<CandidateFront>,
    ) -> Result<Option<Vec<Candidacy>>, String> {
        let count = configurations.len();
        let mut candidacies = Vec::new();
        if !self.pass_quick_check(configurations) {
            configurations.iter_mut().for_each(|configuration| configuration.compiles = false);
        }
        for ((configuration, log), front) in configurations.iter_mut().zip(logs).zip(fronts) {
            candidacies.extend(self.prepare(configuration, log, front).await?);
            elections.complain(std::mem::take(&mut configuration.complaints));
        }
        // A single invalid election prevents the start of all.
        let all = elections.complaints.is_empty() && candidacies.len() == count;
        Ok(all.then_some(candidacies))
    }

    /// Returns false if the settings of an election have a mistake that can be found before
    /// handlers are compiled.
    fn pass_quick_check(&self, configurations: &[Configuration]) -> bool {
        if !configurations.iter().any(|configuration| configuration.resolved.is_on(&HANDLER)) {
            return true;
        }
        for Configuration { complaints, settings, .. } in configurations {
            let election = self.election.with_settings(settings.clone());
            if !complaints.is_empty() || election.check().is_err() {
                return false;
            }
        }
        true
    }
}

/// Enables last wills: the supervisor uses them to release the lease of a leader that died. Returns
/// the reason if the supervisor could not detect the end of all work. An application that polls
/// survives this process, so its election has no last will.
pub(crate) fn enable_last_wills(
    configurations: &mut [Configuration],
    supervisor: Option<&Arc<Link>>,
) -> Option<String> {
    let commands = configurations.iter().any(|c| c.resolved.is_on(&COMMAND));
    if commands && !cfg!(target_os = "linux") {
        return Some(
            "on this system processes that a command leaves behind cannot be seen".to_owned(),
        );
    }
    for configuration in configurations.iter_mut().filter(|c| !c.resolved.is_on(&NO_WORK)) {
        configuration.settings.options.last_will = Some(true);
        configuration.supervisor = supervisor.cloned();
    }
    None
}

/// Raises the limit of file descriptors to the needs of `elections` elections, as far as the system
/// permits. Returns a note if the limit is too low.
///
/// The limit is not raised further: the programs of turns inherit it, and some programs iterate
/// over all possible descriptors.
#[cfg(unix)]
pub(crate) fn raise_descriptor_limit(elections: usize) -> Option<String> {
    let needed = needed_descriptors(elections);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let limit = new_descriptor_limit(current, maximum, needed)?;
    let current = Some(limit);
    let result = setrlimit(Resource::Nofile, Rlimit { current, maximum });
    (result.is_err() || limit < needed).then(|| {
        format!(
            "{elections} elections may need {needed} file descriptors at a time, more than this process may open; \
             raise its limit (ulimit -n, LimitNOFILE=)"
        )
    })
}

#[cfg(not(unix))]
pub(crate) fn raise_descriptor_limit(_: usize) -> Option<String> {
    None
}

fn needed_descriptors(elections: usize) -> u64 {
    let elections = u64::try_from(elections).unwrap_or(u64::MAX);
    elections.saturating_mul(DESCRIPTORS_PER_ELECTION).saturating_add(BASE_DESCRIPTORS)
}

/// Returns the limit to set, or none if the current one is enough. A `current` or `maximum` of none
/// means unlimited.
fn new_descriptor_limit(current: Option<u64>, maximum: Option<u64>, needed: u64) -> Option<u64> {
    let current = current.filter(|current| *current < needed)?;
    Some(maximum.map_or(needed, |maximum| needed.min(maximum)).max(current))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_as_far_as_needed_and_allowed() {
        assert_eq!(new_descriptor_limit(Some(1024), Some(500_000), needed_descriptors(1)), None);
        assert_eq!(
            new_descriptor_limit(Some(1024), Some(500_000), needed_descriptors(1000)),
            Some(needed_descriptors(1000))
        );
        assert_eq!(
            new_descriptor_limit(Some(1024), Some(4096), needed_descriptors(1000)),
            Some(4096)
        );
        assert_eq!(
            new_descriptor_limit(Some(1024), Some(1024), needed_descriptors(1000)),
            Some(1024)
        );
        assert_eq!(
            new_descriptor_limit(Some(1024), None, needed_descriptors(1000)),
            Some(needed_descriptors(1000))
        );
        assert_eq!(new_descriptor_limit(None, None, needed_descriptors(1000)), None);
    }
}
