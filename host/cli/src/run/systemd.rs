//! Notifications to systemd about startup, status, progress and shutdown of the candidates.
//!
//! | message | when |
//! |---|---|
//! | `READY=1` | each candidate has completed its first step, whatever the result |
//! | `STATUS=` | who leads, or what went wrong, each time that it changes |
//! | `WATCHDOG=1` | every half `WATCHDOG_USEC`, while each loop makes progress (as in `/healthz`) |
//! | `STOPPING=1` | a signal came, and the candidates are leaving |
//!
//! Systemd accepts messages only from the process that it started. That is the supervisor, so the
//! supervisor forwards them. Without systemd, no notifications are sent.

use crate::complaint::printable;
use crate::service_manager::{ServiceManager, watchdog_limit};
use crate::supervisor::Link;
use std::time::Duration;
use tenure_clock::{BootClock, Clock as _};
use tenure_server::{Roster, Summary};
use tokio::select;
use tokio::sync::Notify;
use tokio::time::sleep;

/// Maximum length of the status in characters.
const MAX_STATUS_CHARS: usize = 400;

/// With more candidates than this, notifications have a minimum interval.
const FEW_CANDIDATES: usize = 16;
/// Minimum interval between notifications about many candidates.
const MIN_INTERVAL: Duration = Duration::from_millis(500);

/// Notifies the service manager of the state of `roster`, each time that `changed` is notified.
/// Sends messages through the supervisor if there is one, otherwise directly. Never returns.
pub(crate) async fn notify_service_manager(
    roster: &Roster,
    clock: &BootClock,
    changed: &Notify,
    leaving: impl Fn() -> bool,
    supervisor: Option<(u32, &Link)>,
) {
    if !ServiceManager::is_present() {
        return std::future::pending().await;
    }
    let main = supervisor.map_or_else(std::process::id, |(supervisor, _)| supervisor);
    let direct_manager = supervisor.is_none().then(ServiceManager::from_env).flatten();
    let send = |message: String| match (supervisor, &direct_manager) {
        (Some((_, link)), _) => link.notify(&message),
        (None, Some(manager)) => manager.send(message),
        (None, None) => {}
    };
    let mut state = NotifyState {
        watchdog_interval: watchdog_limit(main).map(|limit| limit / 2),
        ..NotifyState::default()
    };
    loop {
        let now = clock.now();
        let summaries: Vec<_> = roster.boards().iter().map(|board| board.summary(now)).collect();
        if let Some(message) = state.next_message(&summaries, leaving(), now) {
            send(message);
        }
        let wake = state.wake_at(now);
        select! {
            () = changed.notified() => {}
            () = clock.sleep_until(wake) => {}
        }
        // Thousands of candidates change all the time, and each check reads all of them.
        if summaries.len() > FEW_CANDIDATES {
            sleep(MIN_INTERVAL).await;
        }
    }
}

/// The state that was last sent.
#[derive(Debug, Default)]
struct NotifyState {
    /// Interval of watchdog messages. None without a watchdog.
    watchdog_interval: Option<Duration>,
    ready: bool,
    stopping: bool,
    status: String,
    last_watchdog: Option<Duration>,
}

impl NotifyState {
    /// Returns the message to send at `now`, with one assignment in each line.
    fn next_message(
        &mut self,
        summaries: &[Summary],
        leaving: bool,
        now: Duration,
    ) -> Option<String> {
        let mut lines = Vec::new();
        if !self.ready && summaries.iter().all(|summary| summary.has_stepped) {
            self.ready = true;
            lines.push("READY=1".to_owned());
        }
        if !self.stopping && leaving {
            self.stopping = true;
            lines.push("STOPPING=1".to_owned());
        }
        let status = status(summaries);
        if self.status != status {
            lines.push(format!("STATUS={status}"));
            self.status = status;
        }
        if self.is_watchdog_due(now) && summaries.iter().all(|summary| summary.running) {
            self.last_watchdog = Some(now);
            lines.push("WATCHDOG=1".to_owned());
        }
        (!lines.is_empty()).then(|| lines.join("\n"))
    }

    fn is_watchdog_due(&self, now: Duration) -> bool {
        match (self.watchdog_interval, self.last_watchdog) {
            (Some(interval), Some(last)) => now.saturating_sub(last) >= interval,
            (interval, None) => interval.is_some(),
            (None, _) => false,
        }
    }

    /// Returns the instant of the next check, unless the state changes before it.
    fn wake_at(&self, now: Duration) -> Duration {
        match self.watchdog_interval {
            // A due message was not sent because a loop has stalled. It may recover.
            Some(interval) if self.is_watchdog_due(now) => now + interval,
            Some(interval) => self.last_watchdog.unwrap_or(now) + interval,
            None => now + Duration::from_secs(3600),
        }
    }
}

fn describe_role(summary: &Summary) -> String {
    let term = |term: u64| format!("term {term}");
    match (summary.role, &summary.leader) {
        ("leading", Some(leader)) => format!("leading, {}", term(leader.term)),
        ("following", Some(leader)) => {
            format!("following {}, {}", printable(&leader.name), term(leader.term))
        }
        ("following", None) => "following, the leader's name is not known".to_owned(),
        ("left", _) => "it has left the election".to_owned(),
        _ => "no known leader".to_owned(),
    }
}

/// Formats the status as one line.
fn status(summaries: &[Summary]) -> String {
    let describe = |summary: &Summary| {
        let role = describe_role(summary);
        match &summary.problem {
            Some(problem) => format!("{role}; {}: {}", problem.class, printable(&problem.detail)),
            None => role,
        }
    };
    let text = match summaries {
        [only] => describe(only),
        several => {
            let entries =
                several.iter().map(|s| format!("{}: {}", printable(&s.election), describe(s)));
            entries.collect::<Vec<_>>().join(" | ")
        }
    };
    text.chars().take(MAX_STATUS_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn summary(election: &str, role: &'static str, has_stepped: bool) -> Summary {
        Summary {
            election: election.to_owned(),
            role,
            leader: None,
            problem: None,
            blocked: None,
            running: true,
            has_stepped,
            failing: false,
        }
    }

    #[test]
    fn ready_when_every_loop_has_made_a_step() {
        let mut state = NotifyState::default();
        let mut both = [summary("a/a", "", true), summary("b/b", "", false)];
        let first = state.next_message(&both, false, SECOND).unwrap();
        let no_leader = "no known leader";
        assert_eq!(first, format!("STATUS=a/a: {no_leader} | b/b: {no_leader}"));
        both[1].has_stepped = true;
        assert_eq!(state.next_message(&both, false, SECOND).as_deref(), Some("READY=1"));
        both[1].role = "following";
        let changed = state.next_message(&both, true, SECOND).unwrap();
        let status =
            format!("STATUS=a/a: {no_leader} | b/b: following, the leader's name is not known");
        assert_eq!(changed, format!("STOPPING=1\n{status}"));
        assert_eq!(state.next_message(&both, true, SECOND), None);
    }

    #[test]
    fn the_watchdog_is_fed_at_half_its_time_and_only_while_all_loops_run() {
        let interval = 5 * SECOND;
        let mut state = NotifyState { watchdog_interval: Some(interval), ..NotifyState::default() };
        let mut both = [summary("a/a", "", false), summary("b/b", "", false)];
        assert!(state.next_message(&both, false, SECOND).unwrap().ends_with("\nWATCHDOG=1"));
        assert_eq!(state.wake_at(SECOND), 6 * SECOND);
        assert_eq!(state.next_message(&both, false, 5 * SECOND), None);
        assert_eq!(state.next_message(&both, false, 6 * SECOND).as_deref(), Some("WATCHDOG=1"));
        both[1].running = false;
        assert_eq!(state.next_message(&both, false, 11 * SECOND), None);
        assert_eq!(state.wake_at(11 * SECOND), 16 * SECOND);
        both[1].running = true;
        assert_eq!(state.next_message(&both, false, 12 * SECOND).as_deref(), Some("WATCHDOG=1"));
    }

    #[test]
    fn a_status_is_one_line() {
        let mut only = summary("a/a", "left", true);
        only.leader = None;
        assert_eq!(status(&[only.clone()]), "it has left the election");
        let detail = format!("line\nREADY=1{}", "x".repeat(500));
        only.problem = Some(tenure_server::Problem { class: "unreachable", detail });
        let status = status(&[only]);
        assert!(!status.contains('\n') && status.starts_with("it has left"), "{status}");
        assert_eq!(status.chars().count(), MAX_STATUS_CHARS);
    }
}
