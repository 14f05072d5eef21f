//! `tenure run` and `tenure lock` as two processes: a supervisor, and its child that runs the
//! elections.
//!
//! If the runner ends without exit code 0, the supervisor sends the runner's last wills, once all
//! processes of its work have exited. If no supervisor can be started, the elections run in the
//! initial process, and the log reports that there is no last will.

mod wills;

pub(super) use tenure_supervisor::{Candidate, Link, Supervised};

use crate::output::log::{LogContext, Style};
use crate::service_manager::ServiceManager;
use crate::signals::Signals;
use lock_codes::{FAILED, LOST, SIGNAL_BASE};
use rustix::process::Signal;
use std::ffi::OsString;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tenure_supervisor::{ProcessEnd, RunnerEnd, reclaim_terminal, supervise_runner};
use tokio::runtime::Builder;
use tokio::signal::unix::SignalKind;
use tokio::time::sleep;

/// The exit codes of `tenure lock` other than those of its command.
pub(super) mod lock_codes {
    /// The lock was not acquired, and nothing was run. `EX_TEMPFAIL` of sysexits.h.
    pub(crate) const NOT_ACQUIRED: u8 = 75;

    /// The lock was lost, so the command was ended.
    pub(crate) const LOST: u8 = 76;

    /// Wrong usage, or another error of `tenure lock` itself. The same as for `env`, `nohup` and
    /// `timeout`.
    pub(crate) const FAILED: u8 = 125;

    /// The command exists but cannot be executed. The same as in shells.
    pub(crate) const NOT_EXECUTABLE: u8 = 126;

    /// The command does not exist. The same as in shells.
    pub(crate) const NOT_FOUND: u8 = 127;

    /// Base of the codes for signals: shells add the number of the signal that ended a command.
    pub(crate) const SIGNAL_BASE: i32 = 128;
}

/// Prefix of the first argument of a runner with a supervisor. The process id of the supervisor
/// follows.
const SUPERVISED_FLAG: &str = "--supervised-by=";

/// The exit code of a Rust program that panicked.
const PANICKED: i32 = 101;

/// Remaining time for sending wills after a signal.
const SIGNAL_DELAY: Duration = Duration::from_secs(1);

/// The role of this process, according to its arguments.
pub(super) enum ProcessRole {
    /// The process runs no election.
    Other,
    /// The process was the supervisor, and its runner has ended.
    Supervisor(ExitCode),
    /// The process runs elections. The error is the reason why it has no supervisor.
    Runner(Result<Supervised, String>),
}

impl ProcessRole {
    /// Detects the role from the arguments, and removes the supervisor's argument. In a supervisor,
    /// this function returns only when the runner has ended.
    pub(super) fn detect(arguments: &mut Vec<OsString>) -> Self {
        if !arguments.get(1).is_some_and(|command| command == "run" || command == "lock") {
            return Self::Other;
        }
        let first = arguments.get(2).and_then(|word| word.to_str());
        if let Some(connection) = first.and_then(|text| text.strip_prefix(SUPERVISED_FLAG)) {
            let supervised = Supervised::connect(connection);
            arguments.remove(2);
            return Self::Runner(supervised);
        }
        match supervise(arguments) {
            Ok(code) => Self::Supervisor(code),
            Err(error) => Self::Runner(Err(format!("it could not be supervised: {error}"))),
        }
    }
}

/// Opens the runner's connection. The supervisor writes its log in `style`.
pub(super) fn link(supervised: &Supervised, style: Style) -> Result<Arc<Link>, String> {
    supervised.link(serde_json::to_string(&(style.format, style.output)).unwrap_or_default())
}

/// Registers a candidate with the supervisor, and returns its number there.
pub(super) fn add(link: &Link, context: &LogContext) -> usize {
    link.add_candidate(Candidate {
        election: context.election.clone(),
        name: context.candidate.clone(),
    })
}

/// Runs the elections in a child process, and supervises it. Returns the exit code of the program.
/// Fails only before the runner is started, so the caller can then run the elections itself.
fn supervise(arguments: &[OsString]) -> io::Result<ExitCode> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let code = runtime.block_on(run_supervised(arguments));
    // A name resolution in progress must not delay the exit.
    runtime.shutdown_background();
    code
}

async fn run_supervised(arguments: &[OsString]) -> io::Result<ExitCode> {
    let is_lock = arguments.get(1).is_some_and(|command| command == "lock");
    let mut signals = signals(is_lock)?;
    let manager = ServiceManager::from_env();
    let notify = manager.as_ref().map(|manager| |message| manager.send(message));
    let notify = notify.as_ref().map(|notify| notify as &dyn Fn(String));
    let end =
        supervise_runner(arguments, SUPERVISED_FLAG, async || signals.next().await, notify).await?;
    let code = exit_code(&end, is_lock);
    // The supervisor takes the terminal back, so that it receives signals from the keyboard while
    // it sends wills.
    if is_lock {
        reclaim_terminal();
    }
    if end.ended != ProcessEnd::Exit(0) {
        let deadline = async {
            signals.next().await;
            sleep(SIGNAL_DELAY).await;
        };
        wills::send_and_report(end, deadline).await;
    }
    Ok(code)
}

/// Returns the code that the runner reported, or else its exit code. If a signal killed the runner,
/// returns the code of shells. A lock's command could have returned that code too, so a lock uses
/// `LOST` if it held the lease, and `FAILED` otherwise.
fn exit_code(end: &RunnerEnd, is_lock: bool) -> ExitCode {
    if let Some(code) = end.code {
        return ExitCode::from(code);
    }
    let code = match end.ended {
        // A lock's runner exits with a code of its own only before the command starts. The code of
        // a panic could be taken for that of the command, so it is replaced below.
        ProcessEnd::Exit(code) if !is_lock || code != PANICKED => code,
        _ if is_lock && !end.wills.is_empty() => i32::from(LOST),
        // The signal arrived before the runner handled signals.
        ProcessEnd::Signal(number @ (1..=3 | 15)) if is_lock && end.begin_message.is_none() => {
            SIGNAL_BASE + number
        }
        _ if is_lock => i32::from(FAILED),
        ProcessEnd::Exit(code) => code,
        ProcessEnd::Signal(number) => SIGNAL_BASE + number,
    };
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

/// Returns the signals that the supervisor forwards to the runner. A terminal sends them to both
/// processes, so the runner ignores repetitions within a second.
fn signals(is_lock: bool) -> io::Result<Signals> {
    let forwarded = [
        SignalKind::terminate(),
        SignalKind::interrupt(),
        SignalKind::quit(),
        SignalKind::user_defined1(),
        SignalKind::user_defined2(),
        // Systemd sends SIGABRT to a service whose watchdog has expired.
        SignalKind::from_raw(Signal::ABORT.as_raw()),
    ];
    // A lock is part of a script: signals that the script ignores stay ignored.
    if is_lock { Signals::unless_ignored(&forwarded) } else { Signals::all(&forwarded) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn supervisor_flag_is_removed_from_the_arguments() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let mut arguments = words("tenure status --supervised-by=1");
        assert!(matches!(ProcessRole::detect(&mut arguments), ProcessRole::Other));
        assert_eq!(arguments.len(), 3);
        for wrong in ["x", "1:3", "0", "-1", ""] {
            let mut arguments = words(&format!("tenure run --supervised-by={wrong} --every 5s"));
            assert!(
                matches!(ProcessRole::detect(&mut arguments), ProcessRole::Runner(Err(_))),
                "{wrong}"
            );
            assert_eq!(arguments, words("tenure run --every 5s"));
        }
    }

    #[test]
    fn the_exit_code_is_the_runners() {
        let end = |ended, begun: Option<&str>, code| RunnerEnd {
            ended,
            is_work_over: true,
            code,
            begin_message: begun.map(str::to_owned),
            candidates: Default::default(),
            split_elections: Default::default(),
            wills: Default::default(),
        };
        for (ended, lock, expected) in [
            (ProcessEnd::Exit(0), false, 0),
            (ProcessEnd::Exit(101), false, 101),
            (ProcessEnd::Signal(9), false, 137),
            (ProcessEnd::Exit(127), true, 127),
            (ProcessEnd::Exit(101), true, 125),
            (ProcessEnd::Signal(2), true, 130),
            (ProcessEnd::Signal(9), true, 125),
        ] {
            assert_eq!(exit_code(&end(ended, None, None), lock), ExitCode::from(expected));
        }
        assert_eq!(
            exit_code(&end(ProcessEnd::Signal(2), Some(""), None), true),
            ExitCode::from(125)
        );
        for ended in [ProcessEnd::Exit(0), ProcessEnd::Exit(101), ProcessEnd::Signal(9)] {
            assert_eq!(exit_code(&end(ended, Some(""), Some(3)), true), ExitCode::from(3));
        }
    }
}
