//! Headers of a call: those that the call sets itself, and names that a header may have.

/// Headers that decide how a request is delivered and read, and who may send it, and those that say
/// more of a turn than its term. None of them carries a term.
pub const RESERVED: [&str; 32] = [
    "accept-encoding",
    "authorization",
    "ce-id",
    "ce-source",
    "ce-specversion",
    "ce-time",
    "ce-type",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "cookie",
    "date",
    "expect",
    "host",
    "http2-settings",
    KEY_HEADER,
    "keep-alive",
    "max-forwards",
    "proxy-authorization",
    "proxy-connection",
    "range",
    "te",
    ELECTION_HEADER,
    TRIGGER_HEADER,
    "trailer",
    "transfer-encoding",
    "upgrade",
    "webhook-id",
    "webhook-signature",
    "webhook-timestamp",
];

/// What every attempt of a turn is known by.
pub const KEY_HEADER: &str = "idempotency-key";

/// Which election a turn is of, percent-encoded where the name has more than a header may.
pub const ELECTION_HEADER: &str = "tenure-election";

/// The id of the trigger that a turn runs for, where there is one.
pub const TRIGGER_HEADER: &str = "tenure-trigger";

/// Whether `text` may name a header (RFC 9110, 5.6.2).
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}
