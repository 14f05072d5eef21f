//! What happened in a schedule, as the store, the wire and the handlers' desks saw it.
//!
//! The oracle judges this and nothing else: what a candidate believes is not in it.

use super::clock::Rate;
use super::fault::{Fault, Step};
use super::plan::Rules;
use super::world::Millis;

/// One incarnation of a candidate: an index into [`History::lives`].
pub type CandidateId = usize;

/// One request: an index into [`History::asked`].
pub type RequestIndex = usize;

/// All of it, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Candidates, each incarnation by itself.
    pub lives: Vec<Life>,
    /// Requests that went on the wire.
    pub requests: Vec<SentRequest>,
    /// What happened, in order.
    pub entries: Vec<Entry>,
    /// The longest way of a request or of an answer that no fault befell.
    pub latency: Millis,
    /// No fault begins from here on.
    pub calm: Millis,
    /// Everything late has arrived, and the last lease of the time of faults has run out.
    pub finale: Millis,
    /// How long a turn may go on when its candidate leaves.
    pub grace: Millis,
    /// Between two slots, in nanoseconds.
    pub every: u64,
    /// What is asked of the slots.
    pub rules: Rules,
    /// The service's wall clock at the beginning, in nanoseconds since 1970.
    pub epoch: u64,
    /// When that clock stepped, and by how many milliseconds.
    pub clock_steps: Vec<(Millis, i64)>,
    /// From when until when the dates of answers stood still.
    pub frozen_dates: Vec<(Millis, Millis)>,
    /// Leaders resign, or make way for others, of their own accord.
    pub has_rotation: bool,
    /// There was a record before anybody began.
    pub has_initial_record: bool,
    /// The account keeps every version of a blob.
    pub versioned: bool,
    /// Transfers through the account, by their number.
    pub transfers: Vec<Transfer>,
    /// The time limit of a turn.
    pub turn_timeout: Option<Millis>,
    /// Lease ids that strangers announced, and in which term.
    pub foreign_announcements: Vec<(u128, u64)>,
}

/// A transfer that a command placed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfer {
    /// The term whose leader is to obey; 0: it was not placed.
    pub term: u64,
    /// The number in the name of the successor; none: any candidate may lead next.
    pub successor: Option<usize>,
    /// When its command decided to place it: its age is counted from then.
    pub decided_at: Millis,
}

/// What is fixed about an incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// On which machine.
    pub machine: usize,
    /// Its clock.
    pub rate: Rate,
    /// Its periods.
    pub periods: Periods,
    /// Between two slots of its schedule, in nanoseconds; 0: it has none.
    pub every: u64,
    /// How long after its instant a slot is due, in nanoseconds.
    pub delay: u64,
    /// It plays an older version, to which some fields are unknown, and does not know again what it wrote there.
    pub is_older_version: bool,
}

/// Periods of a candidate, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Periods {
    /// How long a lease lasts.
    pub lease: Millis,
    /// How long before its end the work ends.
    pub margin: Millis,
    /// Between renewals.
    pub renew: Millis,
    /// Between looks, at most.
    pub poll: Millis,
    /// For one request.
    pub timeout: Millis,
    /// How soon it is replaced, or replaces others, where that is before a lease ends.
    pub failover: Option<Millis>,
}

/// protocol.md §13: a leader that is to be replaced within so long promises to have stopped so long after a beat,
/// and acts for less than that.
#[must_use]
pub fn promise_and_validity(failover: Millis) -> (Millis, Millis) {
    let promise = failover * 7 / 10;
    (promise, promise - (failover * 2 / 15).max(300))
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentRequest {
    /// Who sent it.
    pub candidate: CandidateId,
    /// Its step in the protocol.
    pub step: Step,
    /// The lease id that it proposes or uses.
    pub lease: Option<u128>,
    /// The record that it writes.
    pub write: Option<Written>,
    /// The lease id of the successor that the lease is given to.
    pub successor_lease: Option<u128>,
    /// It writes where announcements are left.
    pub is_announcement: bool,
    /// The write has no condition.
    pub is_unconditional: bool,
    /// It is about that place: it looks there, or writes.
    pub is_about_announcements: bool,
    /// It looks for triggers.
    pub is_about_orders: bool,
    /// The term in which the successor was named that announces itself.
    pub announced_term: Option<u64>,
    /// The list of candidates that it writes.
    pub candidate_list: Option<CandidateList>,
    /// Until when the token is good that it goes with.
    pub token: Option<Millis>,
    /// The service's time by the answer that reached the sender, in nanoseconds since 1970.
    pub reported_time: Option<u64>,
}

/// A list of candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CandidateList {
    /// It is to be written only where there is none.
    pub is_first: bool,
    /// The machines whose candidates are on it, as bits.
    pub machines: u64,
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The fencing token.
    pub term: u64,
    /// Tells its leader from others.
    pub nonce: u64,
    /// The newest claimed slot, in nanoseconds since 1970.
    pub slot: u64,
    /// How often it was tried.
    pub attempt: u32,
    /// After so many turns it is abandoned; 0: it has one at most.
    pub max_attempts: u32,
    /// The newest turn for a trigger.
    pub trigger: Triggered,
    /// The newest slot whose turn ended.
    pub finished: u64,
    /// At-least-once delivery is done with that slot.
    pub is_done: bool,
    /// The newest turn that did not succeed: its slot, and when the leader heard of its end, in nanoseconds since 1970.
    pub failed: (u64, u64),
    /// Whether the field of a later version is there.
    pub has_later_field: bool,
    /// The successor that it names: the number in its name; one that no candidate has, for any other name.
    pub successor: Option<usize>,
    /// The number of the transfer that came to nothing.
    pub failed_transfer: Option<usize>,
    /// The number of the beat.
    pub beat: u64,
    /// So long after it the leader has stopped, in milliseconds; 0: it promises nothing.
    pub promise: Millis,
}

/// The number in the id of a trigger.
#[must_use]
pub fn trigger_number(id: &str) -> u32 {
    id.strip_prefix('t').and_then(|number| trigger_number.parse().ok()).unwrap_or(0)
}

/// The newest turn for a trigger, as a record tells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Triggered {
    /// Which.
    pub number: u32,
    /// When it was asked for, in nanoseconds since 1970.
    pub requested_at: u64,
    /// How often it was tried.
    pub attempt: u32,
    /// After so many turns it is abandoned; 0: it has one at most.
    pub max_attempts: u32,
    /// It is on record how that turn ended.
    pub has_ended: bool,
    /// At-least-once delivery is done with it.
    pub is_done: bool,
    /// At-least-once delivery is done with the one before.
    pub is_previous_done: bool,
}

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When.
    pub at: Millis,
    /// What.
    pub event: HistoryEvent,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryEvent {
    /// A process began to contend.
    Started(CandidateId),
    /// A process stands still.
    Paused(CandidateId),
    /// It goes on.
    Resumed(CandidateId),
    /// The wall clock of that machine, which has no better one, was set forward: by it that time has passed.
    ClockSetForward(usize),
    /// A process ended at once.
    Killed(CandidateId),
    /// A process was asked to leave.
    LeaveRequested(CandidateId),
    /// A process was told to hand over to the candidate whose name has that number, on that machine;
    /// none: it has its name in common with others, or is of a version that knows no successors.
    HandoverOrdered(CandidateId, usize, Option<usize>),
    /// It tells that it does not.
    HandoverFailed(CandidateId),
    /// A process heard that the leader may have changed.
    Hinted(CandidateId),
    /// A process has left.
    Left(CandidateId),
    /// A step of it failed, and all that it knew is lost: its process begins anew.
    StepFailed(CandidateId),
    /// A request went on the wire.
    Sent(RequestIndex),
    /// The store handled a request, or a copy of it.
    Handled(RequestIndex, Answer),
    /// Its answer reached the sender.
    Answered(RequestIndex, Answer),
    /// The sender learnt that there is none.
    RequestFailed(RequestIndex),
    /// A turn was started: its slot, in nanoseconds since 1970.
    TurnBegan {
        /// By whom.
        candidate: CandidateId,
        /// Under which term.
        term: u64,
        /// For which slot.
        slot: u64,
        /// How often it was tried.
        attempt: u32,
        /// Not of the timer, but for this.
        trigger: Option<u32>,
    },
    /// An outsider asked for a turn outside the schedule: a trigger of that number waits.
    Triggered(u32),
    /// A command placed the transfer of that number.
    TransferPlaced(usize),
    /// A leader read the transfer of that number, which is for its term, for the first time.
    ReadTransfer(CandidateId, usize),
    /// A step told its host for the first time that it leads.
    BecameLeader(CandidateId),
    /// The handler works from here on.
    WorkStarted(CandidateId, u64),
    /// It works no longer: its turn is over, or it stands still.
    WorkStopped(CandidateId, u64),
    /// The handler sent a request of its own.
    HandlerActed(CandidateId, u64),
    /// The turn failed, trapped, or took too long.
    TurnFailed(CandidateId),
    /// The turn trapped.
    TurnTrapped(CandidateId),
    /// The turn succeeded.
    TurnSucceeded(CandidateId),
    /// A step asked for the end of the turn because a successor is there; false: not any more.
    WindDown(CandidateId, bool),
    /// The host stopped the turn although its leader leads on and nothing asked for an end.
    TurnCutShort(CandidateId),
    /// A step that began then told that the leadership ended because its work failed.
    WorkFailed(CandidateId, Millis),
    /// Nothing of the turn is there any more.
    TurnOver(CandidateId, u64),
    /// An invocation that ran its turn answers; true: that it succeeded.
    InvocationReturned(CandidateId, bool),
    /// The identity endpoint was asked for a token.
    TokenRequested(CandidateId),
    /// The schedule is over.
    ScheduleEnded,
    /// A fault; its effect lasts until then.
    FaultInjected(Fault, Option<CandidateId>, Millis),
}

/// An answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The error code.
    pub code: &'static str,
    /// The lease id that it names.
    pub lease: Option<u128>,
}

/// A term that was won, as the store took it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Win {
    /// When.
    pub at: Millis,
    /// Its place in [`History::entries`].
    pub entry: usize,
    /// By whom.
    pub candidate: CandidateId,
    /// Under which lease.
    pub lease: Option<u128>,
    /// The term.
    pub term: u64,
}

/// Work of a handler without a break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// By whom.
    pub candidate: CandidateId,
    /// Under which term.
    pub term: u64,
    /// From when on.
    pub from: Millis,
    /// Until when.
    pub to: Millis,
}

impl History {
    /// The request, when an entry says that the store carried one out.
    #[must_use]
    pub fn accepted_request(&self, event: HistoryEvent) -> Option<&SentRequest> {
        match event {
            HistoryEvent::Handled(number, Answer { status: 200..=299, .. }) => self.requests.get(trigger_number),
            _ => None,
        }
    }

    /// The record writes that the store took, in its order.
    pub fn writes(&self) -> impl Iterator<Item = (usize, Entry, &SentRequest, &Written)> {
        self.entries.iter().enumerate().filter_map(|(index, entry)| {
            let request = self.accepted_request(entry.event)?;
            Some((index, *entry, request, request.write.as_ref()?))
        })
    }

    /// The terms in the order in which they were won.
    #[must_use]
    pub fn wins(&self) -> Vec<Win> {
        let mut wins = Vec::new();
        let mut last = None;
        for (entry, Entry { at, .. }, request, written) in self.writes() {
            let SentRequest { candidate, lease, .. } = *request;
            // The same record again under one lease is a copy of the write, or a claim.
            let newest = Some((written.term, written.nonce, lease));
            if std::mem::replace(&mut last, newest) != newest {
                wins.push(Win { at, entry, candidate, lease, term: written.term });
            }
        }
        wins
    }

    /// Whether this fault is there at an instant, for this candidate or for all.
    #[must_use]
    pub fn has_fault(&self, fault: Fault, candidate: CandidateId, at: Millis) -> bool {
        self.fault_until(fault, candidate, at).is_some()
    }

    /// Until when this fault is there, for this candidate or for all; none where it is not there at an instant.
    #[must_use]
    pub fn fault_until(&self, fault: Fault, candidate: CandidateId, at: Millis) -> Option<Millis> {
        let before = self.entries.iter().take_while(|entry| entry.at <= at);
        let ends = before.filter_map(|entry| match entry.event {
            HistoryEvent::FaultInjected(injected, victim, until) => {
                (injected == fault && until >= at && victim.is_none_or(|victim| victim == candidate))
                    .then_some(until)
            }
            _ => None,
        });
        ends.max()
    }

    /// What the service's wall clock shows, in nanoseconds since 1970.
    #[must_use]
    pub fn service_time(&self, at: Millis) -> u64 {
        let steps = self.clock_steps.iter().filter(|(stepped_at, _)| *stepped_at <= at);
        let offset: i64 = steps.map(|(_, offset)| offset * 1_000_000).sum();
        (self.epoch + at * 1_000_000).saturating_add_signed(offset)
    }

    /// What the dates of answers tell, in nanoseconds since 1970.
    #[must_use]
    pub fn reported_time(&self, at: Millis) -> u64 {
        let frozen = self.frozen_dates.iter().rev().find(|(from, until)| (*from..*until).contains(&at));
        self.service_time(frozen.map_or(at, |(from, _)| *from))
    }

    /// When the service's clock shows that for the first time, not before `from`.
    #[must_use]
    pub fn instant_of(&self, time: u64, from: Millis) -> Millis {
        let steps = self.clock_steps.iter().map(|(stepped_at, _)| *stepped_at).filter(|stepped_at| *stepped_at > from);
        for segment_start in std::iter::once(from).chain(steps) {
            let clock = self.service_time(segment_start);
            // True time has whole milliseconds.
            let at = segment_start + time.saturating_sub(clock).div_ceil(1_000_000);
            if self.service_time(at) >= time {
                return at;
            }
        }
        Millis::MAX / 2
    }

    /// Whether the service's clock shows less than it did before.
    #[must_use]
    pub fn is_clock_behind(&self, at: Millis) -> bool {
        let before = |(stepped_at, _): &(Millis, i64)| self.service_time(stepped_at.saturating_sub(1));
        let steps = self.clock_steps.iter().filter(|(stepped_at, _)| *stepped_at <= at);
        steps.map(before).max().is_some_and(|most| most > self.service_time(at))
    }

    /// The spans in which handlers worked, in the order of their ends.
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
