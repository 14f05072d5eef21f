//! Chaos with real processes: candidates that are killed, frozen, stopped and cut off from the
//! store, and a sink that records requests that must not arrive.
//!
//! A [`Plan`] describes the events of a round and follows from a seed. [`round()`] runs it in its
//! own election and waits for conditions, not for times. The [`Evidence`] compares the sink's beats
//! with the validity in the candidates' events.

mod evidence;
mod plan;
mod round;
mod scene;

pub use evidence::{Case, Evidence, validity};
pub use plan::{Fault, Mix, Plan, ProcessFault, Target};
pub use round::round;
pub use scene::{Kind, Setting};
