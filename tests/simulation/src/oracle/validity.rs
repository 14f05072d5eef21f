//! I3 (protocol.md §12): nothing of a handler after its validity.
//!
//! A leader's validity is computed here from the wire: a lease and its margin, on the leader's
//! own clock, from when the newest acquire or renewal was sent that the store carried out, that
//! was answered with the leader's own lease id, and whose answer came while the validity before
//! still lasted. A leader that beats acts by its promise too, from when the newest write of the record was sent
//! that the store took. An answer to a renewal that says that the lease is lost ends it. A lease that was
//! never acquired gives none, however often it was renewed: its length is another candidate's.

use super::super::fault::Step;
use super::super::history::{Answer, Entry, History, Number, What, Who, promise_of};
use super::super::world::Millis;
use super::{Violation, violation};

/// Timers end at whole milliseconds of true time: that much later, in nanoseconds of any clock.
const RESOLUTION: u64 = 1_020_000;

/// The validity of one candidate, on its clock, and under which lease.
#[derive(Clone, Copy, Default)]
struct Validity {
    lease: Option<u128>,
    until: u64,
    /// By the promise, of one that beats.
    promised: Option<u64>,
}

impl Validity {
    fn until(self) -> u64 {
        self.promised.map_or(self.until, |promised| self.until.min(promised))
    }
}

/// Judges every span, and every request of a handler.
pub fn i3(history: &History) -> Vec<Violation> {
    let mut valid = vec![Validity::default(); history.lives.len()];
    let mut sent: Vec<Millis> = vec![0; history.asked.len()];
    let mut applied = vec![false; history.asked.len()];
    let mut began: Vec<Millis> = vec![0; history.lives.len()];
    let mut won = vec![0; history.lives.len()];
    let mut violations = Vec::new();
    for Entry { at, what } in &history.entries {
        let shows = |who: Who, at: Millis| history.lives[who].rate.shows(at);
        match *what {
            What::Sent(number) => sent[number] = *at,
            What::Handled(number, _) => {
                if let Some(asked) = history.carried_out(*what) {
                    applied[number] = true;
                    if let (Step::Raise, Some(write)) = (asked.step, &asked.write) {
                        won[asked.who] = write.term;
                        valid[asked.who].promised = None;
                    }
                    let life = &history.lives[asked.who];
                    if let (Some(failover), Some(_)) = (life.periods.failover, &asked.write) {
                        let (_, acts) = promise_of(failover);
                        let until = life.rate.shows(sent[number]) + acts * 1_000_000;
                        let promised = &mut valid[asked.who].promised;
                        *promised = Some(promised.unwrap_or(0).max(until));
                    }
                }
            }
            What::Answered(number, answer) => {
                let who = history.asked[number].who;
                let news = Answered { number, answer, sent: sent[number], at: *at };
                valid[who] = after(history, valid[who], &news, applied[number]);
            }
            What::Works(who, term) => {
                began[who] = *at;
                if won[who] != term {
                    let what = format!("c{who} works under term {term}, which it did not win");
                    violations.push(violation("I3", *at, what));
                }
            }
            What::Rests(who, term) | What::Acted(who, term) => {
                let late = shows(who, *at).saturating_sub(valid[who].until());
                let worked = *at > began[who] || matches!(what, What::Acted(..));
                if worked && late > RESOLUTION {
                    let late = late / 1_000_000;
                    let what = format!("c{who} works {late} ms after its validity, term {term}");
                    violations.push(violation("I3", *at, what));
                }
            }
            _ => {}
        }
    }
    violations
}

struct Answered {
    number: Number,
    answer: Answer,
    sent: Millis,
    at: Millis,
}

fn after(history: &History, valid: Validity, news: &Answered, applied: bool) -> Validity {
    let Answered { number, answer, sent, at } = *news;
    let asked = &history.asked[number];
    let life = &history.lives[asked.who];
    let now = life.rate.shows(at);
    let span = (life.periods.lease - life.periods.margin) * 1_000_000;
    let until = life.rate.shows(sent) + span;
    let success = applied && matches!(answer.status, 200..=299) && answer.lease == asked.lease;
    match asked.step {
        Step::Acquire if success => Validity { lease: asked.lease, until, ..valid },
        Step::Renew if asked.lease != valid.lease => valid,
        Step::Renew if success && now < valid.until => Validity { until, ..valid },
        Step::Renew if is_lost(answer, asked.lease) => {
            Validity { until: valid.until.min(now), ..valid }
        }
        _ => valid,
    }
}

/// protocol.md §5: what says that a lease is lost.
fn is_lost(answer: Answer, own: Option<u128>) -> bool {
    match answer.status {
        200 => answer.lease.is_some() && answer.lease != own,
        404 | 409 => true,
        412 => answer.code != "ConditionNotMet",
        _ => false,
    }
}
