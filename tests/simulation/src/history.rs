//! History of a schedule, as seen by the store, on the wire and by the handlers.
//!
//! The oracle checks only this. The history excludes what candidates believe.

use super::clock::Rate;
use super::fault::{Fault, Step};
use super::plan::Rules;
use super::world::Millis;

/// Id of one incarnation of a candidate: an index into [`History::lives`].
pub type CandidateId = usize;

/// Index of a request in [`History::requests`].
pub type RequestIndex = usize;

/// Events and parameters of a schedule, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Candidates, with one entry for each incarnation.
    pub lives: Vec<Life>,
    /// Requests that were sent on the wire.
    pub requests: Vec<SentRequest>,
    /// Events, in order.
    pub entries: Vec<Entry>,
    /// Longest one-way latency of a request or response without a fault.
    pub latency: Millis,
    /// Start of the calm: no fault begins from here on.
    pub calm: Millis,
    /// Start of the finale: all late messages have arrived, and the last lease of the fault period
    /// has expired.
    pub finale: Millis,
    /// Grace period of a turn when its candidate leaves.
    pub grace: Millis,
    /// Interval between two slots, in nanoseconds.
    pub every: u64,
    /// Rules for the slots.
    pub rules: Rules,
    /// Service's wall clock at the start, in nanoseconds since 1970.
    pub epoch: u64,
    /// Steps of that clock: when, and by how many milliseconds.
    pub clock_steps: Vec<(Millis, i64)>,
    /// Periods, from start to end, in which the dates of responses were frozen.
    pub frozen_dates: Vec<(Millis, Millis)>,
    /// True if leaders resign, or make way for other candidates, on their own.
    pub has_rotation: bool,
    /// True if a record existed before any candidate started.
    pub has_initial_record: bool,
    /// True if the account keeps every version of a blob.
    pub versioned: bool,
    /// Transfers through the account, by their number.
    pub transfers: Vec<Transfer>,
    /// Time limit of a turn.
    pub turn_timeout: Option<Millis>,
    /// Lease ids that foreign writers announced, each with its term.
    pub foreign_announcements: Vec<(u128, u64)>,
}

/// Transfer that a command placed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfer {
    /// Term whose leader must obey; 0 if the command placed no transfer.
    pub term: u64,
    /// Number in the name of the successor; `None` if any candidate may lead next.
    pub successor: Option<usize>,
    /// When the command decided to place the transfer. Its age counts from then.
    pub decided_at: Millis,
}

/// Fixed properties of an incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// Machine of the incarnation.
    pub machine: usize,
    /// Rate of its clock.
    pub rate: Rate,
    /// Its periods.
    pub periods: Periods,
    /// Interval between two slots of its schedule, in nanoseconds; 0 without a schedule.
    pub every: u64,
    /// Delay from a slot's instant until it is due, in nanoseconds.
    pub delay: u64,
    /// True for an older version: it does not know some fields, and does not recognise its own
    /// writes of them.
    pub is_older_version: bool,
}

/// Periods of a candidate, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Periods {
    /// Duration of a lease.
    pub lease: Millis,
    /// Margin before the end of the lease at which the work stops.
    pub margin: Millis,
    /// Interval between renewals.
    pub renew: Millis,
    /// Longest interval between polls.
    pub poll: Millis,
    /// Timeout of one request.
    pub timeout: Millis,
    /// Failover window, if the candidate can be replaced, or replace other leaders, before a lease
    /// ends.
    pub failover: Option<Millis>,
}

/// Returns the promise and the validity for a failover window (protocol.md §13).
///
/// A leader promises to have stopped this long after a beat, and acts for less than that.
#[must_use]
pub fn promise_and_validity(failover: Millis) -> (Millis, Millis) {
    let promise = failover * 7 / 10;
    (promise, promise - (failover * 2 / 15).max(300))
}

/// A request that a candidate sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentRequest {
    /// Sender.
    pub candidate: CandidateId,
    /// Step in the protocol.
    pub step: Step,
    /// Lease id that the request proposes or uses.
    pub lease: Option<u128>,
    /// Record that the request writes.
    pub write: Option<Written>,
    /// Lease id of the successor that receives the lease.
    pub successor_lease: Option<u128>,
    /// True if the request writes an announcement.
    pub is_announcement: bool,
    /// True if the write has no condition.
    pub is_unconditional: bool,
    /// True if the request reads or writes announcements.
    pub is_about_announcements: bool,
    /// True if the request polls for triggers.
    pub is_about_orders: bool,
    /// Term in which the announcing successor was named.
    pub announced_term: Option<u64>,
    /// List of candidates that the request writes.
    pub candidate_list: Option<CandidateList>,
    /// Expiry of the token that the request carries.
    pub token: Option<Millis>,
    /// Service's time in the response that reached the sender, in nanoseconds since 1970.
    pub reported_time: Option<u64>,
}

/// A list of candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CandidateList {
    /// True if the list may only be written where none exists.
    pub is_first: bool,
    /// Machines whose candidates are on the list, as a bit set.
    pub machines: u64,
}

/// A record that a request writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Fencing token.
    pub term: u64,
    /// Nonce that distinguishes its leader from other candidates.
    pub nonce: u64,
    /// Newest claimed slot, in nanoseconds since 1970.
    pub slot: u64,
    /// Number of attempts at that slot.
    pub attempt: u32,
    /// Number of attempts after which the slot is abandoned; 0 for at most one turn.
    pub max_attempts: u32,
    /// Newest turn for a trigger.
    pub trigger: Triggered,
    /// Newest slot whose turn ended.
    pub finished: u64,
    /// True if at-least-once delivery has finished with that slot.
    pub is_done: bool,
    /// Newest failed turn: its slot, and when the leader learned of its end, in nanoseconds since
    /// 1970.
    pub failed: (u64, u64),
    /// True if the record has the field of a later version.
    pub has_later_field: bool,
    /// Number in the name of the named successor; for any other name, a number that no candidate
    /// has.
    pub successor: Option<usize>,
    /// Number of the transfer that failed.
    pub failed_transfer: Option<usize>,
    /// Number of the beat.
    pub beat: u64,
    /// Promise: time after the beat by which the leader has stopped, in milliseconds; 0 without a
    /// promise.
    pub promise: Millis,
}

/// Returns the number in the id of a trigger.
#[must_use]
pub fn trigger_number(id: &str) -> u32 {
    id.strip_prefix('t').and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Newest turn for a trigger, as recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Triggered {
    /// Number of the trigger.
    pub number: u32,
    /// When the turn was requested, in nanoseconds since 1970.
    pub requested_at: u64,
    /// Number of attempts.
    pub attempt: u32,
    /// Number of attempts after which the trigger is abandoned; 0 for at most one turn.
    pub max_attempts: u32,
    /// True if the outcome of that turn is recorded.
    pub has_ended: bool,
    /// True if at-least-once delivery has finished with the trigger.
    pub is_done: bool,
    /// True if at-least-once delivery has finished with the trigger before.
    pub is_previous_done: bool,
}

/// Entry of the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When the event happened.
    pub at: Millis,
    /// The event.
    pub event: HistoryEvent,
}

/// Event of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryEvent {
    /// A process started to contend.
    Started(CandidateId),
    /// A process was suspended.
    Paused(CandidateId),
    /// A process was resumed.
    Resumed(CandidateId),
    /// The wall clock of this machine, which has no other clock, was set forward.
    ClockSetForward(usize),
    /// A process was killed.
    Killed(CandidateId),
    /// The host requested that a process leave.
    LeaveRequested(CandidateId),
    /// The host ordered a process to hand over to the candidate with this number in its name, on
    /// this machine.
    ///
    /// `None` if the name is not unique, or its version does not support successors.
    HandoverOrdered(CandidateId, usize, Option<usize>),
    /// A process reported that it did not hand over.
    HandoverFailed(CandidateId),
    /// A process received a hint that the leader may have changed.
    Hinted(CandidateId),
    /// A process has left.
    Left(CandidateId),
    /// A step of a process failed. The process lost its state and starts again.
    StepFailed(CandidateId),
    /// A request was sent on the wire.
    Sent(RequestIndex),
    /// The store handled a request, or a copy of it.
    Handled(RequestIndex, Answer),
    /// The response reached the sender.
    Answered(RequestIndex, Answer),
    /// The sender learned that no response will come.
    RequestFailed(RequestIndex),
    /// A turn started.
    TurnBegan {
        /// Candidate that runs the turn.
        candidate: CandidateId,
        /// Term of the turn.
        term: u64,
        /// Slot of the turn, in nanoseconds since 1970.
        slot: u64,
        /// Number of the attempt.
        attempt: u32,
        /// Trigger of the turn; `None` for a scheduled turn.
        trigger: Option<u32>,
    },
    /// An outsider placed the trigger of this number, which waits for a turn.
    Triggered(u32),
    /// A command placed the transfer of this number.
    TransferPlaced(usize),
    /// A leader first read the transfer of this number, which is for its term.
    ReadTransfer(CandidateId, usize),
    /// A step first reported to its host that the candidate leads.
    BecameLeader(CandidateId),
    /// The handler works from here on.
    WorkStarted(CandidateId, u64),
    /// The handler no longer works: its turn is over, or its process was suspended.
    WorkStopped(CandidateId, u64),
    /// The handler sent a request of its own.
    HandlerActed(CandidateId, u64),
    /// The turn failed, trapped, or timed out.
    TurnFailed(CandidateId),
    /// The turn trapped.
    TurnTrapped(CandidateId),
    /// The turn succeeded.
    TurnSucceeded(CandidateId),
    /// A step requested the end of the turn because a successor is present; false cancels that.
    WindDown(CandidateId, bool),
    /// The host stopped the turn although its leader still leads and no request for an end exists.
    TurnCutShort(CandidateId),
    /// The leadership ended because its work failed, as reported by the step that began at this
    /// time.
    WorkFailed(CandidateId, Millis),
    /// All processes and tasks of the turn have ended.
    TurnOver(CandidateId, u64),
    /// An invocation reported the result of its turn; true for success.
    InvocationReturned(CandidateId, bool),
    /// A candidate requested a token from the identity endpoint.
    TokenRequested(CandidateId),
    /// The schedule ended.
    ScheduleEnded,
    /// A fault was injected; its effect lasts until this time.
    FaultInjected(Fault, Option<CandidateId>, Millis),
}

/// Response to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Error code.
    pub code: &'static str,
    /// Lease id in the response.
    pub lease: Option<u128>,
}

/// A term that was won, from the write that the store accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Win {
    /// When the term was won.
    pub at: Millis,
    /// Index of the win in [`History::entries`].
    pub entry: usize,
    /// Candidate that won.
    pub candidate: CandidateId,
    /// Lease under which the term was won.
    pub lease: Option<u128>,
    /// Term that was won.
    pub term: u64,
}

/// Uninterrupted work of a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Candidate whose handler worked.
    pub candidate: CandidateId,
    /// Term of the work.
    pub term: u64,
    /// Start of the work.
    pub from: Millis,
    /// End of the work.
    pub to: Millis,
}

impl History {
    /// Returns the request if the event says that the store accepted one.
    #[must_use]
    pub fn accepted_request(&self, event: HistoryEvent) -> Option<&SentRequest> {
        match event {
            HistoryEvent::Handled(number, Answer { status: 200..=299, .. }) => {
                self.requests.get(number)
            }
            _ => None,
        }
    }

    /// Returns the record writes that the store accepted, in order.
    pub fn writes(&self) -> impl Iterator<Item = (usize, Entry, &SentRequest, &Written)> {
        self.entries.iter().enumerate().filter_map(|(index, entry)| {
            let request = self.accepted_request(entry.event)?;
            Some((index, *entry, request, request.write.as_ref()?))
        })
    }

    /// Returns the terms in the order in which they were won.
    #[must_use]
    pub fn wins(&self) -> Vec<Win> {
        let mut wins = Vec::new();
        let mut last = None;
        for (entry, Entry { at, .. }, request, written) in self.writes() {
            let SentRequest { candidate, lease, .. } = *request;
            // The same record again under one lease is a duplicate of the write, or a claim.
            let newest = Some((written.term, written.nonce, lease));
            if std::mem::replace(&mut last, newest) != newest {
                wins.push(Win { at, entry, candidate, lease, term: written.term });
            }
        }
        wins
    }

    /// Returns true if the fault is active for this candidate, or for all, at this time.
    #[must_use]
    pub fn has_fault(&self, fault: Fault, candidate: CandidateId, at: Millis) -> bool {
        self.fault_until(fault, candidate, at).is_some()
    }

    /// Returns the end of the fault for this candidate or for all, or `None` if it is not active at
    /// this time.
    #[must_use]
    pub fn fault_until(&self, fault: Fault, candidate: CandidateId, at: Millis) -> Option<Millis> {
        let before = self.entries.iter().take_while(|entry| entry.at <= at);
        let ends = before.filter_map(|entry| match entry.event {
            HistoryEvent::FaultInjected(injected, victim, until) => (injected == fault
                && until >= at
                && victim.is_none_or(|victim| victim == candidate))
            .then_some(until),
            _ => None,
        });
        ends.max()
    }

    /// Returns the time on the service's wall clock, in nanoseconds since 1970.
    #[must_use]
    pub fn service_time(&self, at: Millis) -> u64 {
        let steps = self.clock_steps.iter().filter(|(stepped_at, _)| *stepped_at <= at);
        let offset: i64 = steps.map(|(_, offset)| offset * 1_000_000).sum();
        (self.epoch + at * 1_000_000).saturating_add_signed(offset)
    }

    /// Returns the time in the dates of responses, in nanoseconds since 1970.
    #[must_use]
    pub fn reported_time(&self, at: Millis) -> u64 {
        let frozen =
            self.frozen_dates.iter().rev().find(|(from, until)| (*from..*until).contains(&at));
        self.service_time(frozen.map_or(at, |(from, _)| *from))
    }

    /// Returns the first time from `from` on at which the service's clock shows `time`.
    #[must_use]
    pub fn instant_of(&self, time: u64, from: Millis) -> Millis {
        let steps = self
            .clock_steps
            .iter()
            .map(|(stepped_at, _)| *stepped_at)
            .filter(|stepped_at| *stepped_at > from);
        for segment_start in std::iter::once(from).chain(steps) {
            let clock = self.service_time(segment_start);
            // True time has a resolution of one millisecond.
            let at = segment_start + time.saturating_sub(clock).div_ceil(1_000_000);
            if self.service_time(at) >= time {
                return at;
            }
        }
        Millis::MAX / 2
    }

    /// Returns true if the service's clock shows less than before.
    #[must_use]
    pub fn is_clock_behind(&self, at: Millis) -> bool {
        let before =
            |(stepped_at, _): &(Millis, i64)| self.service_time(stepped_at.saturating_sub(1));
        let steps = self.clock_steps.iter().filter(|(stepped_at, _)| *stepped_at <= at);
        steps.map(before).max().is_some_and(|most| most > self.service_time(at))
    }

    /// Returns the spans in which handlers worked, ordered by their ends.
    #[must_use]
    pub fn spans(&self) -> Vec<Span> {
        let mut started_at: Vec<Option<Millis>> = vec![None; self.lives.len()];
        let mut spans = Vec::new();
        for Entry { at, event } in &self.entries {
            match *event {
                HistoryEvent::WorkStarted(candidate, _) => started_at[candidate] = Some(*at),
                HistoryEvent::WorkStopped(candidate, term) => {
                    if let Some(from) = started_at[candidate].take() {
                        spans.push(Span { candidate, term, from, to: *at });
                    }
                }
                _ => {}
            }
        }
        spans
    }
}
