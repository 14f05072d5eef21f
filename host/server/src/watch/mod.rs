//! Status updates at `GET /watch`, and their use by followers.
//!
//! The response is an endless stream of server-sent events. Each is one JSON object with the whole
//! status, so a reader need not remember any; the first comes at once. A slow reader gets the
//! newest and misses those between.
//!
//! | field | meaning |
//! |---|---|
//! | `version` | 1. Fields may be added; a field that changes its meaning raises the number |
//! | `election`, `candidate` | the reporting candidate and its election |
//! | `leading` | true if this candidate leads, so its work may run |
//! | `leader` | `name`, `term` and, if published, `address` of the known leader; else null |
//! | `valid_for_ms` | time that this leader may act without a renewal; null for a follower |
//! | `valid_until` | the same as an instant by this machine's clock, RFC 3339 |
//! | `handing_over_to` | the successor in a transfer by this leader; else null |
//! | `ended` | `term`, `reason`, `released` of this candidate's last leadership; else null |
//! | `last_turn`, `last_success`, `last_failure` | the newest turn, success, other outcome |
//! | `next_turn` | `slot`, `local` and `in_ms` of the schedule's next turn |
//!
//! `valid_for_ms` and `in_ms` count from the time of sending. Each renewal sends an event. `ended`
//! is present once the leadership is over; `released` is true if its lease was released or handed
//! on. A finished turn has `slot`, `local` (in the schedule's time zone), `outcome`, `ended`,
//! `ago_ms` and `took_ms`. Fields of turns are missing if the record has none, and `next_turn` is
//! missing without a schedule on record.
//!
//! `GET /leader` returns the same fields except `ended`, and adds fields that only commands need.
//!
//! After ten seconds without an event, a comment is sent. The stream ends after an hour, and the
//! reader reconnects. A stream that breaks in the middle means that the process has died or cannot
//! be reached.

pub(super) mod client;
mod stream;

pub use client::{accepts_stream, endpoint, parse_listener};
pub(super) use stream::router;

use super::board::Board;
use super::role::{EndedLeadership, Leader, Role};
use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};
use std::time::{Duration, SystemTime};
use tenure::status::TurnSummary;
use tenure_clock::ClockHandle;
use tenure_core::milliseconds;

/// The version of [`StatusUpdate`].
const VERSION: u32 = 1;

/// The content of one event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StatusUpdate {
    version: u32,
    election: String,
    candidate: String,
    leading: bool,
    leader: Option<Leader>,
    valid_for_ms: Option<u64>,
    /// Missing in an earlier version.
    valid_until: Option<String>,
    handing_over_to: Option<String>,
    ended: Option<EndedLeadership>,
    /// For other watchers only: followers ignore it, and an earlier version does not send it.
    #[serde(skip)]
    outlook: TurnSummary,
}

/// A status update in the form in which it is sent.
#[derive(Serialize)]
pub(super) struct StatusUpdateWithOutlook<'n> {
    #[serde(flatten)]
    news: &'n StatusUpdate,
    #[serde(flatten)]
    outlook: &'n TurnSummary,
}

/// An instant by both clocks, for the end of a leader's validity.
#[derive(Clone, Copy)]
struct ClockReading {
    wall_time: SystemTime,
    now: Duration,
}

impl ClockReading {
    /// Reads the wall clock first: a process that is delayed in between reports an end that is too
    /// early.
    fn read(clock: &ClockHandle) -> Self {
        let wall_time = SystemTime::now();
        Self { wall_time, now: clock.now() }
    }

    /// Returns the time left in milliseconds, and the end by the wall clock.
    fn remaining(self, deadline: Duration) -> (u64, String) {
        let remaining = deadline.saturating_sub(self.now);
        let end = DateTime::<Utc>::from(self.wall_time + remaining);
        (milliseconds(remaining), end.to_rfc3339_opts(SecondsFormat::Millis, true))
    }
}

impl StatusUpdate {
    /// Returns the update with the outlook, to be sent.
    pub(super) fn with_outlook(&self) -> StatusUpdateWithOutlook<'_> {
        StatusUpdateWithOutlook { news: self, outlook: &self.outlook }
    }

    /// Returns the current status, and the instant until which a leader may act.
    pub(super) fn snapshot(board: &Board, clock: &ClockHandle) -> (Self, Option<Duration>) {
        let reading = ClockReading::read(clock);
        let role = board.allowed_role(reading.now);
        let until = match role {
            Role::Leading { until, .. } => Some(until),
            _ => None,
        };
        let (valid_for_ms, valid_until) = until.map(|until| reading.remaining(until)).unzip();
        let state = board.state();
        let update = Self {
            version: VERSION,
            election: board.election.clone(),
            candidate: board.candidate.clone(),
            leading: until.is_some(),
            leader: role.leader(&board.candidate),
            valid_for_ms,
            valid_until,
            handing_over_to: state.successor.clone(),
            ended: state.ended.clone(),
            outlook: state.outlook(),
        };
        (update, until)
    }
}
