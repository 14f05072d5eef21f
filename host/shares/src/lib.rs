//! Work that is split into shares, if it outgrows one leader. protocol.md §14.
//!
//! Each share is an election of its own. This crate decides which process should hold which share.
//!
//! - [`Member`] is a process that can hold shares. It writes signs of life, reads the [plan](Plan),
//!   and decides which elections to take part in.
//! - [`Leader`] is the coordinator. It reads signs of life, and writes the plan.
//!
//! A plan is advice: it decides which process contends for a share. The election of a share, not
//! the plan, ensures that it never has two holders.
//!
//! Both are pure state machines without a clock or I/O. They return requests and wake-up times, and
//! take the responses.

#![deny(missing_docs)]

mod leader;
mod member;
pub mod mutants;
mod plan;
mod planner;
mod sign;

pub use leader::{CoordinatorProblem, Leader};
pub use member::{Action, LastWill, Member, RunningShare};
pub use plan::{Plan, Share};
pub use planner::{Worker, assign};
pub use sign::{ListedSign, Sign, SignTiming, StoreRequest, StoreResponse, Tag};
