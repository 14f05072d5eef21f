//! Signals that a process ignores from its start.

/// Returns true if this process ignores the signal with that number.
///
/// A process that has not caught a signal ignores it if its parent did. Examples are `nohup`, and
/// shells that start background jobs of a script. Returns `None` on systems other than Linux, where
/// this would need unsafe code.
#[must_use]
pub fn is_ignored(number: i32) -> Option<bool> {
    mask_contains(&std::fs::read_to_string("/proc/self/status").ok()?, number)
}

/// Returns true if the mask of ignored signals in a `/proc/PID/status` contains that signal. Number
/// 1 is the lowest bit. Returns `None` if there is no mask.
fn mask_contains(status: &str, number: i32) -> Option<bool> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    let mask = u64::from_str_radix(mask.trim(), 16).ok()?;
    let bit = u32::try_from(number).ok()?.checked_sub(1)?;
    Some(mask.checked_shr(bit)? & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::mask_contains;

    #[test]
    fn the_mask_of_ignored_signals_is_read_where_there_is_one() {
        let status = |mask: &str| format!("Name:\ttenure\nSigBlk:\t0001\nSigIgn:\t{mask}\n");
        let (hangup, interrupt, pipe) = (1, 2, 13);
        for (mask, ignored) in [
            ("0000000000001001", [true, false, true]),
            ("0000000000001000", [false, false, true]),
            ("0000000000000006", [false, true, false]),
        ] {
            let parsed =
                [hangup, interrupt, pipe].map(|number| mask_contains(&status(mask), number));
            assert_eq!(parsed, ignored.map(Some), "{mask}");
        }
        for without_mask in ["", "tenure 17 1 17 17 ttyp0", &status("none")] {
            assert_eq!(mask_contains(without_mask, hangup), None, "{without_mask}");
        }
        for none in [0, -1, 65, i32::MIN] {
            assert_eq!(mask_contains(&status("ffffffffffffffff"), none), None, "{none}");
        }
    }
}
