//! Handovers: an order succeeds, or its leader reports that it failed.
//!
//! The lease goes to a successor that announced itself just before. A leader that cannot give the
//! lease in time releases it to any candidate.

use std::collections::BTreeMap;

use super::super::fault::{Fault, Step};
use super::super::history::{Answer, CandidateId, Entry, History, HistoryEvent, Periods, Win};
use super::super::world::Millis;
use super::fault_periods::{
    FaultPeriods, Leadership, between, ends_leadership, four_round_trips, on_slow_clock,
};
use super::pace::TOKEN_FETCH_TIMEOUT;
use super::progress::{MAX_TOKEN_LIFETIME, has_time_for_writes};
use super::{Violation, violation};

/// A successor comes within two polls plus this time and [`COME_REQUESTS`].
///
/// Its leader does not know its poll interval, and waits at least for the longest poll.
const COME_TIMEOUT: Millis = 10_000;
const MAX_POLL: Millis = 60_000;
const COME_REQUESTS: Millis = 6;

/// Requests until the successor is named: a renewal, a record write that was decided before, a read
/// that shows its outcome, and the write that names the successor.
const NAMING_REQUESTS: Millis = 4;

/// Requests until the lease is given, unless the work takes longer: a renewal, a read, the last
/// write of the record, and the change.
const GIVING_REQUESTS: Millis = 4;

/// Requests after the timeout: the leader may wait for a response. Then it renews or removes the
/// name from the record, and sends two background requests, before it reports.
///
/// Each takes at most a request's timeout, or [`MAX_BACKGROUND`].
const REPORT_REQUESTS: Millis = 4;
const MAX_BACKGROUND: Millis = 3_000;

/// Time for the work to end once the successor, or a lease, came, and twice that if the successor
/// returns.
///
/// [`LEASE_OFFER_TIMEOUT`] is the time that the lease is then offered, plus the time of
/// [`COME_REQUESTS`].
const WORK_END_TIMEOUT: Millis = 40_000;
const LEASE_OFFER_TIMEOUT: Millis = 5_000;

/// Maximum age of an announcement when the lease is first offered to it: nine seconds by dates
/// without fractions, two since it was read, and one for the last write of the record.
const MAX_ANNOUNCEMENT_AGE: Millis = 13_000;

/// Share of that for requests; longer if six requests, each like the read that showed the
/// announcement, take longer.
///
/// [`MAX_SLOW_ANNOUNCEMENT_AGE`] limits the total.
const REQUEST_ALLOWANCE: Millis = 3_000;
const MAX_SLOW_ANNOUNCEMENT_AGE: Millis = MAX_ANNOUNCEMENT_AGE + 21_000;

/// Share of that since the announcement was read; longer if three requests like the read take
/// longer.
const READ_ALLOWANCE: Millis = 2_000;
const MAX_READ_ALLOWANCE: Millis = 8_000;

/// Time that the lease is offered to a successor; longer if that is too short for the last write of
/// the record and one request.
const OFFER_DURATION: Millis = 4_000;
const LAST_WRITE: Millis = 1_000;

/// Checks each order, and each change of the lease.
pub fn check_handovers(history: &History) -> Vec<Violation> {
    let mut violations = Vec::new();
    violations.extend(check_orders(history));
    violations.extend(check_changes(history));
    violations
}

fn check_orders(history: &History) -> Vec<Violation> {
    let (calm, leaderships, wins) =
        (FaultPeriods::from_history(history), Leadership::from_history(history), history.wins());
    let over = history.entries.last().map_or(0, |entry| entry.at);
    let mut violations = Vec::new();
    for (index, Entry { at, event }) in history.entries.iter().enumerate() {
        let HistoryEvent::HandoverOrdered(candidate, name, successor) = *event else { continue };
        let order = Order { history, candidate, successor_name: name, at: *at, index };
        let deadline = order.deadline();
        // Returns true if it was the recorded leader at any time until then, whether it knew or
        // not.
        let was_leader = |until: Millis| {
            let next_wins = wins.iter().skip(1).map(|win| win.at).chain([Millis::MAX]);
            wins.iter()
                .zip(next_wins)
                .any(|(win, next)| win.candidate == candidate && win.at <= until && next >= *at)
                || order.is_unaware_of_new_leader(&wins)
        };
        let answers = order.is_received()
            && !order.has_broken_settings(deadline)
            && !order.is_superseded(deadline);
        if deadline <= over
            && answers
            && order.may_hold_lease(deadline)
            && !order.is_answered(deadline, was_leader(deadline))
        {
            let message =
                format!("c{candidate} was ordered at {at} ms to hand over, without a report");
            violations.push(violation("hand over", deadline, message));
        }
        // With a present successor and no disturbance, the order succeeds.
        let requests = NAMING_REQUESTS + COME_REQUESTS + GIVING_REQUESTS;
        let end = order.known_by()
            + order.longest_arrival()
            + on_slow_clock(history.grace.min(order.work_end_timeout()));
        let end = end + requests * 2 * history.latency;
        // A leader that must resign or pause already gives up after its turn, and reports that.
        let leads = leaderships
            .iter()
            .find(|t| t.candidate == candidate && t.from <= *at && t.to >= *at)
            .is_some_and(|t| !was_ordered_to_resign(history, candidate, t.from, *at));
        // Candidates do not change what foreign writers left in the announcements.
        let saw_hostile_data = between(history, 0, end).iter().any(|entry| {
            matches!(entry.event, HistoryEvent::FaultInjected(Fault::HostileSideBlobs, ..))
        });
        let is_able = leads
            && !saw_hostile_data
            && !order.leadership_ends_anyway()
            && has_time_for_writes(history, candidate);
        let is_able = is_able && !order.is_latency_too_high();
        let successor =
            successor.filter(|_| is_able).and_then(|machine| order.live_successor_on(machine, end));
        let Some(successor) = successor.filter(|_| end <= over) else { continue };
        if order.is_undisturbed(end)
            && calm.is_calm(&[candidate, successor], *at + 1, end)
            && !order.succeeds(end, &wins)
        {
            let message = format!(
                "c{candidate} did not obey the order at {at} ms to hand over to c{successor}"
            );
            violations.push(violation("hand over", end, message));
        }
    }
    violations
}

/// An order to hand over.
struct Order<'h> {
    history: &'h History,
    candidate: CandidateId,
    /// Number in the name of the successor.
    successor_name: usize,
    at: Millis,
    index: usize,
}

impl Order<'_> {
    fn periods(&self) -> &Periods {
        &self.history.lives[self.candidate].periods
    }

    /// Returns true if the account answers only after the next beat is due, so that a promise may
    /// end at any time (protocol.md §13).
    fn is_latency_too_high(&self) -> bool {
        self.periods().failover.is_some_and(|failover| 2 * self.history.latency > failover / 6)
    }

    /// Returns when its candidate knows of it: a request may have been in progress.
    fn known_by(&self) -> Millis {
        self.at + self.periods().timeout
    }

    /// Returns the leader's timeout for the successor to come, without the time of requests.
    fn come_timeout(&self) -> Millis {
        on_slow_clock(MAX_POLL.max(2 * self.periods().poll) + COME_TIMEOUT)
    }

    /// Returns the longest time that any candidate takes to come as successor, without the time of
    /// requests.
    fn longest_arrival(&self) -> Millis {
        let polls = self.history.lives.iter().map(|life| life.periods.poll);
        on_slow_clock(2 * polls.max().unwrap_or_default() + COME_TIMEOUT)
    }

    /// Returns the longest time that the work takes to end once the successor came.
    fn work_end_timeout(&self) -> Millis {
        WORK_END_TIMEOUT.max(self.periods().lease)
    }

    /// Returns the longest duration of a handover once the successor came, without the time of
    /// requests.
    fn longest_wait(&self) -> Millis {
        2 * self.work_end_timeout() + LEASE_OFFER_TIMEOUT
    }

    /// Returns the time by which it succeeds, or its leader has reported the failure.
    fn deadline(&self) -> Millis {
        let if_never_named = self.known_by() + self.come_timeout();
        // The timeout restarts when the leader knows that the successor can learn of it.
        let named_at = self.named_at(if_never_named).map(|(at, took)| {
            at.max(self.at) + self.come_timeout() + on_slow_clock(COME_REQUESTS * took)
        });
        let report_time = REPORT_REQUESTS * self.periods().timeout.max(MAX_BACKGROUND);
        if_never_named.max(named_at.unwrap_or(0))
            + on_slow_clock(self.longest_wait())
            + COME_REQUESTS * self.periods().timeout
            + report_time
    }

    /// Returns when the leader learned, before `until`, that the successor is named in the record,
    /// and the duration of that request.
    ///
    /// An earlier order for the same successor may have named it.
    fn named_at(&self, until: Millis) -> Option<(Millis, Millis)> {
        let (history, names) = (self.history, Some(self.successor_name));
        let (mut is_named, mut named_at, mut sent) = (false, None, BTreeMap::new());
        for Entry { at, event } in history.entries.iter().take_while(|entry| entry.at <= until) {
            let (HistoryEvent::Sent(number)
            | HistoryEvent::Handled(number, _)
            | HistoryEvent::Answered(number, _)) = *event
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

    /// Returns true if its candidate receives another order before this one is due. That order
    /// replaces it and is checked instead.
    fn is_superseded(&self, until: Millis) -> bool {
        let later = self.history.entries[self.index + 1..].iter();
        later
            .take_while(|entry| entry.at <= until)
            .any(|entry| matches!(entry.event, HistoryEvent::HandoverOrdered(who, ..) if who == self.candidate))
    }

    /// Returns true if the leadership ended by itself just before its leader knew of the order, and
    /// goes to any candidate.
    ///
    /// Its lasting work had ended, or it had led long enough, and at most the last write of the
    /// record came in between.
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

    /// Returns true if its candidate receives it: it is neither suspended nor leaving.
    fn is_received(&self) -> bool {
        let before = self.history.entries[..self.index].iter().rev();
        let newest = before.filter_map(|entry| match entry.event {
            HistoryEvent::Paused(candidate) | HistoryEvent::LeaveRequested(candidate)
                if candidate == self.candidate =>
            {
                Some(false)
            }
            HistoryEvent::Resumed(candidate) | HistoryEvent::Started(candidate)
                if candidate == self.candidate =>
            {
                Some(true)
            }
            _ => None,
        });
        newest.take(1).all(|is_running| is_running)
    }

    /// Returns true if its candidate had won and had not learned yet that another candidate won
    /// since. The order ends with the leadership that it believed to have.
    fn is_unaware_of_new_leader(&self, wins: &[Win]) -> bool {
        let (history, candidate) = (self.history, self.candidate);
        let won = wins.iter().rfind(|win| win.candidate == candidate && win.entry < self.index);
        won.is_some_and(|win| {
            let since = &history.entries[win.entry..self.index];
            !since.iter().any(|entry| ends_leadership(history, candidate, entry.event))
        })
    }

    /// Returns true if its candidate may hold the lease.
    ///
    /// A leader that cannot renew for lack of a token leads no more and has nothing to report.
    fn may_hold_lease(&self, until: Millis) -> bool {
        let lease = on_slow_clock(self.history.lives[self.candidate].periods.lease);
        between(self.history, until.saturating_sub(lease), until).iter().any(|entry| {
            let request = self.history.accepted_request(entry.event);
            let keeps_lease = |step| matches!(step, Step::Acquire | Step::Renew);
            request.is_some_and(|request| {
                request.candidate == self.candidate && keeps_lease(request.step)
            })
        })
    }

    /// Returns true if its candidate reports a failed handover or, if it led, leads no more.
    fn is_answered(&self, until: Millis, was_leader: bool) -> bool {
        let (history, candidate) = (self.history, self.candidate);
        let later = history.entries[self.index..].iter().take_while(|entry| entry.at <= until);
        let answers = |entry: &Entry| match entry.event {
            HistoryEvent::HandoverFailed(failed) | HistoryEvent::Paused(failed) => {
                failed == candidate
            }
            HistoryEvent::Sent(_) if !was_leader => false,
            event => ends_leadership(history, candidate, event),
        };
        later.into_iter().any(answers)
    }

    /// Returns true if the leader's settings are invalid: it receives nothing until they are valid.
    fn has_broken_settings(&self, delay: Millis) -> bool {
        let has_settings_fault = |at| {
            let faults = [Fault::SettingsSpoilt, Fault::SecretSpoilt];
            faults.into_iter().any(|fault| self.history.has_fault(fault, self.candidate, at))
        };
        has_settings_fault(self.at) || has_settings_fault(self.at + delay)
    }

    /// Returns the candidate that stays alive on a machine all the time.
    fn live_successor_on(&self, machine: usize, end: Millis) -> Option<CandidateId> {
        let history = self.history;
        let is_alive = |candidate: &CandidateId| {
            let is_start =
                |event| matches!(event, HistoryEvent::Started(begun) if begun == *candidate);
            let is_end = |event| match event {
                HistoryEvent::Killed(ended)
                | HistoryEvent::LeaveRequested(ended)
                | HistoryEvent::Left(ended) => ended == *candidate,
                _ => false,
            };
            let before = &history.entries[..self.index];
            let until_end = between(history, 0, end);
            before.iter().any(|entry| is_start(entry.event))
                && !until_end.iter().any(|entry| is_end(entry.event))
        };
        let is_on_machine = |candidate: &CandidateId| history.lives[*candidate].machine == machine;
        (0..history.lives.len()).find(|candidate| {
            is_on_machine(candidate) && is_alive(candidate) && *candidate != self.candidate
        })
    }

    /// Returns true if no other order, failed work or end of the schedule interferes.
    fn is_undisturbed(&self, end: Millis) -> bool {
        let window_start =
            self.at.saturating_sub(self.longest_wait() + COME_TIMEOUT + OFFER_DURATION);
        let (index, entries) = (self.index, &self.history.entries);
        let others = (0..).zip(entries).skip_while(|(_, entry)| entry.at < window_start);
        !others.take_while(|(_, entry)| entry.at <= end).any(|(other, entry)| match entry.event {
            HistoryEvent::HandoverOrdered(..) => other != index,
            HistoryEvent::TurnFailed(_) => true,
            // At its end, the schedule stops leaders without recording a fault.
            HistoryEvent::LeaveRequested(stopped) | HistoryEvent::Killed(stopped) => {
                stopped == self.candidate
            }
            _ => false,
        })
    }

    /// Returns true if the lease was changed and its receiver was the next to win.
    fn succeeds(&self, end: Millis, wins: &[Win]) -> bool {
        let (history, candidate) = (self.history, self.candidate);
        let entries = (self.index..).zip(&history.entries[self.index..]);
        let mut changed =
            entries.take_while(|(_, entry)| entry.at <= end).filter_map(|(at, entry)| {
                let request = history.accepted_request(entry.event)?;
                ((request.candidate, request.step) == (candidate, Step::HandOver))
                    .then_some((at, request.successor_lease))
            });
        changed.next().is_some_and(|(index, to)| {
            let next = wins.iter().find(|win| win.entry > index && win.at <= end);
            next.is_none_or(|win| win.lease == to)
        })
    }
}

fn was_ordered_to_resign(
    history: &History,
    candidate: CandidateId,
    from: Millis,
    to: Millis,
) -> bool {
    between(history, from, to).iter().any(|entry| {
        let HistoryEvent::FaultInjected(Fault::NotReady | Fault::Resign, victim, _) = entry.event
        else {
            return false;
        };
        victim.is_none_or(|victim| victim == candidate)
    })
}

/// Returns true if foreign writers wrote announcements within their lifetime before `at`.
fn had_hostile_announcements(history: &History, at: Millis, lifetime: Millis) -> bool {
    let is_hostile_write = |entry: &Entry| match entry.event {
        HistoryEvent::FaultInjected(Fault::HostileSideBlobs, _, until) => until + lifetime >= at,
        _ => false,
    };
    history.entries.iter().take_while(|entry| entry.at <= at).any(is_hostile_write)
}

/// Changes that were sent under one lease, and their outcome.
#[derive(Clone, Copy)]
struct Offer {
    candidate: CandidateId,
    since: Millis,
    /// Lease id of the successor.
    successor_lease: Option<u128>,
    /// True until the change is answered, taken, or followed by a release.
    is_open: bool,
}

/// Returns true if its leader was cut off from the store at some time since the offer.
fn was_cut_off(history: &History, offer: &Offer, at: Millis) -> bool {
    let is_partition = |entry: &Entry| match entry.event {
        HistoryEvent::FaultInjected(
            Fault::PartitionOne | Fault::PartitionAll,
            candidate,
            until,
        ) => until >= offer.since && candidate.is_none_or(|candidate| candidate == offer.candidate),
        _ => false,
    };
    history.entries.iter().take_while(|entry| entry.at <= at).any(is_partition)
}

fn offer_duration(history: &History, candidate: CandidateId) -> Millis {
    OFFER_DURATION.max(LAST_WRITE + history.lives[candidate].periods.timeout)
}

/// Returns true if a candidate has known for a while that it is not ready, so that it must not hand
/// over.
///
/// It does not know after a suspension or with invalid settings.
fn is_not_ready(history: &History, candidate: CandidateId, at: Millis) -> bool {
    let notice_delay = 4 * history.lives[candidate].periods.timeout;
    // Two of these may overlap: the candidate is ready as soon as the first one ends.
    let spans: Vec<_> = history
        .entries
        .iter()
        .filter_map(|entry| match entry.event {
            HistoryEvent::FaultInjected(Fault::NotReady, Some(victim), until)
                if victim == candidate =>
            {
                Some((entry.at, until))
            }
            _ => None,
        })
        .collect();
    let knows_not_ready = spans.iter().any(|(from, until)| {
        from + notice_delay < at
            && at < *until
            && !spans.iter().any(|(_, end)| (*from..at).contains(end))
    });
    let was_reachable = !between(history, at.saturating_sub(2 * MAX_SUSPENSION), at).iter().any(
        |entry| match entry.event {
            HistoryEvent::Paused(victim) | HistoryEvent::Resumed(victim) => victim == candidate,
            HistoryEvent::FaultInjected(Fault::SettingsSpoilt | Fault::SecretSpoilt, victim, _) => {
                victim.is_none_or(|victim| victim == candidate)
            }
            _ => false,
        },
    );
    knows_not_ready && was_reachable
}

/// Longest time that a process is not ready: two leases.
const MAX_SUSPENSION: Millis = 120_000;

fn check_changes(history: &History) -> Vec<Violation> {
    let mut announced_at: BTreeMap<u128, Millis> = BTreeMap::new();
    let mut offers: BTreeMap<u128, Offer> = BTreeMap::new();
    // When a candidate resumed after a suspension, or had its clock set forward.
    let mut resumed_at = vec![None; history.lives.len()];
    let mut token_requested_at = vec![None; history.lives.len()];
    // Expiry of the token that each candidate sent last.
    let mut tokens = vec![None; history.lives.len()];
    // Time until which a candidate whose token request fails, and that has sent nothing since, may
    // lack a token.
    let mut without_token = vec![None; history.lives.len()];
    let token_margin = 2 * history.latency + MAX_TOKEN_LIFETIME / 100;
    // Newest read of announcements of each candidate: its number, when it was sent, its duration.
    let mut announcement_reads = vec![(usize::MAX, 0, 0); history.lives.len()];
    // Term in which each lease id was announced, and won.
    let mut announced_terms: BTreeMap<u128, u64> =
        history.foreign_announcements.iter().copied().collect();
    let terms: BTreeMap<u128, u64> =
        history.wins().into_iter().filter_map(|win| Some((win.lease?, win.term))).collect();
    let mut violations = Vec::new();
    for Entry { at, event } in &history.entries {
        if let Some(request) = history.accepted_request(*event)
            && let (true, Some(lease)) = (request.is_announcement, request.lease)
        {
            announced_at.insert(lease, *at);
            let before =
                request.announced_term.and_then(|term| announced_terms.insert(lease, term));
            if before.is_some() && before != request.announced_term {
                let message = format!("c{} announces one lease id in two terms", request.candidate);
                violations.push(violation("hand over", *at, message));
            }
        }
        // The leader sees that, and has nothing to release. The same holds if another candidate
        // broke its lease while it was cut off.
        if let Some(acquire) =
            history.accepted_request(*event).filter(|request| request.step == Step::Acquire)
        {
            let replaced = offers.values_mut().filter(|offer| {
                offer.successor_lease == acquire.lease || was_cut_off(history, offer, *at)
            });
            replaced.for_each(|offer| offer.is_open = false);
        }
        match *event {
            HistoryEvent::Sent(number) => {
                let request = &history.requests[number];
                (tokens[request.candidate], without_token[request.candidate]) =
                    (request.token, None);
                if request.is_about_announcements && !request.is_announcement {
                    announcement_reads[request.candidate] =
                        (number, *at, announcement_reads[request.candidate].2);
                }
                let (candidate, Some(lease)) = (request.candidate, request.lease) else { continue };
                match (request.step, offers.get_mut(&lease)) {
                    // The change was decided before the suspension or the clock step.
                    (Step::HandOver, None) if resumed_at[candidate] == Some(*at) => {
                        offers.insert(
                            lease,
                            Offer {
                                candidate,
                                since: *at,
                                successor_lease: request.successor_lease,
                                is_open: false,
                            },
                        );
                    }
                    (Step::HandOver, None) => {
                        // The candidate sends nothing more while its settings are invalid.
                        let settings_faults = [Fault::SettingsSpoilt, Fault::SecretSpoilt];
                        let open = !settings_faults
                            .into_iter()
                            .any(|fault| history.has_fault(fault, candidate, *at));
                        offers.insert(
                            lease,
                            Offer {
                                candidate,
                                since: *at,
                                successor_lease: request.successor_lease,
                                is_open: open,
                            },
                        );
                        let announced_term = request
                            .successor_lease
                            .and_then(|to| announced_terms.get(&to).copied());
                        if announced_term.is_some() && announced_term != terms.get(&lease).copied()
                        {
                            let message =
                                format!("c{candidate} hands over to an id of another term");
                            violations.push(violation("hand over", *at, message));
                        }
                        if is_not_ready(history, candidate, *at) {
                            let message = format!("c{candidate} hands over though it is not ready");
                            violations.push(violation("hand over", *at, message));
                        }
                        let age = request
                            .successor_lease
                            .and_then(|to| Some(at - announced_at.get(&to)?));
                        let took = announcement_reads[candidate].2;
                        let max_age = MAX_ANNOUNCEMENT_AGE - REQUEST_ALLOWANCE
                            + REQUEST_ALLOWANCE.max(6 * took);
                        let read_allowance =
                            READ_ALLOWANCE.max((3 * took).min(MAX_READ_ALLOWANCE)) - READ_ALLOWANCE;
                        let max_age =
                            on_slow_clock(max_age.min(MAX_SLOW_ANNOUNCEMENT_AGE) + read_allowance);
                        let most = max_age + four_round_trips(history).max(2 * took);
                        let is_too_old = |age| age > most;
                        // A foreign writer may take the lease too: this check cannot see what it
                        // writes.
                        let has_hostile_data = had_hostile_announcements(history, *at, most);
                        if age.is_none_or(is_too_old) && !has_hostile_data {
                            let announced =
                                age.map_or("never".into(), |age| format!("{age} ms before"));
                            let message = format!(
                                "c{candidate} hands over to a successor that came {announced}"
                            );
                            violations.push(violation("hand over", *at, message));
                        }
                    }
                    (Step::HandOver, Some(offer))
                        if *at
                            > offer.since + on_slow_clock(offer_duration(history, candidate)) =>
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
            // Later requests come later than intended.
            HistoryEvent::Paused(candidate)
            | HistoryEvent::Killed(candidate)
            | HistoryEvent::StepFailed(candidate)
            | HistoryEvent::Left(candidate) => {
                offers.retain(|_, offer| offer.candidate != candidate || !offer.is_open);
            }
            // On a clock that was set forward the time for that is over.
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
                let lacks_token =
                    tokens[candidate].is_none_or(|until: Millis| until <= *at + token_margin);
                let until = fails.filter(|_| lacks_token).map(|until| until + TOKEN_FETCH_TIMEOUT);
                without_token[candidate] = until.or(without_token[candidate]);
            }
            HistoryEvent::FaultInjected(_, Some(candidate), until)
                if token_requested_at[candidate] == Some(*at) && until > *at =>
            {
                let lacks_token =
                    tokens[candidate].is_none_or(|until: Millis| until <= *at + token_margin);
                without_token[candidate] =
                    lacks_token.then_some(until + TOKEN_FETCH_TIMEOUT).or(without_token[candidate]);
            }
            // The candidate sends nothing until its settings are valid again.
            HistoryEvent::FaultInjected(
                Fault::SettingsSpoilt | Fault::SecretSpoilt,
                candidate,
                _,
            ) => {
                offers.retain(|_, offer| {
                    candidate.is_some_and(|candidate| offer.candidate != candidate)
                        || !offer.is_open
                });
            }
            HistoryEvent::Resumed(candidate) => resumed_at[candidate] = Some(*at),
            _ => {}
        }
        offers.retain(|_, offer| {
            let periods = &history.lives[offer.candidate].periods;
            let most = on_slow_clock(offer_duration(history, offer.candidate) + periods.poll)
                + 2 * periods.timeout;
            let is_late = offer.is_open && *at > offer.since + most;
            // Without a token it sends nothing, and an expired lease needs no release.
            let is_excused = without_token[offer.candidate].is_some_and(|until| *at <= until);
            if is_late && !is_excused {
                let message = format!(
                    "c{} does not release what its successor did not take",
                    offer.candidate
                );
                violations.push(violation("hand over", *at, message));
            }
            !is_late || (is_excused && *at <= offer.since + on_slow_clock(periods.lease))
        });
    }
    violations
}
