//! `tenure candidates`: who was seen lately, by the list that candidates keep beside the election's blob.

use super::complaint::printable;
use super::log::json_text;
use super::look::Subjects;
use super::output::{UNUSABLE, eprint, fail, print};
use super::settings::CommandLine;
use super::settings::table::JSON;
use super::spans::ago;
use super::status::unseen;
use super::terminal::aligned;
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::{Duration, UNIX_EPOCH};
use tenure::clock::BootClock;
use tenure::contract::{Listed, Problem, candidate_as_json, class_name};
use tenure_base::duration::format_duration;

/// Nobody was seen lately.
const NOBODY: u8 = 1;

pub(super) async fn candidates(line: &CommandLine) -> ExitCode {
    let subjects = Subjects::of(line, &BootClock::new()).await;
    let Subjects { each, all_of_a_file, json, .. } = match subjects {
        Ok(subjects) => subjects,
        Err(refusal) => return refusal.tell(line.has(&JSON)),
    };
    let mut seen = Vec::new();
    for subject in each {
        match subject.component.candidates().await {
            Ok(listed) => seen.push((subject.election, listed)),
            Err(error) => return fail(error),
        }
    }
    let now = u64::try_from(UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos());
    let now = now.unwrap_or(u64::MAX);
    let objects = seen.iter().map(|(election, seen)| as_json(election, seen, now));
    print(&match json {
        true if all_of_a_file => json_text(&json!({ "elections": objects.collect::<Vec<_>>() })),
        true => objects.map(|object| json_text(&object)).collect(),
        false => as_text(&seen, now),
    });
    for (election, seen) in &seen {
        if let Err(Problem { class, detail, .. }) = seen {
            let (class, detail) = (class_name(*class), printable(detail));
            eprint(format_args!(
                "tenure: the candidates of {election} could not be read ({class}): {detail}\n"
            ));
        }
    }
    let code = |(_, seen): &(String, Result<Vec<Listed>, Problem>)| match seen {
        Err(_) => UNUSABLE,
        Ok(listed) if listed.is_empty() => NOBODY,
        Ok(_) => 0,
    };
    ExitCode::from(seen.iter().map(code).max().unwrap_or(0))
}

fn as_json(election: &str, seen: &Result<Vec<Listed>, Problem>, now: u64) -> Value {
    match seen {
        Ok(listed) => {
            let told = listed.iter().map(|candidate| candidate_as_json(candidate, now));
            json!({ "election": election, "candidates": told.collect::<Vec<_>>() })
        }
        Err(problem) => unseen(election, problem),
    }
}

fn as_text(seen: &[(String, Result<Vec<Listed>, Problem>)], now: u64) -> String {
    let sections = seen.iter().filter_map(|(election, listed)| {
        let text = table(listed.as_ref().ok()?, now);
        let several = seen.len() > 1;
        Some(if several { format!("{}\n{text}", printable(election)) } else { text })
    });
    sections.collect::<Vec<_>>().join("\n")
}

/// Names and addresses are what somebody wrote on the blob.
fn table(listed: &[Listed], now: u64) -> String {
    if listed.is_empty() {
        return "No candidate was seen in the last half hour.\n".to_owned();
    }
    let title = ["candidate", "state", "failover", "seen", "address"].map(str::to_owned);
    let rows = listed.iter().map(|Listed { name, address, ready, failover, seen }| {
        let none = || "-".to_owned();
        let failover = failover.map(|within| format_duration(Duration::from_nanos(within)));
        [
            printable(name),
            if *ready { "contends" } else { "not ready" }.to_owned(),
            failover.unwrap_or_else(none),
            ago(*seen, now),
            address.as_deref().map_or_else(none, printable),
        ]
    });
    aligned([title].into_iter().chain(rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn each_has_a_row_and_nothing_that_a_terminal_obeys() {
        let ada = Listed {
            name: "ada\u{1b}".to_owned(),
            address: Some("http://10.0.0.4:8080".to_owned()),
            ready: true,
            failover: Some(3 * SECOND),
            seen: 40 * SECOND,
        };
        let ben = Listed {
            name: "ben".to_owned(),
            address: None,
            ready: false,
            failover: None,
            ..ada.clone()
        };
        assert_eq!(
            table(&[ada, ben], 100 * SECOND),
            "candidate  state      failover  seen    address\n\
             ada\\u{1b}  contends   3s        1m ago  http://10.0.0.4:8080\n\
             ben        not ready  -         1m ago  -\n"
        );
        assert!(table(&[], 0).starts_with("No candidate"));
    }
}
