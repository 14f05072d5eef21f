//! Spans of time in words: how long something took, how long ago it was, and in how long it will be.

use std::time::Duration;
use tenure_base::duration::format_duration;

/// In whole seconds.
pub(super) fn whole(milliseconds: u64) -> String {
    format_duration(Duration::from_secs(milliseconds / 1_000))
}

/// How long a turn ran.
pub(super) fn took(milliseconds: u64) -> String {
    match milliseconds {
        0..1_000 => format!("{milliseconds} ms"),
        1_000..60_000 => format!("{}.{} s", milliseconds / 1_000, milliseconds % 1_000 / 100),
        _ => whole(milliseconds),
    }
}

/// Nanoseconds since 1970, both.
pub(super) fn ago(then: u64, now: u64) -> String {
    let ago = Duration::from_secs(now.saturating_sub(then) / 1_000_000_000);
    format!("{} ago", format_duration(ago))
}

/// How long it is until an instant; none when that is past.
pub(super) fn ahead(then: u64, now: u64) -> Option<String> {
    let wait = Duration::from_secs(then.saturating_sub(now).div_ceil(1_000_000_000));
    (!wait.is_zero()).then(|| format!("in {}", format_duration(wait)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_long_a_turn_ran_is_told_by_what_matters() {
        for (ms, words) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_000, "1.0 s"),
            (59_999, "59.9 s"),
            (3_661_000, "1h 1m 1s"),
        ] {
            assert_eq!(took(ms), words);
        }
    }
}
