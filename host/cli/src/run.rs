//! `tenure run`: candidates until a signal. `tenure observe`: observers of the same elections, which take no part.

use super::configuration::{Configuration, Split};
use super::descriptors;
use super::judged::{Outside, Shared, leave_wills, outside};
use super::lists::Lists;
use super::log::{Log, Output};
use super::member;
use super::output::{CommandResult, fail_for_now, refuse};
use super::process::Process;
use super::settings::{CommandLine, Elections, Given};
use super::signals::{REPEATED, Signals};
use super::supervisor::{self, Supervised};
use super::systemd;
use super::telemetry::Telemetry;
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

/// A second signal did not wait for the lease to be released.
const IMPATIENT: u8 = 1;

/// Candidates of one process begin one after the other.
const APART: Duration = Duration::from_millis(2);

/// All of them have begun by then: the shortest of the usual periods, that of polls.
const WITHIN: Duration = Duration::from_secs(3);

/// How long a collector is waited for that is to take the last spans and figures.
const LAST_SPANS: Duration = Duration::from_secs(2);

/// Observes the elections. There is nothing to supervise.
pub(super) async fn observe(line: &CommandLine) -> CommandResult {
    take_part(line, Configuration::of_observe, None).await
}

/// Runs the elections in this process, which has a supervisor, or the reason why it has none.
pub(super) async fn run(
    line: &CommandLine,
    supervised: Result<Supervised, String>,
) -> CommandResult {
    take_part(line, Configuration::of_run, Some(supervised)).await
}

async fn take_part(
    line: &CommandLine,
    configuration: fn(Given) -> Configuration,
    supervised: Option<Result<Supervised, String>>,
) -> CommandResult {
    // Before anything is sent: a signal in between must not leave a lease behind.
    let mut signals = Signals::new().map_err(fail_for_now)?;
    let mut reload = Signals::reload().map_err(fail_for_now)?;
    let clock = BootClock::new();
    let mut elections = Elections::of(line);
    let given = std::mem::take(&mut elections.given);
    let patterns: Vec<_> = given.iter().map(|given| given.pattern).collect();
    let mut configurations: Vec<_> = given.into_iter().map(configuration).collect();
    let candidates: Vec<_> = configurations.iter().map(Configuration::whose).collect();
    let zones: Vec<_> = configurations.iter().map(Configuration::zone).collect();
    let count = candidates.len();
    let shares = configurations.iter().filter_map(|configuration| configuration.split);
    let places = count + shares.map(Split::most_here).sum::<usize>();
    let short = descriptors::make_room(places);
    // How many steps it takes at a time depends on that.
    let engine = Engine::new().map_err(fail_for_now)?;
    // What holds for the process is the same in each of them.
    let kind = elections.unnamed().filter(|_| count == 0);
    let mut of_kind: Vec<_> = kind.map(configuration).into_iter().collect();
    let of_process = if count == 0 { &mut of_kind } else { &mut configurations };
    let first = of_process.first_mut().ok_or_else(|| refuse(&elections.complaints))?;
    let style = first.log_style(Output::Stdout);
    let (log, written) = Log::start(style)
        .map_err(|error| fail_for_now(format_args!("the log cannot be written: {error}")))?;
    let logs = candidates.iter().zip(zones);
    let logs: Vec<_> = logs.map(|(whose, zone)| log.of(whose).in_zone(zone)).collect();
    // What concerns all of them is told of the first.
    let own_log = logs.first().unwrap_or(&log).clone();
    let tasks = Tasks::start().map_err(|error| {
        fail_for_now(format_args!("the thread of the elections could not be started: {error}"))
    })?;
    let roster = Roster::new(&clock);
    let link = supervised.as_ref().map(|supervised| {
        // What it is told comes from there.
        let _there = tasks.runtime.enter();
        supervisor::link(supervised.as_ref().map_err(Clone::clone)?, style)
    });
    let no_will = match &link {
        Some(Ok(link)) => leave_wills(of_process, Some(link)),
        Some(Err(why)) => Some(why.clone()),
        None => None,
    };
    let Outside { listener, hosts, authorities, notes: mut also, mut fronts, address } =
        outside(&engine, &clock, of_process, None).await;
    if count == 0 {
        fronts.clear();
        of_kind.iter_mut().for_each(|of| elections.complain(std::mem::take(&mut of.complaints)));
    }
    // Whoever asks is answered while components are compiled.
    for front in &fronts {
        roster.add(front.board.clone());
    }
    let serve = |listener| Server::serve_all(listener, roster.clone(), hosts.clone());
    let server = listener.map(serve).transpose().map_err(fail_for_now)?;
    if let Some(server) = &server {
        let detail = format!("listening on http://{}", server.address());
        own_log.event(&Event::Note { detail });
    }
    let watcher = Arc::new(Watcher::new(authorities.clone()));
    let judging = async {
        let of = (engine, clock.clone());
        let shared = Shared::load(of, authorities, &own_log).await?;
        let judged = shared.judge_all(&mut elections, &mut configurations, logs, fronts).await?;
        Ok::<_, String>(judged.map(|candidacies| (shared, candidacies)))
    };
    let judged = select! {
        biased;
        // Nothing was sent yet.
        _ = signals.next() => return Ok(ExitCode::SUCCESS),
        judged = judging => judged.map_err(fail_for_now)?,
    };
    let (shared, candidacies) = judged.ok_or_else(|| refuse(&elections.complaints))?;
    let mut lists = Lists::new(std::mem::take(&mut elections.patterns), configuration);
    // Of thousands, what was written takes more room than what came of it.
    drop((configurations, elections, of_kind));
    let is_short = AtomicBool::new(short.is_some());
    also.extend(short);
    also.extend(no_will.map(|why| {
        format!("no last will ({why}): if this process dies while it leads, the others wait until its lease expires")
    }));
    let telemetry = Telemetry::start(&roster, places, &clock, &own_log);
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
        short: is_short,
    };
    let process = Arc::new(process);
    let mut members = JoinSet::new();
    for candidacy in &candidacies {
        candidacy.begin(&std::mem::take(&mut also));
    }
    // What concerns all of them, where there is none.
    also.into_iter().for_each(|detail| own_log.event(&Event::Note { detail }));
    for (number, (mut candidacy, whose)) in candidacies.into_iter().zip(candidates).enumerate() {
        let (election, coordination) = (whose.election.clone(), candidacy.coordination.take());
        let handle = match coordination {
            Some(coordination) => {
                members.spawn(member::take_part(coordination, process.clone(), candidacy, whose));
                None
            }
            None => Some(process.begin(candidacy, whose, beginning(number, count), None)),
        };
        lists.began(election, patterns.get(number).copied().flatten(), handle);
    }
    let supervised = supervised.as_ref().and_then(|supervised| supervised.as_ref().ok());
    let supervisor = supervised.map(Supervised::supervisor).zip(process.link.as_deref());
    let Process { roster, tasks, changed, .. } = &*process;
    let insisted = async {
        signals.next().await;
        tasks.leave();
        changed.notify_one();
        // The same request may arrive more than once, from a service manager and from the terminal.
        let heard = Instant::now();
        while heard.elapsed() < REPEATED {
            signals.next().await;
        }
    };
    let leaving = || tasks.is_leaving();
    let (code, last_spans) = select! {
        () = ended(tasks, &mut members) => (ExitCode::SUCCESS, LAST_SPANS),
        () = insisted => (ExitCode::from(IMPATIENT), Duration::ZERO),
        () = lists.follow(&process, &mut reload) => (ExitCode::SUCCESS, LAST_SPANS),
        () = systemd::keep_informed(roster, &clock, changed, leaving, supervisor) => (ExitCode::SUCCESS, LAST_SPANS),
    };
    drop(server);
    members.shutdown().await;
    lists.end().await;
    process.end(last_spans).await;
    // The last clones of the log go with them.
    drop((process, own_log));
    written.wait();
    Ok(code)
}

/// Completes when all were told to leave and have ended, members for shares too.
async fn ended(tasks: &Tasks, members: &mut JoinSet<()>) {
    let members = async {
        while let Some(ended) = members.join_next().await {
            if let Some(panic) = ended.err().and_then(|error| error.try_into_panic().ok()) {
                std::panic::resume_unwind(panic);
            }
        }
    };
    join!(tasks.ended(), members);
}

/// How long a candidate waits before it begins: many that began at once would come together for ever after, with each
/// renewal and each poll.
fn beginning(number: usize, of: usize) -> Duration {
    let (number, of) =
        (u32::try_from(number).unwrap_or(u32::MAX), u32::try_from(of).unwrap_or(u32::MAX));
    APART.min(WITHIN / of.max(1)).saturating_mul(number)
}
