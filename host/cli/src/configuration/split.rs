//! Work that is split into shares.

use super::{Configuration, OF_TURNS};
use crate::settings::Given;
use crate::settings::table::{
    CAPACITY, FOR_EACH, FOR_EACH_FILE, MAX_SHARES, MAX_TENURE, NO_WORK, SHARES, WHILE_LEADING,
};
use tenure::engine::CandidateSettings;
use tenure_members::{Candidate, POLL};

/// How work is split, and what this process takes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Split {
    pub count: u32,
    pub capacity: u32,
    /// The most shares that it takes.
    pub most: Option<u32>,
}

impl Split {
    /// The most shares that this process may hold.
    pub(crate) fn most_here(self) -> usize {
        let most = self.most.map_or(self.count, |most| most.min(self.count));
        usize::try_from(most).unwrap_or(usize::MAX)
    }

    /// What people should know at the start.
    pub(crate) fn note(self, member: &str) -> String {
        format!(
            "the work is split into {} shares, unless others agreed on another number before; this process takes \
             part as {member}, and no other process may have that name. To see who holds which: tenure status",
            self.count
        )
    }
}

impl Configuration {
    /// Judges whether the work is split, and what else is set for it.
    pub(super) fn judge_split(&mut self) {
        let (capacity, most) = (self.number(&CAPACITY), self.number(&MAX_SHARES));
        if self.given.get(&SHARES).is_none() {
            for setting in [&CAPACITY, &MAX_SHARES] {
                // A variable may be set for others.
                if self.given.is_written(setting) {
                    let problem = "this is only for work that is split";
                    let advice = format!("add {}, or leave it out", self.called(&SHARES));
                    self.complain_of_use(setting, problem, &advice);
                }
            }
            return;
        }
        let count = self.number(&SHARES);
        if self.given.pattern.is_some()
            || self.given.get(&FOR_EACH).or_else(|| self.given.get(&FOR_EACH_FILE)).is_some()
        {
            let problem = "elections of a list cannot be split";
            self.complain_of_use(&SHARES, problem, "run a process for each, or leave out the list");
        }
        if self.given.is_on(&NO_WORK) {
            let problem = "shares are for work that Tenure runs, not for an application that asks";
            let [no_work, shares] = [&NO_WORK, &SHARES].map(|setting| self.called(setting));
            let advice = format!("leave out {no_work}, or leave out {shares}");
            self.complain_of_use(&SHARES, problem, &advice);
        }
        if self.given.is_written(&MAX_TENURE) {
            let problem = "only the plan decides who holds a share";
            let advice = format!("leave it out, or leave out {}", self.called(&SHARES));
            self.complain_of_use(&MAX_TENURE, problem, &advice);
        }
        self.clear(&[&MAX_TENURE]);
        self.split = count.map(|count| Split { count, capacity: capacity.unwrap_or(1), most });
    }

    /// What the coordinating candidate is set to: it has no turns.
    pub(crate) fn of_coordination(&self) -> CandidateSettings {
        let mut settings = self.settings.clone();
        let options = &mut settings.options;
        let of_turns = OF_TURNS.into_iter().chain([&WHILE_LEADING]);
        of_turns.flat_map(|setting| setting.variables()).for_each(|name| options.unset(name));
        (options.on_trigger, options.coordinates) = (None, Some(true));
        settings
    }

    /// For the candidate of a share, where `given` is for the coordinating one. It has the name of its member, whatever this
    /// machine is called meanwhile.
    pub(crate) fn of_share(given: Given, candidate: &Candidate, member: &str) -> Self {
        let mut this = Self::of_run(given);
        this.settings.options.name = Some(member.to_owned());
        let coordinating = this.of_coordination();
        this.settings.options.election = Some(candidate.election(&this.election()));
        this.settings.options.poll = Some(POLL);
        (this.split, this.part) = (None, Some((candidate.part, coordinating)));
        this
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::program;
    use crate::settings::CommandLine;
    use crate::settings::table::TABLE;
    use std::time::Duration;
    use tenure_shares::Share;

    fn judged(more: &[&str]) -> Configuration {
        let words = ["tenure", "run", "jobs/orders"].iter().chain(more);
        let matches = program(TABLE).try_get_matches_from(words).unwrap();
        let line = CommandLine::of(TABLE, "run", matches.subcommand().unwrap().1);
        Configuration::of_run(Given::of(&line))
    }

    fn sources(configuration: &Configuration) -> Vec<&str> {
        configuration.complaints.iter().map(|complaint| complaint.source.as_str()).collect()
    }

    /// Without a name, a candidate is named after its machine, whose name may change.
    #[test]
    fn a_share_is_led_under_the_name_of_the_member() {
        let coordinating = judged(&["--every", "1m", "--shares", "2"]);
        let share = Candidate::of(Share { split: 1, index: 0 }, 2);
        let share = Configuration::of_share(coordinating.given, &share, "localhost-7");
        assert_eq!(share.settings.options.name.as_deref(), Some("localhost-7"));
    }

    #[test]
    fn what_is_said_of_shares_is_taken() {
        let plain = judged(&["--every", "1m", "--shares", "32"]);
        assert_eq!(plain.split, Some(Split { count: 32, capacity: 1, most: None }));
        let all = ["--every", "1m", "--shares", "1", "--capacity", "0", "--max-shares", "8"];
        assert_eq!(judged(&all).split, Some(Split { count: 1, capacity: 0, most: Some(8) }));
        assert_eq!(judged(&["--every", "1m"]).split, None);
        assert_eq!(sources(&plain), [""; 0]);
    }

    #[test]
    fn what_makes_no_sense_beside_shares_is_told_at_once() {
        let more = ["--shares", "0", "--capacity", "-1", "--max-shares", "x"];
        let more = [&["--no-work", "--listen", "127.0.0.1:0"], &more[..]].concat();
        let more = [&["--max-tenure", "1h", "--for-each", "a"], &more[..]].concat();
        let wrong = judged(&more);
        assert_eq!(wrong.split, None);
        let told = [
            "--capacity -1",
            "--max-shares x",
            "--shares 0",
            "--shares",
            "--shares",
            "--max-tenure",
        ];
        assert_eq!(sources(&wrong), told);
        let problems = wrong.complaints.iter().map(|complaint| complaint.problem.as_str());
        let problems = problems.collect::<Vec<_>>();
        assert_eq!(problems[2], "\"0\" is not between 1 and 100000");
        let alone = judged(&["--every", "1m", "--capacity", "2", "--max-shares", "3"]);
        assert_eq!(sources(&alone), ["--capacity", "--max-shares"]);
    }

    #[test]
    fn the_coordinating_election_has_no_turns() {
        let split =
            judged(&["--shares", "8", "--every", "1m", "--turn-timeout", "5s", "--lease", "30s"]);
        let coordinating = split.of_coordination().options;
        let of_turns = (coordinating.every, coordinating.turn_timeout, coordinating.while_leading);
        assert_eq!(of_turns, (None, None, None));
        assert_eq!(coordinating.lease, Some(Duration::from_secs(30)));
        assert_eq!(coordinating.coordinates, Some(true));
        assert_eq!(split.settings.options.coordinates, None);
        assert_eq!(split.settings.options.every, Some(Duration::from_secs(60)), "shares have");
    }
}
