//! Comparison of Tenure, lease loops on Azure's SDKs, Microsoft's sample, etcd and ZooKeeper under
//! the same faults.
//!
//! Every [`Contender`] has the same work: while a candidate believes that it leads, it beats every
//! 20 ms. Each candidate has its own [`Sink`](crate::Sink), which accepts every beat, and reaches
//! its store through its own proxy. In a [`round()`] the leader of three candidates suffers one
//! [`Fault`]. The takeover is the time until another candidate's first beat. Later beats of the old
//! leader are stale. The measurements ignore the candidates' own logs.

mod contender;
mod round;
mod seat;
mod server;
mod summary;

pub use contender::{Contender, Ready, Setting};
pub use round::{Fault, Outcome, measure_rest_rate, round};
pub use summary::Summary;
