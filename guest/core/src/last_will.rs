//! The last will of a leader: the request that releases its lease, made while it lives and sent by
//! somebody else once it is dead. protocol.md §7.3.

use core::fmt;
use core::time::Duration;

use super::Moment;
use super::context::{Ask, Context};
use super::phase::Hold;
use crate::mutants;
use chrono::{DateTime, TimeDelta, Utc};
use tenure_azure::credential::Credential;
use tenure_azure::operation::Request;

/// The service refuses a signed request that is older (REST: *Authorize with Shared Key*).
const SIGNED_FOR: TimeDelta = TimeDelta::minutes(15);

/// A release that can be sent without any credential. `Debug` prints nothing that is secret.
#[derive(Clone, PartialEq, Eq)]
pub struct LastWill {
    /// As it goes to the service.
    pub request: Request,
    /// How long it can be of use, from the instant that the `elapsed` of the step stands for: until the
    /// lease has run out by itself, or what authorises the request has expired.
    pub valid_for: Duration,
}

impl LastWill {
    /// The variable by which a host has reports hold it: `true`. It is no setting: people do not set it.
    pub const VARIABLE: &str = "TENURE_LAST_WILL";

    /// The will of a leader at `now`, which is `date` for the service. None where there is nothing to
    /// authorise it with, or it would be of no use.
    pub(super) fn of(
        hold: &Hold,
        date: DateTime<Utc>,
        now: Moment,
        context: &Context<'_>,
    ) -> Option<Self> {
        let settings = context.settings;
        let credential = settings.account.credential();
        let pass = context.state.credential_state.pass(credential, now)?;
        let authorised = context.state.credential_state.until(credential, now);
        let signed = match credential {
            Credential::SharedKey(..) => Some(date + SIGNED_FOR),
            Credential::Sas(sas) => sas.bounds().1,
            // What the service says of a token that was given to this candidate is not known here.
            Credential::Token(_) | Credential::Identity(_) => None,
        };
        // One that has expired is of no use from now on.
        let signed = signed.map(|end| now + (end - date).to_std().unwrap_or_default());
        let runs_out = hold.lease_until + settings.timings.margin;
        let until = [authorised, signed].into_iter().flatten().fold(runs_out, Moment::min);
        let operation = mutants::last_will(hold.lease);
        let timeout = settings.timings.request_timeout;
        let request = Ask { operation, timeout, pass }.request(settings, date);
        let valid_for = until.saturating_sub(context.started);
        (until > now).then_some(Self { request, valid_for })
    }
}

impl fmt::Debug for LastWill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { request, valid_for } = self;
        f.debug_struct("LastWill").field("request", request).field("valid_for", valid_for).finish()
    }
}
