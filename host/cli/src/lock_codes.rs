//! The exit codes of `tenure lock` beside those of its command. Its supervisor has them too.

/// The lock was not acquired, and nothing was run. `EX_TEMPFAIL` of sysexits.h.
pub(super) const NOT_ACQUIRED: u8 = 75;

/// The command was ended, since the lock was lost.
pub(super) const LOST: u8 = 76;

/// It was used wrongly, or could not do what it was asked for. As of `env`, `nohup` and `timeout`.
pub(super) const FAILED: u8 = 125;

/// There is such a command, and it cannot be executed. As of shells.
pub(super) const NOT_EXECUTABLE: u8 = 126;

/// There is no such command. As of shells.
pub(super) const NOT_FOUND: u8 = 127;

/// What shells add to the number of the signal that ended a command.
pub(super) const SIGNAL_BASE: i32 = 128;
