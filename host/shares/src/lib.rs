//! Work that outgrows one leader is split into shares. Each share is an election of its own; this crate decides who
//! should hold which. protocol.md §15.
//!
//! The leader of the whole writes a [plan](Plan), from the [signs of life](Sign) of the members. A plan is advice: it
//! says who is to contend for a share. That a share never has two holders is what its own election sees to, whatever
//! a plan says.
//!
//! Values go in and come out: nothing here has a clock, or sends anything.

#![deny(missing_docs)]

mod assign;
mod member;
mod planner;

pub use assign::{Member, assign};
pub use member::{Act, Running, acts};
pub use planner::{Pace, Plan, Planner, Sign};
