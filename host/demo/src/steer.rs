//! What can be done to a candidate as things are, and what the story tells of it.

use super::act::Act;
use super::lane::{Lane, State};
use super::story::Story;
use std::time::Duration;

impl Story {
    /// Takes note of what is done to a candidate.
    pub(super) fn act(&mut self, now: Duration, who: usize, act: Act) {
        match act {
            Act::Start => self.start(now, who),
            Act::KillMachine => self.kill(now, who),
            Act::KillProcess => self.kill_process(now, who),
            Act::Stop => self.stop(now, who),
            Act::Freeze => self.freeze(now, who),
            Act::Thaw => self.thaw(now, who),
            Act::Partition => self.partition(now, who),
            Act::Heal => self.heal(now, who),
            Act::Resign => self.resign(now, who),
        }
    }

    /// What can be done to a candidate now.
    pub(super) fn possible(&self, who: usize, now: Duration) -> Vec<Act> {
        let Some(lane) = self.lanes.get(who) else { return Vec::new() };
        let runs = runs(lane);
        let frozen = lane.is_frozen();
        let leads = self.holder(now) == Some(who);
        let all = [
            (Act::KillMachine, runs),
            // A supervisor that is frozen sees nothing.
            (Act::KillProcess, runs && !frozen && self.replacement.supervised),
            (Act::Start, lane.ended),
            // Elsewhere only the supervisor would stand still.
            (Act::Freeze, runs && !frozen && cfg!(target_os = "linux")),
            (Act::Thaw, runs && frozen),
            (Act::Partition, !lane.is_cut_off()),
            (Act::Heal, lane.is_cut_off()),
            (Act::Resign, runs && leads && !frozen && !lane.is_cut_off()),
        ];
        all.into_iter().filter(|(_, possible)| *possible).map(|(act, _)| act).collect()
    }
}

fn runs(lane: &Lane) -> bool {
    !lane.ended && !matches!(lane.state(), None | Some(State::Killed))
}

#[cfg(test)]
mod tests {
    use super::super::script::{ms, started};
    use super::*;

    fn words(story: &Story, who: usize, now: u64) -> String {
        let acts = story.possible(who, ms(now)).into_iter();
        acts.map(Act::word).collect::<Vec<_>>().join(" ")
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_is_possible_depends_on_what_is() {
        let mut story = started();
        let follower = "kill-machine kill-process freeze partition";
        assert_eq!(words(&story, 0, 1_000), format!("{follower} resign"));
        assert_eq!(words(&story, 1, 1_000), follower);
        story.replacement.supervised = false;
        assert_eq!(words(&story, 1, 1_000), "kill-machine freeze partition");
        story.replacement.supervised = true;
        story.freeze(ms(1_000), 0);
        assert_eq!(words(&story, 0, 1_000), "kill-machine thaw partition");
        story.partition(ms(1_100), 0);
        assert_eq!(words(&story, 0, 1_100), "kill-machine thaw heal");
        story.kill(ms(1_200), 0);
        assert_eq!(words(&story, 0, 1_200), "heal", "its end is not seen yet");
        story.dies(1_210, 0);
        assert_eq!(words(&story, 0, 1_300), "start heal");
        assert_eq!(words(&story, 9, 1_300), "");
    }
}
