//! `tenure doctor`: tries all that an election needs from this machine, and says what is wrong.

mod connection;
mod probe;
mod report;

use super::complaint;
use super::configuration::Configuration;
use super::settings::CommandLine;
use super::settings::table::JSON;
use super::signals::Signals;
use super::status::slot_ahead;
use super::{UNUSABLE, fail};
use report::Report;
use std::process::ExitCode;
use tenure::clock::BootClock;
use tenure::component::{CheckError, Doctor, Finding, Verdict};
use tenure::settings::names;
use tokio::select;

/// Somebody insisted on the end.
const IMPATIENT: u8 = 130;

pub(super) async fn doctor(line: &CommandLine) -> ExitCode {
    let mut signals = match Signals::new() {
        Ok(signals) => signals,
        Err(error) => return fail(format_args!("signals cannot be handled: {error}")),
    };
    let mut configuration = Configuration::of_look(line);
    let json = configuration.given.is_on(&JSON);
    let election = configuration.settings.get(names::ELECTION).unwrap_or_default().to_owned();
    let doctor = match component(&configuration) {
        Ok(doctor) => doctor,
        Err(failure) => return fail(failure),
    };
    let origins = match doctor.check().await {
        Ok(needs) => needs.origins,
        Err(CheckError::Component(error)) => return fail(error),
        Err(CheckError::Settings(complaints)) => {
            configuration.add(complaints);
            Vec::new()
        }
    };
    if !configuration.complaints.is_empty() {
        return report::complain(&election, &configuration.complaints, json);
    }
    let mut report = Report::begin(&election, json);
    report.add([finding("settings", Verdict::Good, "nothing to complain about".to_owned())]);
    for origin in &origins {
        select! {
            found = connection::examine(origin, &configuration.authorities) => report.add([found]),
            // Nothing is made yet that would have to be removed.
            () = signals.next() => return ExitCode::from(IMPATIENT),
        }
    }
    match to_the_end(&doctor, &mut signals).await {
        Some(Ok(findings)) => report.add(findings),
        // The settings were good a moment ago.
        Some(Err(error)) => return fail(error),
        None => return ExitCode::from(IMPATIENT),
    }
    report.add(slot(&mut configuration).await);
    report.end()
}

/// A claimed slot that keeps all turns waiting. Why there is nothing to see is told already.
async fn slot(configuration: &mut Configuration) -> Option<Finding> {
    let component = configuration.component(&BootClock::new()).await.ok()?;
    let seen = component.inspect().await.ok()?.ok()?;
    slot_ahead(&seen).map(|told| finding("last slot", Verdict::Warning, told))
}

/// A first signal waits until the blob is removed that the doctor made; a second one does not.
async fn to_the_end(
    doctor: &Doctor,
    signals: &mut Signals,
) -> Option<Result<Vec<Finding>, CheckError>> {
    let examination = doctor.examine();
    tokio::pin!(examination);
    select! {
        examined = &mut examination => return Some(examined),
        () = signals.next() => complaint::print(
            "tenure: what was made for the examination is removed first; once more ends it at once\n",
        ),
    }
    select! {
        examined = examination => Some(examined),
        () = signals.next() => None,
    }
}

fn component(configuration: &Configuration) -> Result<Doctor, String> {
    let engine = super::engine()?;
    let doctor = Doctor::new(&engine, configuration.settings.clone(), &BootClock::new());
    let doctor = doctor.map_err(|error| error.to_string())?;
    Ok(doctor.trusting(configuration.authorities.clone()))
}

fn finding(check: &str, verdict: Verdict, detail: String) -> Finding {
    Finding { check: check.to_owned(), verdict, detail }
}

/// What the program ends with.
fn exit_code(worst: Verdict) -> u8 {
    match worst {
        Verdict::Good | Verdict::Unknown => 0,
        Verdict::Warning => 1,
        Verdict::Failed => UNUSABLE,
    }
}
