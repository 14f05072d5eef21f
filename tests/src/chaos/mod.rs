//! Chaos with real processes: candidates that are killed, frozen, stopped and cut off from the
//! store, and a sink that notes what arrives although it should not.
//!
//! A [`Plan`] says what happens in a round and follows from a seed; [`round()`] makes it happen
//! in an election of its own and waits for conditions, not for times; the [`Evidence`] is what
//! the sink saw, held against what the candidates said of their validity.

mod evidence;
mod plan;
mod round;
mod scene;

pub use evidence::{Case, Evidence, validity};
pub use plan::{ProcessFault, Fault, Mix, Plan, Target};
pub use round::round;
pub use scene::{Kind, Setting};
