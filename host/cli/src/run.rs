//! `tenure run`: candidates until a signal. `tenure observe`: observers of the same elections, which take no part.

use super::complaint;
use super::configuration::Configuration;
use super::descriptors;
use super::judged::{Outside, judge, leave_wills, outside};
use super::log::{Format, Log, Output, Style, Whose};
use super::settings::table::{LOG, LOG_LEVEL};
use super::settings::{CommandLine, Elections, Given};
use super::signals::{REPEATED, Signals, StatusSignal};
use super::supervisor::Supervised;
use super::systemd;
use super::telemetry::Telemetry;
use super::thread::ElectionThread;
use super::{UNUSABLE, fail, role};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tenure::clock::BootClock;
use tenure::component::Engine;
use tenure::runner::{Class, Event};
use tenure::server::{Board, Server, Watcher};
use tenure::settings::names;
use tokio::select;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::Level;

/// A second signal did not wait for the lease to be released.
const IMPATIENT: u8 = 1;

/// Candidates of one process begin one after the other.
const APART: Duration = Duration::from_millis(2);

/// All of them have begun by then: the shortest of the usual periods, that of polls.
const WITHIN: Duration = Duration::from_secs(3);

/// How long a collector is waited for that is to take the last spans and figures.
const LAST_SPANS: Duration = Duration::from_secs(2);

/// Observes the elections. There is nothing to supervise.
pub(super) async fn observe(line: &CommandLine) -> ExitCode {
    take_part(line, Configuration::of_observe, None).await
}

/// Runs the elections in this process, which has a supervisor, or the reason why it has none.
pub(super) async fn run(line: &CommandLine, supervised: Result<Supervised, String>) -> ExitCode {
    take_part(line, Configuration::of_run, Some(supervised)).await
}

async fn take_part(
    line: &CommandLine,
    configuration: fn(Given) -> Configuration,
    supervised: Option<Result<Supervised, String>>,
) -> ExitCode {
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
    let mut configurations: Vec<_> = given.into_iter().map(configuration).collect();
    let count = configurations.len();
    // What holds for the process is the same in each of them.
    let Some(of_process) = configurations.first_mut() else { return refuse(&elections) };
    let style = style(of_process, Output::Stdout);
    let format = style.format;
    let (log, written) = match Log::start(style) {
        Ok(started) => started,
        Err(error) => return fail(format_args!("the log cannot be written: {error}")),
    };
    let candidates: Vec<_> = configurations.iter().map(whose).collect();
    let logs = log.shared(&candidates);
    let own_log = logs.first().cloned();
    drop(log);
    let thread = match ElectionThread::start() {
        Ok(thread) => thread,
        Err(error) => return fail(format_args!("the elections have no thread: {error}")),
    };
    let link = supervised.as_ref().map(|supervised| {
        // What it is told comes from there.
        let _there = thread.runtime.enter();
        supervised.as_ref().map_err(Clone::clone)?.link(style, candidates.clone())
    });
    let no_will = match &link {
        Some(Ok(_)) => leave_wills(&mut configurations),
        Some(Err(why)) => Some(why.clone()),
        None => None,
    };
    let short = descriptors::make_room(count);
    let Outside { listener, probes, control, hosts, authorities, notes: mut also, fronts } =
        outside(&engine, &clock, &mut configurations, None).await;
    // Whoever asks is answered while components are compiled.
    let boards: Vec<Arc<Board>> = fronts.iter().map(|front| front.board.clone()).collect();
    let shown = fronts.iter().map(|front| (front.board.clone(), front.control(control.as_ref())));
    let serve = |listener| Server::serve_all(listener, shown.collect(), &clock, hosts);
    let answer = |listener| Server::probes(listener, boards.clone(), &clock);
    let served = (listener.map(serve).transpose(), probes.map(answer).transpose());
    let (server, probes) = match served {
        (Ok(server), Ok(probes)) => (server, probes),
        (Err(error), _) | (_, Err(error)) => return fail(error),
    };
    for (server, words) in [(&server, "listening"), (&probes, "answering probes")] {
        if let (Some(server), Some(log)) = (server, logs.first()) {
            let detail = format!("{words} on http://{}", server.address());
            log.event(&Event::Note { detail });
        }
    }
    let watcher = Arc::new(Watcher::new(authorities));
    let runtime = &thread.runtime;
    let judging =
        judge(&engine, &clock, &mut elections, &mut configurations, logs, fronts, runtime);
    let candidacies = select! {
        biased;
        // Nothing was sent yet.
        () = signals.next() => return ExitCode::SUCCESS,
        judged = judging => match judged {
            Ok(Some(candidacies)) => candidacies,
            Ok(None) => return refuse(&elections),
            Err(problem) => return fail(problem),
        }
    };
    // Of thousands, what was written takes more room than what came of it.
    drop((configurations, elections));
    also.extend(short);
    also.extend(no_will.map(|why| {
        format!("no last will ({why}): if this process dies while it leads, the others wait until its lease ends")
    }));
    let telemetry = own_log.map(|log| {
        Telemetry::start(&boards, &clock, &log).unwrap_or_else(|detail| {
            log.event(&Event::Problem { class: Class::Telemetry, detail });
            Telemetry::default()
        })
    });
    let telemetry = telemetry.unwrap_or_default();
    let changed = Arc::new(Notify::new());
    let mut contenders = Vec::new();
    let link = link.and_then(Result::ok);
    for (number, (candidacy, whose)) in candidacies.into_iter().zip(&candidates).enumerate() {
        candidacy.begin(&std::mem::take(&mut also));
        let supervisor = link.clone().map(|link| (link, number));
        let witness = telemetry.witness(whose);
        let contender = candidacy.contender(clock.clone(), &changed, &watcher, supervisor, witness);
        contenders.push(contender);
    }
    let supervised = supervised.as_ref().and_then(|supervised| supervised.as_ref().ok());
    let supervisor = supervised.map(Supervised::supervisor).zip(link.as_deref());
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
    for (number, mut contender) in contenders.into_iter().enumerate() {
        let (mut asked, wait) = (asked.subscribe(), beginning(number, count));
        let candidate = async move {
            let _ = timeout(wait, async { drop(asked.wait_for(|asked| *asked).await) }).await;
            contender.run(async { drop(asked.wait_for(|asked| *asked).await) }).await;
            contender.end().await;
        };
        candidates.spawn_on(candidate, &thread.runtime);
    }
    let (code, last_spans) = select! {
        () = all(&mut candidates) => (ExitCode::SUCCESS, LAST_SPANS),
        () = insisted => (ExitCode::from(IMPATIENT), Duration::ZERO),
        () = role::on_signal(&mut status, &boards, &clock, format) => (ExitCode::SUCCESS, LAST_SPANS),
        () = systemd::keep_informed(&boards, &clock, &changed, &asked, supervisor) => (ExitCode::SUCCESS, LAST_SPANS),
    };
    drop((server, probes));
    // The last clones of the log go with them.
    candidates.shutdown().await;
    telemetry.end(last_spans).await;
    written.wait();
    code
}

/// How long a candidate waits before it begins: many that began at once would come together for ever after, with each
/// renewal and each poll.
fn beginning(number: usize, of: usize) -> Duration {
    let (number, of) =
        (u32::try_from(number).unwrap_or(u32::MAX), u32::try_from(of).unwrap_or(u32::MAX));
    APART.min(WITHIN / of.max(1)).saturating_mul(number)
}

/// Ends when all of them have ended.
async fn all(candidates: &mut JoinSet<()>) {
    while let Some(ended) = candidates.join_next().await {
        if let Some(panic) = ended.err().and_then(|error| error.try_into_panic().ok()) {
            std::panic::resume_unwind(panic);
        }
    }
}

fn refuse(elections: &Elections) -> ExitCode {
    complaint::print(complaint::report(&elections.complaints));
    ExitCode::from(UNUSABLE)
}

/// How the log is to be written.
pub(super) fn style(of_process: &mut Configuration, output: Output) -> Style {
    let format = match of_process.word(&LOG) {
        "json" => Format::Json,
        _ => Format::Text,
    };
    let level = of_process.word(&LOG_LEVEL).parse().unwrap_or(Level::INFO);
    Style { format, level, output }
}

/// Whose the log of a candidate is.
pub(super) fn whose(configuration: &Configuration) -> Whose {
    let setting = |name| configuration.settings.get(name).unwrap_or_default().to_owned();
    Whose { election: setting(names::ELECTION), candidate: setting(names::NAME) }
}
