//! Runs one leader among many, elected through a lease on an Azure blob.
//!
//! Each replica of a program runs the same code. One of them wins a lease on an Azure blob, and
//! only that one runs its *handler*, once for each slot of a schedule. When it dies, hangs or
//! loses the network, its work is stopped before another one can win.
//!
//! ```no_run
//! use std::time::Duration;
//! use tenure::Elector;
//! use tenure::settings::{Credential, Settings};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // The environment holds the credential: a platform sets it there.
//!     let mut settings = Settings::new("jobs/report", Credential::Environment);
//!     settings.lease = Some(Duration::from_secs(20));
//!     // All complaints about the settings at once, before anything is sent.
//!     let elector = Elector::new(settings)?;
//!     // Contends until SIGTERM or Ctrl-C; then stops the work and releases the lease.
//!     elector
//!         .run_while_leading(tenure::terminated(), |lease| async move {
//!             // Terms rise: let the sink refuse a smaller one than it has seen.
//!             println!("leading, term {}, {:?} left", lease.term(), lease.remaining());
//!             lease.lost().await;
//!             Ok(())
//!         })
//!         .await?;
//!     Ok(())
//! }
//! ```
//!
//! [`Elector::run_on`] runs work on a schedule, and [`Elector::start`] serves programs that ask whether they lead. Each
//! [`Event`] also goes to subscribers of the crate `tracing`.
//!
//! # Coming from another crate
//!
//! | client-go `leaderelection` | kubert `lease` | here |
//! |---|---|---|
//! | `OnStartedLeading(ctx)` | `Claim::is_current_for` | the work of [`Elector::run_while_leading`] |
//! | `ctx.Done()` | the next `Claim` | its future is dropped; [`Lease::lost`] for what it started; [`handler::Handler::stopped`] is waited for |
//! | `OnStoppedLeading` | | the end of the work's future; what follows `run_while_leading`, where it leaves |
//! | `OnNewLeader`, `GetLeader` | `watch::Receiver<Arc<Claim>>` | [`Membership::roles`] |
//! | `IsLeader` | `Claim::is_current_for` | [`Membership::leads`] |
//! | `Identity` | `claimant` | [`settings::Settings::name`] |
//! | `LeaseDuration`, `RenewDeadline`, `RetryPeriod` | `lease_duration`, `renew_grace_period` | `lease`, `lease` less `margin`, `renew` and `poll` of [`settings::Settings`] |
//! | `ReleaseOnCancel` | `vacate` | always, when [`Membership::leave`] or `run_while_leading` completes |
//! | `HealthzAdaptor` | | `/healthz` of the crate `tenure-server` |
//! | `Run` returns when the leadership is lost | | it contends again, and returns only after `shutdown` |
//!
//! # Design decisions
//!
//! - A pure core decides everything about the election. [`engine::Election`] drives it natively. The election component,
//!   which the crate `tenure-wasmtime` hosts, has the same core.
//! - The [`engine::Runner`] gives either its time, runs the turns that it orders, and stops a leader's work no later than
//!   the last instant at which it certainly holds the lease. It decides nothing. [`engine::Elector`] is the seam: the tests
//!   put a script there, and `tenure-wasmtime` the
//!   component.
//! - A step runs to its end, because it may already have released the lease, unless the future of `run` itself is
//!   dropped. A turn may be dropped at any time.
//! - The order is always: stop the work, see it stopped, tell the component, release.

#![deny(missing_docs)]

mod egress;
mod election;
mod elector;
pub mod engine;
mod future;
pub mod handler;
mod lease;
mod lines;
mod membership;
mod runner;
pub mod settings;
pub mod status;
mod tasks;
mod terminated;
mod token;
mod trace_parent;

pub use egress::{RootCertificates, InvalidRootCertificates};
pub use elector::{Elector, NewElectorError};
pub use lease::Lease;
pub use membership::{Events, Leader, Membership, Role};
pub use runner::{ProblemKind, Event, StandDownReason};
pub use tenure_core::{EndingReason, ProblemClass};
#[cfg(unix)]
pub use tenure_supervisor::supervisor_main;
pub use terminated::shutdown_signal;
