//! Background requests: what a candidate sends in its spare time, when nothing else is due, and only
//! as long as that lasts. A token is renewed long before it ends; a side blob is read or written.
//!
//! A leader that does not hear of its newest renewal has no spare time. One that does is called for
//! a background request at once, because the step that renews ends with that.

use core::time::Duration;

use chrono::{DateTime, Utc};

use super::Moment;
use super::candidate::{Phase, Step, Todo, Wish};
use super::chance::Chance;
use super::credential_state::{ASK, CredentialState, Fetch, Fetched, LEAST_FETCH, LONGEST_FETCH};
use super::failure::Failure;
use super::holding::Hold;
use super::notice::{self, LEAST_NOTICE, LONGEST_NOTICE, Notice};
use super::problem::{Problem, ProblemClass};
use super::report::{Exchange, ExchangeResult};
use super::settings::Settings;
use super::side_request::SideRequest;
use super::successor::{Announcement, Successor};
use tenure_azure::answer::{Answer, Class};
use tenure_azure::credential::Pass;
use tenure_azure::name::SideBlob;
use tenure_azure::operation::Operation;
use tenure_base::prelude::*;

/// The longest that an early request for a token may take: as for a notice.
const LONGEST_EARLY: Duration = Duration::from_secs(3);

/// With secrets in files, a candidate is called so often at least, and reads them again.
const READ_AGAIN: Duration = Duration::from_secs(4);

impl Step<'_> {
    /// Begins with the credential state of an earlier poll.
    #[must_use]
    pub fn with_credential_state(mut self, credential_state: CredentialState) -> Self {
        self.state.credential_state = credential_state;
        self
    }

    /// The request for a token that something else waits for.
    pub(super) fn missing_token(&self, now: Moment) -> Option<Fetch> {
        let left = match &self.state.phase {
            Phase::Holding(hold) => hold.valid_until.saturating_sub(now),
            Phase::Raising(raise) => raise.valid_until().saturating_sub(now),
            _ => LONGEST_FETCH,
        };
        self.fetch(left, now)
    }

    /// The background request that is due and fits into the spare time.
    pub(super) fn background_request(&mut self, pass: Option<Pass>, now: Moment) -> Option<Todo> {
        // A turn that was just claimed is to begin.
        if self.run.is_some() {
            return None;
        }
        let spare = self.spare_time(now);
        let wish = self.side_wish(spare, now);
        // Where requests take long there is spare time for one only. What a handover waits for comes first
        // then: it has a limit. A token that is over is asked for before anything else.
        let hands_over = self.state.steering.hand_over().is_some();
        let hurries =
            pass.is_some() && (hands_over || self.state.successor.is_some_and(Successor::is_named));
        if (wish.is_none() || !hurries)
            && let Some(fetch) = self.fetch(spare.min(LONGEST_EARLY), now)
        {
            return Some(Todo::Fetch(fetch));
        }
        wish.zip(pass).map(|(wish, pass)| self.send(wish, pass))
    }

    /// The request about a side blob, if one is due and there is time for it.
    fn side_wish(&self, spare: Duration, now: Moment) -> Option<Wish> {
        let (operation, timeout) = match &self.state.phase {
            Phase::Watching(_) => (self.side_operation()?, spare.min(self.longest_side_request())),
            Phase::Holding(hold) if self.announcement_due(hold).is_some_and(|due| due <= now) => (
                Operation::ReadSideBlob(SideBlob::Successor),
                self.time_for_announcement(hold, spare, now),
            ),
            Phase::Holding(hold) if self.notice_due(hold).is_some_and(|due| due <= now) => {
                (Operation::ReadSideBlob(SideBlob::Notice), spare.min(LONGEST_NOTICE))
            }
            _ => return None,
        };
        (timeout >= LEAST_NOTICE).then_some(Wish { operation, timeout })
    }

    /// The request for a token, if one is due and can be had in that time.
    fn fetch(&self, time: Duration, now: Moment) -> Option<Fetch> {
        let credential = self.settings.account.credential();
        let due = self.state.credential_state.due(credential).is_some_and(|due| due <= now);
        let timeout = time.min(LONGEST_FETCH);
        (due && timeout >= LEAST_FETCH).then(|| CredentialState::fetch(credential, timeout))?
    }

    /// How long nothing is due.
    fn spare_time(&self, now: Moment) -> Duration {
        match &self.state.phase {
            Phase::Holding(hold) if hold.is_renewed() => {
                self.next_in_leadership(hold, now).saturating_sub(now)
            }
            Phase::Watching(watch) => watch.pace.next.saturating_sub(now),
            _ => Duration::ZERO,
        }
    }

    /// How long a leader's read for an announcement may take: as long as nothing is due, and longer if only a
    /// renewal is, while there is time for that afterwards. None, where there is no spare time.
    fn time_for_announcement(&self, hold: &Hold, spare: Duration, now: Moment) -> Duration {
        let timings = &self.settings.timings;
        let beside = timings.beside_renewals(now, hold.valid_until);
        match spare {
            Duration::ZERO => Duration::ZERO,
            spare => spare.max(beside).min(timings.request_timeout),
        }
    }

    /// When a leader reads for a notice; never when there are none.
    fn notice_due(&self, hold: &Hold) -> Option<Moment> {
        notice::are_in_use(self.settings).then_some(hold.read_notice_at)
    }

    /// When to be called, background requests included: not before there can be a token, where everything
    /// waits for one; in good time, for a leader that is not called otherwise.
    pub(super) fn with_background(&self, next: Moment, now: Moment) -> Moment {
        let credential = self.settings.account.credential();
        let token = self.state.credential_state.due(credential);
        let missing = token.filter(|_| self.state.credential_state.pass(credential, now).is_none());
        match (&self.state.phase, missing) {
            (Phase::Stopping { .. } | Phase::Left, _) => next,
            (Phase::Holding(hold), Some(due)) => in_time(next.max(due), hold.valid_until, now),
            (Phase::Raising(raise), Some(due)) => in_time(next.max(due), raise.valid_until(), now),
            (Phase::Releasing(release), Some(due)) => next.max(due).min(release.until()),
            (_, Some(due)) => next.max(due),
            (Phase::Holding(hold), None) if hold.is_renewed() => {
                let requests = [
                    (token, LEAST_FETCH),
                    (self.notice_due(hold), LEAST_NOTICE),
                    (self.announcement_due(hold), LEAST_NOTICE),
                ];
                let fitting = requests.into_iter().filter_map(|(due, least)| {
                    let due = due?.max(now);
                    (next.saturating_sub(due) >= least).then_some(due)
                });
                fitting.min().unwrap_or(next)
            }
            _ => next,
        }
    }

    /// Not later than the files are to be read again.
    pub(super) fn with_files(&self, next: Moment, now: Moment) -> Moment {
        let none = self.settings.files.is_empty();
        let over = matches!(self.state.phase, Phase::Left);
        if none || over { next } else { next.min(now + READ_AGAIN) }
    }

    /// Takes the answer to the request for a token. `sent` was read before it was sent; `now` and
    /// `wall` after it was answered.
    pub fn fetched(
        &mut self,
        sent: Moment,
        now: Moment,
        wall: DateTime<Utc>,
        reply: Fetched,
        chance: &mut dyn Chance,
    ) {
        let credential = self.settings.account.credential();
        let date = self.date(now, wall);
        let unanswered = reply.is_err();
        let taken =
            self.state.credential_state.fetched(credential, reply, (sent, now), date, chance);
        let result = match taken.as_ref().map_err(|problem| problem.class) {
            Ok(()) => ExchangeResult::Done,
            Err(_) if unanswered => ExchangeResult::Unanswered,
            Err(ProblemClass::Refused) => ExchangeResult::Refused,
            Err(ProblemClass::Unavailable) => ExchangeResult::Unavailable,
            Err(_) => ExchangeResult::Nonsense,
        };
        self.exchanges.push(Exchange { what: ASK, result, took: now.saturating_sub(sent) });
        if let Err(problem) = taken {
            self.report_problem(problem.class, problem.detail, now);
        }
    }

    /// A follower saw that the leader has another schedule: its notice is left, unless that was tried
    /// lately.
    pub(super) fn leave_notice(&mut self, now: Moment) {
        if self.state.leave_notice <= now && notice::are_in_use(self.settings) {
            self.state.side_request = SideRequest::Read(SideBlob::Notice);
        }
    }

    /// The request about a side blob; none when there is nothing to do.
    pub(super) fn side_operation(&self) -> Option<Operation> {
        match &self.state.side_request {
            SideRequest::None => None,
            SideRequest::Read(blob) => Some(Operation::ReadSideBlob(*blob)),
            SideRequest::Write { blob, over } => Some(Operation::WriteSideBlob {
                blob: *blob,
                over: over.clone(),
                metadata: match blob {
                    SideBlob::Notice => Notice::of(self.settings)?.write(),
                    SideBlob::Successor => self.announcement()?.write(),
                },
            }),
        }
    }

    /// Drops the request about a side blob: what gave cause for it may be otherwise after an event. The
    /// next poll need not wait for it then.
    pub(super) fn drop_side_request(&mut self, now: Moment) {
        let had = core::mem::take(&mut self.state.side_request) != SideRequest::None;
        let soon = now + self.settings.timings.poll / 2;
        if let (true, Phase::Watching(watch)) = (had, &mut self.state.phase) {
            watch.pace.next = watch.pace.next.min(soon);
        }
    }

    /// The longest that one request about a side blob may take. Nothing waits for a notice, but a
    /// successor has to announce itself however far away the service is.
    pub(super) fn longest_side_request(&self) -> Duration {
        match &self.state.side_request {
            SideRequest::Read(SideBlob::Successor)
            | SideRequest::Write { blob: SideBlob::Successor, .. } => {
                self.settings.timings.request_timeout
            }
            _ => LONGEST_NOTICE,
        }
    }

    /// Takes the answer to it, which `took` so long. Somebody else's blob is left untouched.
    pub(super) fn side_request_answered(&mut self, answer: Option<&Answer>, took: Duration) {
        let (SideRequest::Read(blob), Some(answer)) =
            (core::mem::take(&mut self.state.side_request), answer)
        else {
            return;
        };
        let over = match (answer.class, &answer.properties) {
            (Class::MissingBlob, _) => None,
            (Class::Done, Some(seen)) if notice::is_a_candidates(seen) => answer.etag.clone(),
            _ => return,
        };
        if blob == SideBlob::Notice || self.may_announce(answer, took) {
            self.state.side_request = SideRequest::Write { blob, over };
        }
    }

    /// Takes the answer to a request about a side blob.
    pub(super) fn side_blob_answered(
        &mut self,
        blob: SideBlob,
        reply: &Result<Answer, Failure>,
        (sent, now): (Moment, Moment),
    ) {
        let answer = reply.as_ref().ok();
        if let Some(problem) = answer.and_then(|a| strange(blob, a, self.settings)) {
            self.report_problem(problem.class, problem.detail, now);
        }
        match (blob, &mut self.state.phase) {
            (SideBlob::Successor, Phase::Holding(_)) => self.announcement_read(answer, (sent, now)),
            (SideBlob::Notice, Phase::Holding(hold)) => {
                hold.read_notice_at = now + notice::EVERY;
                let notice = answer.and_then(Notice::fresh);
                let problem = notice.and_then(|n| n.problem(self.settings));
                if let Some(problem) = problem {
                    self.report_problem(problem.class, problem.detail, now);
                }
            }
            (SideBlob::Successor, _) => self.announced(answer, (sent, now)),
            (SideBlob::Notice, _) => {
                self.state.leave_notice = now + notice::EVERY;
                self.side_request_answered(answer, now.saturating_sub(sent));
            }
        }
    }
}

/// When to ask for a token without which nothing can be done, up to `end`; the end itself, where there is
/// no time for that any more.
fn in_time(at: Moment, end: Moment, now: Moment) -> Moment {
    let fits = end.saturating_sub(at.max(now)) >= LEAST_FETCH;
    if fits { at } else { end }
}

/// The problem of a fresh side blob that holds what no candidate writes. Such a blob counts as absent.
fn strange(blob: SideBlob, answer: &Answer, settings: &Settings) -> Option<Problem> {
    let seen = answer.properties.as_ref().filter(|seen| notice::is_a_candidates(seen))?;
    let age = answer.date?.signed_duration_since(answer.modified?);
    let fit = match blob {
        SideBlob::Successor => Announcement::is_fit(seen),
        SideBlob::Notice => Notice::is_fit(seen),
    };
    let name = settings.election.side_blob_name(blob);
    let detail = format!(
        "the blob {name} holds what no candidate writes, and is ignored. See who else may write beside the \
         election's blob, and delete this one"
    );
    let class = ProblemClass::Configuration;
    (!fit && age.abs() < notice::FRESH).then_some(Problem { class, detail })
}
