//! `tenure check`: judges what `tenure run` would be given, and says what it comes to.

mod report;

use super::candidacy::Candidacy;
use super::configuration::Configuration;
use super::doctor::connection;
use super::doctor::examination::{Finding, Verdict};
use super::engine;
use super::judged::{Shared, leave_wills, outside};
use super::log::{Log, Output};
use super::look::now;
use super::output::{UNUSABLE, complain, fail, print};
use super::settings::table::{JSON, OFFLINE};
use super::settings::{CommandLine, Elections};
use report::{Asked, Checked};
use std::collections::BTreeMap;
use std::process::ExitCode;
use tenure::clock::BootClock;
use tenure::contract::{ClockDifference, LeaseState, Problem, ProblemClass, Snapshot, class_name};
use tenure::egress::Authorities;
use tokio::runtime::Handle;

/// The settings are right, but the account did not answer, or refused the read.
const NOT_REACHED: u8 = 1;

pub(super) async fn check(line: &CommandLine) -> ExitCode {
    let json = line.has(&JSON);
    let engine = match engine::unlogged() {
        Ok(engine) => engine,
        Err(failure) => return fail(failure),
    };
    let clock = BootClock::new();
    let mut elections = Elections::of(line);
    let given = std::mem::take(&mut elections.given);
    let mut configurations: Vec<_> = given.into_iter().map(Configuration::of_run).collect();
    let kind = elections.unnamed().filter(|_| configurations.is_empty());
    let mut of_kind: Vec<_> = kind.map(Configuration::of_run).into_iter().collect();
    let of_process = if configurations.is_empty() { &mut of_kind } else { &mut configurations };
    leave_wills(of_process, None);
    if let Some(first) = of_process.first_mut() {
        // Nothing is logged here. It is judged all the same.
        first.log_style(Output::Stdout);
    }
    let mut beside = Vec::new();
    let mut outside = outside(&engine, &clock, of_process, Some(&mut beside)).await;
    for of_kind in &mut of_kind {
        outside.fronts.clear();
        elections.complain(std::mem::take(&mut of_kind.complaints));
    }
    let logs = configurations.iter().map(|_| Log::nowhere()).collect();
    let (authorities, here) = (outside.authorities.clone(), Handle::current());
    let loaded = Shared::load((engine, clock), authorities, &Log::nowhere(), &here).await;
    let judged = match &loaded {
        Ok(shared) => {
            let (each, fronts) = (&mut configurations, outside.fronts);
            shared.judge_all(&mut elections, each, logs, fronts).await
        }
        Err(failure) => Err(failure.clone()),
    };
    let candidacies = match judged {
        Ok(Some(candidacies)) => candidacies,
        Ok(None) => return complain(&elections.complaints, json),
        Err(failure) => return fail(failure),
    };
    let notes: Vec<_> = outside.notes.into_iter().chain(beside).collect();
    let mut accounts = Accounts::default();
    let mut checked = Vec::new();
    for candidacy in &candidacies {
        let mut clock = None;
        let asked = match line.has(&OFFLINE) {
            true => None,
            false => Some(accounts.ask(candidacy, &outside.authorities, &mut clock).await),
        };
        checked.push(Checked { candidacy, asked, clock });
    }
    print(&match json {
        true => report::as_json(&checked, &notes),
        false => report::as_text(&checked, &notes),
    });
    let any = |verdict| checked.iter().any(|checked| checked.is(verdict));
    ExitCode::from(match () {
        () if any(Asked::Unusable) => UNUSABLE,
        () if any(Asked::NotReached) => NOT_REACHED,
        () => 0,
    })
}

/// Where requests would go, and whether anybody is there: asked once for all elections.
#[derive(Default)]
struct Accounts(BTreeMap<String, Finding>);

impl Accounts {
    /// Goes to where the election is kept, and reads it. `clock` is then by how much this machine's clock is wrong.
    async fn ask(
        &mut self,
        candidacy: &Candidacy,
        authorities: &Authorities,
        clock: &mut Option<ClockDifference>,
    ) -> (Asked, String) {
        for origin in &candidacy.understood.origins {
            if !self.0.contains_key(origin) {
                let found = connection::examine(origin, authorities).await;
                self.0.insert(origin.clone(), found);
            }
            let found = self.0.get(origin).filter(|found| found.verdict == Verdict::Failed);
            if let Some(found) = found {
                return (Asked::NotReached, found.detail.clone());
            }
        }
        let before = now();
        match candidacy.inspect().await {
            Ok(seen) => {
                let asked_at = seen.as_ref().ok().map(|snapshot| snapshot.asked_at);
                *clock = asked_at.and_then(|at| ClockDifference::new(at, before, now()));
                read(seen)
            }
            Err(error) => (Asked::NotReached, error.to_string()),
        }
    }
}

fn read(seen: Result<Snapshot, Problem>) -> (Asked, String) {
    match seen {
        // No candidate can lead with the blob, its lease or its container as it is.
        Ok(Snapshot { problem: Some(Problem { detail, .. }), .. })
        | Err(Problem { class: ProblemClass::UnusableBlob, detail, .. }) => {
            (Asked::Unusable, detail)
        }
        Ok(seen) => (Asked::Reached, told(&seen)),
        Err(Problem { class, detail, .. }) => {
            (Asked::NotReached, format!("{}: {detail}", class_name(class)))
        }
    }
}

fn told(seen: &Snapshot) -> String {
    match (seen.leader(), seen.lease) {
        (Some(leader), _) => {
            format!("the account answers; {} leads, term {}", leader.name, leader.term)
        }
        (None, LeaseState::Absent) => {
            "the account answers; no candidate has run yet, and the first one creates the blob"
                .to_owned()
        }
        (None, _) => "the account answers; nobody leads".to_owned(),
    }
}
