//! Environment of a command.

use super::super::secrets::is_withheld;
use chrono::{DateTime, SecondsFormat, Utc};
use std::ffi::OsString;
use std::time::Duration;
use tenure_core::{Share, Turn};
use tenure_supervisor::KILL_SLACK;

/// Names and values.
pub(super) type Variables = Vec<(OsString, OsString)>;

/// Returns the inherited variables that a command may see, and the configured ones.
pub(super) fn base_variables(
    inherited: impl Iterator<Item = (OsString, OsString)>,
    configured: Vec<(String, String)>,
) -> Variables {
    let inherited = inherited.filter(|(name, _)| !is_withheld(name));
    inherited
        .chain(configured.into_iter().map(|(name, value)| (name.into(), value.into())))
        .collect()
}

/// Returns the variables that describe a turn. Leadership lasts for `time_left` from `now`.
pub(super) fn turn_variables(turn: &Turn, now: DateTime<Utc>, time_left: Duration) -> Variables {
    let time_left = chrono::Duration::from_std(time_left.saturating_sub(KILL_SLACK));
    let deadline = time_left.ok().and_then(|left| now.checked_add_signed(left));
    let deadline =
        deadline.unwrap_or(DateTime::<Utc>::MAX_UTC).to_rfc3339_opts(SecondsFormat::Millis, true);
    let mut variables = vec![
        ("TENURE_ELECTION", turn.election.clone()),
        ("TENURE_IDEMPOTENCY_KEY", turn.key.clone()),
        ("TENURE_TERM", turn.term.to_string()),
        ("TENURE_SLOT", turn.slot.to_rfc3339()),
        ("TENURE_ATTEMPT", turn.attempt.to_string()),
        ("TENURE_PAST_DUE", turn.past_due.to_string()),
        ("TENURE_MISSED_SLOTS", turn.missed.to_string()),
        ("TENURE_DEADLINE", deadline),
    ];
    variables.extend(turn.trigger.clone().map(|id| ("TENURE_TRIGGER", id)));
    let share = turn.share.map(|Share { index, count }| {
        [("TENURE_SHARE_INDEX", index.to_string()), ("TENURE_SHARE_COUNT", count.to_string())]
    });
    variables.extend(share.into_iter().flatten());
    variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_core::Timestamp;

    fn pairs(variables: &[(&str, &str)]) -> Variables {
        variables.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    #[test]
    fn election_variables_are_withheld_unless_configured() {
        let inherited = pairs(&[
            ("PATH", "/bin"),
            ("AZURE_STORAGE_KEY", "secret"),
            ("TENURE_HANDLER_SECRET", "secret"),
            ("NOTIFY_SOCKET", "/run/notify"),
            ("WATCHDOG_USEC", "1"),
            ("AZURE_CLIENT_ID", "me"),
        ]);
        let configured = vec![("AZURE_STORAGE_KEY".to_owned(), "other".to_owned())];
        let visible = base_variables(inherited.into_iter(), configured);
        assert_eq!(
            visible,
            pairs(&[("PATH", "/bin"), ("AZURE_CLIENT_ID", "me"), ("AZURE_STORAGE_KEY", "other")])
        );
    }

    #[test]
    fn the_variables_of_a_turn_include_its_kill_time() {
        let mut turn = Turn {
            election: "jobs/report".to_owned(),
            key: "acme/jobs/report/1970-01-01T00:00:01.500Z".to_owned(),
            term: 7,
            slot: Timestamp(1_500_000_000),
            trigger: None,
            attempt: 2,
            past_due: true,
            missed: 3,
            valid_for: Duration::from_nanos(1),
            time_limit: None,
            share: None,
        };
        let now = DateTime::from_timestamp_millis(1_000).unwrap();
        let mut expected = pairs(&[
            ("TENURE_ELECTION", "jobs/report"),
            ("TENURE_IDEMPOTENCY_KEY", "acme/jobs/report/1970-01-01T00:00:01.500Z"),
            ("TENURE_TERM", "7"),
            ("TENURE_SLOT", "1970-01-01T00:00:01.500Z"),
            ("TENURE_ATTEMPT", "2"),
            ("TENURE_PAST_DUE", "true"),
            ("TENURE_MISSED_SLOTS", "3"),
            ("TENURE_DEADLINE", "1970-01-01T00:00:12.500Z"),
        ]);
        assert_eq!(turn_variables(&turn, now, Duration::from_secs(12)), expected);
        turn.trigger = Some("release-3".to_owned());
        turn.share = Some(Share { index: 3, count: 8 });
        expected.extend(pairs(&[
            ("TENURE_TRIGGER", "release-3"),
            ("TENURE_SHARE_INDEX", "3"),
            ("TENURE_SHARE_COUNT", "8"),
        ]));
        assert_eq!(turn_variables(&turn, now, Duration::from_secs(12)), expected);
        // Years ahead must not panic.
        turn_variables(&turn, now, Duration::MAX);
    }
}
