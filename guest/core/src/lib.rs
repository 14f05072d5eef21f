//! The election logic of a candidate, as pure functions over values.
//!
//! A [`Step`] is one call from the host. It starts from the state of the candidate, and requests
//! what to send ([`StepAction::Send`]). Then it takes the response, and ends with a [`Report`]
//! ([`StepAction::Done`]). The modules cite the specification.
//!
//! # Design decisions
//!
//! - Nothing is stored between calls. The host receives the candidate's opaque state and passes it
//!   to the next call, so that every call may run on a fresh instance.
//! - The core returns requests and takes responses ([`Step::next`], [`Step::on_answer`]); it never
//!   waits. The same code is driven by the component, by unit tests, and by a simulation in virtual
//!   time.
//! - The component is built without `std`, which would be a third of its size and import terminals,
//!   standard streams and more. [`tenure_base::prelude`] replaces the prelude of `std`.
//! - No request of an election has a body: every WASI host that was tried sends a bodyless request
//!   intact.

#![deny(missing_docs)]
#![cfg_attr(target_family = "wasm", no_std)]

mod acquiring;
mod agenda;
mod announcement;
mod background;
mod beside;
mod candidate;
mod chance;
#[doc(hidden)]
mod complaint;
mod context;
pub mod contract;
mod credential_state;
pub mod driver;
mod environment;
mod events;
mod failover;
mod failure;
mod failure_policy;
mod follower;
mod handing_over;
mod health;
mod hints;
mod history;
mod holding;
mod last_will;
pub mod limits;
mod listing;
#[cfg_attr(not(feature = "mutants"), doc(hidden))]
pub mod mutants;
mod next_record;
mod one_turn;
mod options;
mod orders;
mod own_time;
mod pace;
mod phase;
mod postponed;
mod problem;
mod pulse;
mod raising;
mod record;
mod releasing;
mod report;
mod service_clock;
mod settings;
mod side_blob_rules;
mod side_blobs;
mod slots;
mod snapshot;
mod split;
mod state;
mod steering;
mod text;
mod timings;
mod turn_key;
mod turns;
pub mod variable;
mod wake;
mod watching;
mod write;

pub use agenda::{Agenda, Due, Missed, Task};
pub use candidate::{StepStart, Step};
pub use chance::{Chance, lease_id as fresh_lease_id};
pub use complaint::{Complaint, SettingId};
pub use context::{SignedRequest, BackgroundRequest, StepAction};
pub use credential_state::{CredentialState, TokenRequest, TokenReply, LONGEST_FETCH};
pub use environment::{Environment, SecretFile, FileError, read_secret};
pub use failover::Failover;
pub use failure::{Failure, FailureKind};
pub use failure_policy::FailurePolicy;
pub use history::{History, Incumbent};
pub use last_will::LastWill;
pub use listing::{Listed, listed};
pub use one_turn::{OneTurnOutcome, OneTurnAction, OneTurn, StepProgress, OneTurnResult};
pub use options::{Options, Orders, Retries};
pub use orders::{OrderStep, TransferOrder, TransferState, transfer, trigger};
pub use own_time::ElapsedClock;
pub use problem::{Problem, ProblemClass};
pub use record::{
    Beat, End, Ended, FailureDetail, Finished, LastSlot, MissedSlots, Outcome, Record, RecordError,
    Trigger, TriggerState, Triggers,
};
pub use report::{
    Ending, EndingReason, Event, Exchange, ExchangeResult, Leadership, Report, Request, Response,
    Role, Share, State, BackgroundReply, Turn, TurnResult,
};
pub use service_clock::{ServiceClock, Timestamp};
pub use settings::{Needs, Settings};
pub use side_blobs::{ListedBlob, Session, SideAnswer, SideRequest, SideWrite};
pub use slots::{Cron, CronError, Delivery, Schedule, ZONES_RELEASE, Zone, ZoneOffset};
pub use snapshot::{LeaseState, Inspection, Snapshot, break_remaining};
pub use split::active_member_or_share;
pub use text::is_order_id;
pub use timings::Timings;
pub use turns::{NextTurn, Triggered, Turns};

pub use tenure_azure::operation::Kind as RequestKind;
pub use tenure_azure::secret::Secret;
pub use tenure_base::duration::{format_duration, milliseconds, nanoseconds};
pub use tenure_base::text::error_chain;

/// An instant of a candidate: the time since the origin of its `elapsed`.
pub type Moment = core::time::Duration;

#[cfg(test)]
mod tests;
