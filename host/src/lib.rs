//! Runs one leader among many, elected through a lease on an Azure blob.
//!
//! Each replica of a program runs the same code. One of them wins a lease on an Azure blob, and
//! only that one runs its *handler*, once for each slot of a schedule. When it dies, hangs or
//! loses the network, its work is stopped before another one can win.
//!
//! A pure core decides everything about the election. [`election::Election`] drives it natively. The election component, which
//! the crate `tenure-wasmtime` hosts, has the same core. The [`runner::Runner`] gives either its time, runs the turns that it
//! orders, and stops a leader's work no later than the last instant at which it certainly holds the lease.
//!
//! ```no_run
//! use std::time::Duration;
//! use tenure::clock::BootClock;
//! use tenure::election::Election;
//! use tenure::handler;
//! use tenure::runner::{Event, Runner};
//! use tenure::settings::{Credential, Schedule, Settings};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // One clock for the runner and the election. It counts while the machine sleeps.
//!     let clock = BootClock::new();
//!
//!     // The candidate. Its credential is in the environment: a platform sets it there.
//!     let mut settings = Settings::new("jobs/nightly-report", Credential::Environment);
//!     settings.schedule = Some(Schedule::Every(Duration::from_secs(3600)));
//!     let elector = Election::new(settings, &clock);
//!     // All complaints about the settings at once, before anything is sent.
//!     elector.check()?;
//!
//!     // The work of the leader.
//!     let work = handler::from_fn(|turn, lease| async move {
//!         // Terms rise: let the sink refuse a smaller one than it has seen.
//!         let slot = turn.slot.to_rfc3339();
//!         println!("slot {slot} under term {}, {:?} left", turn.term, lease.remaining());
//!         Ok(())
//!     });
//!
//!     // For people. Do not act on events: the term and the deadline of a turn say what the work may do. Subscribers of the
//!     // crate `tracing` have them too. Here they are handed to another thread, since whoever is called must not block.
//!     let (events, told) = std::sync::mpsc::channel();
//!     std::thread::spawn(move || {
//!         for event in told {
//!             match event {
//!                 Event::Elected { term, .. } => println!("leading, term {term}"),
//!                 Event::StoodDown { reason, .. } => println!("leading no longer: {reason}"),
//!                 Event::Problem { class, detail } => eprintln!("{class}: {detail}"),
//!                 _ => {}
//!             }
//!         }
//!     });
//!     let mut runner = Runner::new(elector, work, clock).on_event(move |event| {
//!         // Nobody may be listening any more.
//!         let _ = events.send(event);
//!     });
//!     // Contends until SIGTERM or Ctrl-C; then stops the work, and releases the lease.
//!     runner.run(tenure::terminated()).await;
//!     Ok(())
//! }
//! ```
//!
//! A process with many elections, which come and go, adds them to [`elections::Tenure`].
//!
//! # Coming from client-go
//!
//! | `leaderelection` | here |
//! |---|---|
//! | `OnStartedLeading(ctx)` | the handler, with [`settings::Schedule::WhileLeading`] |
//! | `ctx.Done()` | its future is dropped; [`Deadline::over`] for what it started; [`handler::Handler::stopped`] is waited for |
//! | `OnStoppedLeading` | the end of the handler's future; what follows `run`, where it leaves; [`runner::Event::StoodDown`] is for logs |
//! | `OnNewLeader`, `GetLeader` | [`runner::Event::Following`], [`elections::Handle::watch`] |
//! | `IsLeader` | [`elections::Handle::leads`] |
//! | `Identity` | [`settings::Settings::name`] |
//! | `LeaseDuration`, `RenewDeadline`, `RetryPeriod` | `lease`, `lease` less `margin`, `renew` and `poll` of [`settings::Settings`] |
//! | `ReleaseOnCancel` | always, when `leave` completes; not when the future of `run` is dropped |
//! | `HealthzAdaptor` | `/healthz` of the feature `server` |
//! | `Run` returns when the leadership is lost | it contends again, and returns only after `leave` |
//!
//! # Features
//!
//! - `server`: pages, metrics and probes over HTTP, and the orders of operators (`server`).
//!
//! # Design decisions
//!
//! - The runner decides nothing. [`runner::Elector`] is the seam: the tests put a script there, and `tenure-wasmtime` the
//!   component.
//! - A step runs to its end, because it may already have released the lease, unless the future of `run` itself is
//!   dropped. A turn may be dropped at any time.
//! - The order is always: stop the work, see it stopped, tell the component, release.

#![deny(missing_docs)]

mod causes;
pub mod clock;
pub mod contract;
mod deadline;
pub mod egress;
pub mod election;
pub mod elections;
pub mod engine;
#[cfg(unix)]
mod family;
mod future;
pub mod handler;
mod lines;
#[doc(hidden)]
pub mod program;
pub mod runner;
#[cfg(feature = "server")]
pub mod server;
pub mod settings;
pub mod shares;
mod span;
mod terminated;
mod trace_parent;

pub use deadline::Deadline;
pub use terminated::terminated;
pub use trace_parent::TraceParent;
