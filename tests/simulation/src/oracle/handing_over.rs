//! Handing over: an order comes about, or its leader tells that it does not. The lease goes to a
//! successor that announced itself just before; one that could not be given in time is released to anybody.

use std::collections::BTreeMap;

use super::super::fault::{Fault, Step};
use super::super::history::{Answer, Entry, History, Periods, HistoryEvent, CandidateId, Win};
use super::super::world::Millis;
use super::calm::{FaultPeriods, Leadership, between, four_round_trips, ends_leadership, on_slow_clock};
use super::pace::TOKEN_FETCH_TIMEOUT;
use super::progress::{MAX_TOKEN_LIFETIME, has_time_for_writes};
use super::{Violation, violation};

/// A successor comes within two polls, so long, and the time of so many requests. Its leader does not know how often
/// it polls, and waits for the longest poll at least.
const COME_TIMEOUT: Millis = 10_000;
const LONGEST_POLL: Millis = 60_000;
const COME_REQUESTS: Millis = 6;

/// Until it is named: the leader's renewal, a write of the record that was decided before, a look that
/// tells what became of it, and the write that names it.
const NAMING_REQUESTS: Millis = 4;

/// Until the lease is given, where no work takes longer: a renewal, a look, the last write of the record,
/// and the change.
const GIVING_REQUESTS: Millis = 4;

/// When its time is over, the leader may wait for an answer. Then it renews or takes the name off the
/// record, and sends two background requests, before it tells. None of these takes longer than a request may, or
/// than [`LONGEST_BACKGROUND`].
const REPORT_REQUESTS: Millis = 4;
const LONGEST_BACKGROUND: Millis = 3_000;

/// The work may take so long to end once the successor came, or a lease, and twice as long if the successor comes
/// again; and so long the lease is then offered, beside the time of [`TO_COME_REQUESTS`].
const WORK_END_TIMEOUT: Millis = 40_000;
const LEASE_OFFER_TIMEOUT: Millis = 5_000;

/// How old an announcement may be when the lease is offered to it first: nine seconds by
/// dates without fractions, two since it was looked at, and one for the last write of the record.
const MAX_ANNOUNCEMENT_AGE: Millis = 13_000;

/// Of that, for requests; longer where six of them take longer, each like the read that showed the
/// announcement; but not longer than so long altogether.
const REQUEST_ALLOWANCE: Millis = 3_000;
const LONGEST_ANNOUNCEMENT_AGE: Millis = MAX_ANNOUNCEMENT_AGE + 21_000;

/// Of that, since the announcement was read; longer where three requests like the read take longer.
const READ_ALLOWANCE: Millis = 2_000;
const LONGEST_READ_ALLOWANCE: Millis = 8_000;

/// How long the lease is offered to a successor; longer where that is no time for the last write of the
/// record and one request.
const OFFER_DURATION: Millis = 4_000;
const LAST_WRITE: Millis = 1_000;

/// Judges each order, and each change of the lease.
pub fn check_handovers(history: &History) -> Vec<Violation> {
    let mut violations = Vec::new();
    violations.extend(check_orders(history));
    violations.extend(check_changes(history));
    violations
}

fn check_orders(history: &History) -> Vec<Violation> {
    let (calm, leaderships, wins) = (FaultPeriods::from_history(history), Leadership::from_history(history), history.wins());
    let over = history.entries.last().map_or(0, |entry| entry.at);
    let mut violations = Vec::new();
    for (index, Entry { at, event }) in history.entries.iter().enumerate() {
        let HistoryEvent::HandoverOrdered(candidate, name, successor) = *event else { continue };
        let order = Order { history, candidate, successor_name: name, at: *at, index };
        let deadline = order.deadline();
        // Whether it was on record as the leader at any time until then, known to it or not.
        let was_leader = |until: Millis| {
            let next_wins = wins.iter().skip(1).map(|win| win.at).chain([Millis::MAX]);
            wins.iter()
                .zip(next_wins)
                .any(|(win, next)| win.candidate == candidate && win.at <= until && next >= *at)
                || order.is_unaware_of_new_leader(&wins)
        };
        let answers = order.is_received() && !order.has_broken_settings(deadline) && !order.is_superseded(deadline);
        if deadline <= over && answers && order.may_hold_lease(deadline) && !order.is_answered(deadline, was_leader(deadline)) {
            let message = format!("c{candidate} was told at {at} ms to hand over, and does not answer");
            violations.push(violation("hand over", deadline, message));
        }
        // With a successor that is there, and nothing in the way, it comes about.
        let requests = NAMING_REQUESTS + COME_REQUESTS + GIVING_REQUESTS;
        let end =
            order.known_by() + order.longest_arrival() + on_slow_clock(history.grace.min(order.work_end_timeout()));
        let end = end + requests * 2 * history.latency;
        // One that was told to resign or to pause gives up already, after its turn, and says so.
        let leads = leaderships
            .iter()
            .find(|t| t.candidate == candidate && t.from <= *at && t.to >= *at)
            .is_some_and(|t| !was_ordered_to_resign(history, candidate, t.from, *at));
        // Candidates leave what strangers wrote where announcements are left.
        let saw_hostile_data = between(history, 0, end)
            .iter()
            .any(|entry| matches!(entry.event, HistoryEvent::FaultInjected(Fault::HostileSideBlobs, ..)));
        let is_able = leads && !saw_hostile_data && !order.leadership_ends_anyway() && has_time_for_writes(history, candidate);
        let is_able = is_able && !order.is_latency_too_high();
        let successor =
            successor.filter(|_| is_able).and_then(|machine| order.live_successor_on(machine, end));
        let Some(successor) = successor.filter(|_| end <= over) else { continue };
        if order.is_undisturbed(end)
            && calm.is_calm(&[candidate, successor], *at + 1, end)
            && !order.succeeds(end, &wins)
        {
            let message =
                format!("c{candidate} was told at {at} ms to hand over to c{successor}, and does not");
            violations.push(violation("hand over", end, message));
        }
    }
    violations
}

/// An order to hand over.
struct Order<'h> {
    history: &'h History,
    candidate: CandidateId,
    /// The number in the name of the successor.
    successor_name: usize,
    at: Millis,
    index: usize,
}

impl Order<'_> {
    fn periods(&self) -> &Periods {
        &self.history.lives[self.candidate].periods
    }

    /// Whether the account answers only after the next beat is due, so that a promise may end at any time
    /// (protocol.md §13).
    fn is_latency_too_high(&self) -> bool {
        self.periods().failover.is_some_and(|failover| 2 * self.history.latency > failover / 6)
    }

    /// When its candidate knows of it: a request may have been under way.
    fn known_by(&self) -> Millis {
        self.at + self.periods().timeout
    }

    /// How long the leader waits for the successor, where requests take no time.
    fn come_timeout(&self) -> Millis {
        on_slow_clock(LONGEST_POLL.max(2 * self.periods().poll) + COME_TIMEOUT)
    }

    /// Returns the longest time that a successor takes to come, where requests take no time. Any candidate may be one.
    fn longest_arrival(&self) -> Millis {
        let polls = self.history.lives.iter().map(|life| life.periods.poll);
        on_slow_clock(2 * polls.max().unwrap_or_default() + COME_TIMEOUT)
    }

    /// Returns the longest time that the work takes to end once the successor came.
    fn work_end_timeout(&self) -> Millis {
        WORK_END_TIMEOUT.max(self.periods().lease)
    }

    /// Returns the longest time of a handover once the successor came, without its requests.
    fn longest_wait(&self) -> Millis {
        2 * self.work_end_timeout() + LEASE_OFFER_TIMEOUT
    }

    /// When it has come about, or its leader has told that it does not.
    fn deadline(&self) -> Millis {
        let if_never_named = self.known_by() + self.come_timeout();
        // The time to come begins anew when the leader knows that the successor can hear of it.
        let named_at = self
            .named_at(if_never_named)
            .map(|(at, took)| at.max(self.at) + self.come_timeout() + on_slow_clock(COME_REQUESTS * took));
        let report_time = REPORT_REQUESTS * self.periods().timeout.max(LONGEST_BACKGROUND);
        if_never_named.max(named_at.unwrap_or(0))
            + on_slow_clock(self.longest_wait())
            + COME_REQUESTS * self.periods().timeout
            + report_time
    }

    /// When the leader learnt, by then, that the successor is named on record, and how long that request took.
    /// It was named before, perhaps, by an order to the same one.
    fn named_at(&self, until: Millis) -> Option<(Millis, Millis)> {
        let (history, names) = (self.history, Some(self.successor_name));
        let (mut is_named, mut named_at, mut sent) = (false, None, BTreeMap::new());
        for Entry { at, event } in history.entries.iter().take_while(|entry| entry.at <= until) {
            let (HistoryEvent::Sent(number) | HistoryEvent::Handled(number, _) | HistoryEvent::Answered(number, _)) = *event
            else {
                continue;
            };
            let request = &history.requests[number];
            if request.candidate != self.candidate {
                continue;
            }
            let writes = request.write.as_ref().map(|written| written.successor == names);
            match *event {
                HistoryEvent::Sent(_) => {
                    sent.insert(number, *at);
                }
                HistoryEvent::Handled(_, Answer { status: 200..=299, .. }) => {
                    is_named = writes.unwrap_or(is_named);
                }
                HistoryEvent::Answered(_, Answer { status: 200..=299, .. }) => {
                    let took = sent.get(&number).map_or(0, |sent| *at - sent);
                    match writes {
                        Some(false) => named_at = None,
                        Some(true) => named_at = named_at.or(Some((*at, took))),
                        None if request.step == Step::ReadBack && is_named => {
                            named_at = named_at.or(Some((*at, took)));
                        }
                        None => {}
                    }
                }
                _ => {}
            }
        }
        named_at
    }

    /// Whether its candidate is told to hand over once more before this is due: that order takes its place,
    /// and is judged.
    fn is_superseded(&self, until: Millis) -> bool {
        let later = self.history.entries[self.index + 1..].iter();
        later
            .take_while(|entry| entry.at <= until)
            .any(|entry| matches!(entry.event, HistoryEvent::HandoverOrdered(who, ..) if who == self.candidate))
    }

    /// Whether the leadership came to its end by itself just before its leader knew of the order, and
    /// goes to anybody: what was to last as long as it did was over, or it had lasted long enough, and at
    /// most the last write of the record came in between.
    fn leadership_ends_anyway(&self) -> bool {
        let (history, candidate) = (self.history, self.candidate);
        let ends_by_itself = history.has_rotation || history.lives[candidate].every == 0;
        let until = self.known_by() + on_slow_clock(LAST_WRITE);
        let released = |entry: &Entry| match entry.event {
            HistoryEvent::Sent(number) => {
                let request = &history.requests[number];
                (request.candidate, request.step) == (candidate, Step::Release)
            }
            _ => false,
        };
        ends_by_itself && between(history, self.at, until).iter().any(released)
    }

    /// Whether its candidate takes it in: it neither stands still nor leaves.
    fn is_received(&self) -> bool {
        let before = self.history.entries[..self.index].iter().rev();
        let newest = before.filter_map(|entry| match entry.event {
            HistoryEvent::Paused(candidate) | HistoryEvent::LeaveRequested(candidate) if candidate == self.candidate => Some(false),
            HistoryEvent::Resumed(candidate) | HistoryEvent::Started(candidate) if candidate == self.candidate => Some(true),
            _ => None,
        });
        newest.take(1).all(|is_running| is_running)
    }

    /// Whether its candidate had won, and had not learnt yet that another one won since: the order ends with
    /// a leadership that it believed to have.
    fn is_unaware_of_new_leader(&self, wins: &[Win]) -> bool {
        let (history, candidate) = (self.history, self.candidate);
        let won = wins.iter().rfind(|win| win.candidate == candidate && win.entry < self.index);
        won.is_some_and(|win| {
            let since = &history.entries[win.entry..self.index];
            !since.iter().any(|entry| ends_leadership(history, candidate, entry.event))
        })
    }

    /// Whether its candidate may hold the lease. One that cannot renew, for want of a token, leads no more
    /// and has nothing to tell.
    fn may_hold_lease(&self, until: Millis) -> bool {
        let lease = on_slow_clock(self.history.lives[self.candidate].periods.lease);
        between(self.history, until.saturating_sub(lease), until).iter().any(|entry| {
            let request = self.history.accepted_request(entry.event);
            let keeps_lease = |step| matches!(step, Step::Acquire | Step::Renew);
            request.is_some_and(|request| request.candidate == self.candidate && keeps_lease(request.step))
        })
    }

    /// Whether its candidate tells that it does not hand over; or, where it led, leads no more.
    fn is_answered(&self, until: Millis, was_leader: bool) -> bool {
        let (history, candidate) = (self.history, self.candidate);
        let later = history.entries[self.index..].iter().take_while(|entry| entry.at <= until);
        let answers = |entry: &Entry| match entry.event {
            HistoryEvent::HandoverFailed(failed) | HistoryEvent::Paused(failed) => failed == candidate,
            HistoryEvent::Sent(_) if !was_leader => false,
            event => ends_leadership(history, candidate, event),
        };
        later.into_iter().any(answers)
    }

    /// Whether the leader's settings cannot be used: it hears of nothing until they can.
    fn has_broken_settings(&self, delay: Millis) -> bool {
        let has_settings_fault = |at| {
            let faults = [Fault::SettingsSpoilt, Fault::SecretSpoilt];
            faults.into_iter().any(|fault| self.history.has_fault(fault, self.candidate, at))
        };
        has_settings_fault(self.at) || has_settings_fault(self.at + delay)
    }

    /// The candidate that lives on a machine all the time.
    fn live_successor_on(&self, machine: usize, end: Millis) -> Option<CandidateId> {
        let history = self.history;
        let is_alive = |candidate: &CandidateId| {
            let is_start = |event| matches!(event, HistoryEvent::Started(begun) if begun == *candidate);
            let is_end = |event| match event {
                HistoryEvent::Killed(ended) | HistoryEvent::LeaveRequested(ended) | HistoryEvent::Left(ended) => ended == *candidate,
                _ => false,
            };
            let before = &history.entries[..self.index];
            let until_end = between(history, 0, end);
            before.iter().any(|entry| is_start(entry.event))
                && !until_end.iter().any(|entry| is_end(entry.event))
        };
        let is_on_machine = |candidate: &CandidateId| history.lives[*candidate].machine == machine;
        (0..history.lives.len()).find(|candidate| is_on_machine(candidate) && is_alive(candidate) && *candidate != self.candidate)
    }

    /// Whether no other order, and no work that went wrong, is in the way.
    fn is_undisturbed(&self, end: Millis) -> bool {
        let window_start = self.at.saturating_sub(self.longest_wait() + COME_TIMEOUT + OFFER_DURATION);
        let (index, entries) = (self.index, &self.history.entries);
        let others = (0..).zip(entries).skip_while(|(_, entry)| entry.at < window_start);
        !others.take_while(|(_, entry)| entry.at <= end).any(|(other, entry)| match entry.event {
            HistoryEvent::HandoverOrdered(..) => other != index,
            HistoryEvent::TurnFailed(_) => true,
            _ => false,
        })
    }

    /// The lease was changed, and nobody else won before the one to which it was given.
    fn succeeds(&self, end: Millis, wins: &[Win]) -> bool {
        let (history, candidate) = (self.history, self.candidate);
        let entries = (self.index..).zip(&history.entries[self.index..]);
        let mut changed =
            entries.take_while(|(_, entry)| entry.at <= end).filter_map(|(at, entry)| {
                let request = history.accepted_request(entry.event)?;
                ((request.candidate, request.step) == (candidate, Step::HandOver)).then_some((at, request.successor_lease))
            });
        changed.next().is_some_and(|(index, to)| {
            let next = wins.iter().find(|win| win.entry > index && win.at <= end);
            next.is_none_or(|win| win.lease == to)
        })
    }
}

fn was_ordered_to_resign(history: &History, candidate: CandidateId, from: Millis, to: Millis) -> bool {
    between(history, from, to).iter().any(|entry| {
        let HistoryEvent::FaultInjected(Fault::NotReady | Fault::Resign, victim, _) = entry.event else {
            return false;
        };
        victim.is_none_or(|victim| victim == candidate)
    })
}

/// Whether strangers wrote beside the blob at a time from which that counted at `at`.
fn had_hostile_announcements(history: &History, at: Millis, lifetime: Millis) -> bool {
    let is_hostile_write = |entry: &Entry| match entry.event {
        HistoryEvent::FaultInjected(Fault::HostileSideBlobs, _, until) => until + lifetime >= at,
        _ => false,
    };
    history.entries.iter().take_while(|entry| entry.at <= at).any(is_hostile_write)
}

/// Changes that were sent under one lease, and what came after them.
#[derive(Clone, Copy)]
struct Offer {
    candidate: CandidateId,
    since: Millis,
    /// The lease id of its successor.
    successor_lease: Option<u128>,
    /// Neither answered nor taken nor followed by a release.
    is_open: bool,
}

/// Whether its leader was cut off from the store at some time since the offer.
fn was_cut_off(history: &History, offer: &Offer, at: Millis) -> bool {
    let is_partition = |entry: &Entry| match entry.event {
        HistoryEvent::FaultInjected(Fault::PartitionOne | Fault::PartitionAll, candidate, until) => {
            until >= offer.since && candidate.is_none_or(|candidate| candidate == offer.candidate)
        }
        _ => false,
    };
    history.entries.iter().take_while(|entry| entry.at <= at).any(is_partition)
}

fn offer_duration(history: &History, candidate: CandidateId) -> Millis {
    OFFER_DURATION.max(LAST_WRITE + history.lives[candidate].periods.timeout)
}

/// Returns true if a candidate has known for a while that it is not ready, so that it may not hand over. It may
/// have stood still, or have had settings that cannot be used: then it does not know.
fn is_not_ready(history: &History, candidate: CandidateId, at: Millis) -> bool {
    let notice_delay = 4 * history.lives[candidate].periods.timeout;
    // Two of these may overlap: it is ready as soon as the first one ends.
    let spans: Vec<_> = history
        .entries
        .iter()
        .filter_map(|entry| match entry.event {
            HistoryEvent::FaultInjected(Fault::NotReady, Some(victim), until) if victim == candidate => {
                Some((entry.at, until))
            }
            _ => None,
        })
        .collect();
    let knows_not_ready = spans.iter().any(|(from, until)| {
        from + notice_delay < at && at < *until && !spans.iter().any(|(_, end)| (*from..at).contains(end))
    });
    let was_reachable =
        !between(history, at.saturating_sub(2 * LONGEST_SUSPENSION), at).iter().any(|entry| {
            match entry.event {
                HistoryEvent::Paused(victim) | HistoryEvent::Resumed(victim) => victim == candidate,
                HistoryEvent::FaultInjected(Fault::SettingsSpoilt | Fault::SecretSpoilt, victim, _) => {
                    victim.is_none_or(|victim| victim == candidate)
                }
                _ => false,
            }
        });
    knows_not_ready && was_reachable
}

/// A process is not ready for two leases at most.
const LONGEST_SUSPENSION: Millis = 120_000;

fn check_changes(history: &History) -> Vec<Violation> {
    let mut announced_at: BTreeMap<u128, Millis> = BTreeMap::new();
    let mut offers: BTreeMap<u128, Offer> = BTreeMap::new();
    // When a candidate went on that had stood still, or had its clock set forward.
    let mut resumed_at = vec![None; history.lives.len()];
    let mut token_requested_at = vec![None; history.lives.len()];
    // Until when the token is good that a candidate sent last.
    let mut tokens = vec![None; history.lives.len()];
    // For how long who asked for a token where that fails, and has sent nothing since, may do without one.
    let mut without_token = vec![None; history.lives.len()];
    let token_margin = 2 * history.latency + MAX_TOKEN_LIFETIME / 100;
    // The newest look for successors of each candidate: its number, when it was sent, how long it took.
    let mut announcement_reads = vec![(usize::MAX, 0, 0); history.lives.len()];
    // In which term each lease id was announced, and won.
    let mut announced_terms: BTreeMap<u128, u64> = history.foreign_announcements.iter().copied().collect();
    let terms: BTreeMap<u128, u64> =
        history.wins().into_iter().filter_map(|win| Some((win.lease?, win.term))).collect();
    let mut violations = Vec::new();
    for Entry { at, event } in &history.entries {
        if let Some(request) = history.accepted_request(*event)
            && let (true, Some(lease)) = (request.is_announcement, request.lease)
        {
            announced_at.insert(lease, *at);
            let before = request.announced_term.and_then(|term| announced_terms.insert(lease, term));
            if before.is_some() && before != request.announced_term {
                let message = format!("c{} announces one lease id in two terms", request.candidate);
                violations.push(violation("hand over", *at, message));
            }
        }
        // Its leader sees that, and has nothing to release. Nor has it where another one broke its lease while it was cut off.
        if let Some(acquire) = history.accepted_request(*event).filter(|request| request.step == Step::Acquire)
        {
            let replaced = offers
                .values_mut()
                .filter(|offer| offer.successor_lease == acquire.lease || was_cut_off(history, offer, *at));
            replaced.for_each(|offer| offer.is_open = false);
        }
        match *event {
            HistoryEvent::Sent(number) => {
                let request = &history.requests[number];
                (tokens[request.candidate], without_token[request.candidate]) = (request.token, None);
                if request.is_about_announcements && !request.is_announcement {
                    announcement_reads[request.candidate] = (number, *at, announcement_reads[request.candidate].2);
                }
                let (candidate, Some(lease)) = (request.candidate, request.lease) else { continue };
                match (request.step, offers.get_mut(&lease)) {
                    // It was decided before that one stood still, or its clock was set.
                    (Step::HandOver, None) if resumed_at[candidate] == Some(*at) => {
                        offers.insert(lease, Offer { candidate, since: *at, successor_lease: request.successor_lease, is_open: false });
                    }
                    (Step::HandOver, None) => {
                        // Nothing more is sent while the settings cannot be used.
                        let settings_faults = [Fault::SettingsSpoilt, Fault::SecretSpoilt];
                        let open = !settings_faults.into_iter().any(|fault| history.has_fault(fault, candidate, *at));
                        offers.insert(lease, Offer { candidate, since: *at, successor_lease: request.successor_lease, is_open: open });
                        let announced_term = request.successor_lease.and_then(|to| announced_terms.get(&to).copied());
                        if announced_term.is_some() && announced_term != terms.get(&lease).copied() {
                            let message = format!("c{candidate} hands over to an id of another term");
                            violations.push(violation("hand over", *at, message));
                        }
                        if is_not_ready(history, candidate, *at) {
                            let message = format!("c{candidate} hands over though it is not ready");
                            violations.push(violation("hand over", *at, message));
                        }
                        let age = request.successor_lease.and_then(|to| Some(at - announced_at.get(&to)?));
                        let took = announcement_reads[candidate].2;
                        let max_age = MAX_ANNOUNCEMENT_AGE - REQUEST_ALLOWANCE + REQUEST_ALLOWANCE.max(6 * took);
                        let read_allowance = READ_ALLOWANCE.max((3 * took).min(LONGEST_READ_ALLOWANCE)) - READ_ALLOWANCE;
                        let max_age = on_slow_clock(max_age.min(LONGEST_ANNOUNCEMENT_AGE) + read_allowance);
                        let most = max_age + four_round_trips(history).max(2 * took);
                        let is_too_old = |age| age > most;
                        // Who may write there may take the lease: what strangers write is not told here.
                        let has_hostile_data = had_hostile_announcements(history, *at, most);
                        if age.is_none_or(is_too_old) && !has_hostile_data {
                            let announced = age.map_or("never".into(), |age| format!("{age} ms before"));
                            let message = format!("c{candidate} hands over to a successor that came {announced}");
                            violations.push(violation("hand over", *at, message));
                        }
                    }
                    (Step::HandOver, Some(offer))
                        if *at > offer.since + on_slow_clock(offer_duration(history, candidate)) =>
                    {
                        let message = format!(
                            "c{candidate} offers its lease to its successor alone since {} ms",
                            offer.since
                        );
                        violations.push(violation("hand over", *at, message));
                    }
                    (Step::Release, Some(offer)) => offer.is_open = false,
                    _ => {}
                }
            }
            HistoryEvent::Answered(number, Answer { status: 200 | 404 | 409 | 412, .. }) => {
                let request = &history.requests[number];
                let (newest, sent, took) = &mut announcement_reads[request.candidate];
                if *newest == number {
                    *took = *at - *sent;
                }
                let offer = request.lease.and_then(|lease| offers.get_mut(&lease));
                if let (Step::HandOver, Some(offer)) = (request.step, offer) {
                    offer.is_open = false;
                }
            }
            // Whatever is sent after that comes later than it was meant to.
            HistoryEvent::Paused(candidate) | HistoryEvent::Killed(candidate) | HistoryEvent::StepFailed(candidate) | HistoryEvent::Left(candidate) => {
                offers.retain(|_, offer| offer.candidate != candidate || !offer.is_open);
            }
            // By a clock that is set forward the time for that is over.
            HistoryEvent::ClockSetForward(machine) => {
                let is_there = |candidate: CandidateId| history.lives[candidate].machine == machine;
                offers.retain(|_, offer| !is_there(offer.candidate) || !offer.is_open);
                (0..history.lives.len())
                    .filter(|candidate| is_there(*candidate))
                    .for_each(|candidate| resumed_at[candidate] = Some(*at));
            }
            HistoryEvent::TokenRequested(candidate) => {
                token_requested_at[candidate] = Some(*at);
                let fails = history.fault_until(Fault::TokensFail, candidate, *at);
                let lacks_token = tokens[candidate].is_none_or(|until: Millis| until <= *at + token_margin);
                let until = fails.filter(|_| lacks_token).map(|until| until + TOKEN_FETCH_TIMEOUT);
                without_token[candidate] = until.or(without_token[candidate]);
            }
            HistoryEvent::FaultInjected(_, Some(candidate), until) if token_requested_at[candidate] == Some(*at) && until > *at => {
                let lacks_token = tokens[candidate].is_none_or(|until: Millis| until <= *at + token_margin);
                without_token[candidate] = lacks_token.then_some(until + TOKEN_FETCH_TIMEOUT).or(without_token[candidate]);
            }
            // It sends nothing until they can be used again.
            HistoryEvent::FaultInjected(Fault::SettingsSpoilt | Fault::SecretSpoilt, candidate, _) => {
                offers.retain(|_, offer| candidate.is_some_and(|candidate| offer.candidate != candidate) || !offer.is_open);
            }
            HistoryEvent::Resumed(candidate) => resumed_at[candidate] = Some(*at),
            _ => {}
        }
        offers.retain(|_, offer| {
            let periods = &history.lives[offer.candidate].periods;
            let most = on_slow_clock(offer_duration(history, offer.candidate) + periods.poll) + 2 * periods.timeout;
            let is_late = offer.is_open && *at > offer.since + most;
            // Without a token it sends nothing, and when the lease is over, there is nothing left to release.
            let is_excused = without_token[offer.candidate].is_some_and(|until| *at <= until);
            if is_late && !is_excused {
                let message =
                    format!("c{} does not release what its successor did not take", offer.candidate);
                violations.push(violation("hand over", *at, message));
            }
            !is_late || (is_excused && *at <= offer.since + on_slow_clock(periods.lease))
        });
    }
    violations
}
