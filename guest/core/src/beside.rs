//! What goes on beside the steps. protocol.md §13.

use super::Moment;
use serde::{Deserialize, Serialize};
use tenure_azure::name::SideBlob;

/// A request that went out beside the steps, and is not answered yet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct InFlight {
    pub kind: BackgroundKind,
    pub sent_at: Moment,
    /// [`CredentialState::changes`](super::CredentialState::changes) when it was signed.
    pub credential: u32,
    /// No answer comes after that.
    pub until: Moment,
}

/// What it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum BackgroundKind {
    Token,
    Reading(SideBlob),
    Writing(SideBlob),
}
