//! What the demo does next. It waits for what must happen, never for time to pass.

use super::act::Act;
use super::lane::{Lane, State};
use super::story::{Story, Turn};
use std::time::Duration;

/// The turn in the middle of which a leader is killed.
const TURNS: usize = 3;

/// Turns of each other leader.
const LATER_TURNS: usize = 2;

/// How far a turn is when its leader is killed: at work, with the sink.
const MIDDLE: Duration = Duration::from_millis(300);

/// Something to do to a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Do(Act, usize),
    /// Announce the end.
    Finish,
    /// Stop, since the demo ends.
    Dismiss(usize),
}

#[derive(Debug, Default)]
pub(super) enum Plot {
    /// Everybody starts, and somebody leads.
    #[default]
    Opening,
    /// That leader was killed: another one must take over.
    Death(usize, Of),
    /// That candidate is started again; the new leader works.
    Recovery(usize, Of),
    /// That leader was asked to stop: another one must take over.
    HandOver(usize),
    /// All are asked to stop, the leader last: nobody else is to be elected now.
    Ending,
    /// All are gone.
    Over,
}

/// What died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    /// All processes of a candidate.
    Machine,
    /// The one that runs the election, and not its supervisor.
    Process,
}

impl Plot {
    /// What is to be done now, one thing at a time.
    pub(super) fn next(&mut self, story: &Story, now: Duration) -> Option<Action> {
        let leader = story.leader();
        if story.lanes.iter().all(|lane| lane.ended && lane.state().is_some()) {
            *self = Self::Over;
        }
        match *self {
            Self::Opening => {
                let unborn = story.lanes.iter().position(|lane| lane.state().is_none());
                if let Some(who) = unborn {
                    return Some(Action::Do(Act::Start, who));
                }
                let leader = leader.filter(|_| story.lanes.iter().all(settled))?;
                in_the_middle_of(story, leader, TURNS, now).then(|| {
                    *self = Self::Death(leader, Of::Machine);
                    Action::Do(Act::KillMachine, leader)
                })
            }
            Self::Death(victim, of) => {
                let gone = story.lanes.get(victim).is_some_and(|lane| lane.ended);
                (gone && leader.is_some()).then(|| {
                    *self = Self::Recovery(victim, of);
                    Action::Do(Act::Start, victim)
                })
            }
            Self::Recovery(victim, of) => {
                let back = story.lanes.get(victim).is_some_and(|lane| lane.is_in());
                let leader = leader.filter(|_| back)?;
                // Where nobody leaves a last will, the death of a process is that of a machine.
                if of == Of::Machine && story.replacement.supervised {
                    return in_the_middle_of(story, leader, TURNS, now).then(|| {
                        *self = Self::Death(leader, Of::Process);
                        Action::Do(Act::KillProcess, leader)
                    });
                }
                Some(leader).filter(|who| rests_after(story, *who, LATER_TURNS))?;
                *self = Self::HandOver(leader);
                Some(Action::Do(Act::Stop, leader))
            }
            Self::HandOver(_) => {
                leader.filter(|who| rests_after(story, *who, LATER_TURNS))?;
                *self = Self::Ending;
                Some(Action::Finish)
            }
            Self::Ending => {
                let follower = story.lanes.iter().position(|lane| {
                    matches!(lane.state(), Some(State::Starting | State::Follows)) && !lane.ended
                });
                if let Some(who) = follower {
                    return Some(Action::Dismiss(who));
                }
                let alone = story.lanes.iter().filter(|lane| !lane.ended).count() == 1;
                leader.filter(|_| alone).map(Action::Dismiss)
            }
            Self::Over => None,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self, Self::Over)
    }

    /// What has not happened yet.
    pub(super) fn waits_for(&self, story: &Story) -> String {
        match *self {
            Self::Opening => format!("a leader and its first {TURNS} turns"),
            Self::Death(who, _) => format!("somebody to take over from {}", story.name(who)),
            Self::Recovery(who, _) => {
                let name = story.name(who);
                format!("{name} to come back, and for {TURNS} turns of the new leader")
            }
            Self::HandOver(who) => {
                format!("somebody to take over from {}, and for its turns", story.name(who))
            }
            Self::Ending => "the candidates to stop".to_owned(),
            Self::Over => "nothing".to_owned(),
        }
    }
}

/// Whether no more is to be expected of a candidate before the first leader is killed.
fn settled(lane: &Lane) -> bool {
    lane.is_in() || lane.ended
}

/// The turns of the present leader in its term.
fn turns(story: &Story, leader: usize) -> impl DoubleEndedIterator<Item = &Turn> {
    let term =
        story.leaderships.iter().rfind(|leadership| leadership.who == leader).map(|t| t.term);
    story.turns.iter().filter(move |turn| turn.who == leader && Some(turn.term) == term)
}

/// Whether the leader is at work on its turn of that number, or a later one.
fn in_the_middle_of(story: &Story, leader: usize, number: usize, now: Duration) -> bool {
    let last = turns(story, leader).next_back();
    let at_work = last.is_some_and(|last| last.ended.is_none() && now >= last.began + MIDDLE);
    at_work && turns(story, leader).count() >= number
}

/// Whether the leader has run so many turns, and runs none now.
fn rests_after(story: &Story, leader: usize, enough: usize) -> bool {
    turns(story, leader).count() >= enough && turns(story, leader).all(|turn| turn.ended.is_some())
}

#[cfg(test)]
mod tests {
    use super::super::script::{ms, started, story};
    use super::*;

    #[test]
    fn a_whole_demo() {
        let mut plot = Plot::default();
        let mut story = story();
        for who in 0..3 {
            assert_eq!(plot.next(&story, ms(0)), Some(Action::Do(Act::Start, who)));
            story.start(ms(0), who);
        }
        story.elects(200, 0, 1000);
        story.runs(2_000, 0, 1000);
        story.runs(4_000, 0, 1000);
        story.begins(6_000, 0, 1000);
        assert_eq!(plot.next(&story, ms(6_400)), None, "not all take part yet");
        story.follows(6_400, 1, "anna");
        story.follows(6_400, 2, "anna");
        assert_eq!(plot.next(&story, ms(6_400)), Some(Action::Do(Act::KillMachine, 0)));
        story.kill(ms(6_400), 0);
        assert_eq!(plot.next(&story, ms(6_500)), None, "its end is not seen yet");
        story.dies(6_500, 0);
        assert_eq!(plot.next(&story, ms(6_500)), None, "nobody leads yet");
        story.elects(8_600, 2, 1008);
        assert_eq!(plot.next(&story, ms(8_600)), Some(Action::Do(Act::Start, 0)));
        story.start(ms(8_600), 0);
        story.runs(9_000, 2, 1008);
        story.runs(10_000, 2, 1008);
        story.begins(12_000, 2, 1008);
        assert_eq!(plot.next(&story, ms(12_400)), None, "the other one is not back yet");
        story.follows(12_400, 0, "cleo");
        assert_eq!(plot.next(&story, ms(12_400)), Some(Action::Do(Act::KillProcess, 2)));
        story.kill_process(ms(12_400), 2);
        story.dies(12_450, 2);
        story.elects(12_500, 1, 1020);
        assert_eq!(plot.next(&story, ms(12_500)), Some(Action::Do(Act::Start, 2)));
        story.start(ms(12_500), 2);
        for at in [20_000, 22_000] {
            story.runs(at, 1, 1020);
        }
        assert_eq!(plot.next(&story, ms(25_000)), None, "the other one is not back yet");
        story.follows(25_000, 2, "ben");
        story.begins(26_000, 1, 1020);
        assert_eq!(plot.next(&story, ms(26_000)), None, "it is at work");
        story.ends(26_600, 1, 1020, 26_000, "succeeded");
        assert_eq!(plot.next(&story, ms(26_600)), Some(Action::Do(Act::Stop, 1)));
        story.stop(ms(26_600), 1);
        story.stands_down(26_700, 1, 1020, "left");
        story.dies(26_700, 1);
        story.elects(27_000, 0, 1027);
        story.runs(28_000, 0, 1027);
        assert_eq!(plot.next(&story, ms(29_000)), None, "one turn is not enough");
        story.runs(30_000, 0, 1027);
        assert_eq!(plot.next(&story, ms(31_000)), Some(Action::Finish));
        assert_eq!(plot.next(&story, ms(31_000)), Some(Action::Dismiss(2)));
        story.dismiss(ms(31_000), 2);
        assert_eq!(plot.next(&story, ms(31_000)), None, "the leader stays until it is alone");
        story.dies(31_100, 2);
        assert_eq!(plot.next(&story, ms(31_100)), Some(Action::Dismiss(0)));
        story.dismiss(ms(31_100), 0);
        assert_eq!(plot.next(&story, ms(31_100)), None);
        assert!(!plot.is_over());
        story.dies(31_200, 0);
        assert_eq!(plot.next(&story, ms(31_200)), None);
        assert!(plot.is_over());
        assert_eq!(story.lost, 0);
    }

    #[test]
    fn a_leader_is_killed_in_the_middle_of_a_turn() {
        let mut plot = Plot::default();
        let mut story = started();
        for at in [2_000, 4_000, 6_000] {
            story.runs(at, 0, 1000);
        }
        assert_eq!(plot.next(&story, ms(7_000)), None);
        story.begins(8_000, 0, 1000);
        assert_eq!(plot.next(&story, ms(8_299)), None);
        assert_eq!(plot.next(&story, ms(8_300)), Some(Action::Do(Act::KillMachine, 0)));
    }

    #[test]
    fn without_supervisors_no_process_dies_alone() {
        let mut plot = Plot::Recovery(0, Of::Machine);
        let mut story = started();
        story.replacement.supervised = false;
        story.kill(ms(500), 0);
        story.dies(510, 0);
        story.elects(3_000, 1, 1003);
        story.start(ms(3_000), 0);
        story.follows(3_500, 0, "ben");
        story.runs(4_000, 1, 1003);
        story.begins(6_000, 1, 1003);
        assert_eq!(plot.next(&story, ms(6_400)), None);
        story.ends(6_600, 1, 1003, 6_000, "succeeded");
        assert_eq!(plot.next(&story, ms(6_600)), Some(Action::Do(Act::Stop, 1)));
    }

    #[test]
    fn when_all_are_gone_nothing_is_waited_for() {
        let mut plot = Plot::default();
        let mut story = started();
        for who in 0..3 {
            assert_eq!(plot.next(&story, ms(1_000)), None);
            story.dies(1_000, who);
        }
        assert_eq!(plot.next(&story, ms(1_000)), None);
        assert!(plot.is_over());
        assert_eq!(story.lost, 3);
    }
}
