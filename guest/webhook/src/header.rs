//! Headers of a call.

/// The term of the leader that runs a turn.
pub const TERM_HEADER: &str = "tenure-term";

/// The election of a turn. The name is percent-encoded where a header requires it.
pub const ELECTION_HEADER: &str = "tenure-election";

/// The idempotency key, common to all attempts at a turn.
pub const KEY_HEADER: &str = "idempotency-key";

/// The id of the trigger that a turn runs for, if there is one.
pub const TRIGGER_HEADER: &str = "tenure-trigger";
