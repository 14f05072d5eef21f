//! `tenure run`: candidates until a signal.

use super::candidacy::Candidacy;
use super::complaint;
use super::configuration::Configuration;
use super::descriptors;
use super::log::{Format, Log, Output};
use super::settings::table::{COMMAND, HEALTH_LISTEN, LISTEN, LOG};
use super::settings::{CommandLine, Elections};
use super::signals::{REPEATED, Signals, StatusSignal};
use super::supervisor::Supervised;
use super::systemd;
use super::{UNUSABLE, fail, role};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;
use tenure::clock::BootClock;
use tenure::component::{ComponentError, ElectionComponent, Engine};
use tenure::server::{Board, Hosts, Server, Watcher};
use tenure::settings::{Variables, names};
use tokio::select;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

/// A second signal did not wait for the lease to be released.
const IMPATIENT: u8 = 1;

/// Runs the elections in this process, which has a supervisor, or the reason why it has none.
pub(super) async fn run(line: &CommandLine, supervised: Result<Supervised, String>) -> ExitCode {
    // Before anything is sent: a signal in between must not leave a lease behind.
    let (mut signals, mut status) = match (Signals::new(), StatusSignal::new()) {
        (Ok(signals), Ok(status)) => (signals, status),
        (Err(error), _) | (_, Err(error)) => {
            return fail(format_args!("signals cannot be handled: {error}"));
        }
    };
    let engine = match Engine::new() {
        Ok(engine) => engine,
        Err(error) => return fail(format_args!("WebAssembly cannot be run here: {error:#}")),
    };
    let clock = BootClock::new();
    let mut elections = Elections::of(line);
    let given = std::mem::take(&mut elections.given);
    let mut configurations: Vec<_> = given.into_iter().map(Configuration::of_run).collect();
    let count = configurations.len();
    // What holds for the process is the same in each of them.
    let Some(of_process) = configurations.first_mut() else { return refuse(&elections) };
    let format = match of_process.word(&LOG) {
        "json" => Format::Json,
        _ => Format::Text,
    };
    let (log, written) = match Log::start(format, Output::Stdout) {
        Ok(started) => started,
        Err(error) => return fail(format_args!("the log cannot be written: {error}")),
    };
    let (candidates, which) = names_of(&configurations);
    let logs = log.shared(&candidates, &which);
    drop(log);
    let link = supervised.as_ref().map_err(Clone::clone);
    let link =
        link.and_then(|supervised| supervised.link((format, Output::Stdout), candidates, which));
    let no_will = match &link {
        Ok(_) => unseen(&configurations),
        Err(why) => Some(why.clone()),
    };
    if no_will.is_none() {
        for configuration in &mut configurations {
            configuration.settings.set(names::LAST_WILL, "true");
        }
    }
    let short = descriptors::make_room(count);
    let component = match component(&engine, &clock, &configurations) {
        Ok(component) => component,
        Err(error) => return fail(error),
    };
    let (mut listener, mut probes, mut control) = (None, None, None);
    let mut hosts = Hosts::default();
    if let Some(first) = configurations.first_mut() {
        listener = first.listener(&LISTEN).await;
        probes = first.listener(&HEALTH_LISTEN).await;
        hosts = first.hosts();
        control = first.control_token();
        if listener.is_none() {
            first.judge_unheard();
        }
    }
    configurations.iter().filter_map(Configuration::host_on_record).for_each(|h| hosts.add(&h));
    let mut also: Vec<String> = engine.uncached().map(str::to_owned).into_iter().collect();
    also.extend(configurations.first().and_then(Configuration::exposed_token));
    let watcher = Watcher::new(
        configurations.first().map(|first| first.authorities.clone()).unwrap_or_default(),
    );
    let watcher = Arc::new(watcher);
    let mut candidacies = Vec::new();
    for (mut configuration, log) in configurations.into_iter().zip(logs) {
        configuration.default_address(listener.as_ref());
        let configuration = &mut configuration;
        let judged = Candidacy::judge(&engine, &component, &clock, configuration, log);
        match judged.await {
            Ok(candidacy) => candidacies.extend(candidacy),
            Err(problem) => return fail(problem),
        }
        elections.complain(std::mem::take(&mut configuration.complaints));
    }
    // One that cannot begin means that none does.
    if !elections.complaints.is_empty() || candidacies.len() < count {
        return refuse(&elections);
    }

    let boards: Vec<Arc<Board>> = candidacies.iter().map(|c| c.board.clone()).collect();
    let shown = candidacies.iter().map(|c| (c.board.clone(), c.control(control.as_ref())));
    let serve = |listener| Server::serve_all(listener, shown.collect(), &clock, hosts);
    let answer = |listener| Server::probes(listener, boards.clone(), &clock);
    let served = (listener.map(serve).transpose(), probes.map(answer).transpose());
    let (server, probes) = match served {
        (Ok(server), Ok(probes)) => (server, probes),
        (Err(error), _) | (_, Err(error)) => return fail(error),
    };
    let at = |server: &Option<Server>, words| {
        server.as_ref().map(|server| format!("{words} on http://{}", server.address()))
    };
    also.extend(at(&server, "listening"));
    also.extend(at(&probes, "answering probes"));
    also.extend(short);
    also.extend(no_will.map(|why| {
        format!("no last will ({why}): if this process dies while it leads, the others wait until its lease ends")
    }));
    let changed = Arc::new(Notify::new());
    let mut contenders = Vec::new();
    let link = link.ok();
    for (number, candidacy) in candidacies.into_iter().enumerate() {
        candidacy.begin(&std::mem::take(&mut also));
        let supervisor = link.clone().map(|link| (link, number));
        contenders.push(candidacy.contender(clock.clone(), &changed, &watcher, supervisor));
    }
    let supervisor = supervised.as_ref().ok().map(Supervised::supervisor).zip(link.as_deref());
    let asked = watch::Sender::new(false);
    let insisted = async {
        signals.next().await;
        asked.send_replace(true);
        changed.notify_one();
        // The same request may arrive more than once, from a service manager and from the terminal.
        let heard = Instant::now();
        while heard.elapsed() < REPEATED {
            signals.next().await;
        }
    };
    // Tasks of their own, so that what happens in one election is no work for the others.
    let mut candidates = JoinSet::new();
    for mut contender in contenders {
        let mut asked = asked.subscribe();
        candidates.spawn(async move {
            contender.run(async { drop(asked.wait_for(|asked| *asked).await) }).await;
            contender.end().await;
        });
    }
    let code = select! {
        () = all(&mut candidates) => ExitCode::SUCCESS,
        () = insisted => ExitCode::from(IMPATIENT),
        () = role::on_signal(&mut status, &boards, &clock, format) => ExitCode::SUCCESS,
        () = systemd::keep_informed(&boards, &clock, &changed, &asked, supervisor) => ExitCode::SUCCESS,
    };
    drop((server, probes));
    // The last clones of the log go with them.
    candidates.shutdown().await;
    written.wait();
    code
}

/// Ends when all of them have ended.
async fn all(candidates: &mut JoinSet<()>) {
    while let Some(ended) = candidates.join_next().await {
        if let Some(panic) = ended.err().and_then(|error| error.try_into_panic().ok()) {
            std::panic::resume_unwind(panic);
        }
    }
}

/// The component that all candidates of this process share.
fn component(
    engine: &Engine,
    clock: &BootClock,
    configurations: &[Configuration],
) -> Result<ElectionComponent, ComponentError> {
    let component = ElectionComponent::new(engine, Variables::new(), clock)?;
    // Those who trust the same servers share their connections too.
    let authorities = configurations.first().map(|first| first.authorities.clone());
    Ok(component.trusting(authorities.unwrap_or_default()))
}

fn refuse(elections: &Elections) -> ExitCode {
    complaint::print(complaint::report(&elections.complaints));
    ExitCode::from(UNUSABLE)
}

/// Why the supervisor could not know that all work is over.
fn unseen(configurations: &[Configuration]) -> Option<String> {
    let commands = configurations.iter().any(|c| c.given.is_on(&COMMAND));
    (commands && !cfg!(target_os = "linux"))
        .then(|| "on this system processes that a command leaves behind cannot be seen".to_owned())
}

/// The names of the candidates and, where there are several, of their elections: lines of the log say
/// which then.
fn names_of(configurations: &[Configuration]) -> (Vec<String>, Vec<String>) {
    let setting = |c: &Configuration, name| c.settings.get(name).unwrap_or_default().to_owned();
    let elections = configurations.iter().map(|c| setting(c, names::ELECTION));
    let elections: Vec<_> = elections.filter(|_| configurations.len() > 1).collect();
    (configurations.iter().map(|c| setting(c, names::NAME)).collect(), elections)
}
