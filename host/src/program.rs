//! What the program `tenure` and its demo take beside the interface of this library. Nothing here is
//! meant for anybody else, and all of it may change.

/// What many elections run on.
pub mod elections {
    pub use crate::tasks::{Leave, Task, Tasks};
}

/// The clients of the election component, requests over them, and whom they trust.
pub mod http {
    pub use crate::egress::client::{Clients, Unread, whole};
    pub use crate::egress::direct::send;
    pub use crate::egress::error::too_many_files;
    pub use crate::egress::proxies::{Proxies, Proxy};
    pub use crate::egress::tls::{OF_AUTHORITY, is_of_authority, trusting};
}

/// A member for shares, and what is kept beside the coordinating election.
pub mod shares {
    pub use crate::shares::contender::Place;
    pub use crate::shares::store::{SharesStore, Told};
    pub use crate::shares::task::{
        AGAIN, Candidate, LEAVE_WITHIN, Membership, OfShare, POLL, Running, Task, Wills,
    };
    pub use crate::shares::whole::make_way;
    pub use tenure_shares::{Answer, Ask, Pace, Plan, Share, Sign, Tag};
}
