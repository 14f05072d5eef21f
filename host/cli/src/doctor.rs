//! `tenure doctor`: tries all that an election needs from this machine, and says what is wrong.

mod account;
pub(super) mod connection;
pub(super) mod examination;
mod probe;
mod report;

use super::complaint::Complaint;
use super::look::{Named, Refusal, Subject, Subjects};
use super::output::{UNUSABLE, eprint, fail};
use super::settings::CommandLine;
use super::settings::table::JSON;
use super::signals::{REPEATED, Signals};
use super::status::slot_ahead;
use account::Account;
use examination::{Finding, Verdict};
use report::Report;
use std::process::ExitCode;
use std::time::Instant;
use tenure::clock::BootClock;
use tenure::component::ElectionComponent;
use tokio::select;

/// Somebody wanted the end before it came.
const INTERRUPTED: u8 = 130;

pub(super) async fn doctor(line: &CommandLine) -> ExitCode {
    let mut signals = match Signals::new() {
        Ok(signals) => signals,
        Err(error) => return fail(format_args!("signals cannot be handled: {error}")),
    };
    // What a candidate would complain about is wrong, whatever is found from here.
    let subjects = Subjects::of(line, &BootClock::new()).await;
    let Subjects { each, all_of_a_file, json, .. } = match subjects {
        Ok(subjects) => subjects,
        Err(Refusal::Settings(named, complaints)) => {
            return report::complain(&named, &complaints, line.has(&JSON));
        }
        Err(Refusal::Unable(failure)) => return fail(failure),
    };
    let mut reports = Vec::new();
    let headings = each.len() > 1;
    for subject in each {
        let mut report = Report::begin(&subject.election, json, headings);
        let examined = examine(subject, &mut report, &mut signals).await;
        reports.push(report);
        match examined {
            Ok(()) => {}
            Err(Stop::Refused(complaints)) => {
                let election = reports.pop().map(|report| report.election).unwrap_or_default();
                let named = Named { elections: vec![election], all_of_a_file };
                return report::complain(&named, &complaints, json);
            }
            Err(Stop::Interrupted { examined }) => {
                if !examined {
                    reports.pop();
                }
                if !reports.is_empty() {
                    report::end(reports, json, all_of_a_file);
                }
                return ExitCode::from(INTERRUPTED);
            }
            Err(Stop::Insisted) => return ExitCode::from(INTERRUPTED),
        }
    }
    report::end(reports, json, all_of_a_file)
}

/// Why an examination is the last one.
enum Stop {
    /// A setting is wrong.
    Refused(Vec<Complaint>),
    /// It was interrupted, and nothing is left behind. What was found is told, once the account was examined.
    Interrupted { examined: bool },
    /// It was interrupted again.
    Insisted,
}

async fn examine(subject: Subject, report: &mut Report, signals: &mut Signals) -> Result<(), Stop> {
    let Subject { mut configuration, component, .. } = subject;
    let Some(settings) = configuration.read() else {
        return Err(Stop::Refused(configuration.complaints));
    };
    let account = Account::new(settings, configuration.authorities.clone());
    report.add([Finding::good("settings", "no problems found")]);
    for origin in &account.origins() {
        select! {
            found = connection::examine(origin, &configuration.authorities) => report.add([found]),
            // Nothing is made yet that would have to be removed.
            () = signals.next() => return Err(Stop::Interrupted { examined: false }),
        }
    }
    let examined = to_the_end(&account, signals).await.ok_or(Stop::Insisted)?;
    report.add(examined.findings);
    if examined.interrupted {
        return Err(Stop::Interrupted { examined: true });
    }
    select! {
        found = slot(&component) => report.add(found),
        () = signals.next() => return Err(Stop::Interrupted { examined: true }),
    }
    Ok(())
}

/// A claimed slot that keeps all turns waiting. Why there is nothing to see is told already.
async fn slot(component: &ElectionComponent) -> Option<Finding> {
    let seen = component.inspect().await.ok()?.ok()?;
    slot_ahead(&seen).map(|told| Finding::warning("last slot", told))
}

/// An examination that came to its end.
struct Examined {
    findings: Vec<Finding>,
    /// Whether a signal came meanwhile.
    interrupted: bool,
}

/// A first signal waits until the blob is removed that the doctor made; a second one does not.
async fn to_the_end(account: &Account, signals: &mut Signals) -> Option<Examined> {
    let examination = account.examine();
    tokio::pin!(examination);
    select! {
        findings = &mut examination => return Some(Examined { findings, interrupted: false }),
        () = signals.next() => eprint(
            "tenure: the test blob is deleted first; interrupt again to end at once\n",
        ),
    }
    select! {
        findings = examination => Some(Examined { findings, interrupted: true }),
        () = insisted(signals) => None,
    }
}

/// Completes at the next signal that is not the first one again: a terminal and its shell may both send one.
async fn insisted(signals: &mut Signals) {
    let heard = Instant::now();
    while heard.elapsed() < REPEATED {
        signals.next().await;
    }
}

/// What the program ends with.
fn exit_code(worst: Verdict) -> u8 {
    match worst {
        Verdict::Good | Verdict::Unknown => 0,
        Verdict::Warning => 1,
        Verdict::Failed => UNUSABLE,
    }
}
