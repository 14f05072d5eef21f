//! Detects obstacles to acquiring a lock from the summaries of its candidate.

use tenure_server::Summary;

/// Tracker of obstacles over consecutive summaries of a candidate.
#[derive(Default)]
pub(super) struct ObstacleTracker {
    /// True if a clock problem was reported, and a later request succeeded.
    clock_problem_passed: bool,
    /// True if the newest summary reports a clock problem.
    has_clock_problem: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObstacleKind {
    /// Another process holds the lock, or a temporary problem prevents acquiring it.
    NotFree,
    /// The blob holds something else, so it cannot be a lock.
    Unusable,
}

/// Returns true if the service refuses a necessary request: the lock may be free.
pub(super) fn is_refused(summary: &Summary) -> bool {
    let blocked = summary.blocked.as_ref().map(|blocked| blocked.class);
    summary.role == "undecided" && matches!(blocked, Some("refused" | "configuration"))
}

impl ObstacleTracker {
    /// Returns the obstacle in the next summary. Ignores problems that occur just before leading: a
    /// candidate waits for a second before it leads with a new blob.
    pub(super) fn update(&mut self, summary: &Summary) -> Option<ObstacleKind> {
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
            // The service may have accepted another token.
            _ => summary.failing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tenure_server::Board;
    use tenure_server::Problem;

    /// Returns, for consecutive summaries with these roles, problems and failures, if each has an
    /// obstacle.
    fn are_obstacles(observed: &[(&'static str, &'static str, bool)]) -> Vec<bool> {
        obstacles(observed).into_iter().map(|hindrance| hindrance.is_some()).collect()
    }

    fn obstacles(observed: &[(&'static str, &'static str, bool)]) -> Vec<Option<ObstacleKind>> {
        let mut obstacle = ObstacleTracker::default();
        let summary = |&(role, class, failing): &(_, &'static str, _)| Summary {
            role,
            problem: (!class.is_empty()).then(|| Problem { class, detail: "x".to_owned() }),
            failing,
            ..Board::new("locks/one", "ada", Duration::ZERO).summary(Duration::ZERO)
        };
        observed.iter().map(|case| obstacle.update(&summary(case))).collect()
    }

    #[test]
    fn blob_with_other_content_is_no_lock() {
        use ObstacleKind::{NotFree, Unusable};
        let found = obstacles(&[("undecided", "unusable-blob", false)]);
        assert_eq!(found, [Some(Unusable)]);
        // Its lease may end.
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
    fn a_problem_of_one_that_leads_in_a_moment_is_not_in_the_way() {
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
