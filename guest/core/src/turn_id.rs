//! By what those who are told of a turn know it.

use super::report::Turn;
use super::settings::Settings;
use tenure_azure::percent;
use tenure_base::prelude::*;

/// What tells a turn from those of other elections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnId {
    /// The election, `container/blob`.
    pub election: String,
    /// The same for all attempts at the turn, and another for every other turn of any election.
    pub key: String,
    /// The share that its election is, from 0, and of how many. None: the work is not split, or it is the host that
    /// knows.
    pub share: Option<(u32, u32)>,
}

impl TurnId {
    /// That of a turn of the election that the settings name.
    ///
    /// The account is known by its name and not by its endpoint: candidates of one election may reach
    /// it by different ones, and another attempt may be another candidate's.
    #[must_use]
    pub fn of(turn: &Turn, settings: &Settings) -> Self {
        let (account, election) = (settings.account.name(), &settings.election);
        // Only a slot has colons as they are: nothing else can be taken for one.
        let account = percent::encode(account, percent::UNRESERVED);
        let mut key = format!("{account}{}/{}", election.path(), turn.slot.to_rfc3339());
        if let Some(trigger) = &turn.trigger {
            key.push_str("//");
            key.push_str(trigger);
        }
        Self { election: election.to_string(), key, share: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;
    use core::time::Duration;

    fn turn() -> Turn {
        Turn {
            term: 7,
            slot: Timestamp(1_795_158_000_000_000_000),
            trigger: None,
            attempt: 2,
            past_due: true,
            missed: 3,
            valid_for: Duration::from_millis(40_500),
            time_limit: None,
        }
    }

    fn id(account: &str, election: &str, turn: &Turn) -> TurnId {
        let settings = Settings::read(|name: &str| match name {
            "TENURE_ELECTION" => Some(election.to_string()),
            "TENURE_EVERY" => Some("1h".to_string()),
            "AZURE_STORAGE_CONNECTION_STRING" => Some(format!(
                "BlobEndpoint=https://{account}.example.com;AccountName={account};AccountKey=c2VjcmV0"
            )),
            _ => None,
        });
        TurnId::of(turn, &settings.unwrap())
    }

    #[test]
    fn the_key_is_that_of_the_turn_and_not_of_the_attempt() {
        let first = id("acme", "jobs/report", &turn());
        assert_eq!(first.election, "jobs/report");
        assert_eq!(first.key, "acme/jobs/report/2026-11-20T07:00:00Z");
        let again = Turn { attempt: 3, term: 8, valid_for: Duration::ZERO, ..turn() };
        assert_eq!(id("acme", "jobs/report", &again), first);
    }

    #[test]
    fn turns_of_two_elections_have_two_keys() {
        let key = |account, election| id(account, election, &turn()).key;
        let keys = [
            key("acme", "jobs/report"),
            key("acme", "jobs/other"),
            key("acme", "other/report"),
            key("emca", "jobs/report"),
        ];
        for (at, one) in keys.iter().enumerate() {
            assert!(!keys[at + 1..].contains(one), "{keys:?}");
        }
    }

    #[test]
    fn no_part_of_a_key_can_be_taken_for_another() {
        let release = Turn { trigger: Some("v1.8".into()), ..turn() };
        assert_eq!(
            id("acme", "jobs/a ü/2026-11-20T07:00:00Z", &release).key,
            "acme/jobs/a%20%C3%BC/2026-11-20T07%3A00%3A00Z/2026-11-20T07:00:00Z//v1.8"
        );
    }
}
