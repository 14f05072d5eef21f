//! The part of Azure Blob Storage that an election needs: requests, answers, credentials.
//!
//! Pure: this crate sends nothing, waits for nothing and reads no clock. An [`Operation`] becomes a
//! signed [`Request`]. The response becomes an [`Answer`], whose [`Class`] is all that a decision
//! needs. Names, keys and lease ids are types that are validated on creation. Secrets are not
//! printed.

#![deny(missing_docs)]
#![cfg_attr(target_family = "wasm", no_std)]

extern crate alloc;

pub mod account;
pub mod answer;
pub mod credential;
pub mod endpoint;
pub mod explain;
pub mod http_date;
pub mod identity;
pub mod lease_id;
pub mod listing;
pub mod metadata;
pub mod name;
pub mod operation;
pub mod percent;
pub mod permission;
pub mod problem;
pub mod request;
pub mod rfc3339;
pub mod sas;
pub mod secret;
pub mod shared_key;
pub mod token;

pub use account::Account;
pub use answer::{Answer, Class, LeaseState, Properties};
pub use lease_id::LeaseId;
pub use metadata::Metadata;
pub use name::BlobName;
pub use operation::{API_VERSION, ETag, Operation};
pub use problem::Problem;
pub use request::{Method, Request};
