//! protocol.md §4.2 and §7.1: a lease that a candidate may have acquired, unseen, is released by its id
//! before the candidate turns to anything else, and before it leaves.
//!
//! Not where it stood still or its clock was set forward meanwhile, or takes longer to leave than its runner lets it; nor where it
//! forgot all that it knew; nor when the lease has run out, which a candidate waits for that has no
//! token to release it with.
//!
//! A candidate repeats a release whose answer is lost or refused, until the lease has run out or its time to leave is
//! over.

use super::super::fault::{Fault, Step};
use super::super::history::{Answer, Entry, History, What, Who};
use super::super::world::Millis;
use super::{Violation, violation};
use std::collections::BTreeMap;

/// How long the runner tries to leave, and how long a follower tries to give back what it was perhaps given.
const LEAVING: Millis = 10_000;
const PERHAPS_OURS: Millis = 3_000;

/// The last write of the record before a release.
const LAST_WRITE: Millis = 1_000;

/// What a candidate knows of the lease that it asked for last.
#[derive(Clone, Copy, Default)]
struct Attempt {
    lease: Option<u128>,
    /// A request of it was not answered so far.
    pending: bool,
    /// One was, in a way that leaves open what became of it; or the lease was granted.
    owed: bool,
    /// When it was asked for last.
    sent: Millis,
}

/// Judges each attempt to win, and each release.
pub fn giving_back(history: &History) -> Vec<Violation> {
    let mut violations = attempts(history);
    violations.extend(releases(history));
    violations
}

fn attempts(history: &History) -> Vec<Violation> {
    let mut attempts = vec![Attempt::default(); history.lives.len()];
    let mut told = vec![None; history.lives.len()];
    // Where the wall clock was set last, and when.
    let mut set = None;
    let mut violations = Vec::new();
    for Entry { at, what } in &history.entries {
        match *what {
            What::Sent(number) => {
                let asked = &history.asked[number];
                let attempt = &mut attempts[asked.who];
                let same = asked.lease == attempt.lease;
                match asked.step {
                    Step::Acquire if same => {
                        attempt.pending = true;
                        attempt.sent = *at;
                    }
                    Step::Look
                    | Step::CreateContainer
                    | Step::CreateBlob
                    | Step::Break
                    | Step::Acquire => {
                        violations.extend(kept(history, asked.who, *attempt, *at, "goes on with"));
                        let lease = asked.lease;
                        // A clock that is set while a request goes out was set after its step began.
                        let meanwhile = set == Some((history.lives[asked.who].machine, *at));
                        let pending = asked.step == Step::Acquire && !meanwhile;
                        *attempt = Attempt { lease, pending, owed: false, sent: *at };
                    }
                    // It leads by that lease; or gives it back.
                    Step::Renew
                    | Step::Claim
                    | Step::Outcome
                    | Step::Beat
                    | Step::Release
                    | Step::HandOver => {
                        *attempt = Attempt::default();
                    }
                    Step::Raise | Step::ReadBack | Step::SideBlob | Step::List | Step::Will => {}
                }
            }
            What::Answered(number, answer) => {
                let asked = &history.asked[number];
                let attempt = &mut attempts[asked.who];
                match asked.step {
                    Step::Acquire if asked.lease == attempt.lease => attempt.answered(answer),
                    // It leads; or somebody ended the lease, and there is nothing to give back.
                    Step::Raise if matches!(answer.status, 200..=299) => {
                        *attempt = Attempt::default();
                    }
                    Step::Raise | Step::ReadBack if is_gone(answer) => {
                        *attempt = Attempt::default();
                    }
                    _ => {}
                }
            }
            What::ToldToLeave(who) => told[who] = Some(*at),
            What::Left(who)
                if !is_unable(history, who, *at) && !gave_up(told[who], *at, LEAVING) =>
            {
                violations.extend(kept(history, who, attempts[who], *at, "has left with"));
            }
            // By a clock that is set forward the lease has run out.
            What::SetForward(machine) => {
                set = Some((machine, *at));
                let there = history.lives.iter().zip(&mut attempts);
                there
                    .filter(|(life, _)| life.machine == machine)
                    .for_each(|(_, attempt)| *attempt = Attempt::default());
            }
            What::Paused(who) | What::Killed(who) | What::Forgot(who) => {
                attempts[who] = Attempt::default();
            }
            _ => {}
        }
    }
    violations
}

/// A release that was sent, and whose answer does not say yet that the lease is free.
#[derive(Clone, Copy)]
struct Release {
    lease: Option<u128>,
    /// When it was sent first, or the change to a successor before it; none: its sender stood still,
    /// or its clock was set forward.
    sent: Option<Millis>,
}

fn releases(history: &History) -> Vec<Violation> {
    let lives = history.lives.len();
    let mut open: Vec<Option<Release>> = vec![None; lives];
    let mut told = vec![None; lives];
    // When the store granted each lease last to the one that asked for it.
    let mut granted: BTreeMap<u128, Millis> = BTreeMap::new();
    // When each stood still last, or its clock was set forward.
    let mut disturbed: Vec<Option<Millis>> = vec![None; lives];
    // The lease that each acquired last, or asked for.
    let mut own = vec![None; lives];
    let mut violations = Vec::new();
    for Entry { at, what } in &history.entries {
        if let Some(asked) = history.carried_out(*what)
            && let (Step::Acquire | Step::Renew, Some(lease)) = (asked.step, asked.lease)
        {
            granted.insert(lease, *at);
        }
        // Nothing is held any more by a lease that has run out.
        let has_lease = |who: Who, release: Release| {
            let granted = release.lease.and_then(|lease| granted.get(&lease));
            let lasts =
                granted.is_none_or(|granted| *at < granted + history.lives[who].periods.lease);
            lasts && may_have_lease(history, who, release, *at)
        };
        match *what {
            What::Sent(number) => {
                let asked = &history.asked[number];
                let who = asked.who;
                if matches!(asked.step, Step::Release | Step::HandOver) {
                    let same = open[who].filter(|release| release.lease == asked.lease);
                    // The candidate may have decided to release before that, and counts the lease from then.
                    let lease = history.lives[who].periods.lease;
                    let recently = disturbed[who].is_some_and(|since| *at < since + lease);
                    let sent = (!recently).then_some(*at);
                    open[who] = same.or(Some(Release { lease: asked.lease, sent }));
                } else if matches!(asked.step, Step::Look | Step::Acquire | Step::Break)
                    && open[who].take().is_some_and(|release| has_lease(who, release))
                {
                    let what = format!("c{who} goes on, and its release was not answered");
                    violations.push(violation("give back", *at, what));
                }
                if asked.step == Step::Acquire {
                    own[who] = asked.lease;
                }
            }
            What::Answered(number, Answer { status: 200..=299 | 404 | 409 | 412, .. })
                if matches!(history.asked[number].step, Step::Release | Step::HandOver) =>
            {
                open[history.asked[number].who] = None;
            }
            What::ToldToLeave(who) => told[who] = Some(*at),
            What::Left(who) => {
                let Some(release) = open[who].take() else { continue };
                let tries = if release.lease == own[who] { LEAVING } else { PERHAPS_OURS };
                let excused = is_unable(history, who, *at) || gave_up(told[who], *at, tries);
                if has_lease(who, release) && !excused {
                    let what = format!("c{who} has left, and its release was not answered");
                    violations.push(violation("give back", *at, what));
                }
            }
            What::SetForward(machine) => {
                let there = |who: &Who| history.lives[*who].machine == machine;
                for who in (0..lives).filter(there) {
                    excuse(&mut open[who]);
                    disturbed[who] = Some(*at);
                }
            }
            What::Paused(who) => excuse(&mut open[who]),
            What::Resumed(who) => disturbed[who] = Some(*at),
            What::Killed(who) | What::Forgot(who) => open[who] = None,
            _ => {}
        }
    }
    violations
}

/// The candidate may believe from now on that the lease has run out.
fn excuse(release: &mut Option<Release>) {
    if let Some(release) = release {
        release.sent = None;
    }
}

/// Returns true if the lease of a release may not have run out, as its sender knows by a clock that is 1 % fast.
fn may_have_lease(history: &History, who: Who, release: Release, at: Millis) -> bool {
    let lease = history.lives[who].periods.lease;
    release.sent.is_some_and(|sent| at + lease / 100 + LAST_WRITE < sent + lease)
}

/// Returns true if a candidate sends nothing, for its settings cannot be used.
fn is_unable(history: &History, who: Who, at: Millis) -> bool {
    let spoilt = [Fault::SettingsSpoilt, Fault::SecretSpoilt];
    spoilt.into_iter().any(|fault| history.meets(fault, who, at))
}

/// Returns true if a candidate that leaves has tried for that long; by a clock that is 1 % fast it gives up earlier.
fn gave_up(told: Option<Millis>, at: Millis, tries: Millis) -> bool {
    told.is_some_and(|told| at + tries / 100 >= told + tries)
}

impl Attempt {
    fn answered(&mut self, answer: Answer) {
        self.pending = false;
        self.owed = match answer.status {
            200..=299 => answer.lease == self.lease,
            404 | 409 | 412 => false,
            408 | 429 | 500..=599 => true,
            _ => self.owed,
        };
    }
}

/// Whether an answer says that the lease is another one's, or nobody's, or that its blob is gone.
fn is_gone(answer: Answer) -> bool {
    answer.status == 404 || answer.status == 412 && answer.code.starts_with("Lease")
}

fn kept(
    history: &History,
    who: usize,
    attempt: Attempt,
    at: Millis,
    how: &str,
) -> Option<Violation> {
    let lease = history.lives[who].periods.lease;
    // By a clock that is 1 % fast it has run out earlier.
    let may_last = at + lease / 100 < attempt.sent + lease;
    let what = format!("c{who} {how} a lease that it may have, and does not release it");
    let kept = may_last && (attempt.pending || attempt.owed);
    kept.then(|| violation("give back", at, what))
}
