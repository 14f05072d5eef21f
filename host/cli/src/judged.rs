//! What `tenure run` judges before it sends anything, and `tenure check` and `tenure lock` too.

use super::candidacy::{Candidacy, Front};
use super::configuration::Configuration;
use super::engine;
use super::log::Log;
use super::settings::Elections;
use super::settings::table::{COMMAND, HANDLER, LISTEN, NO_WORK};
use super::supervisor::Link;
use super::variables;
use std::net::SocketAddr;
use std::sync::Arc;
use tenure::RootCertificates;
use tenure::engine::{CandidateSettings, Election, Variables};
use tenure_clock::BootClock;
use tenure_server::Hosts;
use tenure_wasmtime::{ElectionComponent, Engine};
use tokio::net::TcpListener;

/// What a process is to the outside, before its elections are judged: that takes its time where components have
/// to be compiled.
pub(super) struct ProcessSetup {
    pub listener: Option<TcpListener>,
    pub hosts: Hosts,
    pub authorities: RootCertificates,
    /// What people should know that concerns the whole process.
    pub notes: Vec<String>,
    /// One for each election.
    pub fronts: Vec<Front>,
    /// Where it listens.
    pub address: Option<SocketAddr>,
}

/// What the candidates of a process are judged with, and have in common afterwards.
pub(super) struct Shared {
    pub engine: Engine,
    pub clock: BootClock,
    component: ElectionComponent,
    /// For requests beside the steps of candidates: they share its connections.
    election: Election,
}

/// Binds the listener. With `beside`, a candidate with these settings may be running: what that would use already
/// is told there.
pub(super) async fn set_up_process(
    engine: &Engine,
    clock: &BootClock,
    configurations: &mut [Configuration],
    in_use_notes: Option<&mut Vec<String>>,
) -> ProcessSetup {
    let mut listener = None;
    let (mut hosts, mut authorities) = (Hosts::default(), RootCertificates::default());
    let mut notes: Vec<String> = engine.cache_problem().map(str::to_owned).into_iter().collect();
    if let Some(first) = configurations.first_mut() {
        listener = first.listener(in_use_notes).await;
        hosts = first.hosts();
        if first.resolved.text(&LISTEN).is_none() {
            first.check_unused_options();
        }
        authorities = first.authorities.clone();
        notes.extend(variables::unread(&first.resolved.table));
    }
    configurations.iter().filter_map(Configuration::recorded_host).for_each(|h| hosts.add(&h));
    let address = listener.as_ref().and_then(|listener| listener.local_addr().ok());
    configurations.iter_mut().for_each(|c| c.default_address(address));
    let fronts = configurations.iter().map(|c| Front::new(c, clock)).collect();
    ProcessSetup { listener, hosts, authorities, notes, fronts, address }
}

impl Shared {
    /// Loads the election component, which takes a while where it has to be compiled.
    ///
    /// # Errors
    ///
    /// Why there can be no candidate, whatever the settings are.
    pub(super) async fn load(
        (engine, clock): (Engine, BootClock),
        authorities: RootCertificates,
        log: &Log,
    ) -> Result<Self, String> {
        let (component_engine, component_clock) = (engine.clone(), clock.clone());
        let load = move || ElectionComponent::new(&component_engine, Variables::new(), &component_clock);
        let component = engine::load(log, "the election component", load).await;
        // Those who trust the same servers share their connections too.
        let component = component.map_err(|error| error.to_string())?;
        let component = component.trusting(authorities.clone());
        let election = Election::new(CandidateSettings::default(), &clock).with_root_certificates(authorities);
        Ok(Self { engine, clock, component, election })
    }

    /// Judges the settings of one candidate, and loads its handler; none when there is something to complain about.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub(super) async fn prepare(
        &self,
        configuration: &mut Configuration,
        log: Log,
        front: Front,
    ) -> Result<Option<Candidacy>, String> {
        let Self { engine, clock, component, election } = self;
        Candidacy::prepare(engine, (component, election), clock, configuration, log, front).await
    }

    /// Judges those of all; none when there is something to complain about, which is added to `elections`.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub(super) async fn prepare_all(
        &self,
        elections: &mut Elections,
        configurations: &mut [Configuration],
        logs: Vec<Log>,
        fronts: Vec<Front>,
    ) -> Result<Option<Vec<Candidacy>>, String> {
        let count = configurations.len();
        let mut candidacies = Vec::new();
        if !self.are_valid(configurations) {
            configurations.iter_mut().for_each(|configuration| configuration.compiles = false);
        }
        for ((configuration, log), front) in configurations.iter_mut().zip(logs).zip(fronts) {
            candidacies.extend(self.prepare(configuration, log, front).await?);
            elections.complain(std::mem::take(&mut configuration.complaints));
        }
        // One that cannot begin means that none does.
        let all = elections.complaints.is_empty() && candidacies.len() == count;
        Ok(all.then_some(candidacies))
    }

    /// Returns false if an election has a mistake that can be found before a handler of another one is compiled.
    fn are_valid(&self, configurations: &[Configuration]) -> bool {
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

/// Has leaders leave last wills with their supervisor, unless it could not know that all work is over: why not. An
/// application that asks goes on whatever becomes of the process, and is told of where it is the work.
pub(super) fn leave_wills(
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
