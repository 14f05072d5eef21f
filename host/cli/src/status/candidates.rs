//! The list of candidates next to an election's blob.

use crate::complaint::printable;
use crate::output::align_columns;
use crate::output::times::ago;
use tenure_base::duration::format_duration;
use tenure_core::{Listed, Timestamp};

/// Returns a row for each candidate.
pub(super) fn table(listed: &[Listed], now: Timestamp) -> String {
    let title = ["candidate", "state", "failover", "seen", "address"].map(str::to_owned);
    let rows = listed.iter().map(|Listed { name, address, ready, failover, seen_at }| {
        let none = || "-".to_owned();
        let failover = failover.map(format_duration);
        [
            printable(name),
            if *ready { "contends" } else { "not ready" }.to_owned(),
            failover.unwrap_or_else(none),
            ago(*seen_at, now),
            address.as_deref().map_or_else(none, printable),
        ]
    });
    align_columns([title].into_iter().chain(rows))
}

#[cfg(test)]
mod tests {
    use super::super::tests::at;
    use super::*;
    use std::time::Duration;

    #[test]
    fn each_has_a_row_and_nothing_that_a_terminal_obeys() {
        let ada = Listed {
            name: "ada\u{1b}".to_owned(),
            address: Some("http://10.0.0.4:8080".to_owned()),
            ready: true,
            failover: Some(Duration::from_secs(3)),
            seen_at: at(40),
        };
        let ben = Listed {
            name: "ben".to_owned(),
            address: None,
            ready: false,
            failover: None,
            ..ada.clone()
        };
        assert_eq!(
            table(&[ada, ben], at(100)),
            "candidate  state      failover  seen    address\n\
             ada\\u{1b}  contends   3s        1m ago  http://10.0.0.4:8080\n\
             ben        not ready  -         1m ago  -\n"
        );
    }
}
