//! Instants as people and machines read them.

use alloc::format;
use alloc::string::String;

/// RFC 3339 in UTC, of nanoseconds since 1970. Digits below the second only where there are any.
pub fn rfc3339(nanos: u64) -> String {
    let (seconds, nanos) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let fraction = match nanos {
        0 => String::new(),
        _ if nanos % 1_000_000 == 0 => format!(".{:03}", nanos / 1_000_000),
        _ => format!(".{nanos:09}"),
    };
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

/// Year, month and day of a day since 1970, counted in years that begin in March: the day that some
/// years have more is their last.
fn date(days: u64) -> (u64, u64, u64) {
    // From 0000-03-01 on.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next, month, day)
}

#[cfg(test)]
mod tests {
    use super::rfc3339;

    #[test]
    fn instants_are_written() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_795_158_000, "2026-11-20T07:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(seconds * 1_000_000_000), text);
        }
        assert_eq!(rfc3339(1_005_000_000), "1970-01-01T00:00:01.005Z");
        assert_eq!(rfc3339(1_000_000_005), "1970-01-01T00:00:01.000000005Z");
    }
}
