//! Raises the limit of file descriptors for many elections.

#[cfg(unix)]
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that every process needs: the log, the listener and its connections, and the
/// connections to the storage service.
const BASE: u64 = 512;

/// Descriptors that an election may need at a time: timers, and the pipes or connections of its
/// turn.
const PER_ELECTION: u64 = 12;

/// Raises the limit for this number of elections, as far as the system permits. Returns a note if
/// it is too low.
///
/// The limit is not raised further: the programs of turns inherit it, and some programs iterate
/// over all possible descriptors.
#[cfg(unix)]
pub(crate) fn raise_limit(elections: usize) -> Option<String> {
    let needed = needed(elections);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let limit = new_limit(current, maximum, needed)?;
    let current = Some(limit);
    let result = setrlimit(Resource::Nofile, Rlimit { current, maximum });
    (result.is_err() || limit < needed).then(|| {
        format!(
            "{elections} elections may need {needed} file descriptors at a time, more than this process may open; \
             raise its limit (ulimit -n, LimitNOFILE=)"
        )
    })
}

#[cfg(not(unix))]
pub(crate) fn raise_limit(_: usize) -> Option<String> {
    None
}

fn needed(elections: usize) -> u64 {
    let elections = u64::try_from(elections).unwrap_or(u64::MAX);
    elections.saturating_mul(PER_ELECTION).saturating_add(BASE)
}

/// Returns the limit to set, if it differs from the current one. None as a limit means unlimited.
fn new_limit(current: Option<u64>, maximum: Option<u64>, needed: u64) -> Option<u64> {
    let current = current.filter(|current| *current < needed)?;
    Some(maximum.map_or(needed, |maximum| needed.min(maximum)).max(current))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_as_far_as_needed_and_allowed() {
        assert_eq!(new_limit(Some(1024), Some(500_000), needed(1)), None);
        assert_eq!(new_limit(Some(1024), Some(500_000), needed(1000)), Some(needed(1000)));
        assert_eq!(new_limit(Some(1024), Some(4096), needed(1000)), Some(4096));
        assert_eq!(new_limit(Some(1024), Some(1024), needed(1000)), Some(1024));
        assert_eq!(new_limit(Some(1024), None, needed(1000)), Some(needed(1000)));
        assert_eq!(new_limit(None, None, needed(1000)), None);
    }
}
