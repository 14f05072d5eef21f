//! `tenure status --all`: finds the elections of a container.

use crate::complaint::printable;
use crate::configuration::Configuration;
use crate::output::log::json_text;
use crate::output::{complain, eprint, fail, print};
use crate::settings::table::{ALL_IN, ELECTION, JSON};
use crate::settings::{CommandLine, Elections, ResolvedSettings};
use serde_json::json;
use std::process::ExitCode;
use tenure::engine::Election;
use tenure_core::ProblemClass;
use tenure_shares::Share;

const SAS_ADVICE: &str = ". A SAS must be for the container (sr=c, sp=rl), not for one blob. Without such a \
                          permission, name one election";

/// Returns the elections of the container. Each has the settings that it would have if the command
/// line named it.
///
/// # Errors
///
/// Returns the exit code, after printing why there is no list.
pub(super) async fn elections(
    line: &CommandLine,
    shared: &Election,
) -> Result<Elections, ExitCode> {
    let json = line.has(&JSON);
    let container = ResolvedSettings::from_command_line(line).text(&ALL_IN).unwrap_or_default();
    let single = |name| Elections::from_command_line(&line.with(&ELECTION, name)).into_single();
    let (any, complaints) = single(format!("{container}/*"));
    let mut configuration = Configuration::for_status(any);
    if container.contains('/') {
        let advice = "name the container alone, like jobs; to see one election, leave out --all";
        configuration.complain(&ALL_IN, "this is an election, not a container", advice);
    }
    let (election, _) = configuration.resolve_election(shared);
    configuration.complaints.extend(complaints);
    if !configuration.complaints.is_empty() {
        return Err(complain(&configuration.complaints, json));
    }
    let names = election.elections_in_container().await.map_err(|problem| {
        if json {
            print(&json_text(&json!({ "problem": super::problem(&problem) })));
        }
        let advice = if problem.class == ProblemClass::Refused { SAS_ADVICE } else { "" };
        let (class, detail) = (problem.class.name(), printable(&problem.detail));
        fail(format_args!("{container} could not be listed ({class}): {detail}{advice}"))
    })?;
    let names = names.into_iter().filter(|name| !is_share(name));
    let resolved: Vec<_> = names.map(|name| single(name).0).collect();
    if resolved.is_empty() {
        let problem = "there is no such container, or none of its elections has had a leader";
        eprint(format_args!("tenure: {container}: {problem}\n"));
    }
    Ok(Elections { resolved, is_whole_file: true, ..Elections::default() })
}

/// Returns true if the election is of a share. The status of its coordinating election covers it.
fn is_share(election: &str) -> bool {
    let suffix = election.rfind(".share.").map(|dot| &election[dot + 1..]);
    suffix.is_some_and(|suffix| Share::from_suffix(suffix).is_some())
}
