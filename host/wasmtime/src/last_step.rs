//! The host's view of a candidate's newest step: the urgency of the next one, and its lateness.

use super::engine::{Engine, LeaderGuard};
use std::time::Duration;
use tenure_core::{Report, Role};

/// Minimum lateness of a step of a candidate with a lease. The step must also be late by an eighth
/// of the time left when it was due.
const MIN_DELAY: Duration = Duration::from_millis(250);

/// The newest step. All instants are on the candidate's clock.
#[derive(Default)]
pub(super) struct LastStep {
    /// Time that it waited for a permit; `None` before it starts.
    pub waited: Option<Duration>,
    /// The end of the leadership by its report, or the deadline for a win with the acquired lease.
    pub holds_until: Option<Duration>,
    /// The due time of the next step, by its report.
    due_at: Duration,
    /// Lateness of its start, if the candidate had a lease and it should be reported.
    pub late: Option<Duration>,
    /// Set while the candidate leads by its report.
    leader: Option<LeaderGuard>,
}

impl LastStep {
    /// Records the request of a new step.
    pub(super) fn on_request(&mut self) {
        (self.waited, self.late) = (None, None);
    }

    /// Records its start at `now`. Returns its lateness for a candidate with a lease; `None` if it
    /// is in time.
    pub(super) fn on_start(&mut self, requested_at: Duration, now: Duration) -> Option<Duration> {
        self.waited = Some(now.saturating_sub(requested_at));
        // If its time had expired before, lateness costs nothing.
        let left = self.holds_until?.checked_sub(self.due_at).filter(|left| !left.is_zero())?;
        let late = now.saturating_sub(self.due_at);
        (late > MIN_DELAY.max(left / 8)).then_some(late)
    }

    /// Records the report of a step that started at `started_at` and ended at `ended_at`.
    pub(super) fn on_report(&mut self, report: &Report, started_at: Duration, ended_at: Duration) {
        let after = |span| started_at.saturating_add(span);
        let holds_for = match &report.role {
            Role::Leading(leadership) => Some(leadership.valid_for),
            _ => report.wins_within,
        };
        self.holds_until = holds_for.map(after);
        // A long step does not make the next one late.
        self.due_at = after(report.again_in).max(ended_at);
    }

    /// Counts the candidate among the leaders on `engine` if it leads by this report.
    pub(super) fn count_leader(&mut self, report: &Report, engine: &Engine) {
        self.leader = match report.role {
            Role::Leading(_) => self.leader.take().or_else(|| Some(engine.register_leader())),
            _ => None,
        };
    }

    /// Records that the step failed, which ends the candidate.
    pub(super) fn on_failure(&mut self) {
        (self.holds_until, self.leader) = (None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_core::Leadership;

    const MS: Duration = Duration::from_millis(1);
    const ZERO: Duration = Duration::ZERO;

    fn after(role: Role, began: Duration, ended_at: Duration) -> LastStep {
        let mut step = LastStep::default();
        step.on_report(&Report::new(role, 4_000 * MS), began, ended_at);
        step
    }

    fn leading() -> Role {
        Role::Leading(Leadership { term: 7, valid_for: 12_000 * MS })
    }

    #[test]
    fn a_leader_is_late_when_an_eighth_of_its_time_is_gone() {
        let mut step = after(leading(), ZERO, 10 * MS);
        assert_eq!(step.holds_until, Some(12_000 * MS));
        assert_eq!(step.on_start(4_900 * MS, 5_000 * MS), None);
        assert_eq!(step.waited, Some(100 * MS));
        assert_eq!(step.on_start(4_000 * MS, 5_001 * MS), Some(1_001 * MS));
        // Requested before it was due, for an event.
        assert_eq!(step.on_start(2_000 * MS, 2_001 * MS), None);
    }

    #[test]
    fn a_step_that_took_long_makes_the_next_one_no_later() {
        let mut step = after(leading(), ZERO, 7_000 * MS);
        assert_eq!(step.on_start(7_000 * MS, 7_600 * MS), None);
        assert_eq!(step.on_start(7_000 * MS, 7_700 * MS), Some(700 * MS));
    }

    #[test]
    fn a_candidate_that_acquired_the_lease_is_as_urgent_as_a_leader() {
        let mut step = LastStep::default();
        let report = Report::new(Role::Undecided, 1_000 * MS);
        let report = Report { wins_within: Some(12_000 * MS), ..report };
        step.on_report(&report, 100 * MS, 200 * MS);
        assert_eq!(step.holds_until, Some(12_100 * MS));
        assert_eq!(step.on_start(1_100 * MS, 2_400 * MS), None);
        assert_eq!(step.on_start(1_100 * MS, 2_500 * MS), Some(1_400 * MS));
    }

    #[test]
    fn only_leaders_are_late() {
        assert_eq!(after(Role::Undecided, ZERO, ZERO).on_start(ZERO, 60_000 * MS), None);
        let mut step = after(leading(), ZERO, ZERO);
        step.on_failure();
        assert_eq!(step.on_start(ZERO, 60_000 * MS), None);
    }
}
