//! `tenure lock`: runs a command once under the lease of a blob, and exits with its exit code.
//!
//! The process is a candidate whose work is the command. It leaves when the command has ended.

use crate::complaint::{Complaint, printable, report};
use crate::configuration::Configuration;
use crate::output::log::{Log, Output, WriterHandle};
use crate::output::telemetry::Telemetry;
use crate::output::{CommandResult, eprint, fail};
use crate::run::candidacy::Contender;
use crate::run::startup::{Shared, enable_last_wills, raise_descriptor_limit, set_up_process};
use crate::settings::table::{IF_FREE, LOG, LOG_LEVEL, WAIT};
use crate::settings::{CommandLine, Elections, ResolvedSettings};
use crate::signals::{REPEAT_WINDOW, Signals};
use crate::supervisor::lock_codes::{
    FAILED, LOST, NOT_ACQUIRED, NOT_EXECUTABLE, NOT_FOUND, SIGNAL_BASE,
};
use crate::supervisor::{self, Link, Supervised};
use std::cell::OnceCell;
use std::future::pending;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tenure::handler::{AttachedCommand, CommandEnd, NotRunnable};
use tenure_base::duration::format_duration;
use tenure_clock::{BootClock, Clock as _};
use tenure_server::{Board, Summary, Watcher};
use tenure_supervisor::ProcessEnd;
use tenure_wasmtime::Engine;
use tokio::select;
use tokio::signal::unix::SignalKind;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep};

/// Time limit for delivering the last messages to the supervisor.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(1);

/// Number of SIGCONT, which is no request to end: a shell sends it to a stopped job that it moves
/// to the foreground.
const CONTINUE: i32 = rustix::process::Signal::CONT.as_raw();

const FORWARDED_SIGNALS: [SignalKind; 6] = [
    SignalKind::terminate(),
    SignalKind::interrupt(),
    SignalKind::quit(),
    SignalKind::user_defined1(),
    SignalKind::user_defined2(),
    SignalKind::from_raw(CONTINUE),
];

enum LockOutcome {
    Ran(CommandEnd),
    /// Another process holds the lock, and `--if-free` does not wait.
    NotFree,
    /// The lock was not acquired within this time.
    TimedOut(Duration),
    /// The blob holds something else, or the service refuses the settings.
    Unusable,
    /// This signal arrived before the command ran.
    Interrupted(i32),
}

pub(super) async fn lock(
    line: &CommandLine,
    supervised: Result<Supervised, String>,
) -> CommandResult {
    let mut signals = Signals::unless_ignored(&FORWARDED_SIGNALS)
        .map_err(|error| report_failure(format_args!("signals cannot be handled: {error}")))?;
    let engine = Engine::new().map_err(report_failure)?;
    let clock = BootClock::new();
    let attached = Arc::new(AttachedCommand::default());
    let mut configuration = Configuration::for_lock(line, attached.clone());
    let patience = Patience::from_configuration(&mut configuration);
    let style = configuration.log_style(Output::Stderr);
    let (log, written) = Log::start(style)
        .map_err(|error| report_failure(format_args!("the log cannot be written: {error}")))?;
    let log_context = configuration.log_context();
    let logs_everything = logs_everything(&configuration.resolved);
    let log = log.problems_only(!logs_everything).for_candidate(&log_context);
    let link = supervised.as_ref().map_err(Clone::clone);
    let link = link.and_then(|supervised| supervisor::link(supervised, style));
    let mut configurations = [configuration];
    if let Ok(link) = &link {
        enable_last_wills(&mut configurations, Some(link));
    }
    raise_descriptor_limit(1);
    let mut setup = set_up_process(&clock, &mut configurations, None).await;
    let board = setup.fronts.first().map(|front| front.board.clone());
    let board = board.ok_or(ExitCode::from(FAILED))?;
    let mut elections = Elections::default();
    let authorities = setup.authorities.clone();
    let preparation = async {
        let (all_configurations, fronts) = (&mut configurations, setup.fronts);
        let shared = Shared::load((engine.clone(), clock.clone()), authorities, &log).await?;
        shared.prepare_all(&mut elections, all_configurations, vec![log], fronts).await
    };
    let prepared = select! {
        biased;
        // No request was sent yet, so there is no lease to release.
        number = next_ending_signal(&mut signals) => {
            return Ok(ExitCode::from(exit_code(&LockOutcome::Interrupted(number))));
        }
        result = preparation => result.map_err(report_failure)?,
    };
    let candidacy = prepared.and_then(|mut candidacies| candidacies.pop()).ok_or_else(|| {
        let [Configuration { not_runnable, .. }] = configurations;
        settings_error(&elections.complaints, not_runnable)
    })?;

    setup.notes.extend(engine.cache_problem());
    candidacy.log_start(&setup.notes);
    let changed = Arc::new(Notify::new());
    let watcher = Arc::new(Watcher::new(setup.authorities));
    let link = link.ok();
    let supervisor = link.clone().map(|link| {
        let number = supervisor::add(&link, &log_context);
        (link, number)
    });
    // The process is too short-lived for telemetry.
    let telemetry = Telemetry::default().for_candidate(&log_context);
    let contender =
        candidacy.into_contender(clock.clone(), &changed, &watcher, supervisor, telemetry, None);
    let lock_run =
        LockRun { contender, attached, board: board.clone(), clock: clock.clone(), link, written };
    lock_run.run(&mut signals, patience.wait_outcome(&board, &clock, &changed)).await
}

/// Returns true if a setting asks for the whole log. Otherwise a lock writes only problems.
pub(crate) fn logs_everything(resolved: &ResolvedSettings) -> bool {
    [&LOG, &LOG_LEVEL].iter().any(|setting| resolved.text(setting).is_some())
}

/// The limits of the wait for the lock.
struct Patience {
    /// The value of `--wait`.
    wait: Option<Duration>,
    if_free: bool,
}

impl Patience {
    fn from_configuration(configuration: &mut Configuration) -> Self {
        let wait = configuration.duration(&WAIT);
        let if_free = configuration.resolved.is_on(&IF_FREE);
        if if_free && wait.is_some() {
            let problem = "--if-free does not wait, so it cannot have a time to wait";
            configuration.complain_of_use(&WAIT, problem, "leave out one of them");
        }
        Self { wait, if_free }
    }

    /// Waits until a limit or an obstacle ends the wait for the lock, and returns the outcome.
    async fn wait_outcome(
        &self,
        board: &Board,
        clock: &BootClock,
        changed: &Notify,
    ) -> LockOutcome {
        let limit = async {
            match self.wait {
                Some(time) => sleep(time).await,
                None => pending().await,
            }
        };
        let wait_result = select! {
            obstacle = wait_for_obstacle(self.if_free, board, clock, changed) => Some(obstacle),
            () = limit => None,
        };
        let summary = board.summary(clock.now());
        match (wait_result, self.wait) {
            (Some(ObstacleKind::Unusable), _) => LockOutcome::Unusable,
            _ if is_refused(&summary) => LockOutcome::Unusable,
            (None, Some(time)) => LockOutcome::TimedOut(time),
            _ => LockOutcome::NotFree,
        }
    }
}

/// A candidate for the lock, and the command that it runs.
struct LockRun {
    contender: Contender,
    attached: Arc<AttachedCommand>,
    board: Arc<Board>,
    clock: BootClock,
    link: Option<Arc<Link>>,
    written: WriterHandle,
}

impl LockRun {
    /// Contends until the outcome is known and the candidate has left, and reports the outcome.
    /// `wait_outcome` completes when the wait for the lock is over.
    async fn run(
        self,
        signals: &mut Signals,
        wait_outcome: impl Future<Output = LockOutcome>,
    ) -> CommandResult {
        let Self { mut contender, attached, board, clock, link, written } = self;
        let outcome = OnceCell::new();
        let (leave_sender, leave_receiver) = oneshot::channel::<()>();
        let supervision = async {
            let decided = decide(&attached, signals, wait_outcome).await;
            if let Some(link) = &link {
                link.exit(exit_code(&decided));
            }
            // The board loses the leader's name when the candidate leaves, so the summary is taken
            // now.
            let _ = outcome.set((decided, board.summary(clock.now())));
            let _ = leave_sender.send(());
            let decided_at = Instant::now();
            // The first signal after the repeat window ends the process without waiting for the
            // release of the lease.
            while decided_at.elapsed() < REPEAT_WINDOW {
                next_ending_signal(signals).await;
            }
        };
        let has_left = select! {
            () = contender.run(async { drop(leave_receiver.await) }) => true,
            () = supervision => false,
        };
        contender.end().await;
        written.wait();
        let (final_outcome, summary) = outcome.get().ok_or(ExitCode::from(FAILED))?;
        if let Some(message) = failure_message(final_outcome, summary) {
            eprint(format_args!("tenure: {message}\n"));
        }
        let delivered = match &link {
            Some(link) => tokio::time::timeout(DELIVERY_TIMEOUT, link.delivered()).await.is_ok(),
            None => false,
        };
        Ok(match (delivered, has_left) {
            (false, _) => ExitCode::from(exit_code(final_outcome)),
            // The supervisor has received the exit code. Zero means that there are no wills to
            // send.
            (true, true) => ExitCode::SUCCESS,
            (true, false) => ExitCode::from(FAILED),
        })
    }
}

/// Returns the next signal that requests the end of the program. Ignores SIGCONT.
async fn next_ending_signal(signals: &mut Signals) -> i32 {
    loop {
        let number = signals.next().await;
        if number != CONTINUE {
            return number;
        }
    }
}

/// Forwards signals to the command until the outcome is known. `wait_outcome` completes when the
/// wait for the lock is over.
async fn decide(
    attached: &AttachedCommand,
    signals: &mut Signals,
    wait_outcome: impl Future<Output = LockOutcome>,
) -> LockOutcome {
    let mut wait_outcome = pin!(wait_outcome);
    let mut failed_wait = None;
    let mut forwarded: Option<(i32, Instant)> = None;
    loop {
        select! {
            biased;
            end = attached.wait() => return LockOutcome::Ran(end),
            number = signals.next() => {
                if number == CONTINUE {
                    attached.signal(number);
                    continue;
                }
                if attached.cancel() {
                    return LockOutcome::Interrupted(number);
                }
                // The service manager, the terminal and the supervisor may each send the same
                // signal.
                let is_repeated = |(previous, at): (i32, Instant)| previous == number && at.elapsed() < REPEAT_WINDOW;
                if !forwarded.is_some_and(is_repeated) {
                    forwarded = Some((number, Instant::now()));
                    attached.signal(number);
                }
            }
            outcome = &mut wait_outcome, if failed_wait.is_none() => failed_wait = Some(outcome),
            () = attached.wait_until_idle(), if failed_wait.is_some() || forwarded.is_some() => {
                // The signal arrived while the command was about to start, too late to prevent
                // that.
                let interrupted = forwarded.map(|(number, _)| LockOutcome::Interrupted(number));
                if attached.cancel()
                    && let Some(outcome) = interrupted.or_else(|| failed_wait.take())
                {
                    return outcome;
                }
            }
        }
    }
}

/// Waits until the blob proves unusable as a lock. With `if_free`, also returns if anything else
/// prevents acquiring it.
async fn wait_for_obstacle(
    if_free: bool,
    board: &Board,
    clock: &BootClock,
    changed: &Notify,
) -> ObstacleKind {
    let mut tracker = ObstacleTracker::default();
    loop {
        changed.notified().await;
        match tracker.update(&board.summary(clock.now())) {
            Some(ObstacleKind::Unusable) => return ObstacleKind::Unusable,
            Some(ObstacleKind::NotFree) if if_free => return ObstacleKind::NotFree,
            _ => {}
        }
    }
}

/// Tracker of obstacles over consecutive summaries of a candidate.
#[derive(Default)]
struct ObstacleTracker {
    /// True if a clock problem was reported, and a later request succeeded.
    clock_problem_passed: bool,
    /// True if the newest summary reports a clock problem.
    has_clock_problem: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ObstacleKind {
    /// Another process holds the lock, or a temporary problem prevents acquiring it.
    NotFree,
    /// The blob holds something else, so it cannot be a lock.
    Unusable,
}

/// Returns true if the service refuses a necessary request. The lock may be free then, so it does
/// not count as held.
fn is_refused(summary: &Summary) -> bool {
    let blocked = summary.blocked.as_ref().map(|blocked| blocked.class);
    summary.role == "undecided" && matches!(blocked, Some("refused" | "configuration"))
}

impl ObstacleTracker {
    /// Returns the obstacle in the next summary. Ignores problems that occur just before leading: a
    /// candidate waits for a second before it leads with a new blob.
    fn update(&mut self, summary: &Summary) -> Option<ObstacleKind> {
        let class = summary.problem.as_ref().map(|problem| problem.class);
        if (summary.role, class) == ("undecided", Some("unusable-blob")) {
            return Some(ObstacleKind::Unusable);
        }
        self.is_blocked(summary).then_some(ObstacleKind::NotFree)
    }

    fn is_blocked(&mut self, summary: &Summary) -> bool {
        let class = summary.problem.as_ref().map(|problem| problem.class);
        let had_clock_problem =
            std::mem::replace(&mut self.has_clock_problem, class == Some("clock"));
        self.clock_problem_passed |= had_clock_problem && !self.has_clock_problem;
        match (summary.role, class) {
            ("leading", _) => false,
            ("following", _) => true,
            (_, None) => false,
            // The record of another schedule does not prevent a lock.
            (_, Some("schedule")) => false,
            // These problems are permanent.
            (_, Some("configuration" | "foreign-lease" | "nonsense")) => true,
            // A wrong local clock is reported once, and the request is repeated with the service's
            // time. If the service's dates jump, the problem recurs, and the candidate releases the
            // lease each time.
            (_, Some("clock")) => self.clock_problem_passed,
            // The service may have accepted another token since, so the problem counts only while
            // requests fail.
            _ => summary.failing,
        }
    }
}

fn exit_code(outcome: &LockOutcome) -> u8 {
    let code = match outcome {
        LockOutcome::Ran(CommandEnd::Ended(ProcessEnd::Exit(code))) => *code,
        LockOutcome::Ran(CommandEnd::Ended(ProcessEnd::Signal(number)))
        | LockOutcome::Interrupted(number) => SIGNAL_BASE + number,
        LockOutcome::Ran(CommandEnd::LeaseLost | CommandEnd::SupervisorKilled) => i32::from(LOST),
        LockOutcome::Ran(CommandEnd::NotStarted(_)) => i32::from(NOT_EXECUTABLE),
        LockOutcome::NotFree | LockOutcome::TimedOut(_) => i32::from(NOT_ACQUIRED),
        LockOutcome::Unusable => i32::from(FAILED),
    };
    u8::try_from(code).unwrap_or(u8::MAX)
}

/// Returns the message about a failure, if there is one.
fn failure_message(outcome: &LockOutcome, summary: &Summary) -> Option<String> {
    let election = printable(&summary.election);
    let why = match outcome {
        LockOutcome::Ran(CommandEnd::Ended(_)) | LockOutcome::Interrupted(_) => return None,
        LockOutcome::Ran(CommandEnd::LeaseLost) => {
            return Some(format!(
                "the lock {election} was lost: its lease could not be renewed, so the command was ended before the lease \
                 expired"
            ));
        }
        LockOutcome::Ran(CommandEnd::SupervisorKilled) => {
            let why =
                "the process that supervises the command was killed, so the command was killed too";
            return Some(why.to_owned());
        }
        LockOutcome::Ran(CommandEnd::NotStarted(why)) => {
            return Some(format!("the command could not be started: {}", printable(why)));
        }
        LockOutcome::NotFree => "and --if-free does not wait".to_owned(),
        LockOutcome::TimedOut(time) => {
            format!("after a wait of {} (--wait)", format_duration(*time))
        }
        LockOutcome::Unusable => "and waiting does not help".to_owned(),
    };
    let problem = summary.problem.as_ref().or(summary.blocked.as_ref());
    let holder = match (&summary.leader, problem) {
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

fn settings_error(complaints: &[Complaint], not_runnable: Option<NotRunnable>) -> ExitCode {
    eprint(report(complaints));
    // If an unusable command is the only complaint, the exit code is that of shells.
    let code = match (complaints, not_runnable) {
        ([_], Some(NotRunnable::Missing | NotRunnable::NotOnPath)) => NOT_FOUND,
        ([_], Some(NotRunnable::NotExecutable)) => NOT_EXECUTABLE,
        _ => FAILED,
    };
    ExitCode::from(code)
}

pub(super) fn report_failure(problem: impl std::fmt::Display) -> ExitCode {
    // The usual exit code of a failure could also be that of the command.
    let _ = fail(problem);
    ExitCode::from(FAILED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_server::Problem;

    #[test]
    fn each_end_has_its_exit_code() {
        let ran = |ended| LockOutcome::Ran(CommandEnd::Ended(ended));
        for (outcome, expected) in [
            (ran(ProcessEnd::Exit(0)), 0),
            (ran(ProcessEnd::Exit(3)), 3),
            (ran(ProcessEnd::Signal(9)), 137),
            (LockOutcome::Interrupted(2), 130),
            (LockOutcome::Ran(CommandEnd::LeaseLost), 76),
            (LockOutcome::Ran(CommandEnd::SupervisorKilled), 76),
            (LockOutcome::Ran(CommandEnd::NotStarted("x".into())), 126),
            (LockOutcome::NotFree, 75),
            (LockOutcome::TimedOut(Duration::from_secs(1)), 75),
            (LockOutcome::Unusable, 125),
        ] {
            assert_eq!(exit_code(&outcome), expected);
        }
    }

    /// Returns true for each of the consecutive summaries that has an obstacle. A summary consists
    /// of its role, the class of its problem, and `failing`.
    fn are_obstacles(observed: &[(&'static str, &'static str, bool)]) -> Vec<bool> {
        obstacles(observed).into_iter().map(|obstacle| obstacle.is_some()).collect()
    }

    fn obstacles(observed: &[(&'static str, &'static str, bool)]) -> Vec<Option<ObstacleKind>> {
        let mut tracker = ObstacleTracker::default();
        let summary = |&(role, class, failing): &(_, &'static str, _)| Summary {
            role,
            problem: (!class.is_empty()).then(|| Problem { class, detail: "x".to_owned() }),
            failing,
            ..Board::new("locks/one", "ada", Duration::ZERO).summary(Duration::ZERO)
        };
        observed.iter().map(|case| tracker.update(&summary(case))).collect()
    }

    #[test]
    fn blob_with_other_content_is_no_lock() {
        use ObstacleKind::{NotFree, Unusable};
        let found = obstacles(&[("undecided", "unusable-blob", false)]);
        assert_eq!(found, [Some(Unusable)]);
        // A foreign lease may end.
        assert_eq!(obstacles(&[("undecided", "foreign-lease", false)]), [Some(NotFree)]);
        // A leader reports a problem from the moment before.
        assert_eq!(obstacles(&[("leading", "unusable-blob", false)]), [None]);
    }

    #[test]
    fn lock_is_not_free_while_held_or_unavailable() {
        for (case, expected) in [
            (("undecided", "", false), false),
            (("following", "", false), true),
            (("following", "schedule", false), true),
            (("leading", "configuration", true), false),
            (("undecided", "configuration", false), true),
            (("undecided", "nonsense", false), true),
            // The first missing response is not a problem yet.
            (("undecided", "", true), false),
            (("undecided", "unreachable", true), true),
            (("undecided", "refused", true), true),
        ] {
            assert_eq!(are_obstacles(&[case]), [expected], "{case:?}");
        }
    }

    #[test]
    fn problem_just_before_leading_is_no_obstacle() {
        for case in [
            // The record belongs to an election with another schedule.
            ("undecided", "schedule", false),
            ("undecided", "schedule", true),
            // The first key was refused, and the second one accepted.
            ("undecided", "refused", false),
            // The request was repeated with the service's time, and is in progress.
            ("undecided", "clock", false),
            ("undecided", "clock", true),
        ] {
            assert_eq!(are_obstacles(&[case, ("leading", "", false)]), [false, false], "{case:?}");
        }
    }

    #[test]
    fn jumping_dates_block_when_reported_again() {
        let (jump, quiet) = (("undecided", "clock", false), ("undecided", "", false));
        assert_eq!(are_obstacles(&[jump, jump, quiet, jump]), [false, false, false, true]);
        // A wrong clock, and then a service that does not respond.
        let observed = [("undecided", "clock", true), ("undecided", "unreachable", true)];
        assert_eq!(are_obstacles(&observed), [false, true]);
    }
}
