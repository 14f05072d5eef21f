//! The election logic of a candidate, as pure functions over values.
//!
//! A [`Step`] is one call from the host. It starts from the state of the candidate. It returns the
//! requests to send, one at a time ([`StepAction::Send`]), and takes the response to each. It ends
//! with a [`Report`] ([`StepAction::Done`]). The modules cite the specification in `docs`.
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
//! - No request of an election to the storage account has a body (token requests have one): every
//!   WASI host that was tried sends a bodyless request intact.

#![deny(missing_docs)]
#![cfg_attr(target_family = "wasm", no_std)]

#[cfg_attr(not(feature = "mutants"), doc(hidden))]
pub mod mutants;

/// The phases of a candidate, and what each sends and decides. protocol.md §4, §5, §7, §13.
mod protocol {
    pub(crate) mod acquiring;
    pub(crate) mod candidate;
    pub(crate) mod context;
    pub(crate) mod follower;
    pub(crate) mod handing_over;
    pub(crate) mod health;
    pub(crate) mod holding;
    pub(crate) mod one_turn;
    pub(crate) mod phase;
    pub(crate) mod raising;
    pub(crate) mod releasing;
    pub(crate) mod steering;
    pub(crate) mod watching;
}

/// The record on the election's blob: reading, checking, writing, history. protocol.md §9.
mod record {
    pub(crate) mod history;
    pub(crate) mod metadata;
    pub(crate) mod next_record;
    pub(crate) mod snapshot;
    pub(crate) mod text;
    pub(crate) mod write;
}

/// Slots, and which of them a leader claims next. protocol.md §6.
mod schedule {
    pub(crate) mod agenda;
    pub(crate) mod slots;
    pub(crate) mod turns;
}

/// The blobs next to the election's blob: announcements, candidates' names, orders, members' signs
/// of life and the plan of shares. Also the background requests that read and write them.
mod side {
    pub(crate) mod announcement;
    pub(crate) mod background;
    pub(crate) mod listing;
    pub(crate) mod orders;
    pub(crate) mod side_blobs;
    pub(crate) mod split;
}

/// One step of a candidate: settings and state in, requests and a report out.
mod step {
    pub(crate) mod clocks;
    pub mod contract;
    pub(crate) mod credential_state;
    pub mod driver;
    pub(crate) mod events;
    pub mod limits;
    pub(crate) mod options;
    pub(crate) mod pace;
    pub(crate) mod postponed;
    pub(crate) mod problem;
    pub(crate) mod report;
    pub(crate) mod settings;
    pub mod variable;
    pub(crate) mod wake;
}

pub use step::{contract, driver, limits, variable};

pub use protocol::candidate::Step;
pub use protocol::context::{BackgroundRequest, SignedRequest, StepAction};
pub use protocol::one_turn::{OneTurn, OneTurnAction, OneTurnOutcome, OneTurnResult, StepProgress};
pub use protocol::releasing::LastWill;
pub use record::history::{History, Incumbent};
pub use record::metadata::{
    Beat, End, Ended, FailureDetail, Finished, LastSlot, MissedSlots, Outcome, Record, RecordError,
    Trigger, TriggerState, Triggers,
};
pub use record::snapshot::{Inspection, LeaseState, Snapshot, break_remaining};
pub use record::text::is_order_id;
pub use schedule::agenda::{Agenda, Due, Missed, Task};
pub use schedule::slots::{Cron, CronError, Delivery, Schedule, ZONES_RELEASE, Zone, ZoneOffset};
pub use schedule::turns::{NextTurn, Triggered, Turns};
pub use side::listing::{Listed, listed};
pub use side::orders::{OrderStep, TransferOrder, TransferState, transfer, trigger};
pub use side::side_blobs::{ListedBlob, Session, SideAnswer, SideRequest, SideWrite};
pub use side::split::active_member_or_share;
pub use step::clocks::StepStart;
pub use step::clocks::{ElapsedClock, ServiceClock, Timestamp};
pub use step::credential_state::{CredentialState, MAX_FETCH, TokenReply, TokenRequest};
pub use step::options::{Complaint, SettingId};
pub use step::options::{Environment, FileError, SecretFile, read_secret};
pub use step::options::{Options, Orders, Retries};
pub use step::pace::Failover;
pub use step::pace::{Chance, fresh_lease_id};
pub use step::problem::{Failure, FailureKind, Problem, ProblemClass};
pub use step::report::{
    BackgroundReply, Ending, EndingReason, Event, Exchange, ExchangeResult, Leadership, Report,
    Request, Response, Role, Share, State, Turn, TurnResult,
};
pub use step::settings::FailurePolicy;
pub use step::settings::timings::Timings;
pub use step::settings::{Needs, Settings};

pub use tenure_azure::operation::Kind as RequestKind;
pub use tenure_azure::secret::Secret;
pub use tenure_base::duration::{format_duration, milliseconds, nanoseconds};
pub use tenure_base::text::error_chain;

/// An instant on the host's clock: the `elapsed` that the host passes to each step
/// ([`StepStart`]). Its origin is any fixed instant.
pub type Moment = core::time::Duration;

#[cfg(test)]
mod tests;
