//! The part of Azure Blob Storage that an election needs: requests, answers, credentials.
//!
//! Pure: this crate sends nothing, waits for nothing and reads no clock. An [`Operation`] becomes a
//! signed [`Request`]. The response becomes an [`Answer`], whose [`Class`] is all that a decision
//! needs. Names, keys and lease ids have types of their own, which are validated on creation.
//! `Debug` prints no secret.

#![deny(missing_docs)]
#![cfg_attr(target_family = "wasm", no_std)]

extern crate alloc;

pub mod account;
pub mod answer;
pub mod blob;
pub mod credential;
pub mod encoding;
pub mod endpoint;
pub mod explain;
pub mod identity;
pub mod operation;
pub mod request;
pub mod secret;
pub mod shared_key;

pub use account::Account;
pub use answer::{Answer, Class, LeaseState, Properties};
pub use blob::{BlobName, LeaseId, Metadata};
pub use credential::Problem;
pub use operation::{API_VERSION, ETag, Operation};
pub use request::{Method, Request};
