//! A leader works. Judged wherever it holds undisturbed: no fault befalls it or the service, nobody
//! ordered it to give its leadership up, and its settings leave a write of the record enough time.
//!
//! - A slot that becomes due is claimed within a renewal period and four round trips, unless a turn
//!   runs. Work that went wrong lately may be left alone for a while.
//! - How a turn ended is on record within the same time; where a slot has one turn at most, within five
//!   seconds and four round trips, or with the next claim if slots come less than ten seconds apart.
//! - It is on record before the lease is given back.
//! - It costs one request at most, and none where slots have one turn at most and come less than ten seconds
//!   apart.

use tenure_core::Missed;

use super::super::fault::Step;
use super::super::history::{Entry, History, Life, Number, Periods, Triggered, What, Who, Written};
use super::super::token::GOOD;
use super::super::world::Millis;
use super::calm::{Calm, Leadership, between, four_round_trips, slowly};
use super::{Violation, dates, violation};

/// So long an outcome may wait for the next claim.
const RIDE: Millis = 5_000;

/// It waits for it at any rate where slots are closer than this.
const CLOSE: Millis = 10_000;

/// The longest rest between two turns of work that goes wrong.
const REST: Millis = 60_000;

/// An order to hand over keeps a leader from claiming for no longer.
const ORDER: Millis = 80_000;

/// The last write of the record is given so long before a release.
const LAST_WRITE: Millis = 1_000;

/// A write of the record is given so long at least.
const LEAST_WRITE: Millis = 1_000;

/// The longest that a token is good.
pub(super) const LONGEST_TOKEN: Millis = 1_000 * GOOD.1;

/// A turn: from when to when, and what for.
struct Ran {
    who: Who,
    term: u64,
    from: Millis,
    to: Millis,
    slot: u64,
    attempt: u32,
    trigger: Option<u32>,
}

struct Judge<'h> {
    history: &'h History,
    calm: Calm,
    turns: Vec<Ran>,
    violations: Vec<Violation>,
}

/// Judges each leadership.
pub fn progress(history: &History) -> Vec<Violation> {
    let (calm, turns) = (Calm::of(history), turns(history));
    let mut judge = Judge { history, calm, turns, violations: Vec::new() };
    let fits = |leadership: &Leadership| writes_fit(history, leadership.who);
    for leadership in Leadership::all(history).into_iter().filter(fits) {
        judge.slots(&leadership);
        judge.outcomes(&leadership);
        judge.writes(&leadership);
    }
    judge.violations
}

/// Whether a write of the record has the time for a round trip, beside two tries of a renewal, until the
/// next renewal or at least. Where its settings leave none, a leader makes way.
pub(super) fn writes_fit(history: &History, who: Who) -> bool {
    let Periods { lease, margin, renew, timeout, .. } = history.lives[who].periods;
    let trip = slowly(2 * history.latency);
    let beside = lease.saturating_sub(margin + trip + 2 * timeout);
    trip <= beside.max(renew.saturating_sub(trip)).max(LEAST_WRITE)
}

fn turns(history: &History) -> Vec<Ran> {
    let mut turns: Vec<Ran> = Vec::new();
    for Entry { at, what } in &history.entries {
        match *what {
            What::TurnBegan { who, term, slot, attempt, trigger } => {
                turns.push(Ran { who, term, from: *at, to: Millis::MAX, slot, attempt, trigger });
            }
            What::TurnOver(who, term) => {
                let open = turns.iter_mut().rev().find(|turn| (turn.who, turn.term) == (who, term));
                if let Some(turn) = open {
                    turn.to = *at;
                }
            }
            _ => {}
        }
    }
    turns
}

impl Judge<'_> {
    /// A renewal period, since a renewal goes first, and four round trips.
    fn soon(&self, who: Who) -> Millis {
        slowly(self.history.lives[who].periods.renew) + four_round_trips(self.history)
    }

    fn slots(&mut self, leadership: &Leadership) {
        let (history, who) = (self.history, leadership.who);
        let Life { every, delay, .. } = history.lives[who];
        let time = history.service_time(leadership.from).saturating_sub(delay);
        let Some(first) = time.checked_div(every) else { return };
        for slot in (first + 1..).map(|n| n * every) {
            let due = self.with_token(who, history.when(slot + delay, leadership.from));
            let end = due + self.soon(who);
            if end >= leadership.to {
                return;
            }
            let claims = |what: &What| match *what {
                What::Sent(number) => {
                    let asked = &history.asked[number];
                    (asked.who, asked.step) == (who, Step::Claim)
                }
                _ => false,
            };
            // A clock that went back shows slots that have had their turn.
            let before = between(history, 0, due).iter().rev();
            let mut writes = before.filter_map(|e| history.carried_out(e.what)?.write.as_ref());
            if writes.next().is_some_and(|write| write.slot >= slot) {
                continue;
            }
            if history.rules.missed == Missed::Skip && self.is_missed(who, slot + delay, end) {
                continue;
            }
            // A date that differs by much counts when the next one agrees.
            if dates::told(history, who, end).is_none_or(|told| told < slot + delay) {
                continue;
            }
            let claimed = between(history, due, end).iter().any(|entry| claims(&entry.what));
            if !claimed && self.is_free(who, due, end) {
                let seconds = slot / 1_000_000_000;
                let what = format!("c{who} leads undisturbed and does not claim slot {seconds}");
                self.violations.push(violation("claim", end, what));
            }
        }
    }

    /// Whether a slot that was due then counts as missed: the service's clock was set forward over it.
    fn is_missed(&self, who: Who, due: u64, by: Millis) -> bool {
        let late = (2 * self.history.lives[who].periods.lease).max(60_000);
        self.history.service_time(by) > due + late * 1_000_000
    }

    /// Who has no token sends nothing but requests for one, and each may take as long as validity lasts:
    /// what is due is due from their end on.
    fn with_token(&self, who: Who, due: Millis) -> Millis {
        let own = |Entry { at, what }: &Entry| match *what {
            What::Fetched(asks) if asks == who => Some((*at, self.lacks_token(who, *at))),
            What::Sent(number) if self.history.asked[number].who == who => Some((*at, false)),
            _ => None,
        };
        let before = between(self.history, 0, due.saturating_sub(1)).iter().rev().find_map(own);
        let (mut from, mut asks) = (due, before.is_some_and(|(_, asks)| asks));
        for (at, lacks) in between(self.history, due, Millis::MAX).iter().filter_map(own) {
            if asks {
                from = at;
            } else if at > from + self.soon(who) {
                break;
            }
            asks = lacks;
        }
        if asks { Millis::MAX / 2 } else { from }
    }

    /// Whether the token that it sent last is good no longer. It counts from when it asked for that one,
    /// and by its own clock.
    fn lacks_token(&self, who: Who, at: Millis) -> bool {
        let earlier = 2 * self.history.latency + LONGEST_TOKEN / 100;
        let sent = between(self.history, 0, at).iter().rev().find_map(|entry| match entry.what {
            What::Sent(number) => {
                Some(&self.history.asked[number]).filter(|asked| asked.who == who)
            }
            _ => None,
        });
        sent.and_then(|asked| asked.token).is_none_or(|until| until <= at + earlier)
    }

    /// Whether a leader has nothing else to do, and nothing keeps it from a claim.
    fn is_free(&self, who: Who, from: Millis, to: Millis) -> bool {
        let works = |turn: &Ran| turn.who == who && turn.from <= to && turn.to >= from;
        let hindered = |Entry { at, what }: &Entry| match *what {
            What::Sick(sick) => sick == who && at + REST >= from,
            What::ToldToHandOver(told, ..) => told == who,
            _ => false,
        };
        let lately = between(self.history, from.saturating_sub(ORDER), to);
        self.calm.lasts(&[who], from, to)
            && !self.turns.iter().any(works)
            && !lately.iter().any(hindered)
    }

    fn outcomes(&mut self, leadership: &Leadership) {
        let who = leadership.who;
        let ended = |turn: &&Ran| (turn.who, turn.term) == (who, leadership.term);
        let mut late = Vec::new();
        // Whose lease was broken without its knowledge writes in vain once there is another leader.
        let wins = self.history.wins();
        let next =
            wins.iter().find(|win| win.at > leadership.from).map_or(Millis::MAX, |win| win.at);
        for turn in self.turns.iter().filter(ended).filter(|turn| turn.to < next) {
            let (waits, within) = match self.may_ride(turn) {
                // The claim on which it rides is further away.
                true if self.is_close(who) && self.history.is_behind(turn.to) => continue,
                true if self.is_close(who) || self.comes_close(turn) => {
                    (slowly(CLOSE), self.soon(who))
                }
                true => (slowly(RIDE), four_round_trips(self.history)),
                false => (0, self.soon(who)),
            };
            let soon = self.with_token(who, turn.to + waits) + within;
            let end = match soon < leadership.to {
                true => Some(soon),
                false => self.release(leadership, turn),
            };
            let Some(end) = end else { continue };
            if self.calm.lasts(&[who], turn.to, end) && !self.is_on_record(turn, end) {
                let slot = turn.slot / 1_000_000_000;
                let what = format!("how c{who}'s turn for slot {slot} ended is not on record");
                late.push(violation("outcome", end, what));
            }
        }
        self.violations.append(&mut late);
    }

    /// Whether slots come so close to each other that outcomes always ride.
    fn is_close(&self, who: Who) -> bool {
        let every = self.history.lives[who].every / 1_000_000;
        (1..CLOSE).contains(&every)
    }

    /// Whether the next slot of its own schedule is to come, and so soon after the one on record, which is of another
    /// schedule.
    fn comes_close(&self, turn: &Ran) -> bool {
        let before = between(self.history, 0, turn.to).iter().rev();
        let mut writes = before.filter_map(|e| self.history.carried_out(e.what)?.write.as_ref());
        let Life { every, delay, .. } = self.history.lives[turn.who];
        let Some(slot) = writes.next().map(|write| write.slot) else { return false };
        let Some(since) = slot.checked_rem(every).filter(|since| *since > 0) else { return false };
        let next = slot - since + every;
        let comes = next + delay > self.history.service_time(turn.to);
        comes && next - slot < CLOSE * 1_000_000
    }

    /// How many writes were made for an outcome alone.
    fn writes(&mut self, leadership: &Leadership) {
        let (history, who) = (self.history, leadership.who);
        let turns: Vec<_> = self
            .turns
            .iter()
            .filter(|turn| (turn.who, turn.term) == (who, leadership.term))
            .collect();
        let ends = turns.iter().skip(1).map(|next| next.from).chain([leadership.to]);
        let mut more = Vec::new();
        for (turn, end) in turns.iter().zip(ends).filter(|(turn, end)| turn.to < *end) {
            let entries = between(history, turn.to, end - 1);
            let alone = |entry: &Entry| match entry.what {
                What::Sent(number) => {
                    let asked = &history.asked[number];
                    let whose = (asked.who, asked.step, asked.lease);
                    (whose == (who, Step::Outcome, leadership.lease)).then_some(number)
                }
                _ => None,
            };
            let sent: Vec<_> = entries.iter().filter_map(alone).collect();
            let writes = sent.len();
            // One that plays an older version reads its outcome back without recognising it, and writes it again.
            let is_lost = |number: &&Number| {
                let answers = |e: &Entry| matches!(e.what, What::Answered(of, _) if of == **number);
                history.lives[who].older && !entries.iter().any(answers)
            };
            let repeats = sent.iter().filter(is_lost).count();
            // A beat comes at any rate; and before the lease is given back there is no other claim.
            let beats = history.lives[who].periods.failover.is_some();
            let rides = self.is_close(who) && turn.trigger.is_none() && self.may_ride(turn);
            // Where the service's clock was set back, its time is not known for a moment.
            let is_ahead = turn.slot > history.service_time(turn.to);
            let rides = rides && !beats && !is_ahead && end < leadership.to;
            let most = usize::from(!rides || self.had_another(turn))
                + usize::from(self.slot_is_given_up(turn))
                + repeats;
            if writes > most && self.is_free_after(who, turn, end) {
                let slot = turn.slot / 1_000_000_000;
                let what =
                    format!("c{who} writes {writes} times how its turn for slot {slot} ended");
                more.push(violation("outcomes", end, what));
            }
        }
        self.violations.append(&mut more);
    }

    /// Returns true if the record tells of a turn for a trigger, whose rule counts too.
    fn had_another(&self, turn: &Ran) -> bool {
        let before = between(self.history, 0, turn.to).iter().rev();
        let mut newest =
            before.filter_map(|entry| self.history.carried_out(entry.what)?.write.as_ref());
        newest.next().is_some_and(|write| write.trigger.number != 0)
    }

    /// Whether a slot is to be abandoned after the turn of a trigger, which comes first: that is the end of
    /// another turn.
    fn slot_is_given_up(&self, turn: &Ran) -> bool {
        let before = between(self.history, 0, turn.to).iter().rev();
        let mut newest =
            before.filter_map(|entry| self.history.carried_out(entry.what)?.write.as_ref());
        let is_done = |write: &Written| write.done && write.finished == write.slot;
        let left = |write: &Written| write.attempt >= write.most && !is_done(write);
        turn.trigger.is_some() && newest.next().is_some_and(|write| write.most > 0 && left(write))
    }

    /// Whether nothing befell a leader from its turn on, and nobody ordered it to do something.
    fn is_free_after(&self, who: Who, turn: &Ran, end: Millis) -> bool {
        let ordered = |Entry { what, .. }: &Entry| match *what {
            What::ToldToHandOver(told, ..) | What::ToldToLeave(told) => told == who,
            // It hands over by itself, which is a write too, and so is giving that up.
            What::Sent(number) => {
                let asked = &self.history.asked[number];
                let names = asked.write.as_ref().is_some_and(|write| write.successor.is_some());
                asked.who == who && names
            }
            _ => false,
        };
        let lately = between(self.history, turn.from.saturating_sub(ORDER), end);
        self.calm.lasts(&[who], turn.from, end) && !lately.iter().any(ordered)
    }

    /// Whether the slot has one turn at most, by what is on record.
    fn may_ride(&self, turn: &Ran) -> bool {
        let before = between(self.history, 0, turn.to).iter().rev();
        let newest =
            before.filter_map(|entry| self.history.carried_out(entry.what)?.write.as_ref());
        // Of others the record does not tell.
        turn.trigger.is_some() || newest.take(1).all(|write| write.most == 0)
    }

    /// Whether the record tells how a turn ended. Where its leader could not write for a while, the claim of the next
    /// attempt may be due by then. That says nothing of the attempt before, but the
    /// newest failure on record does.
    fn is_on_record(&self, turn: &Ran, end: Millis) -> bool {
        let before = between(self.history, 0, turn.to).iter().rev();
        let before =
            before.filter_map(|entry| self.history.carried_out(entry.what)?.write.as_ref());
        let failed = before.map(|write| write.failed).next();
        let fails = |write: &Written| write.failed.0 == turn.slot && Some(write.failed) != failed;
        let next = |write: &Written, attempt| attempt > turn.attempt && fails(write);
        let tells = |write: &Written| match turn.trigger {
            Some(number) => {
                let Triggered { number: newest, attempt, ended, .. } = write.trigger;
                newest != number || ended || next(write, attempt)
            }
            None => {
                write.finished >= turn.slot
                    || (write.slot == turn.slot && next(write, write.attempt))
            }
        };
        between(self.history, turn.to, end).iter().any(|entry| {
            let asked = self.history.carried_out(entry.what).filter(|a| a.who == turn.who);
            asked.and_then(|asked| asked.write.as_ref()).is_some_and(tells)
        })
    }

    /// When the lease was given back after a turn, where an answer to the last write of the record
    /// comes before that has to be. Who had no token until then could not write it.
    fn release(&self, leadership: &Leadership, turn: &Ran) -> Option<Millis> {
        let history = self.history;
        let gives = |what: What| match what {
            What::Sent(number) => {
                let asked = &history.asked[number];
                let gives = matches!(asked.step, Step::Release | Step::HandOver);
                gives && asked.lease == leadership.lease
            }
            _ => false,
        };
        let later = between(history, turn.to, Millis::MAX);
        let release = later.iter().find(|entry| gives(entry.what)).map(|entry| entry.at);
        let since = self.with_token(leadership.who, turn.to);
        let could = |at: &Millis| since == turn.to || since < *at;
        release.filter(could).filter(|_| 2 * history.latency < LAST_WRITE)
    }
}
