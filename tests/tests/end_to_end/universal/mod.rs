//! The universal component on a platform that is not `tenure run`: `tenure.wasm` with its built-in
//! webhook, and handlers that were plugged into the socket.

mod command;
mod composed;
mod http;
mod turns;
mod world;
