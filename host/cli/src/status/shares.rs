//! The shares of split work: their holders, the times of their wins, and pending moves, as text and
//! as JSON. The data is from the plan and from the records of the shares' elections.

use super::{MAX_CONCURRENT, Subject};
use crate::complaint::printable;
use crate::output::times::ago;
use crate::output::{align_columns, ranges};
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use tenure::engine::{CandidateSettings, Election};
use tenure_core::{Problem, ProblemClass, Timestamp};
use tenure_members::{ShareCandidate, SharesStore};
use tenure_shares::{Plan, Share, Sign, StoreRequest, StoreResponse};

/// With more shares than this, their records are not read, since each costs a request.
const MAX_READ: u32 = 1_000;

/// The leader of a share's election.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Holder {
    name: String,
    term: u64,
    /// The time when the holder won the election.
    since: Timestamp,
    /// The time of the read, on the same clock as `since`.
    observed_at: Timestamp,
}

/// The holder of a share according to the record of its election. None if there is no leader.
type Record = Result<Option<Holder>, Problem>;

/// The plan next to the coordinating election, and the state of the shares' elections.
#[derive(Clone, Debug, Default)]
pub(super) struct Shares {
    /// None until the coordinator has written one.
    plan: Option<Plan>,
    /// The members' signs of life, by name.
    signs: BTreeMap<String, Sign>,
    /// The record of each share, in the order of their indexes. None if there are too many to read.
    records: Option<Vec<Record>>,
}

/// A member, or another candidate that holds a share.
struct MemberRow<'a> {
    name: &'a str,
    /// None if the member has no sign of life.
    sign: Option<&'a Sign>,
    /// The shares that it should hold.
    planned: Vec<u32>,
    /// The shares that it holds. None if records were not read.
    held_shares: Option<Vec<u32>>,
    /// Its newest leadership of a share.
    newest_holder: Option<&'a Holder>,
}

/// Shares that move from one holder to another. None means that no member holds them.
#[derive(Debug, PartialEq, Eq)]
struct Move<'a> {
    shares: Vec<u32>,
    from: Option<&'a str>,
    to: Option<&'a str>,
}

impl Shares {
    /// Returns true if each share has its planned holder. If records were not read, a sign of life
    /// of each member suffices.
    pub(super) fn is_as_planned(&self) -> bool {
        let Some(plan) = &self.plan else { return false };
        let has_sign = |member| self.signs.contains_key(member);
        plan.next.is_none()
            && plan.shares.iter().all(Option::is_some)
            && (self.records.is_some() || plan.members.iter().all(has_sign))
            && self.unread().is_none()
            && self.moves().is_empty()
    }

    /// Returns the record of a share, or none if it was not read.
    fn record(&self, share: u32) -> Option<&Record> {
        self.records.as_ref()?.get(share as usize)
    }

    /// Returns the shares whose records could not be read, and the first problem.
    pub(super) fn unread(&self) -> Option<(Vec<u32>, &Problem)> {
        let failed = (0..).zip(self.records.iter().flatten());
        let failed = failed.filter_map(|(share, record)| Some((share, record.as_ref().err()?)));
        let (shares, problems): (Vec<_>, Vec<_>) = failed.unzip();
        Some((shares, *problems.first()?))
    }

    fn holders(&self) -> impl Iterator<Item = (u32, &Holder)> {
        let records = (0..).zip(self.records.iter().flatten());
        records.filter_map(|(share, record)| Some((share, record.as_ref().ok()?.as_ref()?)))
    }

    /// Returns the planned members, those with a sign of life, and other holders of shares.
    fn rows(&self) -> Vec<MemberRow<'_>> {
        let planned = self.plan.iter().flat_map(|plan| &plan.members);
        let mut names: Vec<_> = planned.chain(self.signs.keys()).map(String::as_str).collect();
        names.extend(self.holders().map(|(_, holder)| holder.name.as_str()));
        names.sort_unstable();
        names.dedup();
        let row = |name| {
            let planned = self.plan.iter().flat_map(|plan| plan.shares_of(name));
            let held_shares = || self.holders().filter(move |(_, holder)| holder.name == name);
            MemberRow {
                name,
                sign: self.signs.get(name),
                planned: planned.map(|share| share.index).collect(),
                held_shares: self
                    .records
                    .is_some()
                    .then(|| held_shares().map(|(share, _)| share).collect()),
                newest_holder: held_shares()
                    .map(|(_, holder)| holder)
                    .max_by_key(|holder| holder.since),
            }
        };
        names.into_iter().map(row).collect()
    }

    /// Returns the shares that the plan assigns to no member.
    fn unassigned(&self) -> Vec<u32> {
        let all =
            self.plan.iter().flat_map(|plan| plan.all_shares().map(move |share| (plan, share)));
        all.filter(|(plan, share)| plan.holder(*share).is_none()).map(|(_, s)| s.index).collect()
    }

    /// Returns the moves of shares whose holder differs from the plan, sorted by their first share.
    /// There are none while the coordinator closes all shares for a change of their number.
    fn moves(&self) -> Vec<Move<'_>> {
        let mut moves: BTreeMap<_, Vec<u32>> = BTreeMap::new();
        for plan in self.plan.iter().filter(|plan| plan.next.is_none()) {
            for share in plan.all_shares() {
                let Some(Ok(holder)) = self.record(share.index) else { continue };
                let (from, to) = (holder.as_ref().map(|h| h.name.as_str()), plan.holder(share));
                if from != to {
                    moves.entry((from, to)).or_default().push(share.index);
                }
            }
        }
        let moves = moves.into_iter().map(|((from, to), shares)| Move { shares, from, to });
        let mut moves = moves.collect::<Vec<_>>();
        moves.sort_by_key(|moving| moving.shares.first().copied());
        moves
    }
}

/// Reads the plan, the members' signs of life, and the records of the shares.
pub(super) async fn read(subject: &Subject) -> Result<Shares, Problem> {
    let store = SharesStore::new(subject.handle.clone(), String::new());
    let mut shares = Shares::default();
    for request in [StoreRequest::ReadPlan(None), StoreRequest::ListSigns] {
        let response = store.send(&request).await;
        if let Some(problem) = response.problem {
            return Err(problem);
        }
        match response.response {
            StoreResponse::Plan(plan, _) => shares.plan = Some(plan),
            StoreResponse::Signs(signs) => {
                let signs = signs.into_iter().map(|listed| listed.sign);
                shares.signs = signs.map(|sign| (sign.member.clone(), sign)).collect();
            }
            _ => {}
        }
    }
    if let Some(plan) = shares.plan.as_ref().filter(|plan| plan.count() <= MAX_READ) {
        let settings = &subject.configuration.settings;
        shares.records = Some(records(&subject.election, plan, settings, &subject.handle).await);
    }
    Ok(shares)
}

/// Reads the record of each share's election. `settings` are for the coordinating election.
async fn records(
    coordinating: &str,
    plan: &Plan,
    settings: &CandidateSettings,
    handle: &Election,
) -> Vec<Record> {
    let each = plan.all_shares().map(|share| {
        let election = ShareCandidate::new(share, plan.count()).election(coordinating);
        let mut settings = settings.clone();
        settings.options.election = Some(election);
        record(handle.with_settings(settings), plan.next.is_some())
    });
    stream::iter(each).buffered(MAX_CONCURRENT).collect().await
}

/// Reads the record of one share. `closing` is true if the coordinator closes all shares.
async fn record(election: Election, closing: bool) -> Record {
    if let Err(invalid) = election.check() {
        let detail = invalid.to_string();
        return Err(Problem { class: ProblemClass::Configuration, detail });
    }
    match election.inspect().await {
        Ok(snapshot) => Ok(snapshot.leader().map(|leader| Holder {
            name: leader.name.clone(),
            term: leader.term,
            since: leader.since,
            observed_at: snapshot.answered_at,
        })),
        // No candidate can read the record of a closed share (protocol.md §14.2), and a closed
        // share has no leader.
        Err(Problem { class: ProblemClass::UnusableBlob, .. }) if closing => Ok(None),
        Err(problem) => Err(problem),
    }
}

pub(super) fn as_json(state: &Shares) -> Value {
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

/// Returns a share as JSON. The holder is missing if the record was not read, and null if the share
/// has no leader.
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

/// Formats the shares as text. Escapes the names, because any client with write access to the
/// container chooses them.
pub(super) fn as_text(state: &Shares) -> String {
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
    let name = |holder: Option<&str>| holder.map_or_else(|| "none".to_owned(), printable);
    [ranges(shares), format!("{} → {}", name(*from), name(*to))]
}

fn share_count(count: u32) -> String {
    if count == 1 { "1 share".to_owned() } else { format!("{count} shares") }
}

#[cfg(test)]
mod tests;
