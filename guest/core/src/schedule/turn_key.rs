//! The idempotency key of a turn, which distinguishes it from every other turn.

use crate::step::service_clock::Timestamp;
use crate::step::settings::Settings;
use tenure_azure::encoding;
use tenure_base::prelude::*;

/// Returns the key of a turn of the election in the settings: the same for all attempts.
///
/// The account is identified by its name, not by its endpoint. Candidates of one election may use
/// different endpoints, and another candidate may run the next attempt.
pub(crate) fn turn_key(slot: Timestamp, trigger: Option<&str>, settings: &Settings) -> String {
    let (account, election) = (settings.account.name(), &settings.election);
    // Only a slot has unescaped colons, so no other part can be mistaken for one.
    let account = encoding::percent_encode(account, encoding::UNRESERVED);
    let mut key = format!("{account}{}/{}", election.path(), slot.to_rfc3339());
    if let Some(trigger) = trigger {
        key.push_str("//");
        key.push_str(trigger);
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT: Timestamp = Timestamp(1_795_158_000_000_000_000);

    fn key(account: &str, election: &str, trigger: Option<&str>) -> String {
        let settings = Settings::read(|name: &str| match name {
            "TENURE_ELECTION" => Some(election.to_string()),
            "TENURE_EVERY" => Some("1h".to_string()),
            "AZURE_STORAGE_CONNECTION_STRING" => Some(format!(
                "BlobEndpoint=https://{account}.example.com;AccountName={account};AccountKey=c2VjcmV0"
            )),
            _ => None,
        });
        turn_key(SLOT, trigger, &settings.unwrap())
    }

    #[test]
    fn turns_of_two_elections_have_two_keys() {
        let keys = [
            key("acme", "jobs/report", None),
            key("acme", "jobs/other", None),
            key("acme", "other/report", None),
            key("emca", "jobs/report", None),
        ];
        assert_eq!(keys[0], "acme/jobs/report/2026-11-20T07:00:00Z");
        for (at, one) in keys.iter().enumerate() {
            assert!(!keys[at + 1..].contains(one), "{keys:?}");
        }
    }

    #[test]
    fn no_part_of_a_key_can_be_taken_for_another() {
        assert_eq!(
            key("acme", "jobs/a ü/2026-11-20T07:00:00Z", Some("v1.8")),
            "acme/jobs/a%20%C3%BC/2026-11-20T07%3A00%3A00Z/2026-11-20T07:00:00Z//v1.8"
        );
    }
}
