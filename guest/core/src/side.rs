//! The blobs beside the election's blob: announcements, candidates' names, orders, shares' requests.

pub(crate) mod announcement;
pub(crate) mod background;
pub(crate) mod follower;
pub(crate) mod hints;
pub(crate) mod in_flight;
pub(crate) mod listing;
pub(crate) mod orders;
pub(crate) mod side_blob_rules;
pub(crate) mod side_blobs;
pub(crate) mod split;
