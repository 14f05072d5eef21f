//! Obstacles to acquiring a lock, by the summaries of its candidate.

use tenure_server::Summary;

/// What keeps a candidate from leading, as far as summaries of it tell, one after the other.
#[derive(Default)]
pub(super) struct ObstacleTracker {
    /// A problem with the clock was told, and a request was answered since.
    clock_problem_passed: bool,
    /// The newest summary tells of one.
    has_clock_problem: bool,
}

/// A kind of obstacle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObstacleKind {
    /// Another process holds the lock, or a problem is in the way that may pass.
    NotFree,
    /// The blob cannot be a lock: it holds something else.
    Unusable,
}

/// True if the service refuses what the candidate needs: the lock may be free.
pub(super) fn is_refused(summary: &Summary) -> bool {
    let blocked = summary.blocked.as_ref().map(|blocked| blocked.class);
    summary.role == "undecided" && matches!(blocked, Some("refused" | "configuration"))
}

impl ObstacleTracker {
    /// Returns the obstacle in the next summary. Some problems are none: a candidate that is about to lead a new blob waits
    /// for a second first.
    pub(super) fn update(&mut self, summary: &Summary) -> Option<ObstacleKind> {
        let class = summary.problem.as_ref().map(|problem| problem.class);
        if (summary.role, class) == ("undecided", Some("unusable-blob")) {
            return Some(ObstacleKind::Unusable);
        }
        self.is_blocked(summary).then_some(ObstacleKind::NotFree)
    }

    fn is_blocked(&mut self, summary: &Summary) -> bool {
        let class = summary.problem.as_ref().map(|problem| problem.class);
        let had_clock_problem = std::mem::replace(&mut self.has_clock_problem, class == Some("clock"));
        self.clock_problem_passed |= had_clock_problem && !self.has_clock_problem;
        match (summary.role, class) {
            ("leading", _) => false,
            ("following", _) => true,
            (_, None) => false,
            // Nothing on record is in the way of a lock.
            (_, Some("schedule")) => false,
            // They do not pass by themselves.
            (_, Some("configuration" | "foreign-lease" | "nonsense")) => true,
            // A clock that is wrong is told once, and the request repeated with the service's time. Dates of the service
            // that jump are told again and again, and the lease is given back each time.
            (_, Some("clock")) => self.clock_problem_passed,
            // Another token may have been accepted.
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

    /// What becomes of summaries with these roles, problems and failures, one after the other.
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
        // A leader reports a problem of the moment before.
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
            // The first answer that did not come is no problem yet.
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
            // The record is of an election with another schedule.
            ("undecided", "schedule", false),
            ("undecided", "schedule", true),
            // The first key was refused, and the second one was not.
            ("undecided", "refused", false),
            // The request was repeated with the service's time, and is under way.
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
        // A wrong clock, and then a service that does not answer.
        let observed = [("undecided", "clock", true), ("undecided", "unreachable", true)];
        assert_eq!(are_obstacles(&observed), [false, true]);
    }
}
