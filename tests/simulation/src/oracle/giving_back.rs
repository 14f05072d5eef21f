//! protocol.md §4.2 and §7.1: a lease that a candidate may have acquired, unseen, is released by its id
//! before the candidate turns to anything else, and before it leaves.
//!
//! Not where it stood still or its clock was set forward meanwhile, or takes longer to leave than its runner lets it; nor where it
//! forgot all that it knew; nor when the lease has run out, which a candidate waits for that has no
//! token to release it with.

use super::super::fault::{Fault, Step};
use super::super::history::{Answer, Entry, History, What};
use super::super::world::Millis;
use super::{Violation, violation};

/// How long the runner tries to leave.
const LEAVING: Millis = 10_000;

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

/// Judges each attempt to win.
pub fn giving_back(history: &History) -> Vec<Violation> {
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
            What::Left(who) => {
                // With settings that cannot be used, it sends nothing.
                let spoilt = [Fault::SettingsSpoilt, Fault::SecretSpoilt];
                let unable = spoilt.into_iter().any(|fault| history.meets(fault, who, *at));
                // By a clock that is 1 % fast it gives up earlier.
                let gave_up = |told| *at + LEAVING / 100 >= told + LEAVING;
                if !unable && !told[who].is_some_and(gave_up) {
                    violations.extend(kept(history, who, attempts[who], *at, "has left with"));
                }
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
