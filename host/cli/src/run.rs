//! `tenure run`: runs candidates until a signal. `tenure observe`: runs observers, which follow
//! elections without contending.

pub(crate) mod candidacy;
mod election_lists;
pub(crate) mod engine;
pub(crate) mod handler;
mod member;
mod process;
mod ready;
pub(crate) mod startup;
mod systemd;

use crate::configuration::{Configuration, Split};
use crate::output::log::{Log, LogContext, Output, Style, WriterHandle};
use crate::output::telemetry::Telemetry;
use crate::output::{CommandResult, fail_with_complaints, fail_with_os_error};
use crate::settings::{CommandLine, Elections, ResolvedSettings};
use crate::signals::{REPEAT_WINDOW, Signals};
use crate::supervisor::{self, Link, Supervised};
use candidacy::{Candidacy, CandidateFront};
use election_lists::ElectionLists;
use process::Process;
use startup::{ProcessSetup, Shared, enable_last_wills, raise_descriptor_limit, set_up_process};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use tenure::Event;
use tenure::engine::Tasks;
use tenure_clock::BootClock;
use tenure_server::{Hosts, Roster, Server, Watcher};
use tenure_wasmtime::Engine;
use tokio::net::TcpListener;
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
    configure: fn(ResolvedSettings) -> Configuration,
    supervised: Option<Result<Supervised, String>>,
) -> CommandResult {
    // Signals are handled before the first request, so that no signal can leave a lease behind.
    let mut signals = Signals::new().map_err(fail_with_os_error)?;
    let mut reload = Signals::reload().map_err(fail_with_os_error)?;
    let clock = BootClock::new();
    let mut configured = ConfiguredElections::from_command_line(line, configure);
    let expected_candidates = configured.expected_candidates();
    let descriptor_warning = raise_descriptor_limit(expected_candidates);
    // The engine is created after that, because the limit of descriptors determines its number of
    // parallel steps.
    let engine = Engine::new().map_err(fail_with_os_error)?;
    let style = configured.log_style()?;
    let ProcessLogs { log, written, first_log, candidate_logs } =
        ProcessLogs::start(style, &configured)?;
    let tasks = Tasks::start().map_err(|error| {
        fail_with_os_error(format_args!(
            "the thread of the elections could not be started: {error}"
        ))
    })?;
    let roster = Roster::new(&clock);
    let link = supervised.as_ref().map(|supervised| connect_supervisor(supervised, &tasks, style));
    let no_will = match &link {
        Some(Ok(link)) => enable_last_wills(configured.process_configurations(), Some(link)),
        Some(Err(why)) => Some(why.clone()),
        None => None,
    };
    let ProcessSetup { listener, hosts, authorities, mut notes, mut fronts, address } =
        set_up_process(&clock, configured.process_configurations(), None).await;
    if configured.configurations.is_empty() {
        fronts.clear();
        configured.take_complaints_of_unnamed();
    }
    let server = serve(listener, &fronts, &roster, &hosts, &first_log)?;
    let watcher = Arc::new(Watcher::new(authorities.clone()));
    let ConfiguredElections { elections, configurations, .. } = &mut configured;
    let preparation = async {
        let engine_and_clock = (engine, clock.clone());
        let shared = Shared::load(engine_and_clock, authorities, &first_log).await?;
        let prepared =
            shared.prepare_all(elections, configurations, candidate_logs, fronts).await?;
        Ok::<_, String>(prepared.map(|candidacies| (shared, candidacies)))
    };
    let prepared = select! {
        biased;
        // No request was sent yet, so there is no lease to release.
        _ = signals.next() => return Ok(ExitCode::SUCCESS),
        result = preparation => result.map_err(fail_with_os_error)?,
    };
    let ConfiguredElections { mut elections, configurations, contexts, patterns, unnamed } =
        configured;
    let (shared, candidacies) =
        prepared.ok_or_else(|| fail_with_complaints(&elections.complaints))?;
    let lists = ElectionLists::new(std::mem::take(&mut elections.patterns), configure);
    // With thousands of elections, the settings take more memory than the candidates.
    drop((configurations, elections, unnamed));
    let has_warned_of_descriptors = AtomicBool::new(descriptor_warning.is_some());
    notes.extend(shared.engine.cache_problem());
    notes.extend(descriptor_warning);
    notes.extend(no_will.map(|why| {
        format!(
            "no last will ({why}): if this process dies while it leads, the other candidates wait \
             until its lease expires"
        )
    }));
    let telemetry = Telemetry::start(&roster, expected_candidates, &clock, &first_log);
    let (changed, link) = (Arc::new(Notify::new()), link.and_then(Result::ok));
    let process = Arc::new(Process {
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
        has_warned_of_descriptors,
    });
    log_starts(&candidacies, notes, &first_log);
    let mut running =
        RunningProcess { process, first_log, written, server, lists, members: JoinSet::new() };
    running.start_candidates(candidacies, contexts, &patterns);
    let supervised = supervised.as_ref().and_then(|supervised| supervised.as_ref().ok());
    Ok(running.run(&mut signals, &mut reload, supervised.map(Supervised::supervisor)).await)
}

/// The elections of a command line, and their configurations.
struct ConfiguredElections {
    elections: Elections,
    configurations: Vec<Configuration>,
    contexts: Vec<LogContext>,
    /// The index of the pattern that each election comes from. None if it comes from no pattern.
    patterns: Vec<Option<usize>>,
    /// The settings of the process, if there is no election. Empty otherwise.
    unnamed: Vec<Configuration>,
}

impl ConfiguredElections {
    fn from_command_line(
        line: &CommandLine,
        configure: fn(ResolvedSettings) -> Configuration,
    ) -> Self {
        let mut elections = Elections::from_command_line(line);
        let resolved = std::mem::take(&mut elections.resolved);
        let patterns = resolved.iter().map(|settings| settings.pattern).collect();
        let configurations: Vec<_> = resolved.into_iter().map(configure).collect();
        let contexts = configurations.iter().map(Configuration::log_context).collect();
        let template = elections.unnamed_settings().filter(|_| configurations.is_empty());
        let unnamed = template.map(configure).into_iter().collect();
        Self { elections, configurations, contexts, patterns, unnamed }
    }

    /// Returns the number of candidates to expect: the elections at the start, and the shares that
    /// this process may hold as configured.
    fn expected_candidates(&self) -> usize {
        let shares = self.configurations.iter().filter_map(|configuration| configuration.split);
        self.configurations.len() + shares.map(Split::max_held).sum::<usize>()
    }

    /// Returns the configurations that have the settings of the process. These are the same in each
    /// election.
    fn process_configurations(&mut self) -> &mut [Configuration] {
        if self.configurations.is_empty() { &mut self.unnamed } else { &mut self.configurations }
    }

    fn log_style(&mut self) -> Result<Style, ExitCode> {
        match self.process_configurations().first_mut() {
            Some(first) => Ok(first.log_style(Output::Stdout)),
            None => Err(fail_with_complaints(&self.elections.complaints)),
        }
    }

    /// Moves the complaints about the settings of the process to those about the elections.
    fn take_complaints_of_unnamed(&mut self) {
        for configuration in &mut self.unnamed {
            self.elections.complain(std::mem::take(&mut configuration.complaints));
        }
    }
}

/// The logs of a process and of its candidates.
struct ProcessLogs {
    log: Log,
    written: WriterHandle,
    /// Log of the first election, for messages about all elections. Without an election, it is
    /// `log`, which belongs to none.
    first_log: Log,
    candidate_logs: Vec<Log>,
}

impl ProcessLogs {
    fn start(style: Style, configured: &ConfiguredElections) -> Result<Self, ExitCode> {
        let (log, written) = Log::start(style).map_err(|error| {
            fail_with_os_error(format_args!("the log cannot be written: {error}"))
        })?;
        let zones = configured.configurations.iter().map(Configuration::zone);
        let candidates = configured.contexts.iter().zip(zones);
        let candidate_logs: Vec<_> =
            candidates.map(|(context, zone)| log.for_candidate(context).in_zone(zone)).collect();
        let first_log = candidate_logs.first().unwrap_or(&log).clone();
        Ok(Self { log, written, first_log, candidate_logs })
    }
}

/// Connects to the supervisor. The error is the reason why this process has none.
fn connect_supervisor(
    supervised: &Result<Supervised, String>,
    tasks: &Tasks,
    style: Style,
) -> Result<Arc<Link>, String> {
    // The link starts its tasks on this runtime.
    let _guard = tasks.runtime.enter();
    supervisor::link(supervised.as_ref().map_err(Clone::clone)?, style)
}

/// Starts to serve the listener, which then answers while components are compiled.
fn serve(
    listener: Option<TcpListener>,
    fronts: &[CandidateFront],
    roster: &Roster,
    hosts: &Hosts,
    log: &Log,
) -> Result<Option<Server>, ExitCode> {
    for front in fronts {
        roster.add(front.board.clone());
    }
    let serve = |listener| Server::serve_all(listener, roster.clone(), hosts.clone());
    let server = listener.map(serve).transpose().map_err(fail_with_os_error)?;
    if let Some(server) = &server {
        let detail = format!("listening on http://{}", server.address());
        log.event(&Event::Note { detail });
    }
    Ok(server)
}

/// Logs the start of each candidate. The notes are about the process. They follow the start of the
/// first candidate, or go to `first_log` if there is none.
fn log_starts(candidacies: &[Candidacy], mut notes: Vec<String>, first_log: &Log) {
    for candidacy in candidacies {
        candidacy.log_start(&std::mem::take(&mut notes));
    }
    notes.into_iter().for_each(|detail| first_log.event(&Event::Note { detail }));
}

/// A process that runs its elections.
struct RunningProcess {
    process: Arc<Process>,
    first_log: Log,
    written: WriterHandle,
    server: Option<Server>,
    lists: ElectionLists,
    /// The members of elections whose work is split into shares.
    members: JoinSet<()>,
}

impl RunningProcess {
    /// Starts the candidates and members. `contexts` and `patterns` have an entry for each
    /// candidate: its log context, and the index of its election's pattern.
    fn start_candidates(
        &mut self,
        candidacies: Vec<Candidacy>,
        contexts: Vec<LogContext>,
        patterns: &[Option<usize>],
    ) {
        let count = contexts.len();
        let candidates = candidacies.into_iter().zip(contexts);
        for (number, (mut candidacy, context)) in candidates.enumerate() {
            let process = &self.process;
            let (election, coordination) =
                (context.election.clone(), candidacy.coordination.take());
            let handle = match coordination {
                Some(coordination) => {
                    let member =
                        member::take_part(coordination, process.clone(), candidacy, context);
                    self.members.spawn(member);
                    None
                }
                None => Some(process.start(candidacy, context, start_delay(number, count), None)),
            };
            self.lists.record_started(election, patterns.get(number).copied().flatten(), handle);
        }
    }

    /// Runs the elections until all candidates have left, or a second signal arrives. `supervisor`
    /// is the process ID of the supervisor. Returns the exit code.
    async fn run(
        self,
        signals: &mut Signals,
        reload: &mut Signals,
        supervisor: Option<u32>,
    ) -> ExitCode {
        let Self { process, first_log, written, server, mut lists, mut members } = self;
        let supervisor = supervisor.zip(process.link.as_deref());
        let Process { roster, tasks, changed, shared, .. } = &*process;
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
        let (code, telemetry_timeout) = select! {
            () = all_ended(tasks, &mut members) => (ExitCode::SUCCESS, TELEMETRY_TIMEOUT),
            () = second_signal => (ExitCode::from(SECOND_SIGNAL), Duration::ZERO),
            // The last two never complete.
            () = lists.follow(&process, reload) => (ExitCode::SUCCESS, TELEMETRY_TIMEOUT),
            () = systemd::notify_service_manager(roster, &shared.clock, changed, leaving, supervisor) => (ExitCode::SUCCESS, TELEMETRY_TIMEOUT),
        };
        drop(server);
        members.shutdown().await;
        lists.end().await;
        process.shut_down(telemetry_timeout).await;
        // These hold the last clones of the log. The writer ends only after they are dropped.
        drop((process, first_log));
        written.wait();
        code
    }
}

/// Waits until all candidates and all members of shares have left.
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
