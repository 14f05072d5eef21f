//! What a supervisor tells of a runner that has died, and of its last wills: a line for each election, and one for all
//! shares of one election.

use crate::log::Whose;
use crate::ranges::ranges;
use std::collections::{BTreeMap, BTreeSet};
use tenure_shares::Share;
use tenure_supervisor::Subject;

/// What became of a will.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The lease was released, or the sign is gone.
    Done,
    /// The service knows another holder, or none; or another sign.
    NotThat,
    /// The service would not do it, with this status.
    Refused(u16),
    /// No answer was one, for this reason.
    Unanswered(String),
    /// It came too late to be sent.
    Expired,
    /// It was not sent for another reason.
    Unsent(String),
}

/// How a runner ended, and what became of what it left.
pub(super) struct LastWords {
    /// Who ended, and how.
    pub subject: String,
    /// The end of all its work was seen.
    pub gone: bool,
    /// What it left, each with the term where it is the release of a lease.
    pub terms: BTreeMap<Subject, Option<u64>>,
    /// Those that were sent in time.
    pub fates: BTreeMap<Subject, Fate>,
}

impl LastWords {
    /// All lines, each with whose it is. The runner was there for shares of these elections.
    pub(super) fn all<'a>(
        &self,
        candidates: &'a BTreeMap<usize, Whose>,
        split: &BTreeSet<String>,
    ) -> Vec<(&'a Whose, String)> {
        let share = |election: &str| {
            split.iter().find_map(|coordinating| {
                let suffix = election.strip_prefix(coordinating.as_str())?.strip_prefix('.')?;
                Some((coordinating.clone(), Share::of_suffix(suffix)?))
            })
        };
        let mut shares: BTreeMap<String, Vec<(Share, usize)>> = BTreeMap::new();
        let mut lines = Vec::new();
        for (of, whose) in candidates {
            match share(&whose.election) {
                Some((coordinating, share)) => {
                    shares.entry(coordinating).or_default().push((share, *of))
                }
                None => lines.push((*of, whose)),
            }
        }
        let told = |(of, whose): (usize, &'a Whose)| {
            let told = match split.contains(&whose.election) {
                true => {
                    let mut shares = shares.remove(&whose.election).unwrap_or_default();
                    shares.sort_unstable();
                    self.of_member(&whose.election, of, &shares)
                }
                false => self.of_election(of),
            };
            (whose, format!("{}; {told}", self.subject))
        };
        lines.into_iter().map(told).collect()
    }

    /// Of a candidate that is on its own.
    fn of_election(&self, of: usize) -> String {
        let of = Subject::Lease(of);
        let Some(Some(term)) = self.terms.get(&of) else {
            return "it left no lease to release".to_owned();
        };
        let lease = format!("its lease (term {term})");
        match self.fates.get(&of) {
            Some(fate) => {
                format!("nothing of its work runs any more, and {}", fate.of_lease(&lease, *term))
            }
            None if self.gone => format!(
                "{lease} was not released before this process had to end; the others wait until it expires"
            ),
            None => format!(
                "some of its work could not be stopped, so {lease} is not released; the others wait until it expires"
            ),
        }
    }

    /// Of a member for the shares of that election, whose coordinating candidate is `own`.
    fn of_member(&self, coordinating: &str, own: usize, shares: &[(Share, usize)]) -> String {
        let sign = Subject::Sign(coordinating.to_owned());
        let mut clauses = Vec::new();
        if !self.gone {
            clauses.push("some of its work could not be stopped".to_owned());
        } else if !self.fates.is_empty() {
            clauses.push("nothing of its work runs any more".to_owned());
        }
        let of_shares = shares.iter().map(|(share, of)| (Some(share.index), *of));
        let mut leases: Vec<(Option<&Fate>, Vec<Option<u32>>)> = Vec::new();
        for (share, of) in of_shares.chain([(None, own)]) {
            let of = Subject::Lease(of);
            if self.terms.contains_key(&of) {
                let fate = self.fates.get(&of);
                match leases.iter_mut().find(|(known, _)| *known == fate) {
                    Some((_, those)) => those.push(share),
                    None => leases.push((fate, vec![share])),
                }
            }
        }
        if leases.is_empty() {
            clauses.push("it left no share to release".to_owned());
        }
        clauses.extend(leases.iter().map(|(fate, those)| self.of_leases(*fate, those)));
        if self.terms.contains_key(&sign) {
            clauses.push(self.of_sign(self.fates.get(&sign)));
        }
        clauses.join("; ")
    }

    /// Of the leases of these shares, and of the coordinating election, which is none of them.
    fn of_leases(&self, fate: Option<&Fate>, those: &[Option<u32>]) -> String {
        let shares = those.iter().copied().flatten().collect::<Vec<_>>();
        let named = match shares.as_slice() {
            [] => "the coordinating election".to_owned(),
            [share] => format!("share {share}"),
            shares => format!("shares {}", ranges(shares)),
        };
        let of_coordination = if those.len() > shares.len() && !shares.is_empty() {
            " and the coordinating election"
        } else {
            ""
        };
        let (leases, were) = if those.len() == 1 { ("lease", "was") } else { ("leases", "were") };
        let leases = format!("the {leases} of {named}{of_coordination}");
        let not = format!("{leases} {were} not released");
        match fate {
            Some(Fate::Done) => format!("{leases} {were} released"),
            Some(Fate::NotThat) => format!("{leases} {were} no longer held"),
            Some(fate) => format!("{not}{}", fate.why_not()),
            None => format!("{not}{}", self.why_unsent()),
        }
    }

    fn of_sign(&self, fate: Option<&Fate>) -> String {
        let why = match fate {
            Some(Fate::Done) => {
                return "its sign of life was deleted, so the others take over its shares at once"
                    .to_owned();
            }
            Some(Fate::NotThat) => {
                ": its last write was never answered, or another process has the same name"
                    .to_owned()
            }
            Some(fate) => fate.why_not(),
            None => self.why_unsent().to_owned(),
        };
        format!(
            "its sign of life was not deleted{why}; the others take over its shares once it has been silent for too \
             long"
        )
    }

    /// Why nothing was sent.
    fn why_unsent(&self) -> &'static str {
        if self.gone { " before this process had to end" } else { "" }
    }
}

impl Fate {
    /// Of the lease of that term.
    fn of_lease(&self, lease: &str, term: u64) -> String {
        match self {
            Self::Done => format!("{lease} was released, so another candidate can lead"),
            Self::NotThat => format!("{lease} was no longer held"),
            Self::Refused(status) => format!(
                "the service refused to release {lease} with status {status}; the others wait until it expires"
            ),
            Self::Unanswered(why) => {
                format!("{lease} could not be released before it expired: {why}")
            }
            Self::Expired => format!(
                "its last will (term {term}) was not sent: the lease has expired, or the authorisation of \
                 the release has"
            ),
            Self::Unsent(why) => format!(
                "its last will (term {term}) was not sent, since {why}; the others wait until the lease expires"
            ),
        }
    }

    /// Why a lease was not released, or a sign not deleted.
    fn why_not(&self) -> String {
        match self {
            Self::Done | Self::NotThat => String::new(),
            Self::Refused(status) => format!(": the service refused with status {status}"),
            Self::Unanswered(why) => format!(" in time: {why}"),
            Self::Expired => {
                ": the time for it had passed, or the authorisation had expired".to_owned()
            }
            Self::Unsent(why) => format!(", since {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &str = "jobs/orders";

    /// A runner that had a coordinating candidate, candidates for shares 0 to 3 and 9 of ten, and one for another
    /// election.
    struct Scene {
        candidates: BTreeMap<usize, Whose>,
        words: LastWords,
    }

    fn scene(fates: &[(Subject, Fate)], unsent: &[Subject]) -> Scene {
        let suffixes = ["", ".share.1.0-of-10", ".share.1.1-of-10", ".share.1.2-of-10"];
        let own = suffixes.into_iter().chain([".share.1.3-of-10", ".share.1.9-of-10"]);
        let elections = own.map(|suffix| format!("{ALL}{suffix}")).chain(["jobs/else".into()]);
        let whose = |election| Whose { election, candidate: "ada".to_owned() };
        let term = |of: &Subject| (of.clone(), matches!(of, Subject::Lease(_)).then_some(7));
        let terms = fates.iter().map(|(of, _)| of).chain(unsent).map(term).collect();
        let fates = fates.iter().cloned().collect();
        let subject = "the process was killed".to_owned();
        Scene {
            candidates: elections.map(whose).enumerate().collect(),
            words: LastWords { subject, gone: true, terms, fates },
        }
    }

    impl Scene {
        fn told(&self) -> Vec<(&str, String)> {
            let split = BTreeSet::from([ALL.to_owned()]);
            let all = self.words.all(&self.candidates, &split);
            let told = |text: String| text.replace("the process was killed; ", "");
            all.into_iter().map(|(whose, text)| (whose.election.as_str(), told(text))).collect()
        }
    }

    fn sign() -> Subject {
        Subject::Sign(ALL.to_owned())
    }

    const LEASE: fn(usize) -> Subject = Subject::Lease;

    #[test]
    fn all_shares_of_an_election_have_one_line() {
        let done = |of| (of, Fate::Done);
        let scene =
            scene(&[sign(), LEASE(1), LEASE(2), LEASE(3), LEASE(5), LEASE(6)].map(done), &[]);
        let expected = "nothing of its work runs any more; the leases of shares 0–2, 9 were released; its sign of \
                        life was deleted, so the others take over its shares at once";
        let other = "nothing of its work runs any more, and its lease (term 7) was released, so another candidate \
                     can lead";
        assert_eq!(scene.told(), [(ALL, expected.into()), ("jobs/else", other.into())]);
    }

    #[test]
    fn what_went_wrong_is_told_apart_from_what_was_done() {
        let fates = [
            (LEASE(0), Fate::Done),
            (LEASE(1), Fate::Refused(403)),
            (LEASE(2), Fate::Refused(403)),
            (LEASE(4), Fate::Done),
            (sign(), Fate::NotThat),
        ];
        let scene = scene(&fates, &[]);
        let expected = "nothing of its work runs any more; the leases of shares 0–1 were not released: the service \
                        refused with status 403; the leases of share 3 and the coordinating election were released; its sign of \
                        life was not deleted: its last write was never answered, or another process has the same \
                        name; the others take over its shares once it has been silent for too long";
        let told = scene.told();
        assert_eq!(told[0], (ALL, expected.into()));
        assert_eq!(told[1], ("jobs/else", "it left no lease to release".into()));
    }

    #[test]
    fn nothing_is_told_of_a_sign_that_was_taken_back() {
        assert_eq!(scene(&[], &[]).told()[0], (ALL, "it left no share to release".into()));
    }

    #[test]
    fn why_nothing_was_sent_is_told() {
        let mut scene = scene(&[], &[LEASE(0), LEASE(5), sign()]);
        let rest = "; the others take over its shares once it has been silent for too long";
        let hurried = "before this process had to end";
        let expected = format!(
            "the leases of share 9 and the coordinating election were not released {hurried}; its sign of life was not deleted \
             {hurried}{rest}"
        );
        assert_eq!(scene.told()[0], (ALL, expected));
        scene.words.gone = false;
        let expected = format!(
            "some of its work could not be stopped; the leases of share 9 and the coordinating election were not released; its sign \
             of life was not deleted{rest}"
        );
        assert_eq!(scene.told()[0], (ALL, expected));
    }
}
