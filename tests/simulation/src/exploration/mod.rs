//! Exhaustive exploration of small scopes.
//!
//! Two or three candidates run against the store, in every order of their requests and with every
//! disturbance at every step.
//!
//! The pure core (`tenure_core::Step`) and the pure store (`tenure_store::Service`) are the real
//! ones. The host is a small imitation of the runner (`process`), and time is coarse:
//!
//! - Time passes from one instant with a due event to the next: a step, a timeout, a deadline, the
//!   end of the lease. Instants are whole or even seconds. Within an instant, events happen in any
//!   order.
//! - Actions inside a process happen immediately, since they affect no other process. Processes
//!   meet only in the store. So an action is a whole exchange: the request arrives, the response is
//!   processed, and the next request is sent.
//! - An undisturbed request or response arrives within its instant. A late one arrives at any later
//!   instant or, on other paths, never.
//! - A candidate that beats may be cut off: its requests do not arrive until it is connected again.
//! - An operator may order a leader to hand over to the next candidate. The leader's work stops
//!   immediately when it must end.
//! - The service ends leases of 15 s two seconds early, as A1 (protocol.md §2) allows.
//! - If the scope says so, leaders beat (protocol.md §13), and followers break the lease of a
//!   leader that stopped beating. All clocks agree. Instants determine how late a leader stops, and
//!   how early a follower takes over. The leader stops an instant later than its periods say. The
//!   follower takes the first instant that its periods allow.
//! - Candidates start together and differ only in their names. Of two states that only differ in
//!   these names, one is explored.
//! - A handler works until it is stopped, and it stops immediately. Random numbers identify the
//!   candidate, life and instant, and hardly change any pause.

mod action;
mod draws;
mod effect;
mod exchange;
mod hashed;
mod oracle;
mod process;
mod scope;
mod search;
mod state;
mod step;
mod time;

pub use oracle::Invariant;
pub use scope::{Bounds, Flaw, Scope, Start};
pub use search::{Explored, explore};
