//! What can be done to a candidate: by people from the page, and by the demo itself.

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
            Self::KillMachine => "after the leader's machine died",
            Self::KillProcess => "after the leader's process died",
            Self::Stop => "after the leader was told to end",
            Self::Freeze => "after the leader was frozen",
            Self::Partition => "after the leader was cut off",
            Self::Resign => "after the leader resigned",
            Self::Start | Self::Thaw | Self::Heal => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        for (act, word) in Act::ALL {
            assert_eq!((Act::read(word), act.word()), (Some(act), word));
        }
        assert_eq!(Act::read("Kill-process"), None);
    }
}
