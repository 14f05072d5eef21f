//! The exit codes of `tenure lock` other than those of its command. The supervisor uses them too.

/// The lock was not acquired, and nothing was run. `EX_TEMPFAIL` of sysexits.h.
pub(super) const NOT_ACQUIRED: u8 = 75;

/// The lock was lost, so the command was ended.
pub(super) const LOST: u8 = 76;

/// Wrong usage, or another error of `tenure lock` itself. The same as for `env`, `nohup` and
/// `timeout`.
pub(super) const FAILED: u8 = 125;

/// The command exists but cannot be executed. The same as in shells.
pub(super) const NOT_EXECUTABLE: u8 = 126;

/// The command does not exist. The same as in shells.
pub(super) const NOT_FOUND: u8 = 127;

/// Shells add this to the number of the signal that ended a command.
pub(super) const SIGNAL_BASE: i32 = 128;
