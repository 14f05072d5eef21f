//! What people do to candidates, as the story tells it.

use super::super::act::Act;
use super::super::lane::{Hindrance, State};
use super::{Kind, Leadership, Story, Turn};
use std::time::Duration;

/// Of notes, terms and takeovers so many are kept when a demo goes on for long.
const KEPT: usize = 200;

impl Story {
    /// Who leads, and may act: what the last one that was elected is, as long as its time lasts.
    pub(in super::super) fn holder(&self, now: Duration) -> Option<usize> {
        let last = self.leaderships.last()?;
        (last.ended.is_none() && now < last.valid_until(now)).then_some(last.who)
    }

    pub(in super::super) fn freeze(&mut self, now: Duration, who: usize) {
        let leads = self.vacate(now, who, Act::Freeze);
        if let Some(lane) = self.lanes.get_mut(who) {
            lane.hinder(now, Hindrance::Frozen);
        }
        for turn in self.turns.iter_mut().filter(|turn| turn.who == who && turn.ended.is_none()) {
            // Nothing of it runs while its process stands still.
            (turn.ended, turn.halted) = (Some(now), true);
        }
        let so = match leads {
            true => "It cannot see its validity end. Thawed, its work is stopped first.",
            false => "It only followed: nothing changes.",
        };
        self.headline(now, format!("{} is frozen (SIGSTOP). {so}", self.name(who)));
    }

    pub(in super::super) fn thaw(&mut self, now: Duration, who: usize) {
        self.free(now, who, Hindrance::Frozen);
        self.headline(now, format!("{} goes on (SIGCONT).", self.name(who)));
    }

    pub(in super::super) fn partition(&mut self, now: Duration, who: usize) {
        let leads = self.vacate(now, who, Act::Partition);
        if let Some(lane) = self.lanes.get_mut(who) {
            lane.hinder(now, Hindrance::CutOff);
        }
        let so = match leads {
            true => "It cannot renew, and stops its work before another one may lead.",
            false => "It does not lead: nothing changes.",
        };
        self.headline(now, format!("{} can no longer reach the store. {so}", self.name(who)));
    }

    pub(in super::super) fn heal(&mut self, now: Duration, who: usize) {
        self.free(now, who, Hindrance::CutOff);
        self.headline(now, format!("{} can reach the store again.", self.name(who)));
    }

    pub(in super::super) fn resign(&mut self, now: Duration, who: usize) {
        if let Some(lane) = self.lanes.get_mut(who) {
            lane.resigns = true;
        }
        self.headline(now, format!("{} is asked to resign.", self.name(who)));
    }

    /// A candidate that was asked to resign did not agree.
    pub(super) fn not_resigned(&mut self, at: Duration, who: usize, why: &str) {
        if let Some(lane) = self.lanes.get_mut(who) {
            lane.resigns = false;
        }
        self.note(at, Kind::Problem, format!("{} does not resign: {why}", self.name(who)));
    }

    /// Somebody else must take over if it is the leader; whether it is.
    pub(super) fn vacate(&mut self, now: Duration, who: usize, cause: Act) -> bool {
        let leads = self.holder(now) == Some(who);
        let last = self.leaderships.last_mut().filter(|_| leads);
        // What came first counts: a frozen leader that is then killed was lost when it froze.
        if let Some(last @ Leadership { last_sign: None, .. }) = last {
            self.vacancy = Some((cause, now));
            if cause != Act::Stop {
                last.last_sign = Some(now);
            }
        }
        leads
    }

    /// A leader that is hindered no longer, and whose time is not over, gives signs of life again.
    fn free(&mut self, now: Duration, who: usize, from: Hindrance) {
        let leads = self.holder(now) == Some(who);
        let Some(lane) = self.lanes.get_mut(who) else { return };
        lane.free(now, from);
        let free = leads && !lane.is_frozen() && !lane.is_cut_off();
        if let Some(last) = self.leaderships.last_mut().filter(|_| free) {
            last.last_sign = None;
        }
    }

    /// What a stand-down that was to be expected is told as; none for one that was not.
    pub(super) fn expected_end(&mut self, at: Duration, who: usize) -> Option<String> {
        let vacancy = self.vacancy;
        let lane = self.lanes.get_mut(who)?;
        let state = lane.state();
        let resigned = std::mem::take(&mut lane.resigns);
        if resigned {
            lane.enter(at, State::Follows);
            self.vacancy = Some((Act::Resign, at));
            return Some(format!("{} has given the lease back.", self.name(who)));
        }
        let hindered = matches!(vacancy, Some((Act::Freeze | Act::Partition, _)))
            || lane.is_cut_off()
            || self.leaderships.last().is_some_and(|last| last.who != who);
        if state == Some(State::Leads) && hindered {
            lane.enter(at, State::Follows);
            return Some(format!("{} no longer leads: its validity has ended.", self.name(who)));
        }
        None
    }

    pub(super) fn headline(&mut self, at: Duration, text: String) {
        self.note(at, Kind::Headline, text);
    }

    /// Forgets what ended before `before`, and what is too much.
    pub(in super::super) fn forget(&mut self, before: Duration) {
        let lanes = &self.lanes;
        // A turn that a freeze halted, and that may go on afterwards, is still to be judged.
        let may_go_on = |turn: &Turn| {
            turn.halted && turn.outcome.is_none() && lanes.get(turn.who).is_some_and(|l| !l.ended)
        };
        let is_kept = |turn: &Turn| turn.ended.is_none_or(|end| end >= before) || may_go_on(turn);
        let (kept, over): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.turns).into_iter().partition(is_kept);
        self.turns = kept;
        for turn in over {
            let of = self.leaderships.iter_mut().find(|leadership| leadership.term == turn.term);
            if let Some(leadership) = of {
                leadership.turns_forgotten += 1;
            }
            self.turns_forgotten += 1;
            self.cut_off_forgotten += usize::from(!turn.done());
        }
        for lane in &mut self.lanes {
            lane.forget(before);
        }
        let excess = self.notes.len().saturating_sub(KEPT);
        self.notes.drain(..excess);
        self.notes_forgotten += excess;
        let excess = self.leaderships.len().saturating_sub(KEPT);
        self.leaderships.drain(..excess);
        let excess = self.take_overs.len().saturating_sub(KEPT);
        self.take_overs.drain(..excess);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::heard::{Event, What};
    use super::super::super::judge::overlapping;
    use super::super::super::script::{ms, started};
    use super::*;

    fn problems(story: &Story) -> usize {
        story.notes.iter().filter(|note| note.kind == Kind::Problem).count()
    }

    #[test]
    fn the_turn_of_a_frozen_leader_is_no_overlap_when_it_is_cut_off_on_waking() {
        let mut story = started();
        story.begins(2_000, 0, 1000);
        story.freeze(ms(2_300), 0);
        assert_eq!(story.holder(ms(3_999)), Some(0), "it does not know");
        assert_eq!(story.holder(ms(4_000)), None, "its time is over, awake or not");
        story.elects(4_700, 1, 1017);
        assert_eq!(
            story.said(),
            "ben takes over 2.4 s after the leader was frozen, with a higher term: 1017."
        );
        story.begins(18_000, 1, 1017);
        story.thaw(ms(18_200), 0);
        story.ends(18_201, 0, 1000, 2_000, "cut-off");
        story.stands_down(18_202, 0, 1000, "validity-ended");
        story.ends(18_600, 1, 1017, 18_000, "succeeded");
        assert_eq!(overlapping(&story.turns, &[]), 0);
        assert_eq!(story.holder(ms(18_600)), Some(1));
        // One that went on would be seen.
        story.ends(18_700, 0, 1000, 2_000, "succeeded");
        assert_eq!(overlapping(&story.turns, &[]), 1);
    }

    #[test]
    fn the_turn_of_a_leader_that_is_frozen_for_long_is_still_judged() {
        let mut story = started();
        story.begins(2_000, 0, 1000);
        story.freeze(ms(2_300), 0);
        story.elects(4_700, 1, 1017);
        story.begins(400_000, 1, 1017);
        story.forget(ms(390_000));
        story.thaw(ms(400_200), 0);
        story.ends(400_700, 0, 1000, 2_000, "succeeded");
        story.ends(400_900, 1, 1017, 400_000, "succeeded");
        assert_eq!(overlapping(&story.turns, &[]), 1);
    }

    #[test]
    fn a_short_freeze_changes_nothing() {
        let mut story = started();
        story.begins(2_000, 0, 1000);
        story.freeze(ms(2_300), 0);
        story.thaw(ms(3_300), 0);
        story.ends(3_600, 0, 1000, 2_000, "succeeded");
        assert_eq!(story.turns[0].ended, Some(ms(3_600)));
        assert_eq!(story.holder(ms(9_000)), Some(0), "it gives signs of life again");
        story.renews(4_000, 0, 1000);
        story.elects(60_000, 1, 1060);
        assert!(story.take_overs.is_empty(), "the freeze was over");
        assert_eq!(problems(&story), 0);
    }

    #[test]
    fn who_is_hindered_twice_gives_no_sign_of_life_before_it_is_free() {
        let mut story = started();
        story.freeze(ms(2_000), 0);
        story.partition(ms(2_100), 0);
        story.thaw(ms(2_200), 0);
        assert_eq!(story.holder(ms(3_700)), None, "it is cut off");
        story.heal(ms(3_800), 0);
        assert_eq!(story.holder(ms(3_800)), None, "its time was over");
        // One who goes on, and whose time runs out nevertheless, was expected to.
        let mut story = started();
        story.partition(ms(2_000), 0);
        story.heal(ms(3_600), 0);
        story.stands_down(3_700, 0, 1000, "validity-ended");
        assert_eq!((story.holder(ms(3_700)), problems(&story)), (None, 0));
        story.elects(4_300, 1, 1004);
        assert!(story.said().contains("2.3 s after the leader was cut off"), "{}", story.said());
    }

    #[test]
    fn a_kill_after_a_freeze_counts_from_the_freeze() {
        let mut story = started();
        story.freeze(ms(2_000), 0);
        story.kill(ms(3_000), 0);
        story.dies(3_010, 0);
        story.elects(4_300, 1, 1004);
        assert!(story.said().contains("2.3 s after the leader was frozen"), "{}", story.said());
    }

    #[test]
    fn a_leader_that_is_cut_off_stops_as_expected() {
        let mut story = started();
        story.partition(ms(2_000), 0);
        story.stands_down(3_700, 0, 1000, "validity-ended");
        assert_eq!(story.said(), "anna no longer leads: its validity has ended.");
        story.elects(4_300, 2, 1016);
        assert_eq!(
            story.said(),
            "cleo takes over 2.3 s after the leader was cut off, with a higher term: 1016."
        );
        story.heal(ms(17_000), 0);
        assert_eq!(problems(&story), 0);
        // The next time nobody asked for it.
        story.stands_down(18_000, 2, 1016, "lease-lost");
        assert_eq!(problems(&story), 1);
    }

    #[test]
    fn whoever_resigns_goes_on_as_a_follower() {
        let mut story = started();
        story.resign(ms(2_000), 0);
        story.stands_down(2_100, 0, 1000, "resigned");
        assert_eq!(story.said(), "anna has given the lease back.");
        assert_eq!((story.holder(ms(2_100)), problems(&story)), (None, 0));
        story.elects(2_152, 1, 1003);
        assert_eq!(
            story.said(),
            "ben takes over 52 ms after the leader resigned, with a higher term: 1003."
        );

        story.resign(ms(4_000), 1);
        story.tells(4_100, 1, What::NotResigned("404".to_owned()));
        assert_eq!(story.said(), "ben does not resign: 404");
        story.stands_down(9_000, 1, 1003, "lease-lost");
        assert_eq!(problems(&story), 2, "nobody asked for that");
    }

    #[test]
    fn what_happens_to_a_follower_leaves_the_leader_alone() {
        let mut story = started();
        story.freeze(ms(1_000), 1);
        story.partition(ms(1_000), 2);
        story.kill(ms(1_000), 1);
        let dies =
            "The machine of ben dies (SIGKILL to all of it). It only followed: nothing changes.";
        assert_eq!(story.said(), dies);
        assert_eq!(story.holder(ms(1_000)), Some(0));
        story.elects(20_000, 2, 1020);
        assert!(story.take_overs.is_empty());
    }

    #[test]
    fn a_long_demo_does_not_grow() {
        let mut story = started();
        for number in 1..1_000 {
            let at = number * 10_000;
            let term = 1_000 + number;
            story.elects(at, 0, term);
            story.runs(at + 2_000, 0, term);
            story.tells(at + 3_000, 0, What::Event(Event::Other));
            story.freeze(ms(at + 4_000), 1);
            story.thaw(ms(at + 5_000), 1);
            story.stands_down(at + 6_000, 0, term, "lease-lost");
            story.forget(ms((at + 6_000).saturating_sub(60_000)));
        }
        assert!(story.turns.len() <= 7, "{}", story.turns.len());
        assert_eq!(story.turns.len() + story.turns_forgotten, 999, "all are counted");
        assert!(story.leaderships.iter().all(|l| l.turns_forgotten <= 1));
        assert_eq!((story.notes.len(), story.leaderships.len()), (KEPT, KEPT));
        assert!(story.lanes.iter().all(|lane| lane.size() < 40));
        assert!(story.notes_told() > 4_000, "each one counts: {}", story.notes_told());
        assert_eq!(story.notes_since(0).count(), KEPT);
        assert_eq!(story.notes_since(story.notes_told()).count(), 0);
        story.thaw(ms(0), 1);
        assert_eq!(story.notes_since(story.notes_told() - 1).count(), 1);
    }
}
