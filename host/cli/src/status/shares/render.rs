//! The text and the JSON of shares.

use super::{Holder, MAX_READ, MemberRow, Move, Shares};
use crate::complaint::printable;
use crate::output::times::ago;
use crate::output::{align_columns, ranges};
use serde_json::{Value, json};
use std::fmt::Write as _;
use tenure_core::Problem;
use tenure_shares::{Plan, Share};

pub(in crate::status) fn as_json(state: &Shares) -> Value {
    let plan = state.plan.as_ref();
    let members = state.rows().into_iter().map(|row| {
        let MemberRow { name, sign, planned, held_shares, newest_holder: newest } = row;
        json!({
            "name": name,
            "capacity": sign.map(|sign| sign.weight),
            "max_shares": sign.and_then(|sign| sign.max_shares),
            "has_sign": sign.is_some(),
            "planned": planned,
            "holds": held_shares,
            "since": newest.map(|holder| holder.since.to_rfc3339()),
        })
    });
    let shares =
        plan.map(|plan| plan.all_shares().map(move |share| share_as_json(state, plan, share)));
    json!({
        "count": plan.map(Plan::count),
        "split": plan.map(|plan| plan.split),
        "next_count": plan.and_then(|plan| plan.next),
        "plan": plan.map(|plan| json!({ "term": plan.term, "version": plan.version })),
        "members": members.collect::<Vec<_>>(),
        "each": shares.map(Iterator::collect::<Vec<_>>),
    })
}

/// Returns a share as JSON. The holder is missing if its record was not read, and null if there is
/// none.
fn share_as_json(state: &Shares, plan: &Plan, share: Share) -> Value {
    let mut object = json!({ "index": share.index, "planned": plan.holder(share) });
    match state.record(share.index) {
        None => {}
        Some(Ok(holder)) => {
            let holder = holder.as_ref();
            object["holder"] = json!(holder.map(|holder| &holder.name));
            object["term"] = json!(holder.map(|holder| holder.term));
            object["since"] = json!(holder.map(|holder| holder.since.to_rfc3339()));
        }
        Some(Err(Problem { class, detail })) => {
            object["problem"] = json!({ "class": class.name(), "detail": detail });
        }
    }
    object
}

/// Escapes the names, because any client with write access to the container chooses them.
pub(in crate::status) fn as_text(state: &Shares) -> String {
    let Some(plan) = &state.plan else {
        return "The work is split into shares, and the coordinator has made no plan yet.\n"
            .to_owned();
    };
    let mut text = format!("{}\n", share_count(plan.count()));
    if let Some(next) = plan.next {
        let _ = writeln!(
            text,
            "All shares are being closed, since {} were requested. No share has a holder until all are closed.",
            share_count(next)
        );
    }
    if state.records.is_none() {
        let _ = writeln!(
            text,
            "This is the plan. With more than {MAX_READ} shares, the actual holders are not read."
        );
    }
    let rows = state.rows();
    if !rows.is_empty() {
        let holds = if state.records.is_some() { "holds" } else { "planned" };
        let title = ["member", "capacity", "most", holds, "which", "since"].map(str::to_owned);
        text.push('\n');
        text += &align_columns([title].into_iter().chain(rows.iter().map(row)));
    }
    let moves = state.moves();
    if !moves.is_empty() {
        let title = ["share", "moves"].map(str::to_owned);
        text.push('\n');
        text += &align_columns([title].into_iter().chain(moves.iter().map(move_row)));
    }
    let unassigned = state.unassigned();
    if !unassigned.is_empty() && plan.next.is_none() {
        let _ = writeln!(text, "\nThe plan has no holder for {}.", ranges(&unassigned));
    }
    text
}

fn row(row: &MemberRow<'_>) -> [String; 6] {
    let MemberRow { name, sign, planned, held_shares, newest_holder: newest } = row;
    let none = || "-".to_owned();
    let shares = held_shares.as_ref().unwrap_or(planned);
    [
        printable(name),
        sign.map_or_else(|| "no sign".to_owned(), |sign| sign.weight.to_string()),
        sign.and_then(|sign| sign.max_shares).map_or_else(none, |most| most.to_string()),
        shares.len().to_string(),
        if shares.is_empty() { none() } else { ranges(shares) },
        newest.map_or_else(none, |Holder { since, observed_at, .. }| ago(*since, *observed_at)),
    ]
}

fn move_row(Move { shares, from, to }: &Move<'_>) -> [String; 2] {
    let name = |holder: Option<&str>| holder.map_or_else(|| "nobody".to_owned(), printable);
    [ranges(shares), format!("{} → {}", name(*from), name(*to))]
}

fn share_count(count: u32) -> String {
    if count == 1 { "1 share".to_owned() } else { format!("{count} shares") }
}
