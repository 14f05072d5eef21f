//! A comparison: candidates of Tenure, of lease loops on Azure's SDKs, of Microsoft's sample, and of etcd and ZooKeeper
//! suffer the same faults.
//!
//! Every [`Contender`] has the same work: while a candidate believes that it leads it beats every 20 ms at a
//! [`Sink`](crate::Sink) of its own, which takes all. Every candidate reaches its store through a proxy of its own. In a
//! [`round()`] the leader of three candidates suffers one [`Fault`]; how long it takes is what passes until another
//! candidate's first beat, and stale is what the old one sends after that. Nothing that a candidate says of itself
//! is asked.

mod contender;
mod judge;
mod round;
mod seat;
mod server;

pub use contender::{Contender, Ready, Setting};
pub use judge::Summary;
pub use round::{Fault, Outcome, measure_rest_rate, round};
