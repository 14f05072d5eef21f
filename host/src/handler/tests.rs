//! Arguments for tests of handlers.

use super::{MAX_ERROR, truncated};
use crate::lease::Lease;
use std::time::Duration;
use tenure_clock::{BootClock, Clock as _};
use tenure_core::{Timestamp, Turn};

pub(super) fn turn() -> Turn {
    Turn {
        election: "jobs/report".to_owned(),
        key: "acme/jobs/report/1970-01-01T00:00:01.500Z".to_owned(),
        term: 7,
        slot: Timestamp(1_500_000_000),
        trigger: None,
        attempt: 1,
        past_due: false,
        missed: 0,
        valid_for: Duration::from_secs(1),
        time_limit: None,
        share: None,
    }
}

pub(super) fn lease() -> Lease {
    Lease::new(1, BootClock::new().handle(), Duration::MAX)
}

#[test]
fn a_long_text_is_truncated_between_characters() {
    assert_eq!(truncated("x".repeat(MAX_ERROR)), "x".repeat(MAX_ERROR));
    let truncated_text = truncated(format!("x{}", "ü".repeat(MAX_ERROR)));
    assert_eq!(truncated_text.len(), MAX_ERROR - 1 + '…'.len_utf8());
    assert!(truncated_text.ends_with("ü…"));
}
