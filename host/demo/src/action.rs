//! Faults and orders for a candidate, from the demo's script or the page's user.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Starts a new process of that name.
    Start,
    /// Kills all its processes (SIGKILL), as when its machine dies.
    KillMachine,
    /// Kills the process that runs the election (SIGKILL). Its supervisor lives.
    KillProcess,
    /// Stops it cleanly (SIGTERM). Not on the page.
    Stop,
    /// Freezes it (SIGSTOP).
    Freeze,
    /// Continues it (SIGCONT).
    Thaw,
    /// Cuts it off from the store, and the other candidates from it.
    Partition,
    Heal,
    /// Runs `tenure transfer`: the leader releases the lease and follows.
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

    /// Describes the action on that candidate, perhaps `during` a turn.
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
            Self::Stop => "after the leader was asked to stop",
            Self::Freeze => "after the leader was frozen",
            Self::Partition => "after the leader was cut off",
            Self::Resign => "after the leader resigned",
            Self::Start | Self::Thaw | Self::Heal => "",
        }
    }
}
