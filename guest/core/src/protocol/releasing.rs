//! Releasing a lease after the work has stopped, and the last will of a leader. protocol.md §7.1,
//! §7.3.

use core::fmt;
use core::time::Duration;

use super::context::{CompletedRequest, Context, SignedRequest, UnsignedRequest};
use super::follower::withdrawal;
use super::phase::{Hold, Phase, Release, Watch};
use crate::Moment;
use crate::mutants::{self, memory, mutant};
use crate::record::write::Write;
use crate::side::announcement::{LAST_WRITE, MAX_TRY};
use crate::side::side_blobs::Session;
use crate::step::credential_state::CredentialState;
use crate::step::pace::RetrySchedule;
use crate::step::report::{Ending, EndingReason};
use crate::step::settings::Settings;
use chrono::{DateTime, Utc};
use tenure_azure::answer::Class;
use tenure_azure::blob::LeaseId;
use tenure_azure::credential::Credential;
use tenure_azure::operation::{ETag, Operation};
use tenure_azure::request::Request;

/// Time for which the leader tries to give the lease to a successor. It is longer if one try takes
/// longer.
const OFFER: Duration = Duration::from_secs(4);

/// Time for which a leaving successor tries to release a lease that it may hold.
const UNCERTAIN_LEASE_TIME: Duration = Duration::from_secs(3);

/// Ends a leadership whose work has stopped. Other candidates have priority for a while, depending
/// on the reason.
pub(crate) fn step_down(hold: &Hold, reason: EndingReason, context: &mut Context<'_>) -> Release {
    memory::on_leadership_ended(hold);
    context.state.steering.clear();
    context.effects.ending = Some(Ending { term: hold.record.term, reason });
    let poll = context.settings.timings.poll;
    let contend_pause = match reason {
        EndingReason::Left => Duration::ZERO,
        EndingReason::HandedOver => poll,
        _ => poll / 2,
    };
    Release {
        last_write: last_write(hold, context.now),
        write_deadline: hold.lease_until,
        ..release(hold.lease, context.now + contend_pause, context)
    }
}

/// Returns the write of an outcome that is not on the blob yet, while the service answers and no
/// other write is in doubt.
fn last_write(hold: &Hold, now: Moment) -> Option<Write> {
    let is_uncertain = hold.write.as_ref().is_some_and(|write| write.uncertain_since.is_some());
    let mut record = hold.record.clone();
    if let (Some(beat), Some(beats)) = (&mut record.beat, hold.beats) {
        beat.number = beats.number + 1;
    }
    // A leader that beats had a recent answer from the store.
    (hold.has_unwritten_outcome && !is_uncertain && (hold.is_renewed() || hold.beats.is_some()))
        .then(|| Write::new(record, hold.etag.clone(), RetrySchedule::due_at(now)))
}

/// Releases the lease of an ended leadership after its work has stopped. `lease` is none if the
/// lease is lost.
pub(crate) fn on_work_stopped(lease: Option<LeaseId>, context: &Context<'_>) -> Phase {
    let polls_at_once = lease.is_some() && context.state.health.ineligible_until() <= context.now;
    let pause = if polls_at_once { Duration::ZERO } else { context.settings.timings.poll / 2 };
    let contend_at = context.now + pause;
    lease.map_or_else(
        || leave_or_watch(contend_at, context),
        |lease| Phase::Releasing(release(lease, contend_at, context)),
    )
}

/// Creates the release of the lease of a failed attempt.
pub(crate) fn give_back(lease: LeaseId, context: &Context<'_>) -> Release {
    release(lease, context.now + context.settings.timings.poll / 2, context)
}

/// Creates the release of a lease. After that, the candidate leaves, or contends again at
/// `contend_at`.
pub(crate) fn release(lease: LeaseId, contend_at: Moment, context: &Context<'_>) -> Release {
    Release {
        lease,
        successor: None,
        announcement_tag: None,
        last_write: None,
        write_deadline: context.now,
        gives_up_at: context.now + context.settings.timings.lease,
        contend_at,
        pace: RetrySchedule::due_at(context.now),
    }
}

/// Leaves the election without leading. A successor first releases the lease that the leader may
/// have given to it.
pub(crate) fn leave_as_follower(context: &mut Context<'_>) -> Phase {
    let (now, follower) = (context.now, &mut context.state.follower);
    let Some(lease) = follower.successor_lease(now) else { return Phase::Left };
    let announcement_tag =
        follower.announcement_tag.take().filter(|_| !mutant!(AnnouncementNotWithdrawn));
    Phase::Releasing(Release {
        announcement_tag,
        gives_up_at: now + UNCERTAIN_LEASE_TIME,
        ..release(lease, now, context)
    })
}

/// Returns the next request. The order is: withdraw an announcement, write the last outcome, give
/// the lease to the successor, release the lease.
pub(crate) fn next(
    mut release: Release,
    context: &mut Context<'_>,
) -> (Phase, Option<UnsignedRequest>) {
    let (now, timings) = (context.now, &context.settings.timings);
    if now >= release.gives_up_at {
        // For example, no token could be obtained. The lease has expired, or is left to expire.
        return (leave_or_watch(release.contend_at, context), None);
    }
    if release.pace.next_at > now {
        return (Phase::Releasing(release), None);
    }
    let (lease, timeout) = (release.lease, timings.request_timeout);
    if let Some(tag) = release.announcement_tag.take() {
        let operation = withdrawal(tag, context.settings);
        let timeout = timeout.min(LAST_WRITE);
        return (Phase::Releasing(release), Some(UnsignedRequest { operation, timeout }));
    }
    let change_timeout = timeout.min(MAX_TRY);
    let offer_time = OFFER.max(LAST_WRITE + change_timeout);
    if now + timings.lease > release.gives_up_at + offer_time && !mutant!(FailedChangeNotReleased) {
        // The offer is over: `gives_up_at` is one lease after its beginning. The successor may have
        // left by now. If the change was applied after all, the release does nothing: another id
        // holds the lease.
        release.successor = None;
    }
    // The last write is sent only if its answer comes before the deadline.
    if now + LAST_WRITE >= release.write_deadline {
        release.last_write = None;
    }
    let (operation, timeout) = match (&release.last_write, release.successor) {
        (Some(write), _) => (write.operation(lease), timeout.min(LAST_WRITE)),
        (None, Some(proposed)) => (Operation::Change { lease, proposed }, change_timeout),
        (None, None) => (Operation::Release { lease }, timeout),
    };
    (Phase::Releasing(release), Some(UnsignedRequest { operation, timeout }))
}

pub(crate) fn on_answer(
    mut release: Release,
    completed: CompletedRequest<'_>,
    context: &mut Context<'_>,
) -> Phase {
    let (now, timings) = (context.now, &context.settings.timings);
    let is_done = completed.class() == Some(Class::Done);
    if release.last_write.take().is_some() {
        // The release does not wait for a second try, whether the first succeeded or not.
        context.effects.outcome_recorded = is_done;
        return Phase::Releasing(release);
    }
    let (is_unknown, is_refused) = (completed.is_outcome_unknown(), completed.is_refused());
    let (may_resume, until) =
        (is_unknown && !context.state.is_leaving, timings.valid_until(now, now));
    if let Some(hold) = memory::resume_released_lease(may_resume, release.lease, until) {
        return Phase::Holding(hold);
    }
    if is_refused || (is_unknown && release.pace.failures > 0) {
        context.report_failure(&completed);
    }
    if (is_unknown || is_refused) && now < release.gives_up_at && !mutant!(ReleaseNotRepeated) {
        release.pace.on_failure(now, timings.patience(), completed.chance);
        return Phase::Releasing(release);
    }
    // A conflict on the first try shows that another candidate has the lease. On a later one, an
    // earlier try may have released it.
    if completed.class() == Some(Class::Conflict) && release.pace.failures == 0 {
        context.state.health.on_lease_taken();
    }
    leave_or_watch(release.contend_at, context)
}

fn leave_or_watch(contend_at: Moment, context: &Context<'_>) -> Phase {
    match context.state.is_leaving {
        true => Phase::Left,
        false => Phase::Watching(Watch::at(contend_at)),
    }
}

/// Age above which the service refuses a signed request (REST: *Authorize with Shared Key*).
const SIGNED_FOR: Duration = Duration::from_secs(15 * 60);

/// The last will of a leader: the request that releases its lease. The leader prepares it, and
/// another process sends it after the leader's death. protocol.md §7.3. For a member for shares, it
/// is the request that deletes its sign of life. §14.1.
///
/// The request can be sent without any credential. `Debug` prints no secret.
#[derive(Clone, PartialEq, Eq)]
pub struct LastWill {
    /// The complete HTTP request.
    pub request: Request,
    /// Time for which the request is useful, counted from the call's `elapsed`. It ends when the
    /// lease runs out or the authorisation of the request expires, whichever comes first.
    pub valid_for: Duration,
}

impl LastWill {
    /// Returns the will of a leader. `date` is the service's time at `now`. None if nothing
    /// authorises the request, or if the request is useless already.
    pub(crate) fn for_leader(
        hold: &Hold,
        date: DateTime<Utc>,
        now: Moment,
        context: &Context<'_>,
    ) -> Option<Self> {
        let settings = context.settings;
        let lease_end = hold.lease_until + settings.timings.margin;
        let (operation, credential_state) =
            (mutants::last_will(hold.lease), &context.state.credential_state);
        let (request, until) =
            sign(operation, (settings, credential_state), (date, now), lease_end)?;
        Some(Self { request, valid_for: until.saturating_sub(context.started) })
    }

    /// Returns the request that deletes the blob of these settings if it still has that tag. The
    /// session corrects `wall`, the time of this machine. None if nothing authorises the request.
    pub fn deletion(
        settings: &Settings,
        session: &Session,
        tag: ETag,
        wall: DateTime<Utc>,
        now: Moment,
    ) -> Option<Self> {
        let operation = Operation::Delete { lease: None, if_match: Some(tag) };
        let (signer, times) = ((settings, &session.credential), (wall + session.clock_skew(), now));
        let (request, until) = sign(operation, signer, times, now + SIGNED_FOR)?;
        Some(Self { request, valid_for: until.saturating_sub(now) })
    }
}

/// Signs a request; `date` is the service's time at `now`. Also returns the instant until which the
/// request is useful: `end`, or the expiry of its authorisation if that comes first.
fn sign(
    operation: Operation,
    (settings, credential_state): (&Settings, &CredentialState),
    (date, now): (DateTime<Utc>, Moment),
    end: Moment,
) -> Option<(Request, Moment)> {
    let credential = settings.account.credential();
    let auth = credential_state.auth_source(credential, now)?;
    let authorised_until = credential_state.valid_until(credential, now);
    let signature_lifetime = match credential {
        Credential::SharedKey(..) => Some(SIGNED_FOR),
        // An expired SAS has no time left.
        Credential::Sas(sas) => {
            sas.validity_bounds().1.map(|end| (end - date).to_std().unwrap_or_default())
        }
        // The expiry of a given token is not known here.
        Credential::Token(_) | Credential::Identity(_) => None,
    };
    let signed_until = signature_lifetime.map(|lifetime| now + lifetime);
    let until = [authorised_until, signed_until].into_iter().flatten().fold(end, Moment::min);
    let timeout = settings.timings.request_timeout;
    let request = SignedRequest { operation, timeout, auth }.to_http(settings, date);
    (until > now).then_some((request, until))
}

impl fmt::Debug for LastWill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { request, valid_for } = self;
        f.debug_struct("LastWill").field("request", request).field("valid_for", valid_for).finish()
    }
}
