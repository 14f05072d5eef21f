//! Processes that stop work in time, whatever becomes of the process that began it.
//!
//! ```text
//! the runner's supervisor ── runner ── a command's supervisor ── command ── its own processes
//!           └───socket─────────┘└──────────socket─────┘
//! ```
//!
//! The runner is the process that runs the elections.
//!
//! - **Each command** has a supervisor, which is its parent. It stops the command at the end of the leadership
//!   or of the turn, and when the runner ends.
//! - **The runner** of the program `tenure` has one too. It stops what a dead runner left, and says which leases
//!   can be released then. When the supervisor of a command is killed, it adopts the processes of that command and
//!   stops them as soon as the runner asks for that. When it is killed itself, so is the runner.
//!
//! Both are processes of the runner's own program. Both talk with the runner over a socket, and learn by its
//! end that the other side is gone. No supervisor reports an end before it has seen the end of the whole
//! tree of processes.

#![cfg(unix)]
#![deny(missing_docs)]

mod children;
mod command;
mod connection;
mod ignored;
mod link;
mod messages;
mod plan;
mod runner;
mod terminal;
mod tree;

pub use children::{Visibility, children_of, visibility};
pub use command::{Program, has_supervisor_main, start, supervisor_main};
pub use connection::{to_line, from_line};
pub use ignored::is_ignored;
pub use link::{Link, Supervised};
pub use messages::{Candidate, CommandExit, Order, Report, WillSubject, LastWill, round_trips};
pub use plan::{KILL_SLACK, STOP_TIME};
pub use runner::{RunnerEnd, supervise_runner};
pub use terminal::reclaim_terminal;
pub use tree::{ProcessEnd, signal_name};
