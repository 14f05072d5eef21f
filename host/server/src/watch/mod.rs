//! Watching a candidate: what it tells at `GET /watch` as it goes on, and how a follower makes use of that.
//!
//! The answer is a stream of server-sent events without end. Each is one JSON object that says all that is
//! true now, so that none has to be remembered; the first comes at once. A reader that is slow gets the
//! newest and misses those between.
//!
//! | field | meaning |
//! |---|---|
//! | `version` | 1. Fields may be added; one that changes its meaning raises the number |
//! | `election`, `candidate` | whose news it is |
//! | `leading` | whether this candidate leads, so that its work may run |
//! | `leader` | `name`, `term` and, where it gave one, `address` of who leads as far as this candidate knows; else null |
//! | `valid_for_ms` | how long this leader may act without another renewal, from when this was sent; null for a follower. Each renewal is told |
//! | `valid_until` | the same as an instant by this machine's clock, RFC 3339 |
//! | `handing_over_to` | the successor that this leader was told to hand over to; else null |
//! | `ended` | `term` and `reason` of this candidate's newest leadership, when that is over, and in `released` whether its lease was given back or handed on; else null |
//! | `last_turn`, `last_success`, `last_failure` | of the election's newest turn that is over, of the newest that succeeded, and of the newest that ended in another way: `slot`, `local` (in the schedule's time zone), `outcome`, `ended`, `ago_ms`, `took_ms`. Missing where there is none on record |
//! | `next_turn` | `slot`, `local` and `in_ms`, from when this was sent, of the next turn of the schedule. Missing where no schedule is on record |
//!
//! `GET /leader` answers with the same fields but `ended`, and with those that only commands need.
//!
//! A comment comes when there was nothing else for ten seconds. The stream ends after an hour, for the
//! reader to ask again; one that breaks off in the middle tells that the process is gone, or cannot be
//! reached.

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

/// The version of [`News`].
const VERSION: u32 = 1;

/// All that is told in one event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StatusUpdate {
    version: u32,
    election: String,
    candidate: String,
    leading: bool,
    leader: Option<Leader>,
    valid_for_ms: Option<u64>,
    /// An earlier version does not tell it.
    valid_until: Option<String>,
    handing_over_to: Option<String>,
    ended: Option<EndedLeadership>,
    /// For whoever else watches: no follower acts by it, and an earlier version does not tell it.
    #[serde(skip)]
    outlook: TurnSummary,
}

/// News as they are sent.
#[derive(Serialize)]
pub(super) struct StatusUpdateWithOutlook<'n> {
    #[serde(flatten)]
    news: &'n StatusUpdate,
    #[serde(flatten)]
    outlook: &'n TurnSummary,
}

/// An instant, for whoever is told how long a leader may act.
#[derive(Clone, Copy)]
struct ClockReading {
    wall_time: SystemTime,
    now: Duration,
}

impl ClockReading {
    /// The time of day is read first: a process that is held up in between tells an end that is too early.
    fn read(clock: &ClockHandle) -> Self {
        let wall_time = SystemTime::now();
        Self { wall_time, now: clock.now() }
    }

    /// How long it is until then, in milliseconds, and when that is by the time of day.
    fn remaining(self, deadline: Duration) -> (u64, String) {
        let remaining = deadline.saturating_sub(self.now);
        let end = DateTime::<Utc>::from(self.wall_time + remaining);
        (milliseconds(remaining), end.to_rfc3339_opts(SecondsFormat::Millis, true))
    }
}

impl StatusUpdate {
    /// Returns the news with the outlook, to be sent.
    pub(super) fn with_outlook(&self) -> StatusUpdateWithOutlook<'_> {
        StatusUpdateWithOutlook { news: self, outlook: &self.outlook }
    }

    /// What is true now, and up to when a leader may act.
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
