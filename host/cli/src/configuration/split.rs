//! Work that is split into shares.

use super::{Configuration, TURN_SETTINGS};
use crate::settings::ResolvedSettings;
use crate::settings::table::{
    CAPACITY, FOR_EACH, FOR_EACH_FILE, MAX_SHARES, MAX_TENURE, NO_WORK, SHARES, WHILE_LEADING,
};
use tenure::engine::CandidateSettings;
use tenure_members::{SHARE_POLL_INTERVAL, ShareCandidate};

/// The number of shares, and the part of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Split {
    pub count: u32,
    pub capacity: u32,
    pub max_shares: Option<u32>,
}

impl Split {
    /// Returns the maximum number of shares that this process may hold.
    pub(crate) fn max_held(self) -> usize {
        let most = self.max_shares.map_or(self.count, |most| most.min(self.count));
        usize::try_from(most).unwrap_or(usize::MAX)
    }

    /// Returns the note to log at the start.
    pub(crate) fn note(self, member: &str) -> String {
        format!(
            "the work is split into {} shares, unless a plan with another number exists; this process takes \
             part as {member}, and no other process may have that name. To see the holders: tenure status",
            self.count
        )
    }
}

impl Configuration {
    /// Validates the settings of shares, and those that conflict with them.
    pub(super) fn validate_split(&mut self) {
        let (capacity, most) = (self.number(&CAPACITY), self.number(&MAX_SHARES));
        if self.resolved.get(&SHARES).is_none() {
            for setting in [&CAPACITY, &MAX_SHARES] {
                // A variable may be meant for other processes.
                if self.resolved.is_written(setting) {
                    let problem = "this is only for work that is split";
                    let advice = format!("add {}, or leave it out", self.display_name(&SHARES));
                    self.complain_of_use(setting, problem, &advice);
                }
            }
            return;
        }
        let count = self.number(&SHARES);
        if self.resolved.pattern.is_some()
            || self.resolved.get(&FOR_EACH).or_else(|| self.resolved.get(&FOR_EACH_FILE)).is_some()
        {
            let problem = "elections of a list cannot be split";
            self.complain_of_use(&SHARES, problem, "run a process for each, or leave out the list");
        }
        if self.resolved.is_on(&NO_WORK) {
            let problem = "shares are for work that Tenure runs, not for an application that asks";
            let [no_work, shares] = [&NO_WORK, &SHARES].map(|setting| self.display_name(setting));
            let advice = format!("leave out {no_work}, or leave out {shares}");
            self.complain_of_use(&SHARES, problem, &advice);
        }
        if self.resolved.is_written(&MAX_TENURE) {
            let problem = "only the plan decides who holds a share";
            let advice = format!("leave it out, or leave out {}", self.display_name(&SHARES));
            self.complain_of_use(&MAX_TENURE, problem, &advice);
        }
        self.unset(&[&MAX_TENURE]);
        self.split =
            count.map(|count| Split { count, capacity: capacity.unwrap_or(1), max_shares: most });
    }

    /// Returns the settings of the coordinating candidate, which has no turns.
    pub(crate) fn coordination_settings(&self) -> CandidateSettings {
        let mut settings = self.settings.clone();
        let options = &mut settings.options;
        let turn_settings = TURN_SETTINGS.into_iter().chain([&WHILE_LEADING]);
        turn_settings.flat_map(|setting| setting.variables()).for_each(|name| options.unset(name));
        (options.on_trigger, options.coordinates) = (None, Some(true));
        settings
    }

    /// Configures the candidate of a share, where `resolved` is for the coordinating one. It keeps
    /// the name of its member, even if this machine is renamed meanwhile.
    pub(crate) fn for_share(
        resolved: ResolvedSettings,
        candidate: &ShareCandidate,
        member: &str,
    ) -> Self {
        let mut this = Self::for_run(resolved);
        this.settings.options.name = Some(member.to_owned());
        let coordinating = this.coordination_settings();
        this.settings.options.election = Some(candidate.election(&this.election()));
        this.settings.options.poll = Some(SHARE_POLL_INTERVAL);
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

    fn configure(more: &[&str]) -> Configuration {
        let words = ["tenure", "run", "jobs/orders"].iter().chain(more);
        let matches = program(TABLE).try_get_matches_from(words).unwrap();
        let line = CommandLine::from_matches(TABLE, "run", matches.subcommand().unwrap().1);
        Configuration::for_run(ResolvedSettings::from_command_line(&line))
    }

    fn sources(configuration: &Configuration) -> Vec<&str> {
        configuration.complaints.iter().map(|complaint| complaint.source.as_str()).collect()
    }

    /// The default name of a candidate is that of its machine, which may change.
    #[test]
    fn a_share_is_led_under_the_name_of_the_member() {
        let coordinating = configure(&["--every", "1m", "--shares", "2"]);
        let share = ShareCandidate::new(Share { split: 1, index: 0 }, 2);
        let share = Configuration::for_share(coordinating.resolved, &share, "localhost-7");
        assert_eq!(share.settings.options.name.as_deref(), Some("localhost-7"));
    }

    #[test]
    fn share_options_are_accepted() {
        let plain = configure(&["--every", "1m", "--shares", "32"]);
        assert_eq!(plain.split, Some(Split { count: 32, capacity: 1, max_shares: None }));
        let all = ["--every", "1m", "--shares", "1", "--capacity", "0", "--max-shares", "8"];
        assert_eq!(
            configure(&all).split,
            Some(Split { count: 1, capacity: 0, max_shares: Some(8) })
        );
        assert_eq!(configure(&["--every", "1m"]).split, None);
        assert_eq!(sources(&plain), [""; 0]);
    }

    #[test]
    fn options_that_conflict_with_shares_are_reported_together() {
        let more = ["--shares", "0", "--capacity", "-1", "--max-shares", "x"];
        let more = [&["--no-work", "--listen", "127.0.0.1:0"], &more[..]].concat();
        let more = [&["--max-tenure", "1h", "--for-each", "a"], &more[..]].concat();
        let wrong = configure(&more);
        assert_eq!(wrong.split, None);
        let expected = [
            "--capacity -1",
            "--max-shares x",
            "--shares 0",
            "--shares",
            "--shares",
            "--max-tenure",
        ];
        assert_eq!(sources(&wrong), expected);
        let problems = wrong.complaints.iter().map(|complaint| complaint.problem.as_str());
        let problems = problems.collect::<Vec<_>>();
        assert_eq!(problems[2], "\"0\" is not between 1 and 100000");
        let alone = configure(&["--every", "1m", "--capacity", "2", "--max-shares", "3"]);
        assert_eq!(sources(&alone), ["--capacity", "--max-shares"]);
    }

    #[test]
    fn the_coordinating_election_has_no_turns() {
        let split = configure(&[
            "--shares",
            "8",
            "--every",
            "1m",
            "--turn-timeout",
            "5s",
            "--lease",
            "30s",
        ]);
        let coordinating = split.coordination_settings().options;
        let turn_options =
            (coordinating.every, coordinating.turn_timeout, coordinating.while_leading);
        assert_eq!(turn_options, (None, None, None));
        assert_eq!(coordinating.lease, Some(Duration::from_secs(30)));
        assert_eq!(coordinating.coordinates, Some(true));
        assert_eq!(split.settings.options.coordinates, None);
        assert_eq!(split.settings.options.every, Some(Duration::from_secs(60)), "shares have");
    }
}
