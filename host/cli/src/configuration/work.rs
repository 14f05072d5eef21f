//! Settings of the work: its hosts, variables and stop time, and its division into shares.

use super::{Configuration, TURN_SETTINGS};
use crate::complaint::redacted;
use crate::settings::ResolvedSettings;
use crate::settings::table::{
    ALLOW_HOST, CAPACITY, ENV, FOR_EACH, FOR_EACH_FILE, MAX_SHARES, MAX_TENURE, NO_WORK, SHARES,
    WHILE_LEADING,
};
use tenure::engine::{AllowList, CandidateSettings};
use tenure_members::{SHARE_POLL_INTERVAL, ShareCandidate};

#[cfg(unix)]
use crate::settings::table::STOP_TIME;
#[cfg(unix)]
use std::time::Duration;

/// The number of shares, and the part that this process may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Split {
    pub count: u32,
    /// The weight of this process, in comparison with the other processes.
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
    /// Returns the stop time of a command: the time from the request to stop until the end of the
    /// leadership. None for a wrong value, and for the default without failover. Validates the
    /// default too.
    #[cfg(unix)]
    pub(crate) fn stop_time(&mut self) -> Option<Duration> {
        let configured = self.duration(&STOP_TIME);
        if configured.is_none() && self.resolved.text(&STOP_TIME).is_some() {
            return None;
        }
        let periods = stop_time::Periods::from_timings(&self.settings.options.timings()?);
        let configured = configured.or(stop_time::default_with_failover(periods));
        let breach = stop_time::check(configured.unwrap_or(tenure_supervisor::STOP_TIME), periods);
        if let Some((problem, advice)) = &breach {
            self.complain(&STOP_TIME, problem, advice);
        }
        configured.filter(|_| breach.is_none())
    }

    /// Returns the hosts that a handler may send requests to.
    pub(crate) fn allow_list(&mut self) -> AllowList {
        let mut list = AllowList::default();
        let mut wrong = Vec::new();
        for (value, item) in self.resolved.items(&ALLOW_HOST) {
            let entry = item.text.to_string_lossy();
            let allowed = list.allow(&entry).is_ok();
            let complaint = host_problem(entry.trim()).or_else(|| {
                const PROBLEM: &str = "this is not HOST, HOST:PORT or SCHEME://HOST[:PORT]";
                (!allowed).then(|| (PROBLEM, ALLOW_HOST.advice.to_owned()))
            });
            if let Some((problem, advice)) = complaint {
                wrong.push((value.describe_item(Some(item)), problem, advice));
            }
        }
        for (source, problem, advice) in wrong {
            self.complain_at(source, problem, &advice);
        }
        list
    }

    pub(crate) fn handler_env(&mut self) -> Vec<(String, String)> {
        let mut env = Vec::new();
        let mut wrong = Vec::new();
        for (entry, item) in self.resolved.items(&ENV) {
            let text = item.text.to_string_lossy();
            let (name, value) = match text.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (&*text, std::env::var(&*text).ok()),
            };
            match value {
                Some(value) if !name.is_empty() => env.push((name.to_owned(), value)),
                // Does not show the text, since all of it may be a secret.
                _ => wrong.push(entry.describe_item(Some(item))),
            }
        }
        for source in wrong {
            let problem = "this is neither KEY=VALUE nor the name of a variable that is set";
            self.complain_at(source, problem, ENV.advice);
        }
        env
    }

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

    /// Configures the candidate of a share from `resolved`, the settings of the coordinating
    /// candidate. The candidate keeps the name `member`, even if this machine is renamed meanwhile.
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

/// Returns the problem with a host to allow, and the correction where it is known.
fn host_problem(entry: &str) -> Option<(&'static str, String)> {
    let (scheme, authority) = match entry.split_once("://") {
        Some((scheme, remainder)) => (format!("{scheme}://"), remainder),
        None => (String::new(), entry),
    };
    // Gives no correction, since a part of the text may be a secret.
    if entry.contains('@') {
        return None;
    }
    if entry.contains(',') {
        let several: Vec<_> = entry.split(',').map(str::trim).collect();
        let several = redacted(&several.join(" and "));
        return Some(("this is a list of hosts", format!("give each separately: {several}")));
    }
    if let Some((host, _)) =
        authority.split_once(['/', '?', '#']).filter(|(host, _)| !host.is_empty())
    {
        let host = redacted(&format!("{scheme}{host}"));
        let advice = format!("leave the path out: {host} allows all paths there");
        return Some(("only whole hosts can be allowed, not single paths", advice));
    }
    if authority.contains('*') {
        let advice = "name each host, like a.example.com and b.example.com";
        return Some(("patterns of hosts are not supported", advice.to_owned()));
    }
    let is_port = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_port(authority.strip_prefix(':').unwrap_or(authority)) {
        let port = authority.trim_start_matches(':');
        let advice = format!("write the host before it, like example.com:{port}");
        return Some(("this is a port without a host", advice));
    }
    let (host, port_suffix) = match authority.split_once(':') {
        Some((host, port)) if !authority.starts_with('[') => (host, format!(":{port}")),
        _ => (authority, String::new()),
    };
    let lower = host.trim_end_matches('.').to_ascii_lowercase();
    if lower == "localhost" || lower.ends_with(".localhost") {
        let replacement = redacted(&format!("{scheme}127.0.0.1{port_suffix}"));
        return Some((
            "a handler may reach this machine only by its address, since any name can be made to resolve to it",
            format!("write {replacement} (or [::1]), and that address in the handler's URL too"),
        ));
    }
    None
}

/// Checks that the stop time of a command fits into the time for which a leader may act.
#[cfg(unix)]
mod stop_time {
    use crate::settings::table::SHORTEST_STOP_TIME;
    use std::time::Duration;
    use tenure_base::duration::format_duration;
    use tenure_core::Timings;
    use tenure_supervisor::{KILL_SLACK, STOP_TIME};

    /// Minimum of the default stop time with failover, even if the stop then begins before an
    /// unanswered beat was retried. Short periods reduce it further.
    const GRACEFUL_STOP_TIME: Duration = Duration::from_millis(700);

    /// Periods of a leader that bound the stop time.
    #[derive(Clone, Copy)]
    pub(super) struct Periods {
        /// Maximum time for which a leader may act without a renewal, or, with failover, without a
        /// beat.
        validity: Duration,
        /// Interval of renewals or beats.
        renew: Duration,
        failover: bool,
    }

    impl Periods {
        pub(super) fn from_timings(timings: &Timings) -> Self {
            let failover = timings.failover.is_some();
            Self { validity: timings.validity(), renew: timings.renewal_interval(), failover }
        }
    }

    /// Returns the default stop time with failover, where validity may end soon after a beat. It is
    /// as long as the periods allow. If possible, the stop begins only after an unanswered beat was
    /// retried. `None` without failover.
    pub(super) fn default_with_failover(periods: Periods) -> Option<Duration> {
        let Periods { validity, renew, failover } = periods;
        // A due beat may take half of the remaining time before it is retried.
        let until_retry = renew + validity.saturating_sub(renew) / 2 + Duration::from_millis(100);
        let after_retry = validity.saturating_sub(until_retry).max(GRACEFUL_STOP_TIME);
        failover.then(|| {
            STOP_TIME.min(available_time(periods)).min(after_retry).max(SHORTEST_STOP_TIME)
        })
    }

    /// Returns the maximum stop time: the validity that remains when the next renewal is due, less
    /// some slack.
    fn available_time(periods: Periods) -> Duration {
        periods.validity.saturating_sub(periods.renew + KILL_SLACK)
    }

    /// Returns the problem with `time` and the advice, or none if it fits.
    pub(super) fn check(time: Duration, periods: Periods) -> Option<(String, String)> {
        let Periods { validity, renew, failover } = periods;
        let available = available_time(periods);
        if time <= available {
            return None;
        }
        let (limit_text, alternative) = match failover {
            true => ("a beat, and beats every", "a longer failover"),
            false => (
                "a renewal, and renews every",
                "a longer lease, a shorter margin, or renew more often",
            ),
        };
        let problem = format!(
            "a stop time of {} does not fit: a leader may act for {} without {limit_text} {}",
            format_duration(time),
            format_duration(validity),
            format_duration(renew),
        );
        let advice = match available < SHORTEST_STOP_TIME {
            true => format!("choose {alternative}"),
            false => {
                let whole = if available < Duration::from_secs(1) { 100 } else { 1_000 };
                let millis =
                    u64::try_from(available.as_millis()).unwrap_or(u64::MAX) / whole * whole;
                let most = format_duration(Duration::from_millis(millis));
                format!("choose {most} or less, or {alternative}")
            }
        };
        Some((problem, advice))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        const DEFAULT: Periods = Periods {
            validity: Duration::from_secs(12),
            renew: Duration::from_secs(4),
            failover: false,
        };

        fn problem(ms: u64, periods: Periods) -> Option<String> {
            check(Duration::from_millis(ms), periods).map(|(problem, _)| problem)
        }

        #[test]
        fn stop_time_must_leave_room_for_a_renewal() {
            for good in [1_000, 3_000, 7_500] {
                assert_eq!(problem(good, DEFAULT), None, "{good}");
            }
            let (problem, advice) = check(Duration::from_millis(7_501), DEFAULT).unwrap();
            assert!(problem.contains("renews every 4s"), "{problem}");
            assert!(advice.starts_with("choose 7s or less"), "{advice}");
            let tight = Periods { renew: Duration::from_secs(11), ..DEFAULT };
            let advice = |periods| check(Duration::from_secs(1), periods).unwrap().1;
            assert!(advice(tight).starts_with("choose 500ms or less"));
            let tighter = Periods { renew: Duration::from_millis(11_450), ..DEFAULT };
            assert!(advice(tighter).starts_with("choose a longer"));
        }

        #[test]
        fn with_failover_the_stop_time_fits_between_beats() {
            let ms = Duration::from_millis;
            let failover_periods = |validity, renew| Periods {
                validity: ms(validity),
                renew: ms(renew),
                failover: true,
            };
            for (periods, time) in [
                (failover_periods(5_666, 1_666), 1_900),
                (failover_periods(1_700, 500), 700),
                (failover_periods(1_100, 333), 267),
            ] {
                assert_eq!(default_with_failover(periods), Some(ms(time)));
                assert_eq!(check(ms(time), periods), None);
            }
            // With 1 s, nothing can be stopped in time.
            let short = default_with_failover(failover_periods(400, 166)).unwrap();
            let (problem, advice) = check(short, failover_periods(400, 166)).unwrap();
            assert!(problem.contains("for 400ms without a beat"), "{problem}");
            assert_eq!(advice, "choose a longer failover");
            assert_eq!(default_with_failover(DEFAULT), None);
        }
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
        assert_eq!(split.settings.options.every, Some(Duration::from_secs(60)), "shares keep it");
    }

    #[test]
    fn host_problem_suggests_a_correction() {
        for (entry, advice) in [
            ("localhost", Some("write 127.0.0.1 ")),
            ("localhost:3000", Some("write 127.0.0.1:3000 ")),
            ("http://LocalHost.:3000", Some("write http://127.0.0.1:3000 ")),
            ("api.localhost", Some("write 127.0.0.1 ")),
            (":8080", Some("like example.com:8080")),
            ("8080", Some("like example.com:8080")),
            ("a.com,b.com:81", Some(": a.com and b.com:81")),
            ("https://a.com/path?q", Some(": https://a.com allows")),
            ("a.com/", Some(": a.com allows")),
            ("*.example.com", Some("name each host")),
            ("example.com:8443", None),
            ("https://example.com", None),
            ("127.0.0.1:3000", None),
            ("[::1]:8080", None),
            ("localhost.example.com", None),
            ("https://user:secret@localhost/x", None),
        ] {
            let actual = host_problem(entry).map(|(_, advice)| advice);
            match (actual, advice) {
                (Some(actual), Some(advice)) => {
                    assert!(actual.contains(advice), "{entry}: {actual}")
                }
                (actual, advice) => assert_eq!(actual.as_deref(), advice, "{entry}"),
            }
        }
    }
}
