//! Processes that stop work in time, even if the process that started it dies.
//!
//! ```text
//! the runner's supervisor ── runner ── a command's supervisor ── command ── its own processes
//!           └───socket─────────┘└──────────socket─────┘
//! ```
//!
//! The runner is the process that runs the elections.
//!
//! - **Each command** has a supervisor as its parent. It stops the command when leadership or the
//!   turn ends, and when the runner ends.
//! - **The runner** of the program `tenure` has a supervisor too. It stops the work that a dead
//!   runner left behind, and reports which leases can then be released. If the supervisor of a
//!   command is killed, the runner's supervisor adopts the processes of that command, and stops
//!   them when the runner requests that. If the runner's supervisor is killed, the runner is
//!   killed too.
//!
//! Both supervisors are processes of the runner's own program. A socket connects each to the
//! runner. When the socket closes, the process at the other end has exited. A supervisor reports an
//! end only after the whole process tree has exited.

#![cfg(unix)]
#![deny(missing_docs)]

mod command;
mod connection;
mod link;
mod runner;
mod terminal;
mod tree;

pub use command::{
    KILL_SLACK, MIN_STOP_TIME, Program, STOP_TIME, has_supervisor_main, is_ignored, start,
    supervisor_main,
};
#[cfg(feature = "fuzzing")]
pub use connection::round_trips;
pub use connection::{
    Candidate, CommandExit, LastWill, Order, Report, WillSubject, from_line, to_line,
};
pub use link::{Link, Supervised};
pub use runner::{RunnerEnd, supervise_runner};
pub use terminal::reclaim_terminal;
pub use tree::{ProcessEnd, Visibility, children_of, signal_name, visibility};
