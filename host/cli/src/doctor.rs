//! `tenure doctor`: tries all that an election needs from this machine, and says what is wrong.

mod account;
pub(super) mod connection;
pub(super) mod examination;
mod probe;
mod report;

use super::look::{Refusal, Subject, Subjects};
use super::output::{UNUSABLE, eprint, fail};
use super::settings::CommandLine;
use super::settings::table::JSON;
use super::signals::Signals;
use super::status::slot_ahead;
use account::Account;
use examination::{Finding, Verdict};
use report::Report;
use std::process::ExitCode;
use tenure::clock::BootClock;
use tenure::component::ElectionComponent;
use tokio::select;

/// Somebody insisted on the end.
const IMPATIENT: u8 = 130;

pub(super) async fn doctor(line: &CommandLine) -> ExitCode {
    let mut signals = match Signals::new() {
        Ok(signals) => signals,
        Err(error) => return fail(format_args!("signals cannot be handled: {error}")),
    };
    // What a candidate would complain about is wrong, whatever is found from here.
    let subjects = Subjects::of(line, &BootClock::new()).await;
    let Subjects { each, all_of_a_file, json, .. } = match subjects {
        Ok(subjects) => subjects,
        Err(Refusal::Settings(elections, complaints)) => {
            return report::complain(&elections, &complaints, line.has(&JSON));
        }
        Err(Refusal::Unable(failure)) => return fail(failure),
    };
    let mut reports = Vec::new();
    let headings = each.len() > 1;
    for subject in each {
        let report = Report::begin(&subject.election, json, headings);
        match examine(subject, report, &mut signals).await {
            Ok(report) => reports.push(report),
            Err(code) => return code,
        }
    }
    report::end(reports, json, all_of_a_file)
}

/// # Errors
///
/// What the program ends with when it is interrupted, or a setting is wrong.
async fn examine(
    subject: Subject,
    mut report: Report,
    signals: &mut Signals,
) -> Result<Report, ExitCode> {
    let Subject { election, mut configuration, component } = subject;
    let Some(settings) = configuration.read() else {
        return Err(report::complain(&election, &configuration.complaints, report.json));
    };
    let account = Account::new(settings, configuration.authorities.clone());
    report.add([Finding::good("settings", "no problems found")]);
    for origin in &account.origins() {
        select! {
            found = connection::examine(origin, &configuration.authorities) => report.add([found]),
            // Nothing is made yet that would have to be removed.
            () = signals.next() => return Err(ExitCode::from(IMPATIENT)),
        }
    }
    match to_the_end(&account, signals).await {
        Some(findings) => report.add(findings),
        None => return Err(ExitCode::from(IMPATIENT)),
    }
    report.add(slot(&component).await);
    Ok(report)
}

/// A claimed slot that keeps all turns waiting. Why there is nothing to see is told already.
async fn slot(component: &ElectionComponent) -> Option<Finding> {
    let seen = component.inspect().await.ok()?.ok()?;
    slot_ahead(&seen).map(|told| Finding::warning("last slot", told))
}

/// A first signal waits until the blob is removed that the doctor made; a second one does not.
async fn to_the_end(account: &Account, signals: &mut Signals) -> Option<Vec<Finding>> {
    let examination = account.examine();
    tokio::pin!(examination);
    select! {
        examined = &mut examination => return Some(examined),
        () = signals.next() => eprint(
            "tenure: the test blob is deleted first; interrupt again to end at once\n",
        ),
    }
    select! {
        examined = examination => Some(examined),
        () = signals.next() => None,
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
