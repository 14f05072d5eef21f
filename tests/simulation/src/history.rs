//! What happened in a schedule, as the store, the wire and the handlers' desks saw it.
//!
//! The oracle judges this and nothing else: what a candidate believes is not in it.

use super::clock::Rate;
use super::fault::{Fault, Step};
use super::plan::Rules;
use super::world::Millis;

/// One incarnation of a candidate: an index into [`History::lives`].
pub type Who = usize;

/// One request: an index into [`History::asked`].
pub type Number = usize;

/// All of it, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Candidates, each incarnation by itself.
    pub lives: Vec<Life>,
    /// Requests that went on the wire.
    pub asked: Vec<Asked>,
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
    pub steps: Vec<(Millis, i64)>,
    /// From when until when the dates of answers stood still.
    pub stood: Vec<(Millis, Millis)>,
    /// Leaders resign, or make way for others, of their own accord.
    pub rotates: bool,
    /// There was a record before anybody began.
    pub begins_with_record: bool,
    /// The account keeps every version of a blob.
    pub versioned: bool,
    /// Transfers through the account, by their number.
    pub transfers: Vec<Transfer>,
    /// The time limit of a turn.
    pub turn_timeout: Option<Millis>,
    /// Lease ids that strangers announced, and in which term.
    pub planted: Vec<(u128, u64)>,
}

/// A transfer that a command placed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfer {
    /// The term whose leader is to obey; 0: it was not placed.
    pub term: u64,
    /// The number in the name of the successor; none: any candidate may lead next.
    pub to: Option<usize>,
    /// When its command decided to place it: its age is counted from then.
    pub placed: Millis,
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
    pub older: bool,
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
pub fn promise_of(failover: Millis) -> (Millis, Millis) {
    let promise = failover * 7 / 10;
    (promise, promise - (failover * 2 / 15).max(300))
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Who sent it.
    pub who: Who,
    /// Its step in the protocol.
    pub step: Step,
    /// The lease id that it proposes or uses.
    pub lease: Option<u128>,
    /// The record that it writes.
    pub write: Option<Written>,
    /// The lease id of the successor that the lease is given to.
    pub to: Option<u128>,
    /// It writes where announcements are left.
    pub announces: bool,
    /// The write has no condition.
    pub unconditional: bool,
    /// It is about that place: it looks there, or writes.
    pub of_announcements: bool,
    /// It looks for triggers.
    pub of_orders: bool,
    /// The term in which the successor was named that announces itself.
    pub announced_in: Option<u64>,
    /// The list of candidates that it writes.
    pub lists: Option<Lists>,
    /// Until when the token is good that it goes with.
    pub token: Option<Millis>,
    /// The service's time by the answer that reached the sender, in nanoseconds since 1970.
    pub told: Option<u64>,
}

/// A list of candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lists {
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
    pub most: u32,
    /// The newest turn for a trigger.
    pub trigger: Triggered,
    /// The newest slot whose turn ended.
    pub finished: u64,
    /// At-least-once delivery is done with that slot.
    pub done: bool,
    /// The newest turn that did not succeed: its slot, and when the leader heard of its end, in nanoseconds since 1970.
    pub failed: (u64, u64),
    /// Whether the field of a later version is there.
    pub later: bool,
    /// The successor that it names: the number in its name; one that no candidate has, for any other name.
    pub successor: Option<usize>,
    /// The number of the transfer that came to nothing.
    pub refused: Option<usize>,
    /// The number of the beat.
    pub beat: u64,
    /// So long after it the leader has stopped, in milliseconds; 0: it promises nothing.
    pub promise: Millis,
}

/// The number in the id of a trigger.
#[must_use]
pub fn number(id: &str) -> u32 {
    id.strip_prefix('t').and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// The newest turn for a trigger, as a record tells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Triggered {
    /// Which.
    pub number: u32,
    /// When it was asked for, in nanoseconds since 1970.
    pub asked: u64,
    /// How often it was tried.
    pub attempt: u32,
    /// After so many turns it is abandoned; 0: it has one at most.
    pub most: u32,
    /// It is on record how that turn ended.
    pub ended: bool,
    /// At-least-once delivery is done with it.
    pub done: bool,
    /// At-least-once delivery is done with the one before.
    pub before_done: bool,
}

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When.
    pub at: Millis,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A process began to contend.
    Started(Who),
    /// A process stands still.
    Paused(Who),
    /// It goes on.
    Resumed(Who),
    /// The wall clock of that machine, which has no better one, was set forward: by it that time has passed.
    SetForward(usize),
    /// A process ended at once.
    Killed(Who),
    /// A process was asked to leave.
    ToldToLeave(Who),
    /// A process was told to hand over to the candidate whose name has that number, on that machine;
    /// none: it has its name in common with others, or is of a version that knows no successors.
    ToldToHandOver(Who, usize, Option<usize>),
    /// It tells that it does not.
    NotHandedOver(Who),
    /// A process heard that the leader may have changed.
    Hinted(Who),
    /// A process has left.
    Left(Who),
    /// A step of it failed, and all that it knew is lost: its process begins anew.
    Forgot(Who),
    /// A request went on the wire.
    Sent(Number),
    /// The store handled a request, or a copy of it.
    Handled(Number, Answer),
    /// Its answer reached the sender.
    Answered(Number, Answer),
    /// The sender learnt that there is none.
    Failed(Number),
    /// A turn was started: its slot, in nanoseconds since 1970.
    TurnBegan {
        /// By whom.
        who: Who,
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
    Placed(usize),
    /// A leader read the transfer of that number, which is for its term, for the first time.
    ReadTransfer(Who, usize),
    /// A step told its host for the first time that it leads.
    Leads(Who),
    /// The handler works from here on.
    Works(Who, u64),
    /// It works no longer: its turn is over, or it stands still.
    Rests(Who, u64),
    /// The handler sent a request of its own.
    Acted(Who, u64),
    /// The turn failed, trapped, or took too long.
    Sick(Who),
    /// The turn trapped.
    Trapped(Who),
    /// The turn succeeded.
    Succeeded(Who),
    /// A step asked for the end of the turn because a successor is there; false: not any more.
    WindsDown(Who, bool),
    /// The host stopped the turn although its leader leads on and nothing asked for an end.
    CutShort(Who),
    /// A step that began then told that the leadership ended because its work failed.
    WorkFailed(Who, Millis),
    /// Nothing of the turn is there any more.
    TurnOver(Who, u64),
    /// An invocation that ran its turn answers; true: that it succeeded.
    Returned(Who, bool),
    /// The identity endpoint was asked for a token.
    Fetched(Who),
    /// The schedule is over.
    Over,
    /// A fault; its effect lasts until then.
    Struck(Fault, Option<Who>, Millis),
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
    pub who: Who,
    /// Under which lease.
    pub lease: Option<u128>,
    /// The term.
    pub term: u64,
}

/// Work of a handler without a break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// By whom.
    pub who: Who,
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
    pub fn carried_out(&self, what: What) -> Option<&Asked> {
        match what {
            What::Handled(number, Answer { status: 200..=299, .. }) => self.asked.get(number),
            _ => None,
        }
    }

    /// The record writes that the store took, in its order.
    pub fn writes(&self) -> impl Iterator<Item = (usize, Entry, &Asked, &Written)> {
        self.entries.iter().enumerate().filter_map(|(index, entry)| {
            let asked = self.carried_out(entry.what)?;
            Some((index, *entry, asked, asked.write.as_ref()?))
        })
    }

    /// The terms in the order in which they were won.
    #[must_use]
    pub fn wins(&self) -> Vec<Win> {
        let mut wins = Vec::new();
        let mut last = None;
        for (entry, Entry { at, .. }, asked, written) in self.writes() {
            let Asked { who, lease, .. } = *asked;
            // The same record again under one lease is a copy of the write, or a claim.
            let newest = Some((written.term, written.nonce, lease));
            if std::mem::replace(&mut last, newest) != newest {
                wins.push(Win { at, entry, who, lease, term: written.term });
            }
        }
        wins
    }

    /// Whether this fault is there at an instant, for this candidate or for all.
    #[must_use]
    pub fn meets(&self, fault: Fault, who: Who, at: Millis) -> bool {
        self.met_until(fault, who, at).is_some()
    }

    /// Until when this fault is there, for this candidate or for all; none where it is not there at an instant.
    #[must_use]
    pub fn met_until(&self, fault: Fault, who: Who, at: Millis) -> Option<Millis> {
        let before = self.entries.iter().take_while(|entry| entry.at <= at);
        let those = before.filter_map(|entry| match entry.what {
            What::Struck(struck, whom, until) => {
                (struck == fault && until >= at && whom.is_none_or(|whom| whom == who))
                    .then_some(until)
            }
            _ => None,
        });
        those.max()
    }

    /// What the service's wall clock shows, in nanoseconds since 1970.
    #[must_use]
    pub fn service_time(&self, at: Millis) -> u64 {
        let steps = self.steps.iter().filter(|(then, _)| *then <= at);
        let by: i64 = steps.map(|(_, by)| by * 1_000_000).sum();
        (self.epoch + at * 1_000_000).saturating_add_signed(by)
    }

    /// What the dates of answers tell, in nanoseconds since 1970.
    #[must_use]
    pub fn told_time(&self, at: Millis) -> u64 {
        let stood = self.stood.iter().rev().find(|(from, until)| (*from..*until).contains(&at));
        self.service_time(stood.map_or(at, |(from, _)| *from))
    }

    /// When the service's clock shows that for the first time, not before `from`.
    #[must_use]
    pub fn when(&self, time: u64, from: Millis) -> Millis {
        let steps = self.steps.iter().map(|(then, _)| *then).filter(|then| *then > from);
        for begin in std::iter::once(from).chain(steps) {
            let shows = self.service_time(begin);
            // True time has whole milliseconds.
            let at = begin + time.saturating_sub(shows).div_ceil(1_000_000);
            if self.service_time(at) >= time {
                return at;
            }
        }
        Millis::MAX / 2
    }

    /// Whether the service's clock shows less than it did before.
    #[must_use]
    pub fn is_behind(&self, at: Millis) -> bool {
        let before = |(then, _): &(Millis, i64)| self.service_time(then.saturating_sub(1));
        let steps = self.steps.iter().filter(|(then, _)| *then <= at);
        steps.map(before).max().is_some_and(|most| most > self.service_time(at))
    }

    /// The spans in which handlers worked, in the order of their ends.
    #[must_use]
    pub fn spans(&self) -> Vec<Span> {
        let mut began: Vec<Option<Millis>> = vec![None; self.lives.len()];
        let mut spans = Vec::new();
        for Entry { at, what } in &self.entries {
            match *what {
                What::Works(who, _) => began[who] = Some(*at),
                What::Rests(who, term) => {
                    if let Some(from) = began[who].take() {
                        spans.push(Span { who, term, from, to: *at });
                    }
                }
                _ => {}
            }
        }
        spans
    }
}
