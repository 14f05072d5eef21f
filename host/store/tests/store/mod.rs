//! The shared parts of the embedded store's tests, and its tests outside the table. Shared are a
//! small script language and two transports.

mod clients;
mod sas;
pub mod script;
pub mod send;
mod server;
mod service;
