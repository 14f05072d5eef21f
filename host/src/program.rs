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
