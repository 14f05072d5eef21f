//! What a follower leaves beside the election's blob, which it cannot write to while it is leased.

use serde::{Deserialize, Serialize};
use tenure_azure::name::Aside;
use tenure_azure::operation::ETag;

/// What a follower has to do about one of those blobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Chore {
    /// Nothing.
    #[default]
    None,
    /// See what is in its place.
    Look(Aside),
    /// Leave it, over what is there with that tag if something is.
    Leave { aside: Aside, over: Option<ETag> },
}
