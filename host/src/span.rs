//! Spans of time as whole numbers. A span that does not fit counts as the largest one that does.

use std::time::Duration;

/// Returns whole nanoseconds, which is how the WIT counts.
pub fn nanoseconds(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns whole milliseconds, which is how JSON and the page count.
pub fn milliseconds(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
