//! Leader election for replicated programs, backed by an Azure blob lease.
//!
//! All replicas run the same code. The replica that holds the lease is the leader. It runs its
//! *handler*, either once for each slot of a schedule or for as long as it leads. If the leader
//! dies, hangs or loses the network, its work is stopped before another replica can win.
//!
//! ```no_run
//! use std::time::Duration;
//! use tenure::Elector;
//! use tenure::settings::{Credential, Settings};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // The environment holds the credential; platforms set it there.
//!     let mut settings = Settings::new("jobs/report", Credential::Environment);
//!     settings.lease = Some(Duration::from_secs(20));
//!     // Fails with all complaints about the settings at once, before anything is sent.
//!     let elector = Elector::new(settings)?;
//!     // Contends until SIGTERM or Ctrl-C; then stops the work and releases the lease.
//!     elector
//!         .run_while_leading(tenure::shutdown_signal(), |lease| async move {
//!             // Fencing token: the sink rejects terms smaller than the largest it has seen.
//!             println!("leading, term {}, {:?} left", lease.term(), lease.remaining());
//!             lease.lost().await;
//!             Ok(())
//!         })
//!         .await?;
//!     Ok(())
//! }
//! ```
//!
//! [`Elector::run_on_schedule`] runs work on a schedule. [`Elector::start`] suits programs that
//! check whether they lead. Each [`Event`] also goes to subscribers of the crate `tracing`.
//!
//! # Coming from another crate
//!
//! | client-go `leaderelection` | kubert `lease` | here |
//! |---|---|---|
//! | `OnStartedLeading(ctx)` | `Claim::is_current_for` | the work of [`Elector::run_while_leading`] |
//! | `ctx.Done()` | the next `Claim` | the future is dropped; [`Lease::lost`] for tasks that it started; the runner waits for [`handler::Handler::stopped`] |
//! | `OnStoppedLeading` | | the work's future is dropped or returns; code after `run_while_leading`, on leaving |
//! | `OnNewLeader`, `GetLeader` | `watch::Receiver<Arc<Claim>>` | [`Membership::watch_role`] |
//! | `IsLeader` | `Claim::is_current_for` | [`Membership::leading_term`] |
//! | `Identity` | `claimant` | [`settings::Settings::name`] |
//! | `LeaseDuration`, `RenewDeadline`, `RetryPeriod` | `lease_duration`, `renew_grace_period` | `lease`, `lease` less `margin`, `renew` and `poll` of [`settings::Settings`] |
//! | `ReleaseOnCancel` | `vacate` | always, when [`Membership::leave`] or `run_while_leading` completes |
//! | `HealthzAdaptor` | | `/healthz` of the crate `tenure-server` |
//! | `Run` returns when leadership is lost | | contends again; returns only after `shutdown` |
//!
//! # Design decisions
//!
//! - A pure core makes all decisions about the election. [`engine::Election`] drives it natively.
//!   The election component, which the crate `tenure-wasmtime` hosts, contains the same core.
//! - The [`engine::Runner`] drives either one and makes no decisions. It passes the time, runs the
//!   turns that the core orders, and stops a leader's work in time. Work stops no later than the
//!   last instant at which the leader certainly holds the lease.
//! - [`engine::Elector`] is the interface between the runner and an election. Tests implement it
//!   with a script, and `tenure-wasmtime` with the component.
//! - The runner lets each step run to its end, because the step may already have released the
//!   lease. Only dropping the future of `run` interrupts a step. A turn may be dropped at any time.
//! - The order on leaving is fixed: stop the work, wait until it has stopped, report that to the
//!   core, release the lease.

#![deny(missing_docs)]

mod egress;
mod election;
mod elector;
pub mod engine;
mod future;
pub mod handler;
mod lease;
mod membership;
mod runner;
pub mod settings;
pub mod status;
mod tasks;
mod token;

pub use egress::{InvalidRootCertificates, RootCertificates};
pub use elector::{Elector, NewElectorError, shutdown_signal};
pub use lease::Lease;
pub use membership::{Events, Leader, Membership, Role};
pub use runner::{Event, ProblemKind, StandDownReason};
pub use tenure_core::{EndingReason, ProblemClass};
#[cfg(unix)]
pub use tenure_supervisor::supervisor_main;
