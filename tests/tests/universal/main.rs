//! The universal component on a platform that is not `tenure run`: `tenure.wasm` with its built-in
//! webhook, and handlers that were plugged into the socket.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod command;
mod composed;
mod http;
mod turns;
mod world;
