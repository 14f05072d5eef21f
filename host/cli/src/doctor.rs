//! `tenure doctor`: tries all that an election needs from this machine, and says what is wrong.

mod account;
mod connection;
mod examination;
mod probe;
mod report;

pub(super) use account::expiry;

use super::complaint;
use super::configuration::Configuration;
use super::settings::CommandLine;
use super::settings::table::JSON;
use super::signals::Signals;
use super::status::slot_ahead;
use super::{UNUSABLE, fail};
use account::Account;
use examination::{Finding, Verdict};
use report::Report;
use std::process::ExitCode;
use tenure::clock::BootClock;
use tenure::component::ElectionComponent;
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
    // What a candidate would complain about is wrong, whatever is found from here.
    let component = match configuration.component(&BootClock::new()).await {
        Ok(component) => component,
        Err(failure) => return fail(failure),
    };
    let account = match configuration.complaints.is_empty() {
        true => Account::new(&configuration.settings, configuration.authorities.clone()),
        false => Err(Vec::new()),
    };
    let account = match account {
        Ok(account) => account,
        Err(complaints) => {
            configuration.add(complaints);
            return report::complain(&election, &configuration.complaints, json);
        }
    };
    let mut report = Report::begin(&election, json);
    report.add([Finding::good("settings", "nothing to complain about")]);
    for origin in &account.origins() {
        select! {
            found = connection::examine(origin, &configuration.authorities) => report.add([found]),
            // Nothing is made yet that would have to be removed.
            () = signals.next() => return ExitCode::from(IMPATIENT),
        }
    }
    match to_the_end(&account, &mut signals).await {
        Some(findings) => report.add(findings),
        None => return ExitCode::from(IMPATIENT),
    }
    report.add(slot(&component).await);
    report.end()
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
        () = signals.next() => complaint::print(
            "tenure: what was made for the examination is removed first; once more ends it at once\n",
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
