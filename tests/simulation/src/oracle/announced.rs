//! A successor that leaves takes its announcement back.

use super::super::fault::Step;
use super::super::history::{Answer, Entry, History, What};
use super::super::world::Millis;
use super::{Violation, violation};

/// The answer to a successor that asks for its lease when nobody holds one.
const NOBODY: &str = "LeaseNotPresentWithBlobOperation";

/// How long after it announced itself a successor may be given the lease.
const LOOKS: Millis = 60_000;

/// What a successor announced, as long as that may bring it a lease.
#[derive(Clone, Copy, Default)]
struct Announced {
    at: Option<Millis>,
    leaves: bool,
    /// The step that was under way when the answer came has not come to its end: the answer waits for the next one.
    unheard: bool,
    /// The newest request of a step, until it is answered.
    under_way: Option<usize>,
}

impl Announced {
    /// A request was answered, or given up.
    fn answered(&mut self, number: usize) {
        if self.under_way == Some(number) {
            (self.under_way, self.unheard) = (None, false);
        }
    }
}

/// Judges each successor that leaves.
pub fn announcements(history: &History) -> Vec<Violation> {
    let mut announced = vec![Announced::default(); history.lives.len()];
    let mut term = None;
    let mut violations = Vec::new();
    for Entry { at, what } in &history.entries {
        match *what {
            // Of a write with another answer it does not know the tag, without which none is taken back.
            What::Answered(number, Answer { status: 201, .. }) => {
                let asked = &history.asked[number];
                // One of an earlier term is nothing to the leader: it was late to hear of that one's end.
                let counts = asked.announced_in.is_some() && asked.announced_in == term;
                let of = &mut announced[asked.who];
                if counts && !of.leaves {
                    of.at = Some(*at);
                    of.unheard = of.under_way.is_some();
                }
                of.answered(number);
            }
            What::Answered(number, answer) => {
                let asked = &history.asked[number];
                let of = &mut announced[asked.who];
                let no_blob =
                    answer.status == 404 && matches!(asked.step, Step::Look | Step::ReadBack);
                if no_blob || (answer.status, answer.code) == (412, NOBODY) {
                    // Nobody leads any more who could give it the lease.
                    of.at = None;
                }
                of.answered(number);
            }
            What::Failed(number) => announced[history.asked[number].who].answered(number),
            What::Sent(number) => {
                let asked = &history.asked[number];
                let of = &mut announced[asked.who];
                of.unheard = false;
                if !matches!(asked.step, Step::SideBlob | Step::List) {
                    of.under_way = Some(number);
                }
                if asked.unconditional {
                    let what = format!("c{} announces itself without a condition", asked.who);
                    violations.push(violation("hand over", *at, what));
                }
                match asked.step {
                    // Of what became of this one it may not have heard.
                    Step::SideBlob if asked.announces => announced[asked.who].at = None,
                    // It knows that nobody leads any more who could give it the lease.
                    Step::Acquire | Step::Raise => announced[asked.who].at = None,
                    _ => {}
                }
            }
            // An announcement counts for one term, and until the lease of its leader was given up or broken.
            What::Handled(..) => {
                let Some(asked) = history.carried_out(*what) else { continue };
                let written = asked.write.as_ref().map(|written| written.term);
                let raised = written.filter(|new| Some(*new) != term);
                term = raised.or(term);
                // Whoever was given the lease is no leader, and the one that gave it is none any more.
                let given = asked.step == Step::HandOver;
                let given_up = matches!(asked.step, Step::Release | Step::Will | Step::Break);
                for (who, of) in announced.iter_mut().enumerate() {
                    // What a successor gives back itself is no excuse for it.
                    if raised.is_some() || given || (given_up && who != asked.who) {
                        of.at = None;
                    }
                }
            }
            // To leave goes before all that it has not heard of.
            What::ToldToLeave(who) => {
                let of = &mut announced[who];
                of.leaves = true;
                of.at = of.at.filter(|_| !of.unheard);
            }
            What::Paused(who) | What::Killed(who) | What::Forgot(who) => {
                announced[who].at = None;
            }
            // By its own clock the time for that is over.
            What::SetForward(machine) => {
                for (of, life) in announced.iter_mut().zip(&history.lives) {
                    of.at = of.at.filter(|_| life.machine != machine);
                }
            }
            What::Left(who) => {
                let stands = announced[who].at.filter(|then| at.saturating_sub(*then) < LOOKS / 2);
                if stands.is_some() {
                    let what = format!("c{who} leaves, and does not take its announcement back");
                    violations.push(violation("hand over", *at, what));
                }
            }
            _ => {}
        }
    }
    violations
}
