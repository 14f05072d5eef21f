//! Small scopes, explored whole: two or three candidates against the store, in every order in
//! which their requests can arrive, with every disturbance at every step.
//!
//! The pure core (`tenure_core::Step`) and the pure store (`tenure_store::Service`) are
//! the real ones. The host is a small imitation of the runner (`process`), and time is coarse:
//!
//! - It passes from one instant at which something is due to the next: a step, a time-out, a
//!   deadline, the end of the lease. Instants are whole or even seconds; within one, everything may
//!   happen in any order.
//! - What a process does by itself is done at once, for it touches nobody else; processes meet only in
//!   the store. So an action is a whole exchange: the request arrives, the answer is taken, the next
//!   request goes out.
//! - A request or answer that nothing disturbs arrives within its instant. A late one arrives at
//!   any later instant or, on other paths, never.
//! - A candidate that beats may be cut off: nothing that it sends arrives, until it is connected again.
//! - An operator may have a leader hand over to the next candidate; the one who is told stops its work
//!   at once when it is to come to its end.
//! - The service ends leases of 15 s two seconds early, as A1 (protocol.md §2) allows.
//! - Leaders beat (protocol.md §13) where the scope says so, and their followers break the lease of one that does
//!   not any more. All clocks agree; how late a leader stops and how early a follower comes follows from the
//!   instants: an instant later than their periods say, and the first one that their periods allow.
//! - Candidates start together and differ in nothing but their names; of two states that differ only in
//!   who is who, one is looked at.
//! - A handler works until it is stopped, and is stopped at once. Random numbers tell candidate,
//!   life and instant, and hardly move any pause.

mod action;
mod chance;
mod effect;
mod exchange;
mod known;
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
