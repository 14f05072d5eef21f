//! `tenure run`: runs candidates until a signal. `tenure observe`: runs observers, which take no
//! part.

use crate::configuration::{Configuration, Split};
use crate::output::log::{Log, Output};
use crate::output::telemetry::Telemetry;
use crate::output::{CommandResult, fail_with_complaints, fail_with_os_error};
use crate::run::descriptors;
use crate::run::election_lists::ElectionLists;
use crate::run::member;
use crate::run::process::Process;
use crate::run::startup::{ProcessSetup, Shared, leave_wills, set_up_process};
use crate::run::systemd;
use crate::settings::{CommandLine, Elections, ResolvedSettings};
use crate::signals::{REPEAT_WINDOW, Signals};
use crate::supervisor::{self, Supervised};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use tenure::Event;
use tenure::engine::Tasks;
use tenure_clock::BootClock;
use tenure_server::{Roster, Server, Watcher};
use tenure_wasmtime::Engine;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::{join, select};

/// Exit code after a second signal, which did not wait for the release of the lease.
const SECOND_SIGNAL: u8 = 1;

/// Interval between the starts of two candidates.
const START_INTERVAL: Duration = Duration::from_millis(2);

/// All candidates start within this time, which is less than the default polling interval.
const START_WINDOW: Duration = Duration::from_secs(3);

/// Time limit for a collector to accept the last spans and metrics at the exit.
const TELEMETRY_TIMEOUT: Duration = Duration::from_secs(2);

/// Observes the elections. An observer needs no supervisor.
pub(crate) async fn observe(line: &CommandLine) -> CommandResult {
    run_elections(line, Configuration::for_observe, None).await
}

/// Runs the elections in this process. `supervised` contains the reason if there is no supervisor.
pub(crate) async fn run(
    line: &CommandLine,
    supervised: Result<Supervised, String>,
) -> CommandResult {
    run_elections(line, Configuration::for_run, Some(supervised)).await
}

async fn run_elections(
    line: &CommandLine,
    configuration: fn(ResolvedSettings) -> Configuration,
    supervised: Option<Result<Supervised, String>>,
) -> CommandResult {
    // Precedes all requests, so that no signal can leave a lease behind.
    let mut signals = Signals::new().map_err(fail_with_os_error)?;
    let mut reload = Signals::reload().map_err(fail_with_os_error)?;
    let clock = BootClock::new();
    let mut elections = Elections::from_command_line(line);
    let resolved = std::mem::take(&mut elections.resolved);
    let patterns: Vec<_> = resolved.iter().map(|settings| settings.pattern).collect();
    let mut configurations: Vec<_> = resolved.into_iter().map(configuration).collect();
    let candidates: Vec<_> = configurations.iter().map(Configuration::log_context).collect();
    let zones: Vec<_> = configurations.iter().map(Configuration::zone).collect();
    let count = candidates.len();
    let shares = configurations.iter().filter_map(|configuration| configuration.split);
    let places = count + shares.map(Split::max_held).sum::<usize>();
    let descriptor_warning = descriptors::raise_limit(places);
    // The limit of descriptors determines the number of parallel steps.
    let engine = Engine::new().map_err(fail_with_os_error)?;
    // Settings of the process are the same in each election.
    let kind = elections.unnamed_settings().filter(|_| count == 0);
    let mut unnamed: Vec<_> = kind.map(configuration).into_iter().collect();
    let process_configurations = if count == 0 { &mut unnamed } else { &mut configurations };
    let first = process_configurations
        .first_mut()
        .ok_or_else(|| fail_with_complaints(&elections.complaints))?;
    let style = first.log_style(Output::Stdout);
    let (log, written) = Log::start(style)
        .map_err(|error| fail_with_os_error(format_args!("the log cannot be written: {error}")))?;
    let logs = candidates.iter().zip(zones);
    let logs: Vec<_> =
        logs.map(|(context, zone)| log.for_candidate(context).in_zone(zone)).collect();
    // Messages about all elections go to the log of the first.
    let process_log = logs.first().unwrap_or(&log).clone();
    let tasks = Tasks::start().map_err(|error| {
        fail_with_os_error(format_args!(
            "the thread of the elections could not be started: {error}"
        ))
    })?;
    let roster = Roster::new(&clock);
    let link = supervised.as_ref().map(|supervised| {
        // The supervisor's messages are sent on this runtime.
        let _guard = tasks.runtime.enter();
        supervisor::link(supervised.as_ref().map_err(Clone::clone)?, style)
    });
    let no_will = match &link {
        Some(Ok(link)) => leave_wills(process_configurations, Some(link)),
        Some(Err(why)) => Some(why.clone()),
        None => None,
    };
    let ProcessSetup { listener, hosts, authorities, mut notes, mut fronts, address } =
        set_up_process(&engine, &clock, process_configurations, None).await;
    if count == 0 {
        fronts.clear();
        unnamed
            .iter_mut()
            .for_each(|config| elections.complain(std::mem::take(&mut config.complaints)));
    }
    // The listener answers while components are compiled.
    for front in &fronts {
        roster.add(front.board.clone());
    }
    let serve = |listener| Server::serve_all(listener, roster.clone(), hosts.clone());
    let server = listener.map(serve).transpose().map_err(fail_with_os_error)?;
    if let Some(server) = &server {
        let detail = format!("listening on http://{}", server.address());
        process_log.event(&Event::Note { detail });
    }
    let watcher = Arc::new(Watcher::new(authorities.clone()));
    let preparation = async {
        let engine_and_clock = (engine, clock.clone());
        let shared = Shared::load(engine_and_clock, authorities, &process_log).await?;
        let prepared =
            shared.prepare_all(&mut elections, &mut configurations, logs, fronts).await?;
        Ok::<_, String>(prepared.map(|candidacies| (shared, candidacies)))
    };
    let prepared = select! {
        biased;
        // Nothing was sent yet.
        _ = signals.next() => return Ok(ExitCode::SUCCESS),
        judged = preparation => judged.map_err(fail_with_os_error)?,
    };
    let (shared, candidacies) =
        prepared.ok_or_else(|| fail_with_complaints(&elections.complaints))?;
    let mut lists = ElectionLists::new(std::mem::take(&mut elections.patterns), configuration);
    // With thousands of elections, the settings take more memory than the candidates.
    drop((configurations, elections, unnamed));
    let is_short = AtomicBool::new(descriptor_warning.is_some());
    notes.extend(descriptor_warning);
    notes.extend(no_will.map(|why| {
        format!("no last will ({why}): if this process dies while it leads, the others wait until its lease expires")
    }));
    let telemetry = Telemetry::start(&roster, places, &clock, &process_log);
    let (changed, link) = (Arc::new(Notify::new()), link.and_then(Result::ok));
    let process = Process {
        shared,
        tasks,
        roster,
        hosts,
        changed,
        watcher,
        telemetry,
        link,
        address,
        log,
        has_warned_of_descriptors: is_short,
    };
    let process = Arc::new(process);
    let mut members = JoinSet::new();
    for candidacy in &candidacies {
        candidacy.log_start(&std::mem::take(&mut notes));
    }
    // Without an election, the notes go to the log of the process.
    notes.into_iter().for_each(|detail| process_log.event(&Event::Note { detail }));
    for (number, (mut candidacy, context)) in candidacies.into_iter().zip(candidates).enumerate() {
        let (election, coordination) = (context.election.clone(), candidacy.coordination.take());
        let handle = match coordination {
            Some(coordination) => {
                members.spawn(member::take_part(coordination, process.clone(), candidacy, context));
                None
            }
            None => Some(process.start(candidacy, context, start_delay(number, count), None)),
        };
        lists.record_started(election, patterns.get(number).copied().flatten(), handle);
    }
    let supervised = supervised.as_ref().and_then(|supervised| supervised.as_ref().ok());
    let supervisor = supervised.map(Supervised::supervisor).zip(process.link.as_deref());
    let Process { roster, tasks, changed, .. } = &*process;
    let second_signal = async {
        signals.next().await;
        tasks.leave();
        changed.notify_one();
        // A service manager and the terminal may both send the same signal.
        let signalled_at = Instant::now();
        while signalled_at.elapsed() < REPEAT_WINDOW {
            signals.next().await;
        }
    };
    let leaving = || tasks.is_leaving();
    let (code, last_spans) = select! {
        () = all_ended(tasks, &mut members) => (ExitCode::SUCCESS, TELEMETRY_TIMEOUT),
        () = second_signal => (ExitCode::from(SECOND_SIGNAL), Duration::ZERO),
        () = lists.follow(&process, &mut reload) => (ExitCode::SUCCESS, TELEMETRY_TIMEOUT),
        () = systemd::notify_service_manager(roster, &clock, changed, leaving, supervisor) => (ExitCode::SUCCESS, TELEMETRY_TIMEOUT),
    };
    drop(server);
    members.shutdown().await;
    lists.end().await;
    process.shut_down(last_spans).await;
    // These hold the last clones of the log.
    drop((process, process_log));
    written.wait();
    Ok(code)
}

/// Waits until all candidates have left, and the members of shares too.
async fn all_ended(tasks: &Tasks, members: &mut JoinSet<()>) {
    let members = async {
        while let Some(result) = members.join_next().await {
            if let Some(panic) = result.err().and_then(|error| error.try_into_panic().ok()) {
                std::panic::resume_unwind(panic);
            }
        }
    };
    join!(tasks.join(), members);
}

/// Returns the delay before a candidate starts. Without it, the renewals and polls of many
/// candidates would always coincide.
fn start_delay(number: usize, count: usize) -> Duration {
    let (number, count) =
        (u32::try_from(number).unwrap_or(u32::MAX), u32::try_from(count).unwrap_or(u32::MAX));
    START_INTERVAL.min(START_WINDOW / count.max(1)).saturating_mul(number)
}
