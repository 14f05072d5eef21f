//! The shares of split work: their holders, the times of their wins, and pending moves. The data is
//! from the plan and from the records of the shares' elections.

use super::subjects::{MAX_CONCURRENT, Subject};
use futures_util::{StreamExt as _, stream};
pub(super) use render::{as_json, as_text};
use std::collections::BTreeMap;
use tenure::engine::{CandidateSettings, Election};
use tenure_core::{Problem, ProblemClass, Timestamp};
use tenure_members::{ShareCandidate, SharesStore};
use tenure_shares::{Plan, Sign, StoreRequest, StoreResponse};

/// With more shares than this, their records are not read, since each costs a request.
const MAX_READ: u32 = 1_000;

/// The leader of a share's election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub name: String,
    pub term: u64,
    /// The time when it won.
    pub since: Timestamp,
    /// The time of the read, by the same clock.
    pub observed_at: Timestamp,
}

/// The holder of a share by the record of its election, or none.
pub(super) type Record = Result<Option<Holder>, Problem>;

/// The plan next to the coordinating election, and the state of the shares' elections.
#[derive(Clone, Debug, Default)]
pub(in crate::status) struct Shares {
    /// None until the coordinator has written one.
    pub plan: Option<Plan>,
    /// The members' signs of life, by name.
    pub signs: BTreeMap<String, Sign>,
    /// One for each share, in order. None if there are too many to read.
    pub records: Option<Vec<Record>>,
}

/// A member, or another candidate that holds a share.
pub(super) struct MemberRow<'a> {
    pub name: &'a str,
    /// None if the member has no sign of life.
    pub sign: Option<&'a Sign>,
    /// The shares that it should hold.
    pub planned: Vec<u32>,
    /// The shares that it holds. None if records were not read.
    pub held_shares: Option<Vec<u32>>,
    /// The share that it won last.
    pub newest_holder: Option<&'a Holder>,
}

/// Shares that move from one holder to another. None means that no member holds them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Move<'a> {
    pub shares: Vec<u32>,
    pub from: Option<&'a str>,
    pub to: Option<&'a str>,
}

impl Shares {
    /// Returns true if each share has its planned holder. If records were not read, a sign of life
    /// of each member suffices.
    pub(in crate::status) fn is_as_planned(&self) -> bool {
        let Some(plan) = &self.plan else { return false };
        let has_sign = |member| self.signs.contains_key(member);
        plan.next.is_none()
            && plan.shares.iter().all(Option::is_some)
            && (self.records.is_some() || plan.members.iter().all(has_sign))
            && self.unread().is_none()
            && self.moves().is_empty()
    }

    /// Returns the record of a share, or none if it was not read.
    pub(super) fn record(&self, share: u32) -> Option<&Record> {
        self.records.as_ref()?.get(share as usize)
    }

    /// Returns the shares whose records could not be read, and the first problem.
    pub(in crate::status) fn unread(&self) -> Option<(Vec<u32>, &Problem)> {
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
    pub(super) fn rows(&self) -> Vec<MemberRow<'_>> {
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
    pub(super) fn unassigned(&self) -> Vec<u32> {
        let all =
            self.plan.iter().flat_map(|plan| plan.all_shares().map(move |share| (plan, share)));
        all.filter(|(plan, share)| plan.holder(*share).is_none()).map(|(_, s)| s.index).collect()
    }

    /// Returns the shares whose holder differs from the plan, sorted by their first share. Shares
    /// that are being closed are not among them.
    pub(super) fn moves(&self) -> Vec<Move<'_>> {
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
    for ask in [StoreRequest::ReadPlan(None), StoreRequest::ListSigns] {
        let response = store.send(&ask).await;
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
        // A closed share has a record that candidates cannot read, so it has no leader.
        Err(Problem { class: ProblemClass::UnusableBlob, .. }) if closing => Ok(None),
        Err(problem) => Err(problem),
    }
}

mod render;
#[cfg(test)]
mod tests;
