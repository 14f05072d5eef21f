//! What a step reports to the host, problems included.

use core::time::Duration;

use super::super::Moment;
use super::super::failure::Failure;
use super::super::problem::{Problem, ProblemClass};
use super::super::report::{Leadership, Report, Role};
use super::super::settings::Complaint;
use super::super::side_request::SideRequest;
use super::super::timings::BACK_OFF;
use super::{MOST_REQUESTS, Phase, Step, remember};
use tenure_azure::answer::Answer;
use tenure_azure::operation::Operation;
use tenure_base::prelude::*;

/// How soon to be called while the host has not seen the handler stopped.
const STOPPING: Duration = Duration::from_secs(1);

impl Step<'_> {
    /// Reports that the settings cannot be read any more, and that those from before are used.
    pub fn complain(&mut self, complaints: &[Complaint], now: Moment) {
        if !complaints.is_empty() {
            let detail = format!(
                "{}. What was read before is used until then",
                Complaint::sentences(complaints)
            );
            self.report_problem(ProblemClass::Configuration, detail, now);
        }
    }

    /// Reports a problem, unless it was reported lately.
    pub(crate) fn report_problem(&mut self, class: ProblemClass, detail: String, now: Moment) {
        let problem = Problem { class, detail };
        if self.state.reported.is_news(&problem, now) {
            self.problems.push(problem);
        }
    }

    /// Reports what came of an order. Each order has its answer, also when the last one had the same.
    pub(crate) fn answer_order(&mut self, class: ProblemClass, detail: String) {
        self.problems.push(Problem { class, detail });
    }

    /// Reports that a request was not answered, or not as hoped.
    pub(crate) fn report_reply(
        &mut self,
        operation: &Operation,
        reply: &Result<Answer, Failure>,
        now: Moment,
    ) {
        let origin = self.settings.account.origin();
        let problem = match reply {
            Err(failure) => failure.problem(operation.name(), origin),
            Ok(answer) => Problem::of_answer(answer, operation, self.settings),
        };
        self.report_problem(problem.class, problem.detail, now);
    }

    pub(super) fn report(&mut self, now: Moment) -> Report {
        self.check_schedule(now);
        if let (Some(run), Phase::Holding(hold)) = (&mut self.run, &self.state.phase) {
            // The lease may have been renewed since the claim.
            run.valid_for = hold.valid_until.saturating_sub(self.started);
            self.state.began.note(run, true);
        }
        let timings = &self.settings.timings;
        let next = match &self.state.phase {
            _ if self.requests == MOST_REQUESTS => now + BACK_OFF,
            Phase::Watching(_)
                if self.state.side_request != SideRequest::None && self.yields(now) =>
            {
                now
            }
            Phase::Watching(watch) | Phase::Creating { watch, .. } => watch.pace.next,
            Phase::Acquiring(attempt) => attempt.pace.next,
            Phase::Raising(raise) => raise.next(),
            Phase::Holding(hold) => self.next_in_leadership(hold, now),
            Phase::Stopping { .. } if self.ending.is_some() => now,
            Phase::Stopping { .. } => now + STOPPING,
            Phase::Releasing(release) => release.pace.next,
            Phase::Left => now + timings.lease,
        };
        let next = self.with_files(self.with_background(next, now), now);
        let role = match &self.state.phase {
            Phase::Holding(hold) => Role::Leading(Leadership {
                term: hold.term(),
                valid_for: hold.valid_until.saturating_sub(self.started),
            }),
            Phase::Left => Role::Left,
            _ => match &self.state.following {
                Some(incumbent) => Role::Following(incumbent.clone()),
                None => Role::Undecided,
            },
        };
        Report {
            state: remember(&self.state),
            role,
            ending: self.ending,
            renewed: self.renewed,
            wind_down: self.winds_down(),
            successor: self.state.steering.hand_over().map(|order| order.to.clone()),
            run: self.run.take(),
            problems: core::mem::take(&mut self.problems),
            exchanges: core::mem::take(&mut self.exchanges),
            again_in: next.saturating_sub(self.started),
        }
    }
}
