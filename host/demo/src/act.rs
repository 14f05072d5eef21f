//! Faults and orders that the demo, or its user on the page, gives to a candidate.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// A new process of that name.
    Start,
    /// SIGKILL of all its processes, as when its machine dies.
    KillMachine,
    /// SIGKILL of the process that runs the election. Its supervisor lives.
    KillProcess,
    /// SIGTERM: it leaves in good order. Not on the page.
    Stop,
    /// SIGSTOP.
    Freeze,
    /// SIGCONT.
    Thaw,
    /// Cuts it off from the store, and the others from it.
    Partition,
    Heal,
    /// `tenure transfer`: the leader releases the lease, and follows.
    Resign,
}

impl Act {
    /// With their names in the page's requests.
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

    pub(super) fn read(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(act, _)| *act)
    }

    pub(super) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(act, _)| *act == self).map_or("", |(_, name)| name)
    }

    /// The cause of a takeover, as in "ben takes over 2.1 s after the leader was frozen".
    pub(super) fn cause(self) -> &'static str {
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
    fn names_are_read_as_they_are_written() {
        for (act, name) in Act::ALL {
            assert_eq!((Act::read(name), act.name()), (Some(act), name));
        }
        assert_eq!(Act::read("Kill-process"), None);
    }
}
