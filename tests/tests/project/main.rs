//! Repository checks outside of the code: documents, manifests, dependencies.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod build;
mod deploy;
mod documents;
mod language;
mod library;
mod modules;
#[cfg(target_os = "linux")]
mod release;
