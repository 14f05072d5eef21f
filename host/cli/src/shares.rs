//! `tenure shares`: who holds which share of work that is split, since when, and what moves, by the records of the shares'
//! elections and by the plan.

mod seen;
mod told;

use super::complaint::printable;
use super::log::json_text;
use super::look::{Subject, Subjects, some_at_a_time};
use super::output::{UNUSABLE, eprint, fail, print};
use super::ranges::ranges;
use super::settings::CommandLine;
use super::settings::table::{JSON, SHARES};
use super::status::unseen;
use seen::{Holder, Record, Seen};
use serde_json::json;
use std::process::ExitCode;
use std::sync::Arc;
use tenure::clock::BootClock;
use tenure::component::{CheckError, ComponentError, ElectionComponent};
use tenure::contract::{Problem, ProblemClass, class_name};
use tenure::program::shares::{Answer, Ask, Candidate, Plan, SharesStore};
use tenure::settings::{Variables, names};
use told::{as_json, as_text};

/// Not every share is held by the member that should hold it.
const OTHERWISE: u8 = 1;

/// Of more shares the records are not read: that is a request for each.
const MOST_READ: u32 = 1_000;

pub(super) async fn shares(line: &CommandLine) -> ExitCode {
    let subjects = Subjects::of(line, &BootClock::new()).await;
    let Subjects { each, all_of_a_file, json, .. } = match subjects {
        Ok(subjects) => subjects,
        Err(refusal) => return refusal.tell(line.has(&JSON)),
    };
    // Whether they are to be split: in a file there may be others.
    let (mut all, mut wanted) = (Vec::new(), Vec::new());
    for subject in each {
        let election = subject.election.clone();
        wanted.push(!all_of_a_file || subject.configuration.given.get(&SHARES).is_some());
        match look(subject).await {
            Ok(seen) => all.push((election, seen)),
            Err(error) => return fail(error),
        }
    }
    let objects = all.iter().map(|(election, seen)| match seen {
        Ok(seen) => as_json(election, seen),
        Err(problem) => unseen(election, problem),
    });
    let texts = || all.iter().filter_map(|(of, seen)| Some(as_text(of, seen.as_ref().ok()?)));
    print(&match json {
        true if all_of_a_file => json_text(&json!({ "elections": objects.collect::<Vec<_>>() })),
        true => objects.map(|object| json_text(&object)).collect(),
        false => texts().collect::<Vec<_>>().join("\n"),
    });
    for (election, seen) in &all {
        let (what, Problem { class, detail }) = match seen {
            Err(problem) => ("the shares".to_owned(), problem),
            Ok(seen) => match seen.unread() {
                Some((shares, problem)) => {
                    (format!("the records of shares {}", ranges(&shares)), problem)
                }
                None => continue,
            },
        };
        let (class, detail) = (class_name(*class), printable(detail));
        eprint(format_args!(
            "tenure: {what} of {} could not be read ({class}): {detail}\n",
            printable(election)
        ));
    }
    let code = |((_, seen), wanted): (&(String, Result<Seen, Problem>), bool)| match seen {
        Err(_) => UNUSABLE,
        Ok(seen) if seen.unread().is_some() => UNUSABLE,
        Ok(seen) if seen.is_as_planned() || (seen.plan.is_none() && !wanted) => 0,
        Ok(_) => OTHERWISE,
    };
    ExitCode::from(all.iter().zip(wanted).map(code).max().unwrap_or(0))
}

/// Reads plan, signs and records.
async fn look(subject: Subject) -> Result<Result<Seen, Problem>, ComponentError> {
    let Subject { election, configuration, component } = subject;
    let component = Arc::new(component);
    let store = SharesStore::of(component.clone(), String::new());
    let mut seen = Seen::default();
    for ask in [Ask::ReadPlan(None), Ask::List] {
        let told = store.ask(&ask).await?;
        if let Some(problem) = told.problem {
            return Ok(Err(problem));
        }
        match told.answer {
            Answer::Plan(plan, _) => seen.plan = Some(plan),
            Answer::Signs(signs) => {
                let signs = signs.into_iter().map(|listed| listed.sign);
                seen.signs = signs.map(|sign| (sign.member.clone(), sign)).collect();
            }
            _ => {}
        }
    }
    if let Some(plan) = seen.plan.as_ref().filter(|plan| plan.count() <= MOST_READ) {
        let records = records(&election, plan, &configuration.settings, &component).await?;
        seen.records = Some(records);
    }
    Ok(Ok(seen))
}

/// Reads the record of each share's election. `settings` are for the coordinating election.
async fn records(
    coordinating: &str,
    plan: &Plan,
    settings: &Variables,
    component: &ElectionComponent,
) -> Result<Vec<Record>, ComponentError> {
    let clock = BootClock::new();
    let each = plan.all().map(|share| {
        let election = Candidate::of(share, plan.count()).election(coordinating);
        let settings = settings.clone().with(names::ELECTION, election);
        record(component.for_candidate(settings, &clock), plan.next.is_some())
    });
    some_at_a_time(each).await.into_iter().collect()
}

/// Reads that of one.
async fn record(component: ElectionComponent, closing: bool) -> Result<Record, ComponentError> {
    match component.check().await {
        Ok(_) => {}
        Err(CheckError::Component(error)) => return Err(error),
        Err(error) => {
            let detail = error.to_string().trim_end().to_owned();
            return Ok(Err(Problem { class: ProblemClass::Configuration, detail }));
        }
    }
    Ok(match component.inspect().await? {
        Ok(snapshot) => Ok(snapshot.leader().map(|leader| Holder {
            name: leader.name.clone(),
            term: leader.term,
            since: leader.since,
            seen: snapshot.asked_at,
        })),
        // It is closed: nobody leads with a record that candidates cannot read.
        Err(Problem { class: ProblemClass::UnusableBlob, .. }) if closing => Ok(None),
        Err(problem) => Err(problem),
    })
}

#[cfg(test)]
mod tests;
