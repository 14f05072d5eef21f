//! Faults and orders that the demo, or its user on the page, gives to a candidate.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
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

impl Action {
    /// Returns its name in the page's requests.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::KillMachine => "kill-machine",
            Self::KillProcess => "kill-process",
            Self::Stop => "stop",
            Self::Freeze => "freeze",
            Self::Thaw => "thaw",
            Self::Partition => "partition",
            Self::Heal => "heal",
            Self::Resign => "resign",
        }
    }

    /// Says that it happens to the candidate of that name, perhaps `during` a turn.
    pub(super) fn sentence(self, name: &str, during: &str) -> String {
        match self {
            Self::Start => format!("{name} starts, and follows unless it gets the lease."),
            Self::KillMachine => format!("The machine of {name} dies{during} (SIGKILL)."),
            Self::KillProcess => format!("The process of {name} dies{during} (SIGKILL)."),
            Self::Stop => format!("{name} is asked to stop (SIGTERM)."),
            Self::Freeze => format!("{name} is frozen (SIGSTOP)."),
            Self::Thaw => format!("{name} goes on (SIGCONT)."),
            Self::Partition => format!("{name} can no longer reach the store."),
            Self::Heal => format!("{name} can reach the store again."),
            Self::Resign => format!("{name} is asked to resign."),
        }
    }

    /// Returns what it does to a leader, if it is a fault.
    pub(super) fn effect(self) -> Option<&'static str> {
        Some(match self {
            Self::KillMachine => "The others wait until its promise is over.",
            Self::KillProcess => "Its supervisor sees that, and releases the lease.",
            Self::Stop => "It ends its work, then releases the lease: no candidate has to wait.",
            Self::Freeze => "It cannot see its validity end. Thawed, its work is stopped first.",
            Self::Partition => "It cannot renew, and stops its work before another one may lead.",
            Self::Start | Self::Thaw | Self::Heal | Self::Resign => return None,
        })
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
