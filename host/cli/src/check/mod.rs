//! `tenure check`: validates the settings of `tenure run`, shows what they mean, and tests the
//! account.

mod connection;
mod examination;
mod findings;
mod settings;

use super::settings::table::{
    COMMAND, CONNECTION_STRING_FILE, CRON, EVERY, HANDLER, JSON, NO_WORK, OFFLINE, WEBHOOK,
    WHILE_LEADING,
};
use super::settings::{CommandLine, Elections, Value};
use super::signals::{REPEAT_WINDOW, Signals};
use crate::complaint::printable;
use crate::configuration::Configuration;
use crate::output::log::{Log, Output, json_text};
use crate::output::{
    CommandResult, VERSION, align_columns, complain, eprint, fail, print, print_wrapped,
};
use crate::run::candidacy::Candidacy;
use crate::run::startup::{Shared, enable_last_wills, set_up_process};
use connection::Account;
use examination::Examination;
use findings::{Finding, Findings, Verdict, overall, worst};
use serde_json::json;
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Instant;
use tenure_clock::BootClock;
use tenure_wasmtime::Engine;
use tokio::select;

/// Exit code after a signal.
const INTERRUPTED: u8 = 130;

pub(super) async fn check(line: &CommandLine) -> CommandResult {
    let (json, offline) = (line.has(&JSON), line.has(&OFFLINE));
    let mut signals = Signals::new().map_err(fail)?;
    let Validated { configurations, candidacies, notes } = validate(line).await?;
    if !json {
        print(&settings::as_text(&candidacies, &notes));
    }
    let mut results = Vec::new();
    if !offline {
        let mut tester = Tester {
            prints: !json,
            has_several: candidacies.len() > 1,
            connected: BTreeSet::new(),
            tested: BTreeSet::new(),
        };
        for (candidacy, configuration) in candidacies.iter().zip(&configurations) {
            match tester.test(candidacy, configuration, &mut signals).await {
                Ok(findings) => results.push(findings),
                Err(Interrupted(findings)) => {
                    results.extend(findings);
                    print_results(&candidacies, &notes, &results, json);
                    return Ok(ExitCode::from(INTERRUPTED));
                }
            }
        }
    }
    print_results(&candidacies, &notes, &results, json);
    Ok(ExitCode::from(overall(&results).map_or(0, Verdict::exit_code)))
}

/// Settings without complaints.
struct Validated {
    configurations: Vec<Configuration>,
    candidacies: Vec<Candidacy>,
    /// Notes about the whole process.
    notes: Vec<String>,
}

/// Validates the settings as `tenure run` does. Sends nothing.
async fn validate(line: &CommandLine) -> Result<Validated, ExitCode> {
    let engine = Engine::new().map_err(fail)?;
    let clock = BootClock::new();
    let mut elections = Elections::from_command_line(line);
    let resolved = std::mem::take(&mut elections.resolved);
    let mut configurations: Vec<_> = resolved.into_iter().map(Configuration::for_run).collect();
    for configuration in &mut configurations {
        let resolved = &configuration.resolved;
        let has_work = [&HANDLER, &WEBHOOK, &COMMAND, &NO_WORK].iter().any(|s| resolved.is_on(s));
        let is_scheduled = [&EVERY, &CRON, &WHILE_LEADING].iter().any(|s| resolved.is_written(s));
        // Without options for work, only the account is tested.
        if !has_work && !is_scheduled && !line.has(&OFFLINE) {
            configuration.needs_work = false;
            configuration.settings.options.on_trigger = None;
        }
    }
    // A list without names has no election. Its settings of the process are validated all the same.
    let template = elections.unnamed_settings().filter(|_| configurations.is_empty());
    let mut unnamed: Vec<_> = template.map(Configuration::for_run).into_iter().collect();
    let process_configurations =
        if configurations.is_empty() { &mut unnamed } else { &mut configurations };
    enable_last_wills(process_configurations, None);
    if let Some(first) = process_configurations.first_mut() {
        // Nothing is logged here, but this reports a wrong logging option.
        first.log_style(Output::Stdout);
    }
    let mut in_use_notes = Vec::new();
    let mut setup = set_up_process(&clock, process_configurations, Some(&mut in_use_notes)).await;
    for configuration in &mut unnamed {
        setup.fronts.clear();
        elections.complain(std::mem::take(&mut configuration.complaints));
    }
    let logs = configurations.iter().map(|_| Log::discard()).collect();
    let authorities = setup.authorities.clone();
    let shared = Shared::load((engine, clock), authorities, &Log::discard()).await;
    let shared = shared.map_err(fail)?;
    let prepared =
        shared.prepare_all(&mut elections, &mut configurations, logs, setup.fronts).await;
    let candidacies = prepared.map_err(fail)?;
    let candidacies =
        candidacies.ok_or_else(|| complain(&elections.complaints, line.has(&JSON)))?;
    let cache_problem = shared.engine.cache_problem();
    let notes = setup.notes.into_iter().chain(cache_problem).chain(in_use_notes).collect();
    Ok(Validated { configurations, candidacies, notes })
}

/// The interruption of a test by a signal. The findings are missing if a second signal came, or if
/// the first one came while the connection was tested.
struct Interrupted(Option<Findings>);

/// Tester of the elections' accounts. It tests them one after the other, and skips repeated tests.
struct Tester {
    /// False for JSON, which is written at the end.
    prints: bool,
    /// True if there are several elections, so that each name is printed before its findings.
    has_several: bool,
    /// The origins that were already tested.
    connected: BTreeSet<String>,
    /// The containers and credentials that were fully tested.
    tested: BTreeSet<String>,
}

impl Tester {
    async fn test(
        &mut self,
        candidacy: &Candidacy,
        configuration: &Configuration,
        signals: &mut Signals,
    ) -> Result<Findings, Interrupted> {
        let Candidacy { settings, credential, origins, .. } = candidacy;
        if self.prints {
            let election = printable(&settings.election.to_string());
            print(&if self.has_several { format!("\n{election}\n") } else { "\n".to_owned() });
        }
        let mut findings = Findings::new(self.prints);
        for origin in origins {
            if !self.connected.insert(origin.clone()) {
                continue;
            }
            select! {
                found = connection::examine(origin, &configuration.authorities) => findings.add([found]),
                // At this point there is nothing to clean up.
                _ = signals.next() => return Err(Interrupted(None)),
            }
        }
        let file = configuration.resolved.get(&CONNECTION_STRING_FILE).map(Value::text);
        let container = settings.election.container();
        let account = candidacy.account();
        let is_first = self.tested.insert(format!("{account} {container} {credential} {file:?}"));
        let account = Account::new(settings, configuration.authorities.clone());
        let examination = Examination::new(settings, account);
        let result = run_to_end(examination, is_first, signals).await;
        let (found, interrupted) = result.ok_or(Interrupted(None))?;
        findings.add(found);
        if interrupted { Err(Interrupted(Some(findings))) } else { Ok(findings) }
    }
}

/// Examines the account, or only reads the election unless `is_first` is true. Returns the
/// findings, and true if a signal came. After a first signal, the examination still runs to its
/// end, which deletes the test blob. A second signal drops the examination, and the result is none.
async fn run_to_end(
    examination: Examination<'_, Account<'_>>,
    is_first: bool,
    signals: &mut Signals,
) -> Option<(Vec<Finding>, bool)> {
    let examination = async {
        if is_first {
            examination.findings().await
        } else {
            examination.check_election_only().await
        }
    };
    tokio::pin!(examination);
    select! {
        findings = &mut examination => return Some((findings, false)),
        _ = signals.next() => eprint(
            "tenure: the test blob is deleted first; interrupt again to end at once\n",
        ),
    }
    select! {
        findings = examination => Some((findings, true)),
        () = second_signal(signals) => None,
    }
}

/// Waits for a second signal. Ignores signals within `REPEAT_WINDOW`, since a terminal and its
/// shell may both send one.
async fn second_signal(signals: &mut Signals) {
    let first = Instant::now();
    while first.elapsed() < REPEAT_WINDOW {
        signals.next().await;
    }
}

/// Prints the results. Text lists the elections with failures first; JSON contains everything.
fn print_results(candidacies: &[Candidacy], notes: &[String], results: &[Findings], json: bool) {
    if json {
        let objects = candidacies.iter().enumerate().map(|(number, candidacy)| {
            let mut object = settings::object(candidacy);
            let findings = results.get(number).map(|findings| findings.items.as_slice());
            object["verdict"] = json!(findings.map(|findings| worst(findings).name()));
            object["findings"] = json!(findings);
            object
        });
        print(&json_text(&json!({
            "version": VERSION,
            "verdict": overall(results).map(Verdict::name),
            "elections": objects.collect::<Vec<_>>(),
            "notes": notes,
        })));
        return;
    }
    let mut tested: Vec<_> = candidacies.iter().zip(results).collect();
    tested.sort_by_key(|(_, findings)| std::cmp::Reverse(worst(&findings.items)));
    match tested.as_slice() {
        [] => {}
        [(_, one)] => print_wrapped(&format!("\n{}\n", findings::summary(&one.items))),
        several => {
            let title = ["election", "verdict", "findings"].map(str::to_owned);
            let row = |(candidacy, findings): &(&Candidacy, &Findings)| {
                let verdict = worst(&findings.items).name().to_owned();
                let election = printable(&candidacy.settings.election.to_string());
                [election, verdict, findings::summary(&findings.items)]
            };
            print(&format!(
                "\n{}",
                align_columns([title].into_iter().chain(several.iter().map(row)))
            ));
        }
    }
}
