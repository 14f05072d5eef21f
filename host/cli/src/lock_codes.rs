//! The exit codes of `tenure lock` other than those of its command. The supervisor uses them too.

/// The lock was not acquired, and nothing was run. `EX_TEMPFAIL` of sysexits.h.
pub(crate) const NOT_ACQUIRED: u8 = 75;

/// The lock was lost, so the command was ended.
pub(crate) const LOST: u8 = 76;

/// Wrong usage, or another error of `tenure lock` itself. The same as for `env`, `nohup` and
/// `timeout`.
pub(crate) const FAILED: u8 = 125;

/// The command exists but cannot be executed. The same as in shells.
pub(crate) const NOT_EXECUTABLE: u8 = 126;

/// The command does not exist. The same as in shells.
pub(crate) const NOT_FOUND: u8 = 127;

/// Shells add this to the number of the signal that ended a command.
pub(crate) const SIGNAL_BASE: i32 = 128;
