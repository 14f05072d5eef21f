//! What a follower writes to a side blob: it cannot write to the election's blob while that is leased.

use serde::{Deserialize, Serialize};
use tenure_azure::name::SideBlob;
use tenure_azure::operation::ETag;

/// The request about a side blob that a follower has to send.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum SideRequest {
    /// Nothing.
    #[default]
    None,
    /// Read it, to see what is there.
    Read(SideBlob),
    /// Write it, over what is there with that tag if something is.
    Write { blob: SideBlob, over: Option<ETag> },
}
