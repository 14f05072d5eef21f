//! `tenure shares`: who should hold which share of work that is split, by the plan that its leader writes.

use super::complaint::{self, printable};
use super::log::json_text;
use super::look::{Subject, Subjects};
use super::settings::CommandLine;
use super::settings::table::JSON;
use super::status::unseen;
use super::terminal::aligned;
use super::{UNUSABLE, fail, print};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use tenure::clock::BootClock;
use tenure::component::{ComponentError, ElectionComponent};
use tenure::contract::{Problem, class_name};
use tenure::program::shares::{Answer, Ask, Plan, SharesStore, Sign};

/// Not every share has a member.
const UNASSIGNED: u8 = 1;

/// What is kept beside the election of the whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// None: the work was never split.
    pub plan: Option<Plan>,
    /// By the names of members.
    pub signs: BTreeMap<String, Sign>,
}

pub(super) async fn shares(line: &CommandLine) -> ExitCode {
    let subjects = Subjects::of(line, &BootClock::new()).await;
    let Subjects { each, all_of_a_file, json, .. } = match subjects {
        Ok(subjects) => subjects,
        Err(refusal) => return refusal.tell(line.has(&JSON)),
    };
    let mut all = Vec::new();
    for Subject { election, component, .. } in each {
        match look(component).await {
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
        if let Err(Problem { class, detail }) = seen {
            let (class, detail) = (class_name(*class), printable(detail));
            complaint::print(format_args!(
                "tenure: the shares of {election} could not be read ({class}): {detail}\n"
            ));
        }
    }
    let code = |(_, seen): &(String, Result<Seen, Problem>)| match seen {
        Err(_) => UNUSABLE,
        Ok(seen) if seen.is_whole() => 0,
        Ok(_) => UNASSIGNED,
    };
    ExitCode::from(all.iter().map(code).max().unwrap_or(0))
}

/// Reads plan and signs.
async fn look(component: ElectionComponent) -> Result<Result<Seen, Problem>, ComponentError> {
    let store = SharesStore::of(Arc::new(component), String::new());
    let mut seen = Seen::default();
    for ask in [Ask::ReadPlan(None), Ask::List] {
        let told = store.ask(&ask).await?;
        if let Some(problem) = told.problem {
            return Ok(Err(problem));
        }
        match told.answer {
            Answer::Plan(plan, _) => seen.plan = Some(plan),
            Answer::Signs(signs) => {
                let signs = signs.into_iter().map(|(sign, _)| (sign.member.clone(), sign));
                seen.signs = signs.collect();
            }
            _ => {}
        }
    }
    Ok(Ok(seen))
}

/// The plan that is kept beside the election of a component that was checked; none where there is none, or it cannot
/// be read.
pub(super) async fn plan(component: &Arc<ElectionComponent>) -> Option<Plan> {
    let store = SharesStore::of(component.clone(), String::new());
    match store.ask(&Ask::ReadPlan(None)).await.ok()?.answer {
        Answer::Plan(plan, _) => Some(plan),
        _ => None,
    }
}

/// What is known of a member.
struct Row<'a> {
    name: &'a str,
    /// None: there is no sign of life of it.
    sign: Option<&'a Sign>,
    /// What it should hold.
    shares: Vec<u32>,
}

impl Seen {
    /// Each share has a member that should hold it.
    fn is_whole(&self) -> bool {
        let plan = self.plan.as_ref();
        plan.is_some_and(|plan| plan.next.is_none() && plan.shares.iter().all(Option::is_some))
    }

    /// Those of the plan, and those with a sign.
    fn rows(&self) -> Vec<Row<'_>> {
        let planned = self.plan.iter().flat_map(|plan| &plan.members);
        let mut names: Vec<_> = planned.chain(self.signs.keys()).map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        let row = |name| {
            let shares = self.plan.iter().flat_map(|plan| plan.of(name));
            let shares = shares.map(|share| share.index).collect();
            Row { name, sign: self.signs.get(name), shares }
        };
        names.into_iter().map(row).collect()
    }

    /// Shares that nobody should hold.
    fn unassigned(&self) -> Vec<u32> {
        let all = self.plan.iter().flat_map(|plan| plan.all().map(move |share| (plan, share)));
        all.filter(|(plan, share)| plan.holder(*share).is_none()).map(|(_, s)| s.index).collect()
    }
}

fn as_json(election: &str, seen: &Seen) -> Value {
    let plan = seen.plan.as_ref();
    let members = seen.rows().into_iter().map(|Row { name, sign, shares }| {
        json!({
            "name": name,
            "capacity": sign.map(|sign| sign.weight),
            "max_shares": sign.and_then(|sign| sign.most),
            "has_sign": sign.is_some(),
            "shares": shares,
        })
    });
    json!({
        "election": election,
        "shares": plan.map(Plan::count),
        "split": plan.map(|plan| plan.split),
        "next_shares": plan.and_then(|plan| plan.next),
        "plan": plan.map(|plan| json!({ "term": plan.term, "version": plan.version })),
        "members": members.collect::<Vec<_>>(),
        "unassigned": seen.unassigned(),
    })
}

/// Names are what somebody wrote beside the blob.
fn as_text(election: &str, seen: &Seen) -> String {
    let election = printable(election);
    let Some(plan) = &seen.plan else {
        return format!(
            "{election} is not split into shares, or nobody has led it since it is: there is no plan.\n"
        );
    };
    let mut text = format!("{election}: {}\n", parts(plan.count()));
    if let Some(next) = plan.next {
        let _ = writeln!(
            text,
            "All are being closed, since {} were asked for. Nobody is to hold any until all are closed.",
            parts(next)
        );
    }
    let rows = seen.rows();
    let title = ["member", "capacity", "most", "holds", "which"].map(str::to_owned);
    let told = rows.iter().map(|Row { name, sign, shares }| {
        let none = || "-".to_owned();
        [
            printable(name),
            sign.map_or_else(|| "no sign".to_owned(), |sign| sign.weight.to_string()),
            sign.and_then(|sign| sign.most).map_or_else(none, |most| most.to_string()),
            shares.len().to_string(),
            if shares.is_empty() { none() } else { ranges(shares) },
        ]
    });
    if !rows.is_empty() {
        text.push('\n');
        text += &aligned([title].into_iter().chain(told));
    }
    let unassigned = seen.unassigned();
    if !unassigned.is_empty() && plan.next.is_none() {
        let _ = writeln!(text, "\nNobody is to hold {}.", ranges(&unassigned));
    }
    text
}

fn parts(count: u32) -> String {
    if count == 1 { "1 share".to_owned() } else { format!("{count} shares") }
}

/// Ascending numbers, as in `0–7, 12`.
fn ranges(numbers: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for number in numbers.iter().copied() {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let told = ranges.into_iter().map(|range| match range {
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first}–{last}"),
    });
    told.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen() -> Seen {
        let sign = |member: &str, weight, most| {
            (member.to_owned(), Sign { member: member.to_owned(), weight, most })
        };
        let shares = [0, 0, 0, 1, 0, 1, 0, 1].map(Some).to_vec();
        let members = vec!["ada".to_owned(), "ben\u{1b}".to_owned()];
        let plan = Plan { term: 7, version: 3, split: 1, members, shares, next: None };
        let signs = BTreeMap::from([sign("ada", 2, None), sign("cleo", 1, Some(4))]);
        Seen { plan: Some(plan), signs }
    }

    #[test]
    fn numbers_that_follow_each_other_are_one_range() {
        for (numbers, told) in
            [(&[][..], ""), (&[3], "3"), (&[3, 4], "3–4"), (&[0, 1, 2, 5, 7, 8], "0–2, 5, 7–8")]
        {
            assert_eq!(ranges(numbers), told);
        }
    }

    #[test]
    fn each_member_has_a_row_and_nothing_that_a_terminal_obeys() {
        assert_eq!(
            as_text("jobs/orders", &seen()),
            "jobs/orders: 8 shares\n\
             \n\
             member     capacity  most  holds  which\n\
             ada        2         -     5      0–2, 4, 6\n\
             ben\\u{1b}  no sign   -     3      3, 5, 7\n\
             cleo       1         4     0      -\n"
        );
        assert!(seen().is_whole());
        let object = as_json("jobs/orders", &seen());
        assert_eq!(object["members"][0]["shares"], json!([0, 1, 2, 4, 6]));
        assert_eq!(object["members"][1]["has_sign"], false);
        assert_eq!((&object["shares"], &object["unassigned"]), (&json!(8), &json!([])));
    }

    #[test]
    fn shares_that_nobody_is_to_hold_are_told() {
        let mut seen = seen();
        let plan = seen.plan.as_mut().unwrap();
        plan.shares[1] = None;
        plan.shares[7] = None;
        assert!(!seen.is_whole());
        assert!(as_text("jobs/orders", &seen).ends_with("\nNobody is to hold 1, 7.\n"));
        assert_eq!(as_json("jobs/orders", &seen)["unassigned"], json!([1, 7]));
    }

    #[test]
    fn another_number_that_was_asked_for_is_told() {
        let seen = Seen { plan: seen().plan.map(|plan| plan.reshare(5)), ..seen() };
        assert!(!seen.is_whole());
        let text = as_text("jobs/orders", &seen);
        let told = "8 shares\nAll are being closed, since 5 shares were asked for.";
        assert!(text.contains(told) && !text.contains("Nobody is to hold 0"), "{text}");
        assert_eq!(as_json("jobs/orders", &seen)["next_shares"], 5);
    }

    #[test]
    fn what_is_not_split_has_no_plan() {
        let seen = Seen::default();
        assert!(as_text("jobs/orders", &seen).starts_with("jobs/orders is not split"));
        assert!(!seen.is_whole());
        assert_eq!(as_json("jobs/orders", &seen)["shares"], Value::Null);
    }
}
