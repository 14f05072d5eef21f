//! Handing over: an order comes about, or its leader tells that it does not. The lease goes to a
//! successor that announced itself just before; one that could not be given in time is released to anybody.

use std::collections::BTreeMap;

use super::super::fault::{Fault, Step};
use super::super::history::{Answer, Entry, History, Periods, What, Who, Win};
use super::super::world::Millis;
use super::calm::{Calm, Leadership, between, four_round_trips, is_over, slowly};
use super::pace::FETCHING;
use super::progress::{LONGEST_TOKEN, writes_fit};
use super::{Violation, violation};

/// A successor comes within two polls, so long, and the time of so many requests. Its leader does not know how often
/// it polls, and waits for the longest poll at least.
const TO_COME: Millis = 10_000;
const LONGEST_POLL: Millis = 60_000;
const TO_COME_REQUESTS: Millis = 6;

/// Until it is named: the leader's renewal, a write of the record that was decided before, a look that
/// tells what became of it, and the write that names it.
const NAMING_REQUESTS: Millis = 4;

/// Until the lease is given, where no work takes longer: a renewal, a look, the last write of the record,
/// and the change.
const GIVING_REQUESTS: Millis = 4;

/// When its time is over, the leader may wait for an answer. Then it renews or takes the name off the
/// record, and sends two background requests, before it tells. None of these takes longer than a request may, or
/// than [`LONGEST_BACKGROUND`].
const TELLING_REQUESTS: Millis = 4;
const LONGEST_BACKGROUND: Millis = 3_000;

/// The work may take so long to end once the successor came, or a lease, and twice as long if the successor comes
/// again; and so long the lease is then offered, beside the time of [`TO_COME_REQUESTS`].
const WORK_ENDS: Millis = 40_000;
const LEASE_GIVEN: Millis = 5_000;

/// How old an announcement may be when the lease is offered to it first: nine seconds by
/// dates without fractions, two since it was looked at, and one for the last write of the record.
const FRESH: Millis = 13_000;

/// Of that, for requests; longer where six of them take longer, each like the read that showed the
/// announcement; but not longer than so long altogether.
const FOR_REQUESTS: Millis = 3_000;
const LONGEST_FRESH: Millis = FRESH + 21_000;

/// Of that, since the announcement was read; longer where three requests like the read take longer.
const JUST_SEEN: Millis = 2_000;
const LONGEST_SEEN: Millis = 8_000;

/// How long the lease is offered to a successor; longer where that is no time for the last write of the
/// record and one request.
const OFFERED: Millis = 4_000;
const LAST_WRITE: Millis = 1_000;

/// Judges each order, and each change of the lease.
pub fn handing_over(history: &History) -> Vec<Violation> {
    let mut violations = Vec::new();
    violations.extend(orders(history));
    violations.extend(changes(history));
    violations
}

fn orders(history: &History) -> Vec<Violation> {
    let (calm, leaderships, wins) = (Calm::of(history), Leadership::all(history), history.wins());
    let over = history.entries.last().map_or(0, |entry| entry.at);
    let mut violations = Vec::new();
    for (index, Entry { at, what }) in history.entries.iter().enumerate() {
        let What::ToldToHandOver(who, name, successor) = *what else { continue };
        let order = Order { history, who, name, at: *at, index };
        let ends = order.ends();
        // Whether it was on record as the leader at any time until then, known to it or not.
        let led = |until: Millis| {
            let nexts = wins.iter().skip(1).map(|win| win.at).chain([Millis::MAX]);
            wins.iter()
                .zip(nexts)
                .any(|(win, next)| win.who == who && win.at <= until && next >= *at)
                || order.is_outdone_unawares(&wins)
        };
        let answers = order.is_heard() && !order.is_unheard(ends) && !order.is_replaced(ends);
        if ends <= over && answers && order.holds(ends) && !order.is_settled(ends, led(ends)) {
            let what = format!("c{who} was told at {at} ms to hand over, and does not answer");
            violations.push(violation("hand over", ends, what));
        }
        // With a successor that is there, and nothing in the way, it comes about.
        let requests = NAMING_REQUESTS + TO_COME_REQUESTS + GIVING_REQUESTS;
        let end =
            order.taken_in() + order.comes_within() + slowly(history.grace.min(order.work_ends()));
        let end = end + requests * 2 * history.latency;
        // One that was told to resign or to pause gives up already, after its turn, and says so.
        let leads = leaderships
            .iter()
            .find(|t| t.who == who && t.from <= *at && t.to >= *at)
            .is_some_and(|t| !was_told_to_give_up(history, who, t.from, *at));
        // Candidates leave what strangers wrote where announcements are left.
        let taken = between(history, 0, end)
            .iter()
            .any(|entry| matches!(entry.what, What::Struck(Fault::HostileSideBlobs, ..)));
        let able = leads && !taken && !order.finds_the_end() && writes_fit(history, who);
        let able = able && !order.is_too_far_away();
        let successor =
            successor.filter(|_| able).and_then(|machine| order.successor_on(machine, end));
        let Some(successor) = successor.filter(|_| end <= over) else { continue };
        if order.is_only(end)
            && calm.lasts(&[who, successor], *at + 1, end)
            && !order.comes_about(end, &wins)
        {
            let what =
                format!("c{who} was told at {at} ms to hand over to c{successor}, and does not");
            violations.push(violation("hand over", end, what));
        }
    }
    violations
}

/// An order to hand over.
struct Order<'h> {
    history: &'h History,
    who: Who,
    /// The number in the name of the successor.
    name: usize,
    at: Millis,
    index: usize,
}

impl Order<'_> {
    fn periods(&self) -> &Periods {
        &self.history.lives[self.who].periods
    }

    /// Whether the account answers only after the next beat is due, so that a promise may end at any time
    /// (protocol.md §13).
    fn is_too_far_away(&self) -> bool {
        self.periods().failover.is_some_and(|failover| 2 * self.history.latency > failover / 6)
    }

    /// When its candidate knows of it: a request may have been under way.
    fn taken_in(&self) -> Millis {
        self.at + self.periods().timeout
    }

    /// How long the leader waits for the successor, where requests take no time.
    fn to_come(&self) -> Millis {
        slowly(LONGEST_POLL.max(2 * self.periods().poll) + TO_COME)
    }

    /// Returns the longest time that a successor takes to come, where requests take no time. Any candidate may be one.
    fn comes_within(&self) -> Millis {
        let polls = self.history.lives.iter().map(|life| life.periods.poll);
        slowly(2 * polls.max().unwrap_or_default() + TO_COME)
    }

    /// Returns the longest time that the work takes to end once the successor came.
    fn work_ends(&self) -> Millis {
        WORK_ENDS.max(self.periods().lease)
    }

    /// Returns the longest time of a handover once the successor came, without its requests.
    fn waits(&self) -> Millis {
        2 * self.work_ends() + LEASE_GIVEN
    }

    /// When it has come about, or its leader has told that it does not.
    fn ends(&self) -> Millis {
        let unheard_of = self.taken_in() + self.to_come();
        // The time to come begins anew when the leader knows that the successor can hear of it.
        let named = self
            .named(unheard_of)
            .map(|(at, took)| at.max(self.at) + self.to_come() + slowly(TO_COME_REQUESTS * took));
        let telling = TELLING_REQUESTS * self.periods().timeout.max(LONGEST_BACKGROUND);
        unheard_of.max(named.unwrap_or(0))
            + slowly(self.waits())
            + TO_COME_REQUESTS * self.periods().timeout
            + telling
    }

    /// When the leader learnt, by then, that the successor is named on record, and how long that request took.
    /// It was named before, perhaps, by an order to the same one.
    fn named(&self, until: Millis) -> Option<(Millis, Millis)> {
        let (history, names) = (self.history, Some(self.name));
        let (mut there, mut named, mut sent) = (false, None, BTreeMap::new());
        for Entry { at, what } in history.entries.iter().take_while(|entry| entry.at <= until) {
            let (What::Sent(number) | What::Handled(number, _) | What::Answered(number, _)) = *what
            else {
                continue;
            };
            let asked = &history.asked[number];
            if asked.who != self.who {
                continue;
            }
            let writes = asked.write.as_ref().map(|written| written.successor == names);
            match *what {
                What::Sent(_) => {
                    sent.insert(number, *at);
                }
                What::Handled(_, Answer { status: 200..=299, .. }) => {
                    there = writes.unwrap_or(there);
                }
                What::Answered(_, Answer { status: 200..=299, .. }) => {
                    let took = sent.get(&number).map_or(0, |sent| *at - sent);
                    match writes {
                        Some(false) => named = None,
                        Some(true) => named = named.or(Some((*at, took))),
                        None if asked.step == Step::ReadBack && there => {
                            named = named.or(Some((*at, took)));
                        }
                        None => {}
                    }
                }
                _ => {}
            }
        }
        named
    }

    /// Whether its candidate is told to hand over once more before this is due: that order takes its place,
    /// and is judged.
    fn is_replaced(&self, until: Millis) -> bool {
        let later = self.history.entries[self.index + 1..].iter();
        later
            .take_while(|entry| entry.at <= until)
            .any(|entry| matches!(entry.what, What::ToldToHandOver(who, ..) if who == self.who))
    }

    /// Whether the leadership came to its end by itself just before its leader knew of the order, and
    /// goes to anybody: what was to last as long as it did was over, or it had lasted long enough, and at
    /// most the last write of the record came in between.
    fn finds_the_end(&self) -> bool {
        let (history, who) = (self.history, self.who);
        let by_itself = history.rotates || history.lives[who].every == 0;
        let until = self.taken_in() + slowly(LAST_WRITE);
        let released = |entry: &Entry| match entry.what {
            What::Sent(number) => {
                let asked = &history.asked[number];
                (asked.who, asked.step) == (who, Step::Release)
            }
            _ => false,
        };
        by_itself && between(history, self.at, until).iter().any(released)
    }

    /// Whether its candidate takes it in: it neither stands still nor leaves.
    fn is_heard(&self) -> bool {
        let before = self.history.entries[..self.index].iter().rev();
        let newest = before.filter_map(|entry| match entry.what {
            What::Paused(who) | What::ToldToLeave(who) if who == self.who => Some(false),
            What::Resumed(who) | What::Started(who) if who == self.who => Some(true),
            _ => None,
        });
        newest.take(1).all(|hears| hears)
    }

    /// Whether its candidate had won, and had not learnt yet that another one won since: the order ends with
    /// a leadership that it believed to have.
    fn is_outdone_unawares(&self, wins: &[Win]) -> bool {
        let (history, who) = (self.history, self.who);
        let won = wins.iter().rfind(|win| win.who == who && win.entry < self.index);
        won.is_some_and(|win| {
            let since = &history.entries[win.entry..self.index];
            !since.iter().any(|entry| is_over(history, who, entry.what))
        })
    }

    /// Whether its candidate may hold the lease. One that cannot renew, for want of a token, leads no more
    /// and has nothing to tell.
    fn holds(&self, until: Millis) -> bool {
        let lease = slowly(self.history.lives[self.who].periods.lease);
        between(self.history, until.saturating_sub(lease), until).iter().any(|entry| {
            let asked = self.history.carried_out(entry.what);
            let keeps = |step| matches!(step, Step::Acquire | Step::Renew);
            asked.is_some_and(|asked| asked.who == self.who && keeps(asked.step))
        })
    }

    /// Whether its candidate tells that it does not hand over; or, where it led, leads no more.
    fn is_settled(&self, until: Millis, led: bool) -> bool {
        let (history, who) = (self.history, self.who);
        let later = history.entries[self.index..].iter().take_while(|entry| entry.at <= until);
        let settles = |entry: &Entry| match entry.what {
            What::NotHandedOver(told) | What::Paused(told) => told == who,
            What::Sent(_) if !led => false,
            what => is_over(history, who, what),
        };
        later.into_iter().any(settles)
    }

    /// Whether the leader's settings cannot be used: it hears of nothing until they can.
    fn is_unheard(&self, within: Millis) -> bool {
        let spoilt = |at| {
            let faults = [Fault::SettingsSpoilt, Fault::SecretSpoilt];
            faults.into_iter().any(|fault| self.history.meets(fault, self.who, at))
        };
        spoilt(self.at) || spoilt(self.at + within)
    }

    /// The candidate that lives on a machine all the time.
    fn successor_on(&self, machine: usize, end: Millis) -> Option<Who> {
        let history = self.history;
        let lives = |who: &Who| {
            let begins = |what| matches!(what, What::Started(begun) if begun == *who);
            let ends = |what| match what {
                What::Killed(gone) | What::ToldToLeave(gone) | What::Left(gone) => gone == *who,
                _ => false,
            };
            let before = &history.entries[..self.index];
            let until_end = between(history, 0, end);
            before.iter().any(|entry| begins(entry.what))
                && !until_end.iter().any(|entry| ends(entry.what))
        };
        let on = |who: &Who| history.lives[*who].machine == machine;
        (0..history.lives.len()).find(|who| on(who) && lives(who) && *who != self.who)
    }

    /// Whether no other order, and no work that went wrong, is in the way.
    fn is_only(&self, end: Millis) -> bool {
        let lately = self.at.saturating_sub(self.waits() + TO_COME + OFFERED);
        let (index, entries) = (self.index, &self.history.entries);
        let others = (0..).zip(entries).skip_while(|(_, entry)| entry.at < lately);
        !others.take_while(|(_, entry)| entry.at <= end).any(|(other, entry)| match entry.what {
            What::ToldToHandOver(..) => other != index,
            What::Sick(_) => true,
            _ => false,
        })
    }

    /// The lease was changed, and nobody else won before the one to which it was given.
    fn comes_about(&self, end: Millis, wins: &[Win]) -> bool {
        let (history, who) = (self.history, self.who);
        let entries = (self.index..).zip(&history.entries[self.index..]);
        let mut changed =
            entries.take_while(|(_, entry)| entry.at <= end).filter_map(|(at, entry)| {
                let asked = history.carried_out(entry.what)?;
                ((asked.who, asked.step) == (who, Step::HandOver)).then_some((at, asked.to))
            });
        changed.next().is_some_and(|(index, to)| {
            let next = wins.iter().find(|win| win.entry > index && win.at <= end);
            next.is_none_or(|win| win.lease == to)
        })
    }
}

fn was_told_to_give_up(history: &History, who: Who, from: Millis, to: Millis) -> bool {
    between(history, from, to).iter().any(|entry| {
        let What::Struck(Fault::NotReady | Fault::Resign, whom, _) = entry.what else {
            return false;
        };
        whom.is_none_or(|whom| whom == who)
    })
}

/// Whether strangers wrote beside the blob at a time from which that counted at `at`.
fn was_hostile(history: &History, at: Millis, counts: Millis) -> bool {
    let strikes = |entry: &Entry| match entry.what {
        What::Struck(Fault::HostileSideBlobs, _, until) => until + counts >= at,
        _ => false,
    };
    history.entries.iter().take_while(|entry| entry.at <= at).any(strikes)
}

/// Changes that were sent under one lease, and what came after them.
#[derive(Clone, Copy)]
struct Offer {
    who: Who,
    since: Millis,
    /// The lease id of its successor.
    to: Option<u128>,
    /// Neither answered nor taken nor followed by a release.
    open: bool,
}

/// Whether its leader was cut off from the store at some time since the offer.
fn was_cut_off(history: &History, offer: &Offer, at: Millis) -> bool {
    let cuts_off = |entry: &Entry| match entry.what {
        What::Struck(Fault::PartitionOne | Fault::PartitionAll, who, until) => {
            until >= offer.since && who.is_none_or(|who| who == offer.who)
        }
        _ => false,
    };
    history.entries.iter().take_while(|entry| entry.at <= at).any(cuts_off)
}

fn offered(history: &History, who: Who) -> Millis {
    OFFERED.max(LAST_WRITE + history.lives[who].periods.timeout)
}

/// Returns true if a candidate has known for a while that it is not ready, so that it may not hand over. It may
/// have stood still, or have had settings that cannot be used: then it does not know.
fn is_not_ready(history: &History, who: Who, at: Millis) -> bool {
    let knows = 4 * history.lives[who].periods.timeout;
    // Two of these may overlap: it is ready as soon as the first one ends.
    let spans: Vec<_> = history
        .entries
        .iter()
        .filter_map(|entry| match entry.what {
            What::Struck(Fault::NotReady, Some(whom), until) if whom == who => {
                Some((entry.at, until))
            }
            _ => None,
        })
        .collect();
    let told = spans.iter().any(|(from, until)| {
        from + knows < at && at < *until && !spans.iter().any(|(_, end)| (*from..at).contains(end))
    });
    let hears =
        !between(history, at.saturating_sub(2 * LONGEST_SUSPENSION), at).iter().any(|entry| {
            match entry.what {
                What::Paused(whom) | What::Resumed(whom) => whom == who,
                What::Struck(Fault::SettingsSpoilt | Fault::SecretSpoilt, whom, _) => {
                    whom.is_none_or(|whom| whom == who)
                }
                _ => false,
            }
        });
    told && hears
}

/// A process is not ready for two leases at most.
const LONGEST_SUSPENSION: Millis = 120_000;

fn changes(history: &History) -> Vec<Violation> {
    let mut said: BTreeMap<u128, Millis> = BTreeMap::new();
    let mut offers: BTreeMap<u128, Offer> = BTreeMap::new();
    // When a candidate went on that had stood still, or had its clock set forward.
    let mut overdue = vec![None; history.lives.len()];
    let mut fetched = vec![None; history.lives.len()];
    // Until when the token is good that a candidate sent last.
    let mut tokens = vec![None; history.lives.len()];
    // For how long who asked for a token where that fails, and has sent nothing since, may do without one.
    let mut without_token = vec![None; history.lives.len()];
    let earlier = 2 * history.latency + LONGEST_TOKEN / 100;
    // The newest look for successors of each candidate: its number, when it was sent, how long it took.
    let mut looks = vec![(usize::MAX, 0, 0); history.lives.len()];
    // In which term each lease id was announced, and won.
    let mut said_in: BTreeMap<u128, u64> = history.planted.iter().copied().collect();
    let terms: BTreeMap<u128, u64> =
        history.wins().into_iter().filter_map(|win| Some((win.lease?, win.term))).collect();
    let mut violations = Vec::new();
    for Entry { at, what } in &history.entries {
        if let Some(asked) = history.carried_out(*what)
            && let (true, Some(lease)) = (asked.announces, asked.lease)
        {
            said.insert(lease, *at);
            let before = asked.announced_in.and_then(|term| said_in.insert(lease, term));
            if before.is_some() && before != asked.announced_in {
                let what = format!("c{} announces one lease id in two terms", asked.who);
                violations.push(violation("hand over", *at, what));
            }
        }
        // Its leader sees that, and has nothing to release. Nor has it where another one broke its lease while it was cut off.
        if let Some(taken) = history.carried_out(*what).filter(|asked| asked.step == Step::Acquire)
        {
            let those = offers
                .values_mut()
                .filter(|offer| offer.to == taken.lease || was_cut_off(history, offer, *at));
            those.for_each(|offer| offer.open = false);
        }
        match *what {
            What::Sent(number) => {
                let asked = &history.asked[number];
                (tokens[asked.who], without_token[asked.who]) = (asked.token, None);
                if asked.of_announcements && !asked.announces {
                    looks[asked.who] = (number, *at, looks[asked.who].2);
                }
                let (who, Some(lease)) = (asked.who, asked.lease) else { continue };
                match (asked.step, offers.get_mut(&lease)) {
                    // It was decided before that one stood still, or its clock was set.
                    (Step::HandOver, None) if overdue[who] == Some(*at) => {
                        offers.insert(lease, Offer { who, since: *at, to: asked.to, open: false });
                    }
                    (Step::HandOver, None) => {
                        // Nothing more is sent while the settings cannot be used.
                        let spoilt = [Fault::SettingsSpoilt, Fault::SecretSpoilt];
                        let open = !spoilt.into_iter().any(|fault| history.meets(fault, who, *at));
                        offers.insert(lease, Offer { who, since: *at, to: asked.to, open });
                        let of_term = asked.to.and_then(|to| said_in.get(&to).copied());
                        if of_term.is_some() && of_term != terms.get(&lease).copied() {
                            let what = format!("c{who} hands over to an id of another term");
                            violations.push(violation("hand over", *at, what));
                        }
                        if is_not_ready(history, who, *at) {
                            let what = format!("c{who} hands over though it is not ready");
                            violations.push(violation("hand over", *at, what));
                        }
                        let age = asked.to.and_then(|to| Some(at - said.get(&to)?));
                        let took = looks[who].2;
                        let fresh = FRESH - FOR_REQUESTS + FOR_REQUESTS.max(6 * took);
                        let seen = JUST_SEEN.max((3 * took).min(LONGEST_SEEN)) - JUST_SEEN;
                        let fresh = slowly(fresh.min(LONGEST_FRESH) + seen);
                        let most = fresh + four_round_trips(history).max(2 * took);
                        let old = |age| age > most;
                        // Who may write there may take the lease: what strangers write is not told here.
                        let hostile = was_hostile(history, *at, most);
                        if age.is_none_or(old) && !hostile {
                            let when = age.map_or("never".into(), |age| format!("{age} ms before"));
                            let what = format!("c{who} hands over to a successor that came {when}");
                            violations.push(violation("hand over", *at, what));
                        }
                    }
                    (Step::HandOver, Some(offer))
                        if *at > offer.since + slowly(offered(history, who)) =>
                    {
                        let what = format!(
                            "c{who} offers its lease to its successor alone since {} ms",
                            offer.since
                        );
                        violations.push(violation("hand over", *at, what));
                    }
                    (Step::Release, Some(offer)) => offer.open = false,
                    _ => {}
                }
            }
            What::Answered(number, Answer { status: 200 | 404 | 409 | 412, .. }) => {
                let asked = &history.asked[number];
                let (newest, sent, took) = &mut looks[asked.who];
                if *newest == number {
                    *took = *at - *sent;
                }
                let offer = asked.lease.and_then(|lease| offers.get_mut(&lease));
                if let (Step::HandOver, Some(offer)) = (asked.step, offer) {
                    offer.open = false;
                }
            }
            // Whatever is sent after that comes later than it was meant to.
            What::Paused(who) | What::Killed(who) | What::Forgot(who) | What::Left(who) => {
                offers.retain(|_, offer| offer.who != who || !offer.open);
            }
            // By a clock that is set forward the time for that is over.
            What::SetForward(machine) => {
                let is_there = |who: Who| history.lives[who].machine == machine;
                offers.retain(|_, offer| !is_there(offer.who) || !offer.open);
                (0..history.lives.len())
                    .filter(|who| is_there(*who))
                    .for_each(|who| overdue[who] = Some(*at));
            }
            What::Fetched(who) => {
                fetched[who] = Some(*at);
                let fails = history.met_until(Fault::TokensFail, who, *at);
                let lacks = tokens[who].is_none_or(|until: Millis| until <= *at + earlier);
                let until = fails.filter(|_| lacks).map(|until| until + FETCHING);
                without_token[who] = until.or(without_token[who]);
            }
            What::Struck(_, Some(who), until) if fetched[who] == Some(*at) && until > *at => {
                let lacks = tokens[who].is_none_or(|until: Millis| until <= *at + earlier);
                without_token[who] = lacks.then_some(until + FETCHING).or(without_token[who]);
            }
            // It sends nothing until they can be used again.
            What::Struck(Fault::SettingsSpoilt | Fault::SecretSpoilt, who, _) => {
                offers.retain(|_, offer| who.is_some_and(|who| offer.who != who) || !offer.open);
            }
            What::Resumed(who) => overdue[who] = Some(*at),
            _ => {}
        }
        offers.retain(|_, offer| {
            let periods = &history.lives[offer.who].periods;
            let most = slowly(offered(history, offer.who) + periods.poll) + 2 * periods.timeout;
            let late = offer.open && *at > offer.since + most;
            // Without a token it sends nothing, and when the lease is over, there is nothing left to release.
            let excused = without_token[offer.who].is_some_and(|until| *at <= until);
            if late && !excused {
                let what =
                    format!("c{} does not release what its successor did not take", offer.who);
                violations.push(violation("hand over", *at, what));
            }
            !late || (excused && *at <= offer.since + slowly(periods.lease))
        });
    }
    violations
}
