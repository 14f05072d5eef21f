//! The background request in flight. protocol.md §13.

use crate::Moment;
use serde::{Deserialize, Serialize};
use tenure_azure::blob::SideBlob;

/// A background request that is not answered yet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct InFlight {
    pub kind: BackgroundKind,
    pub sent_at: Moment,
    /// [`CredentialState::replacements`](crate::CredentialState::replacements) at the time of
    /// signing.
    pub credential: u32,
    /// No answer arrives after this instant.
    pub until: Moment,
}

/// The subject of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum BackgroundKind {
    Token,
    Reading(SideBlob),
    Writing(SideBlob),
}
