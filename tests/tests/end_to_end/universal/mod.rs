//! The universal component on a platform other than `tenure run`: `tenure.wasm` with its built-in
//! webhook, and composed handlers.

mod command;
mod composed;
mod http;
mod turns;
mod world;
