//! `tenure lock`: runs a command once under the lease of a blob, and ends with its exit code.
//!
//! It is a candidate whose work is as long as its leadership, and which leaves when that is over.

mod obstacle;

use super::complaint::{Complaint, printable, report};
use super::configuration::Configuration;
use super::descriptors;
use super::judged::{Shared, leave_wills, outside};
use super::lock_codes::{BY_SIGNAL, FAILED, LOST, NOT_ACQUIRED, NOT_EXECUTABLE, NOT_FOUND};
use super::log::{Log, Output};
use super::output::{CommandResult, eprint, fail};
use super::settings::table::{IF_FREE, LOG, LOG_LEVEL, WAIT};
use super::settings::{CommandLine, Elections};
use super::signals::{REPEATED, Signals};
use super::supervisor::{self, Supervised};
use super::telemetry::Telemetry;
use obstacle::{Hindrance, Obstacle};
use std::cell::OnceCell;
use std::future::pending;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tenure::handler::{Attached, CommandEnd, NotRunnable};
use tenure_base::duration::format_duration;
use tenure_clock::{BootClock, Clock as _};
use tenure_server::{Board, Summary, Watcher};
use tenure_supervisor::Ended;
use tenure_wasmtime::Engine;
use tokio::select;
use tokio::signal::unix::SignalKind;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep};

/// How long the last words to the supervisor may take.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A shell sends it to a job that it puts into the foreground, where a command may go on that was stopped since it read
/// the terminal. It asks nobody to end.
const CONTINUE: i32 = rustix::process::Signal::CONT.as_raw();

/// What is handed on to the command.
const HANDED_ON: [SignalKind; 6] = [
    SignalKind::terminate(),
    SignalKind::interrupt(),
    SignalKind::quit(),
    SignalKind::user_defined1(),
    SignalKind::user_defined2(),
    SignalKind::from_raw(CONTINUE),
];

/// What it came to.
enum Course {
    /// The command ran.
    Ran(CommandEnd),
    /// Somebody else has the lock, and it was not to be waited for.
    NotFree,
    /// It was not acquired in this time.
    TooLate(Duration),
    /// The blob holds something else, or the service refuses the settings.
    Unusable,
    /// This signal came before the command ran.
    Interrupted(i32),
}

pub(super) async fn lock(
    line: &CommandLine,
    supervised: Result<Supervised, String>,
) -> CommandResult {
    let mut signals = Signals::unless_ignored(&HANDED_ON)
        .map_err(|error| failed(format_args!("signals cannot be handled: {error}")))?;
    let engine = Engine::new().map_err(failed)?;
    let clock = BootClock::new();
    let attached = Arc::new(Attached::default());
    let mut configuration = Configuration::of_lock(line, attached.clone());
    let wait = configuration.duration(&WAIT);
    let if_free = configuration.given.is_on(&IF_FREE);
    if if_free && wait.is_some() {
        let problem = "--if-free does not wait, so it cannot have a time to wait";
        configuration.complain_of_use(&WAIT, problem, "leave out one of them");
    }
    let style = configuration.log_style(Output::Stderr);
    let all = [&LOG, &LOG_LEVEL].iter().any(|setting| configuration.given.is_by_option(setting));
    let (log, written) = Log::start(style)
        .map_err(|error| failed(format_args!("the log cannot be written: {error}")))?;
    let whose = configuration.whose();
    let log = log.problems_only(!all).of(&whose);
    let link = supervised.as_ref().map_err(Clone::clone);
    let link = link.and_then(|supervised| supervisor::link(supervised, style));
    let mut configurations = [configuration];
    if let Ok(link) = &link {
        leave_wills(&mut configurations, Some(link));
    }
    descriptors::make_room(1);
    let outside = outside(&engine, &clock, &mut configurations, None).await;
    let board = outside.fronts.first().map(|front| front.board.clone());
    let board = board.ok_or(ExitCode::from(FAILED))?;
    let mut elections = Elections::default();
    let authorities = outside.authorities.clone();
    let judging = async {
        let (each, fronts) = (&mut configurations, outside.fronts);
        let shared = Shared::load((engine, clock.clone()), authorities, &log).await?;
        shared.judge_all(&mut elections, each, vec![log], fronts).await
    };
    let judged = select! {
        biased;
        // Nothing was sent yet.
        number = asked_to_end(&mut signals) => {
            return Ok(ExitCode::from(code(&Course::Interrupted(number))));
        }
        judged = judging => judged.map_err(failed)?,
    };
    let candidacy = judged.and_then(|mut candidacies| candidacies.pop()).ok_or_else(|| {
        let [Configuration { not_runnable, .. }] = configurations;
        refused(&elections.complaints, not_runnable)
    })?;

    candidacy.begin(&outside.notes);
    let changed = Arc::new(Notify::new());
    let watcher = Arc::new(Watcher::new(outside.authorities));
    let link = link.ok();
    let supervisor = link.clone().map(|link| {
        let of = supervisor::add(&link, &whose);
        (link, of)
    });
    // Of so short a life nothing is sent to a collector.
    let witness = Telemetry::default().witness(&whose);
    let mut contender =
        candidacy.contender(clock.clone(), &changed, &watcher, supervisor, witness, None);
    let course = OnceCell::new();
    let (tell, told) = oneshot::channel::<()>();
    let conduct = async {
        let taken = decide(&attached, &mut signals, async {
            let limit = async {
                match wait {
                    Some(time) => sleep(time).await,
                    None => pending().await,
                }
            };
            let waited = select! {
                hindrance = hindered(if_free, &board, &clock, &changed) => Some(hindrance),
                () = limit => None,
            };
            let summary = board.summary(clock.now());
            match (waited, wait) {
                (Some(Hindrance::Unusable), _) => Course::Unusable,
                _ if obstacle::is_refused(&summary) => Course::Unusable,
                (None, Some(time)) => Course::TooLate(time),
                _ => Course::NotFree,
            }
        });
        let taken = taken.await;
        if let Some(link) = &link {
            link.exit(code(&taken));
        }
        // Before it has left, and knows nobody any more.
        let _ = course.set((taken, board.summary(clock.now())));
        let _ = tell.send(());
        let heard = Instant::now();
        // What comes later than that does not wait for the lease to be released.
        while heard.elapsed() < REPEATED {
            asked_to_end(&mut signals).await;
        }
    };
    let left = select! {
        () = contender.run(async { drop(told.await) }) => true,
        () = conduct => false,
    };
    contender.end().await;
    written.wait();
    let (course, seen) = course.get().ok_or(ExitCode::from(FAILED))?;
    if let Some(words) = words(course, seen) {
        eprint(format_args!("tenure: {words}\n"));
    }
    let delivered = match &link {
        Some(link) => tokio::time::timeout(LAST_WORDS, link.delivered()).await.is_ok(),
        None => false,
    };
    Ok(match (delivered, left) {
        (false, _) => ExitCode::from(code(course)),
        // The supervisor knows the exit code. Zero says that nothing is left to be done.
        (true, true) => ExitCode::SUCCESS,
        (true, false) => ExitCode::from(FAILED),
    })
}

/// The next signal that would end a program which does not handle it.
async fn asked_to_end(signals: &mut Signals) -> i32 {
    loop {
        let number = signals.next().await;
        if number != CONTINUE {
            return number;
        }
    }
}

/// Until it is known what comes of it. `waited` completes when it is not to be waited for any longer.
async fn decide(
    attached: &Attached,
    signals: &mut Signals,
    waited: impl Future<Output = Course>,
) -> Course {
    let mut waited = pin!(waited);
    let mut given_up = None;
    let mut handed_on: Option<(i32, Instant)> = None;
    loop {
        select! {
            biased;
            end = attached.over() => return Course::Ran(end),
            number = signals.next() => {
                if number == CONTINUE {
                    attached.signal(number);
                    continue;
                }
                if attached.call_off() {
                    return Course::Interrupted(number);
                }
                // The same one may come from a service manager, from the terminal and from the supervisor.
                let repeated = |(of, at): (i32, Instant)| of == number && at.elapsed() < REPEATED;
                if !handed_on.is_some_and(repeated) {
                    handed_on = Some((number, Instant::now()));
                    attached.signal(number);
                }
            }
            course = &mut waited, if given_up.is_none() => given_up = Some(course),
            () = attached.idle(), if given_up.is_some() || handed_on.is_some() => {
                // The signal came while the command was about to be started, and it was too late for that.
                let told = handed_on.map(|(number, _)| Course::Interrupted(number));
                if attached.call_off()
                    && let Some(course) = told.or_else(|| given_up.take())
                {
                    return course;
                }
            }
        }
    }
}

/// Waits until the blob is seen to be unusable as a lock or, `if_free`, until anything keeps it from being acquired.
async fn hindered(if_free: bool, board: &Board, clock: &BootClock, changed: &Notify) -> Hindrance {
    let mut obstacle = Obstacle::default();
    loop {
        changed.notified().await;
        match obstacle.update(&board.summary(clock.now())) {
            Some(Hindrance::Unusable) => return Hindrance::Unusable,
            Some(Hindrance::NotFree) if if_free => return Hindrance::NotFree,
            _ => {}
        }
    }
}

/// The exit code.
fn code(course: &Course) -> u8 {
    let code = match course {
        Course::Ran(CommandEnd::Ended(Ended::Exit(code))) => *code,
        Course::Ran(CommandEnd::Ended(Ended::Signal(number))) | Course::Interrupted(number) => {
            BY_SIGNAL + number
        }
        Course::Ran(CommandEnd::Lost | CommandEnd::Unwatched) => i32::from(LOST),
        Course::Ran(CommandEnd::NotStarted(_)) => i32::from(NOT_EXECUTABLE),
        Course::NotFree | Course::TooLate(_) => i32::from(NOT_ACQUIRED),
        Course::Unusable => i32::from(FAILED),
    };
    u8::try_from(code).unwrap_or(u8::MAX)
}

/// What people should know of it.
fn words(course: &Course, seen: &Summary) -> Option<String> {
    let election = printable(&seen.election);
    let why = match course {
        Course::Ran(CommandEnd::Ended(_)) | Course::Interrupted(_) => return None,
        Course::Ran(CommandEnd::Lost) => {
            return Some(format!(
                "the lock {election} was lost: its lease could not be renewed, so the command was ended before the lease \
                 expired"
            ));
        }
        Course::Ran(CommandEnd::Unwatched) => {
            let why =
                "the process that supervises the command was killed, so the command was killed too";
            return Some(why.to_owned());
        }
        Course::Ran(CommandEnd::NotStarted(why)) => {
            return Some(format!("the command could not be started: {}", printable(why)));
        }
        Course::NotFree => "and --if-free does not wait".to_owned(),
        Course::TooLate(time) => format!("after a wait of {} (--wait)", format_duration(*time)),
        Course::Unusable => "and waiting does not help".to_owned(),
    };
    let problem = seen.problem.as_ref().or(seen.blocked.as_ref());
    let holder = match (&seen.leader, problem) {
        (Some(holder), _) => {
            format!("is held by {}, term {}", printable(&holder.name), holder.term)
        }
        (None, Some(problem)) => {
            format!("could not be acquired ({}: {})", problem.class, printable(&problem.detail))
        }
        (None, None) => "was not free".to_owned(),
    };
    Some(format!("the lock {election} {holder}, {why}; the command was not run"))
}

fn refused(complaints: &[Complaint], not_runnable: Option<NotRunnable>) -> ExitCode {
    eprint(report(complaints));
    // Where nothing else is wrong, what shells make of it.
    let code = match (complaints, not_runnable) {
        ([_], Some(NotRunnable::Missing | NotRunnable::NotOnPath)) => NOT_FOUND,
        ([_], Some(NotRunnable::NotExecutable)) => NOT_EXECUTABLE,
        _ => FAILED,
    };
    ExitCode::from(code)
}

pub(super) fn failed(problem: impl std::fmt::Display) -> ExitCode {
    // It has an exit code of its own, which the command could have too.
    let _ = fail(problem);
    ExitCode::from(FAILED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_has_its_exit_code() {
        let ran = |ended| Course::Ran(CommandEnd::Ended(ended));
        for (course, expected) in [
            (ran(Ended::Exit(0)), 0),
            (ran(Ended::Exit(3)), 3),
            (ran(Ended::Signal(9)), 137),
            (Course::Interrupted(2), 130),
            (Course::Ran(CommandEnd::Lost), 76),
            (Course::Ran(CommandEnd::Unwatched), 76),
            (Course::Ran(CommandEnd::NotStarted("x".into())), 126),
            (Course::NotFree, 75),
            (Course::TooLate(Duration::from_secs(1)), 75),
            (Course::Unusable, 125),
        ] {
            assert_eq!(code(&course), expected);
        }
    }
}
