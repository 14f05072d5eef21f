//! What is known of shares, and what follows from it.

use std::collections::BTreeMap;
use tenure::contract::Problem;
use tenure::program::shares::{Plan, Sign};

/// Who leads the election of a share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub name: String,
    pub term: u64,
    /// When it won, in nanoseconds since 1970.
    pub since: u64,
    /// When that was seen, by the same clock.
    pub seen: u64,
}

/// What the record of a share's election says: who holds the share, if anybody does.
pub(super) type Record = Result<Option<Holder>, Problem>;

/// What is kept beside the coordinating election, and in the elections of its shares.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// None: the work was never split.
    pub plan: Option<Plan>,
    /// By the names of members.
    pub signs: BTreeMap<String, Sign>,
    /// One for each share, in their order. None: they are too many to be read.
    pub records: Option<Vec<Record>>,
}

/// What is known of a member, or of another one that holds a share.
pub(super) struct Row<'a> {
    pub name: &'a str,
    /// None: there is no sign of life of it.
    pub sign: Option<&'a Sign>,
    /// What it should hold.
    pub planned: Vec<u32>,
    /// What it holds, where records were read.
    pub held: Option<Vec<u32>>,
    /// The share that it won last.
    pub newest: Option<&'a Holder>,
}

/// Shares that one holds and another one should hold; none is nobody.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Move<'a> {
    pub shares: Vec<u32>,
    pub from: Option<&'a str>,
    pub to: Option<&'a str>,
}

impl Seen {
    /// Each share is held by the member that should hold it; where records were not read, by one with a sign of life.
    pub(super) fn is_as_planned(&self) -> bool {
        let Some(plan) = &self.plan else { return false };
        let signs = |member| self.signs.contains_key(member);
        plan.next.is_none()
            && plan.shares.iter().all(Option::is_some)
            && (self.records.is_some() || plan.members.iter().all(signs))
            && self.unread().is_none()
            && self.moves().is_empty()
    }

    /// What the record of a share says; none where it was not read.
    pub(super) fn record(&self, share: u32) -> Option<&Record> {
        self.records.as_ref()?.get(share as usize)
    }

    /// The records that could not be read, and why the first of them could not.
    pub(super) fn unread(&self) -> Option<(Vec<u32>, &Problem)> {
        let failed = (0..).zip(self.records.iter().flatten());
        let failed = failed.filter_map(|(share, record)| Some((share, record.as_ref().err()?)));
        let (shares, problems): (Vec<_>, Vec<_>) = failed.unzip();
        Some((shares, *problems.first()?))
    }

    /// Who holds what.
    fn holders(&self) -> impl Iterator<Item = (u32, &Holder)> {
        let read = (0..).zip(self.records.iter().flatten());
        read.filter_map(|(share, record)| Some((share, record.as_ref().ok()?.as_ref()?)))
    }

    /// Those of the plan, those with a sign, and whoever else holds a share.
    pub(super) fn rows(&self) -> Vec<Row<'_>> {
        let planned = self.plan.iter().flat_map(|plan| &plan.members);
        let mut names: Vec<_> = planned.chain(self.signs.keys()).map(String::as_str).collect();
        names.extend(self.holders().map(|(_, holder)| holder.name.as_str()));
        names.sort_unstable();
        names.dedup();
        let row = |name| {
            let planned = self.plan.iter().flat_map(|plan| plan.of(name));
            let own = || self.holders().filter(move |(_, holder)| holder.name == name);
            Row {
                name,
                sign: self.signs.get(name),
                planned: planned.map(|share| share.index).collect(),
                held: self.records.is_some().then(|| own().map(|(share, _)| share).collect()),
                newest: own().map(|(_, holder)| holder).max_by_key(|holder| holder.since),
            }
        };
        names.into_iter().map(row).collect()
    }

    /// Shares that nobody should hold.
    pub(super) fn unassigned(&self) -> Vec<u32> {
        let all = self.plan.iter().flat_map(|plan| plan.all().map(move |share| (plan, share)));
        all.filter(|(plan, share)| plan.holder(*share).is_none()).map(|(_, s)| s.index).collect()
    }

    /// What is held by another one than the plan says, by the first share. All that are being closed are none of them.
    pub(super) fn moves(&self) -> Vec<Move<'_>> {
        let mut moves: BTreeMap<_, Vec<u32>> = BTreeMap::new();
        for plan in self.plan.iter().filter(|plan| plan.next.is_none()) {
            for share in plan.all() {
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
