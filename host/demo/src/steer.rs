//! What can be done to a candidate: by people from the page, and by the demo itself.

use super::lane::{Lane, State};
use super::story::Story;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// A new process of that name.
    Start,
    /// SIGKILL of all its processes, as when its machine dies: nobody is left who could tell.
    KillMachine,
    /// SIGKILL of the process that runs the election. Its supervisor sees that.
    KillProcess,
    /// SIGTERM: it leaves in good order. Not on the page.
    Stop,
    /// SIGSTOP: it stands still, and does not know it.
    Freeze,
    /// SIGCONT.
    Thaw,
    /// It does not reach the store any more.
    Partition,
    Heal,
    /// The leader is asked to give the lease back, and to go on as a follower.
    Resign,
}

impl Act {
    /// With the words of the page's requests.
    const ALL: [(Self, &'static str); 8] = [
        (Self::KillMachine, "kill-machine"),
        (Self::KillProcess, "kill-process"),
        (Self::Start, "start"),
        (Self::Freeze, "freeze"),
        (Self::Thaw, "thaw"),
        (Self::Partition, "partition"),
        (Self::Heal, "heal"),
        (Self::Resign, "resign"),
    ];

    pub(super) fn read(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == word).map(|(act, _)| *act)
    }

    pub(super) fn word(self) -> &'static str {
        Self::ALL.iter().find(|(act, _)| *act == self).map_or("", |(_, word)| word)
    }

    /// As in "ben takes over 2.1 s after …", where another one leads because of it.
    pub(super) fn after(self) -> &'static str {
        match self {
            Self::KillMachine => "after its machine died",
            Self::KillProcess => "after its process died",
            Self::Stop => "after the signal",
            Self::Freeze => "after it was frozen",
            Self::Partition => "after it was cut off",
            Self::Resign => "after it was given back",
            Self::Start | Self::Thaw | Self::Heal => "",
        }
    }
}

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
            (Act::Freeze, runs && !frozen),
            (Act::Thaw, runs && frozen),
            (Act::Partition, !lane.is_cut_off()),
            (Act::Heal, lane.is_cut_off()),
            (Act::Resign, runs && leads && !frozen && lane.listens.is_some()),
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
    fn words_are_read_as_they_are_written() {
        for (act, word) in Act::ALL {
            assert_eq!((Act::read(word), act.word()), (Some(act), word));
        }
        assert_eq!(Act::read("Kill-process"), None);
    }

    #[test]
    fn what_is_possible_depends_on_what_is() {
        let mut story = started();
        let follower = "kill-machine kill-process freeze partition";
        assert_eq!(words(&story, 0, 1_000), follower, "where it listens is unknown");
        story.lanes[0].listens = Some("127.0.0.1:1".to_owned());
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
