//! Work that outgrows one leader is split into shares. Each share is an election of its own; this crate decides who
//! should hold which. protocol.md §14.
//!
//! - [`Member`] is what a process does that is there for shares: it leaves signs of life, reads the [plan](Plan), and
//!   knows which elections to take part in.
//! - [`Leader`] is what the coordinator does: it looks for signs of life, and writes the plan.
//!
//! A plan is advice: it says who is to contend for a share. That a share never has two holders is what its own election
//! sees to, whatever a plan says.
//!
//! Values go in and come out: nothing here has a clock, or sends anything. Both say what to send and when to go on, and
//! take the answers.

#![deny(missing_docs)]

mod assign;
mod leader;
mod member;
pub mod mutants;
mod pace;
mod plan;
mod planner;
mod sign;

pub use assign::{Worker, assign};
pub use leader::{Leader, CoordinatorProblem};
pub use member::{Action, Member, RunningShare, LastWill};
pub use pace::SignTiming;
pub use plan::{Plan, Share};
pub use sign::{StoreResponse, StoreRequest, ListedSign, Sign, Tag};
