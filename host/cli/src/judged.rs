//! What `tenure run` judges before it sends anything, and `tenure check` too.

use super::candidacy::Candidacy;
use super::configuration::Configuration;
use super::log::Log;
use super::settings::Elections;
use super::settings::table::{COMMAND, HEALTH_LISTEN, LISTEN};
use super::variables;
use tenure::clock::BootClock;
use tenure::component::{ElectionComponent, Engine};
use tenure::egress::Authorities;
use tenure::server::{ControlToken, Hosts};
use tenure::settings::{Variables, names};
use tokio::net::TcpListener;

/// All elections of a process, ready to begin.
pub(super) struct Judged {
    pub candidacies: Vec<Candidacy>,
    pub listener: Option<TcpListener>,
    pub probes: Option<TcpListener>,
    pub control: Option<ControlToken>,
    pub hosts: Hosts,
    pub authorities: Authorities,
    /// What people should know that concerns the whole process.
    pub notes: Vec<String>,
}

/// Judges all settings; none when there is something to complain about, which is added to `elections`. With
/// `beside`, a candidate with these settings may be running: what that would use already is told there.
///
/// # Errors
///
/// Why there can be no candidate, whatever the settings are.
pub(super) async fn judge(
    engine: &Engine,
    clock: &BootClock,
    elections: &mut Elections,
    mut configurations: Vec<Configuration>,
    logs: Vec<Log>,
    mut beside: Option<&mut Vec<String>>,
) -> Result<Option<Judged>, String> {
    let count = configurations.len();
    let shared = ElectionComponent::new(engine, Variables::new(), clock);
    // Those who trust the same servers share their connections too.
    let authorities = configurations.first().map(|first| first.authorities.clone());
    let authorities = authorities.unwrap_or_default();
    let shared = shared.map_err(|error| error.to_string())?.trusting(authorities.clone());
    let (mut listener, mut probes, mut control) = (None, None, None);
    let mut hosts = Hosts::default();
    let mut notes: Vec<String> = engine.uncached().map(str::to_owned).into_iter().collect();
    if let Some(first) = configurations.first_mut() {
        listener = first.listener(&LISTEN, beside.as_deref_mut()).await;
        probes = first.listener(&HEALTH_LISTEN, beside).await;
        hosts = first.hosts();
        control = first.control_token();
        if first.given.text(&LISTEN).is_none() {
            first.judge_unheard();
        }
        notes.extend(first.exposed_token());
        notes.extend(variables::unread(&first.given.table));
    }
    configurations.iter().filter_map(Configuration::host_on_record).for_each(|h| hosts.add(&h));
    let mut candidacies = Vec::new();
    for (mut configuration, log) in configurations.into_iter().zip(logs) {
        configuration.default_address(listener.as_ref());
        let configuration = &mut configuration;
        let candidacy = Candidacy::judge(engine, &shared, clock, configuration, log).await?;
        candidacies.extend(candidacy);
        elections.complain(std::mem::take(&mut configuration.complaints));
    }
    // One that cannot begin means that none does.
    let all = elections.complaints.is_empty() && candidacies.len() == count;
    Ok(all.then_some(Judged { candidacies, listener, probes, control, hosts, authorities, notes }))
}

/// Has leaders leave last wills with their supervisor, unless it could not know that all work is over: why not.
pub(super) fn leave_wills(configurations: &mut [Configuration]) -> Option<String> {
    let commands = configurations.iter().any(|c| c.given.is_on(&COMMAND));
    if commands && !cfg!(target_os = "linux") {
        return Some(
            "on this system processes that a command leaves behind cannot be seen".to_owned(),
        );
    }
    for configuration in configurations {
        configuration.settings.set(names::LAST_WILL, "true");
    }
    None
}
