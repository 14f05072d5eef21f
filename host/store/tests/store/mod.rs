//! What the tests of the embedded store share (a small language for requests, two ways to send them), and those tests
//! that are no table.

mod clients;
mod face;
mod sas;
pub mod script;
pub mod send;
mod service;
