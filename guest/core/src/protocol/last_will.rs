//! The last will of a leader: the request that releases its lease. The leader prepares it, and
//! another process sends it after the leader's death. protocol.md §7.3. For a member for shares, it
//! is the request that deletes its sign of life. §14.1.

use core::fmt;
use core::time::Duration;

use super::context::{Context, SignedRequest};
use super::phase::Hold;
use crate::Moment;
use crate::mutants;
use crate::side::side_blobs::Session;
use crate::step::credential_state::CredentialState;
use crate::step::settings::Settings;
use chrono::{DateTime, Utc};
use tenure_azure::credential::Credential;
use tenure_azure::operation::{ETag, Operation};
use tenure_azure::request::Request;

/// The service refuses a signed request that is older (REST: *Authorize with Shared Key*).
const SIGNED_FOR: Duration = Duration::from_secs(15 * 60);

/// A request that can be sent without any credential. `Debug` prints no secret.
#[derive(Clone, PartialEq, Eq)]
pub struct LastWill {
    /// The complete HTTP request.
    pub request: Request,
    /// Time for which it is of use, from the instant of the call's `elapsed`. It ends when the
    /// lease runs out, or when the authorisation of the request expires.
    pub valid_for: Duration,
}

impl LastWill {
    /// Returns the will of a leader at `now`, which is `date` for the service. None if nothing
    /// authorises it, or if it would be of no use.
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

    /// Returns the deletion of the blob of these settings if it still has that version. The
    /// service's date is `wall` corrected by the session. None if nothing authorises it.
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

/// Signs a request at `now`, which is `date` for the service. It is of use until `end`, or until
/// its authorisation expires, if that comes first.
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
        // An expired SAS is of no use.
        Credential::Sas(sas) => {
            sas.validity_bounds().1.map(|end| (end - date).to_std().unwrap_or_default())
        }
        // The expiry of a given token is not known here.
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
