//! Headers of a call.

/// The term of the leader that runs a turn.
pub const TERM_HEADER: &str = "tenure-term";

/// Which election a turn is of, percent-encoded where the name has more than a header may.
pub const ELECTION_HEADER: &str = "tenure-election";

/// The key that all attempts of a turn have in common.
pub const KEY_HEADER: &str = "idempotency-key";

/// The id of the trigger that a turn runs for, where there is one.
pub const TRIGGER_HEADER: &str = "tenure-trigger";
