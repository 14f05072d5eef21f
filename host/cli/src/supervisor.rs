//! `tenure run` and `tenure lock` as two processes: a supervisor, and its child that runs the elections.
//!
//! When the runner is gone by anything but exit code 0, the supervisor sends the last wills that it left, once the end
//! of its work was seen. Where no supervisor can be started, the elections run in the process that was started, and the log
//! says that there is no last will.

mod last_words;
mod wills;

pub(super) use tenure_supervisor::{Candidate, Link, Supervised};

use super::lock_codes::{BY_SIGNAL, FAILED, LOST};
use super::log::{Style, Whose};
use super::service_manager::ServiceManager;
use super::signals::Signals;
use rustix::process::Signal;
use std::ffi::OsString;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tenure_supervisor::{Ended, RunnerEnd, reclaim_terminal, supervise_runner};
use tokio::runtime::Builder;
use tokio::signal::unix::SignalKind;
use tokio::time::sleep;

/// The first argument of a runner that has a supervisor.
const SUPERVISED: &str = "--supervised-by=";

/// The exit code of a Rust program that panicked.
const PANICKED: i32 = 101;

/// A signal that comes while wills are sent leaves them so much time.
const HURRY: Duration = Duration::from_secs(1);

/// How this process came about, by its arguments; the runner's own are taken out of them.
pub(super) enum Part {
    /// It runs no election.
    Other,
    /// It was to run elections, and is their supervisor: all is over.
    Supervisor(ExitCode),
    /// It runs elections, and has a supervisor, or why it has none.
    Runner(Result<Supervised, String>),
}

impl Part {
    /// Of the process with these arguments. As the supervisor it returns when the runner has ended.
    pub(super) fn of(words: &mut Vec<OsString>) -> Self {
        if !words.get(1).is_some_and(|command| command == "run" || command == "lock") {
            return Self::Other;
        }
        let first = words.get(2).and_then(|word| word.to_str());
        if let Some(word) = first.and_then(|word| word.strip_prefix(SUPERVISED)) {
            let supervised = Supervised::connect(word);
            words.remove(2);
            return Self::Runner(supervised);
        }
        match supervise(words) {
            Ok(code) => Self::Supervisor(code),
            Err(error) => Self::Runner(Err(format!("it could not be supervised: {error}"))),
        }
    }
}

/// Opens the runner's connection. The supervisor writes its log in that style.
pub(super) fn link(supervised: &Supervised, style: Style) -> Result<Arc<Link>, String> {
    supervised.link(serde_json::to_string(&(style.format, style.output)).unwrap_or_default())
}

/// Makes a candidate known to the supervisor, and returns its number there.
pub(super) fn add(link: &Link, whose: &Whose) -> usize {
    link.add(Candidate { election: whose.election.clone(), name: whose.candidate.clone() })
}

/// Fails before the runner is started, and never afterwards.
fn supervise(words: &[OsString]) -> io::Result<ExitCode> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let code = runtime.block_on(run_supervised(words));
    // A name that is looked up must not hold up the end.
    runtime.shutdown_background();
    code
}

async fn run_supervised(words: &[OsString]) -> io::Result<ExitCode> {
    let lock = words.get(1).is_some_and(|command| command == "lock");
    let mut signals = signals(lock)?;
    let manager = ServiceManager::from_env();
    let notify = manager.as_ref().map(|manager| |message| manager.tell(message));
    let notify = notify.as_ref().map(|notify| notify as &dyn Fn(String));
    let end = supervise_runner(words, SUPERVISED, async || signals.next().await, notify).await?;
    let code = code(&end, lock);
    // A signal from the keyboard is heard while wills are sent.
    if lock {
        reclaim_terminal();
    }
    if end.ended != Ended::Exit(0) {
        let hurry = async {
            signals.next().await;
            sleep(HURRY).await;
        };
        wills::settle(end, hurry).await;
    }
    Ok(code)
}

/// The code that the runner told, or else its own; of one that was killed what shells make of it, unless that would be
/// taken for the end of the command of a lock.
fn code(end: &RunnerEnd, lock: bool) -> ExitCode {
    if let Some(code) = end.code {
        return ExitCode::from(code);
    }
    let code = match end.ended {
        // It ends so on purpose only before anything began, and a panic is no end of a command.
        Ended::Exit(code) if !lock || code != PANICKED => code,
        _ if lock && !end.wills.is_empty() => i32::from(LOST),
        // From a terminal, before it listened.
        Ended::Signal(number @ (1..=3 | 15)) if lock && end.begun.is_none() => BY_SIGNAL + number,
        _ if lock => i32::from(FAILED),
        Ended::Exit(code) => code,
        Ended::Signal(number) => BY_SIGNAL + number,
    };
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

/// What is handed on to the runner. A terminal sends to both of them: the runner takes what comes twice within
/// a second for once.
fn signals(lock: bool) -> io::Result<Signals> {
    let handed_on = [
        SignalKind::terminate(),
        SignalKind::interrupt(),
        SignalKind::quit(),
        SignalKind::user_defined1(),
        SignalKind::user_defined2(),
        // With it systemd ends what shows no sign of life any more.
        SignalKind::from_raw(Signal::ABORT.as_raw()),
    ];
    // A lock is a part of the script that it is in, and ignores what that has its jobs ignore.
    if lock { Signals::unless_ignored(&handed_on) } else { Signals::all(&handed_on) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_supervisor_adds_is_no_argument_of_the_runner() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let mut given = words("tenure status --supervised-by=1");
        assert!(matches!(Part::of(&mut given), Part::Other));
        assert_eq!(given.len(), 3);
        for wrong in ["x", "1:3", "0", "-1", ""] {
            let mut given = words(&format!("tenure run --supervised-by={wrong} --every 5s"));
            assert!(matches!(Part::of(&mut given), Part::Runner(Err(_))), "{wrong}");
            assert_eq!(given, words("tenure run --every 5s"));
        }
    }

    #[test]
    fn the_exit_code_is_the_runners() {
        let end = |ended, begun: Option<&str>, code| RunnerEnd {
            ended,
            is_work_over: true,
            code,
            begun: begun.map(str::to_owned),
            candidates: Default::default(),
            split: Default::default(),
            wills: Default::default(),
        };
        for (ended, lock, expected) in [
            (Ended::Exit(0), false, 0),
            (Ended::Exit(101), false, 101),
            (Ended::Signal(9), false, 137),
            (Ended::Exit(127), true, 127),
            (Ended::Exit(101), true, 125),
            (Ended::Signal(2), true, 130),
            (Ended::Signal(9), true, 125),
        ] {
            assert_eq!(code(&end(ended, None, None), lock), ExitCode::from(expected));
        }
        assert_eq!(code(&end(Ended::Signal(2), Some(""), None), true), ExitCode::from(125));
        for ended in [Ended::Exit(0), Ended::Exit(101), Ended::Signal(9)] {
            assert_eq!(code(&end(ended, Some(""), Some(3)), true), ExitCode::from(3));
        }
    }
}
