//! The last will of a leader: the request that releases its lease, made while it lives and sent by
//! somebody else once it is dead. protocol.md §7.3. And that of a member for shares: the request that deletes its sign
//! of life. §14.1.

use core::fmt;
use core::time::Duration;

use super::Moment;
use super::context::{SignedRequest, Context};
use super::credential_state::CredentialState;
use super::phase::Hold;
use super::settings::Settings;
use super::side_blobs::Session;
use crate::mutants;
use chrono::{DateTime, Utc};
use tenure_azure::credential::Credential;
use tenure_azure::operation::{ETag, Operation};
use tenure_azure::request::Request;

/// The service refuses a signed request that is older (REST: *Authorize with Shared Key*).
const SIGNED_FOR: Duration = Duration::from_secs(15 * 60);

/// A request that can be sent without any credential. `Debug` prints nothing that is secret.
#[derive(Clone, PartialEq, Eq)]
pub struct LastWill {
    /// As it goes to the service.
    pub request: Request,
    /// How long it can be of use, from the instant that the `elapsed` of the call stands for: until the
    /// lease has run out by itself, or what authorises the request has expired.
    pub valid_for: Duration,
}

impl LastWill {
    /// The will of a leader at `now`, which is `date` for the service. None where there is nothing to
    /// authorise it with, or it would be of no use.
    pub(super) fn for_leader(
        hold: &Hold,
        date: DateTime<Utc>,
        now: Moment,
        context: &Context<'_>,
    ) -> Option<Self> {
        let settings = context.settings;
        let lease_end = hold.lease_until + settings.timings.margin;
        let (operation, credential_state) = (mutants::last_will(hold.lease), &context.state.credential_state);
        let (request, until) = sign(operation, (settings, credential_state), (date, now), lease_end)?;
        Some(Self { request, valid_for: until.saturating_sub(context.started) })
    }

    /// The deletion of the blob that the settings name beside an election, if it is still of that version. For the service it is
    /// `wall` and what the session says. None where there is nothing to authorise it with.
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

/// A request as it goes to the service at `now`, which is `date` for the service, and until when it can be of use: `end`, or
/// when what authorises it expires, if that comes first.
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
        // One that has expired is of no use from now on.
        Credential::Sas(sas) => sas.validity_bounds().1.map(|end| (end - date).to_std().unwrap_or_default()),
        // What the service says of a token that was given to this candidate is not known here.
        Credential::Token(_) | Credential::Identity(_) => None,
    };
    let signed_until = signature_lifetime.map(|left| now + left);
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
