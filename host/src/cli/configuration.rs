//! From flags and variables to settings, keeping in mind where each came from.

use super::args::{
    ElectionArguments, LookArguments, LookTimes, ResetSlotArguments, RunArguments,
    StorageArguments, WatchArguments,
};
use super::complaint::{Complaint, shown};
#[cfg(unix)]
use super::stop_time;
use super::{ca_file, control_token};
use crate::clock::BootClock;
use crate::component::{CheckError, ElectionComponent, Engine};
use crate::contract;
use crate::egress::{AllowList, Authorities, InvalidTermHeader, TermHeader};
#[cfg(unix)]
use crate::handler::command;
use crate::server::{ControlToken, Server};
use crate::settings::{Settings, default_name, names};
use bytesize::ByteSize;
use clap::Args;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;
use tokio::net::TcpListener;

/// The runner's own setting, which the component does not see.
const GRACE: &str = "TENURE_GRACE";

/// The variable of `--listen`.
const LISTEN: &str = "TENURE_LISTEN";

/// The variable of `--ready-cmd`.
const READY_CMD: &str = "TENURE_READY_CMD";

/// The most grace that a turn is given.
const MOST_GRACE: Duration = Duration::from_secs(3600);

/// The variable of `--stop-time`. It is the host's business too.
#[cfg(unix)]
const STOP_TIME: &str = "TENURE_STOP_TIME";

/// The variable of `--memory-limit`. It is the host's business too.
const MEMORY_LIMIT: &str = "TENURE_MEMORY_LIMIT";

/// What a turn may take at least and at most. One memory has no more than 4 GiB.
const MEMORY: RangeInclusive<u64> = bytesize::MIB..=4 * bytesize::GIB;

/// The variable of `--term-header`. It is the host's business alone.
const TERM_HEADER: &str = "TENURE_TERM_HEADER";

/// Settings of turns, which make sense together with a timer only.
const TURNS: [&str; 5] =
    [names::TIME_ZONE, names::JITTER, names::DELIVERY, names::MAX_ATTEMPTS, names::MISSED];

/// Settings for the component, and the origin of those that are not from the environment.
#[derive(Default)]
pub(super) struct Configuration {
    pub settings: Settings,
    pub complaints: Vec<Complaint>,
    /// Trusted beside the platform's.
    pub authorities: Authorities,
    origins: Vec<(&'static str, String)>,
}

impl Configuration {
    pub(super) fn of_run(arguments: &RunArguments) -> Self {
        let mut this = Self::of(&arguments.storage);
        this.flag(names::ELECTION, "--election", arguments.election.as_deref());
        this.flag(names::NAME, "--name", arguments.name.as_deref());
        this.flag(names::LEASE, "--lease", arguments.lease.as_deref());
        this.flag(names::MARGIN, "--margin", arguments.margin.as_deref());
        this.flag(names::RENEW, "--renew", arguments.renew.as_deref());
        this.flag(names::POLL, "--poll", arguments.poll.as_deref());
        let request_timeout = arguments.request_timeout.as_deref();
        this.flag(names::REQUEST_TIMEOUT, "--request-timeout", request_timeout);
        this.flag(names::EVERY, "--every", arguments.every.as_deref());
        this.flag(names::CRON, "--cron", arguments.cron.as_deref());
        this.flag(
            names::WHILE_LEADING,
            "--while-leading",
            arguments.while_leading.then_some("true"),
        );
        this.flag(names::PRIORITY, "--priority", arguments.priority.as_deref());
        this.flag(names::MAX_TENURE, "--max-tenure", arguments.max_tenure.as_deref());
        this.flag(names::WARM_UP, "--warm-up", arguments.warm_up.as_deref());
        this.flag(names::TIME_ZONE, "--time-zone", arguments.time_zone.as_deref());
        this.flag(names::JITTER, "--jitter", arguments.jitter.as_deref());
        this.flag(names::DELIVERY, "--delivery", arguments.delivery.as_deref());
        this.flag(names::MAX_ATTEMPTS, "--max-attempts", arguments.max_attempts.as_deref());
        this.flag(names::MISSED, "--missed", arguments.missed.as_deref());
        this.flag(names::ON_START, "--on-start", arguments.on_start.as_deref());
        this.flag(names::TURN_TIMEOUT, "--turn-timeout", arguments.turn_timeout.as_deref());
        this.flag(names::MAX_FAILURES, "--max-failures", arguments.max_failures.as_deref());
        this.flag(names::COOL_DOWN, "--cool-down", arguments.cool_down.as_deref());
        this.flag(names::ADDRESS, "--address", arguments.address.as_deref());
        if this.settings.get(names::NAME).is_none() {
            this.settings.set(names::NAME, default_name());
        }
        let timers = [names::EVERY, names::CRON, names::ON_START, names::WHILE_LEADING];
        if timers.iter().all(|timer| this.settings.get(timer).is_none()) {
            this.complaints.push(Complaint::new(
                "--every",
                "no timer is given, so the handler would never run",
                "give --every 5s, --cron '0 9 * * MON-FRI', --on-start VALUE or --while-leading",
            ));
        }
        this
    }

    pub(super) fn of_look(arguments: &LookArguments) -> Self {
        Self::of_onlooker(&arguments.target, &arguments.target.between)
    }

    pub(super) fn of_watch(arguments: &WatchArguments) -> Self {
        Self::of_onlooker(&arguments.target, &arguments.target.between.look)
    }

    /// Of somebody who does not take part.
    fn of_onlooker(target: &ElectionArguments<impl Args>, times: &LookTimes) -> Self {
        let mut this = Self::of_election(target);
        let request_timeout = times.request_timeout.as_deref();
        this.flag(names::REQUEST_TIMEOUT, "--request-timeout", request_timeout);
        // What they go with may be given to `tenure run` as an option.
        let timer = [names::EVERY, names::CRON].iter().any(|n| this.settings.get(n).is_some());
        if !timer {
            this.clear(&TURNS);
        }
        if this.settings.get(names::DELIVERY).is_none() {
            this.clear(&[names::MAX_ATTEMPTS]);
        }
        if this.settings.get(names::CRON).is_none() {
            this.clear(&[names::TIME_ZONE]);
        }
        this
    }

    /// Whether the work is to last as long as the leadership.
    pub(super) fn while_leading(&self) -> bool {
        self.settings.get(names::WHILE_LEADING).is_some_and(|value| value.trim() == "true")
    }

    fn clear(&mut self, settings: &[&str]) {
        for setting in settings {
            self.settings.set(setting, "");
        }
    }

    pub(super) fn of_reset_slot(arguments: &ResetSlotArguments) -> Self {
        let mut this = Self::of_election(&arguments.target);
        this.settings.set(names::NAME, "tenure reset-slot");
        // It has no turns of its own, and is to win before the others look again.
        this.clear(&TURNS);
        this.clear(&[names::EVERY, names::CRON, names::ON_START, names::WHILE_LEADING]);
        this.clear(&[names::PRIORITY, names::MAX_TENURE, names::WARM_UP]);
        this.settings.set(names::POLL, "500ms");
        this
    }

    /// For an operator who looks at an election, and takes no part.
    pub(super) fn of_operator(target: &ElectionArguments<impl Args>) -> Self {
        let mut this = Self::of_election(target);
        this.clear(&TURNS);
        this.clear(&[names::EVERY, names::CRON, names::ON_START, names::WHILE_LEADING]);
        this
    }

    fn of_election(target: &ElectionArguments<impl Args>) -> Self {
        let mut this = Self::of(&target.storage);
        this.flag(names::ELECTION, "--election", target.election.as_deref());
        this
    }

    fn of(storage: &StorageArguments) -> Self {
        let mut this = Self { settings: Settings::from_env(), ..Self::default() };
        // The host's business alone.
        this.clear(&[control_token::TOKEN, tenure_guest::webhook::variable::URL]);
        if let Some(file) = &storage.connection_string_file {
            this.connection_string(file);
        }
        match ca_file::authorities(storage.ca_file.as_deref()) {
            Ok(authorities) => this.authorities = authorities,
            Err(complaint) => this.complaints.push(complaint),
        }
        this
    }

    /// A value from the command line. Even an empty one wins, and is judged.
    fn flag(&mut self, setting: &'static str, flag: &'static str, value: Option<&str>) {
        let Some(value) = value else { return };
        if value.trim().is_empty() {
            self.complaints.push(Complaint::new(
                flag,
                "the value is empty",
                "give a value, or leave the flag out",
            ));
        }
        self.settings.set(setting, value);
        self.origins.push((setting, format!("{flag} {}", shown(value))));
    }

    fn connection_string(&mut self, file: &Path) {
        let name = file.to_string_lossy();
        let source = format!("--connection-string-file {}", shown(&name));
        if name.contains(';') && name.contains('=') {
            self.complaints.push(Complaint::new(
                "--connection-string-file …",
                "this is a connection string, not a file",
                format!(
                    "set {} to it: other users of this machine can read arguments",
                    names::CONNECTION_STRING
                ),
            ));
            self.origins.push((names::CONNECTION_STRING, String::new()));
            return;
        }
        // The component reads it, and judges it: again in each step, so that it can be replaced.
        let path = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        self.settings.set(names::CONNECTION_STRING_FILE, path.to_string_lossy());
        // The command line wins.
        self.settings.set(names::CONNECTION_STRING, "");
        self.origins.push((names::CONNECTION_STRING_FILE, source));
    }

    /// The election component with these settings, for a command that runs no handler; what it
    /// complains about is added.
    ///
    /// # Errors
    ///
    /// Why there is none, for people.
    pub(super) async fn component(
        &mut self,
        clock: &BootClock,
    ) -> Result<ElectionComponent, String> {
        let engine = Engine::new();
        let engine = engine.map_err(|e| format!("WebAssembly cannot be run here: {e:#}"))?;
        let component = ElectionComponent::new(&engine, self.settings.clone(), clock);
        let component = component.map_err(|error| error.to_string())?;
        let component = component.trusting(self.authorities.clone());
        match component.check().await {
            Ok(_) => {}
            Err(CheckError::Settings(complaints)) => self.add(complaints),
            Err(CheckError::Component(error)) => return Err(error.to_string()),
        }
        Ok(component)
    }

    /// Adds what the component complains about.
    pub(super) fn add(&mut self, complaints: Vec<contract::Complaint>) {
        for complaint in complaints {
            let origin = self.origins.iter().find(|(setting, _)| *setting == complaint.setting);
            let source = match origin {
                Some((_, told)) if told.is_empty() => continue,
                Some((_, source)) => source.clone(),
                None => match flag_of(&complaint.setting) {
                    Some(flag) if self.settings.get(&complaint.setting).is_none() => {
                        format!("{flag}, or {}", complaint.setting)
                    }
                    _ => complaint.setting,
                },
            };
            self.complaints.push(Complaint::new(source, complaint.problem, complaint.advice));
        }
    }

    /// The hosts that a handler may reach.
    pub(super) fn allow_list(&mut self, entries: &[String]) -> AllowList {
        let mut list = AllowList::default();
        for entry in entries {
            if list.allow(entry).is_err() {
                self.complaints.push(Complaint::new(
                    format!("--allow-host {}", shown(entry)),
                    "this is not HOST, HOST:PORT or SCHEME://HOST[:PORT]",
                    "give a host as in example.com, https://example.com:8443 or [::1]:8080",
                ));
            }
        }
        list
    }

    /// How long the last turn may go on; none when it was not said, or is wrong.
    pub(super) fn grace(&mut self, flag: Option<&str>) -> Option<Duration> {
        let (source, value) = host_setting(GRACE, "--grace", flag)?;
        let problem = match humantime::parse_duration(value.trim()) {
            Ok(grace) if grace <= MOST_GRACE => return Some(grace),
            Ok(_) => format!("\"{}\" is not between 0s and 1h", shown(&value)),
            Err(_) => format!("\"{}\" is not a duration", shown(&value)),
        };
        let advice = "choose how long a turn usually takes, like 5s; 0s stops it at once";
        self.complaints.push(Complaint::new(source, problem, advice));
        None
    }

    /// How long before the end of the leadership a command is told to end; none when it was not
    /// said, or is wrong. What goes without saying is judged too.
    #[cfg(unix)]
    pub(super) fn stop_time(&mut self, flag: Option<&str>) -> Option<Duration> {
        let said = host_setting(STOP_TIME, "--stop-time", flag);
        let read = said.as_ref().map(|(_, value)| humantime::parse_duration(value.trim()));
        let (problem, advice) = match read {
            Some(Err(_)) => {
                let value = said.as_ref().map(|(_, value)| shown(value)).unwrap_or_default();
                (format!("\"{value}\" is not a duration"), "give one like 3s".to_owned())
            }
            Some(Ok(time)) => match stop_time::judge(time, self.periods()) {
                None => return Some(time),
                Some(breach) => breach,
            },
            None => stop_time::judge(command::STOP_TIME, self.periods())?,
        };
        let source = said.map_or_else(|| "--stop-time".to_owned(), |(source, _)| source);
        self.complaints.push(Complaint::new(source, problem, advice));
        None
    }

    #[cfg(not(unix))]
    pub(super) fn stop_time(&mut self, _: Option<&str>) -> Option<Duration> {
        None
    }

    /// The periods as the component reads them; none where it complains about one of them.
    #[cfg(unix)]
    fn periods(&self) -> Option<stop_time::Periods> {
        let variable = |name: &str| match name {
            names::ELECTION => Some("any/any".to_owned()),
            names::CONNECTION_STRING => Some("UseDevelopmentStorage=true".to_owned()),
            names::LEASE | names::MARGIN | names::RENEW | names::POLL => {
                self.settings.get(name).map(str::to_owned)
            }
            names::REQUEST_TIMEOUT | names::TURN_TIMEOUT => {
                self.settings.get(name).map(str::to_owned)
            }
            _ => None,
        };
        let read = tenure_guest::election::Settings::read(variable).ok()?;
        Some(stop_time::Periods {
            validity: read.timings.lease.saturating_sub(read.timings.margin),
            renew: read.timings.renew,
            turn_timeout: read.watchdog.turn_timeout,
        })
    }

    /// The timer as the record of a leader with these settings has it; none without one.
    pub(super) fn schedule(&self) -> Option<String> {
        let variable = |name: &str| match name {
            names::ELECTION => Some("any/any".to_owned()),
            names::CONNECTION_STRING => Some("UseDevelopmentStorage=true".to_owned()),
            names::EVERY | names::CRON | names::TIME_ZONE => {
                self.settings.get(name).map(str::to_owned)
            }
            _ => None,
        };
        tenure_guest::election::Settings::read(variable).ok()?.agenda.words()
    }

    /// Bytes of memory for a turn; none when it was not said, or is wrong.
    pub(super) fn memory_limit(&mut self, flag: Option<&str>) -> Option<usize> {
        let (source, value) = host_setting(MEMORY_LIMIT, "--memory-limit", flag)?;
        let problem = match value.trim().parse::<ByteSize>() {
            Ok(size) if MEMORY.contains(&size.as_u64()) => {
                return usize::try_from(size.as_u64()).ok();
            }
            Ok(_) => format!("\"{}\" is not between 1MiB and 4GiB", shown(&value)),
            Err(_) => format!("\"{}\" is not a size", shown(&value)),
        };
        let advice = "give a number and a unit, like 64MiB or 1GiB";
        self.complaints.push(Complaint::new(source, problem, advice));
        None
    }

    /// Where to show what this candidate is. Listens at once, so that a port in use is known before
    /// anything begins.
    pub(super) async fn listener(&mut self, flag: Option<&str>) -> Option<TcpListener> {
        let (source, value) = host_setting(LISTEN, "--listen", flag)?;
        let (problem, advice) = match value.trim().parse::<SocketAddr>() {
            Err(_) => (
                format!("\"{}\" is no address with a port", shown(&value)),
                "give one like 0.0.0.0:8080, [::]:8080 or 127.0.0.1:8080",
            ),
            Ok(address) => match Server::bind(address).await {
                Ok(listener) => return Some(listener),
                Err(error) => (
                    format!("{address} cannot be listened on: {error}"),
                    match error.kind() {
                        ErrorKind::AddrNotAvailable => {
                            "choose an address of this machine, or 0.0.0.0 or [::] for all of them"
                        }
                        ErrorKind::PermissionDenied => "choose a port from 1024 on",
                        _ => "choose another port, or end what listens there",
                    },
                ),
            },
        };
        self.complaints.push(Complaint::new(source, problem, advice));
        None
    }

    /// Without another address, that of a listener which others can reach is put on record.
    pub(super) fn default_address(&mut self, listener: Option<&TcpListener>) {
        let address = listener.and_then(|listener| listener.local_addr().ok());
        let reachable = address.filter(|a| !a.ip().is_unspecified() && !a.ip().is_loopback());
        if let (Some(address), None) = (reachable, self.settings.get(names::ADDRESS)) {
            self.settings.set(names::ADDRESS, format!("http://{address}"));
        }
    }

    /// The token by which operators may steer this candidate, over a listener.
    pub(super) fn control_token(
        &mut self,
        flag: Option<&Path>,
        listens: bool,
    ) -> Option<ControlToken> {
        if flag.is_some() && !listens {
            self.complaints.push(Complaint::new(
                "--control-token-file",
                "nothing listens, so nobody could use the token",
                "add --listen, or leave it out",
            ));
        }
        match control_token::read(flag) {
            Ok(token) => token,
            Err(complaint) => {
                self.complaints.push(complaint);
                None
            }
        }
    }

    /// The command that tells whether this process can work.
    pub(super) fn ready_cmd(&self, flag: Option<&str>) -> Option<String> {
        host_setting(READY_CMD, "--ready-cmd", flag).map(|(_, command)| command)
    }

    /// The header that carries the term.
    pub(super) fn term_header(&mut self, flag: Option<&str>) -> TermHeader {
        let setting = host_setting(TERM_HEADER, "--term-header", flag);
        let Some((source, value)) = setting else { return TermHeader::default() };
        value.parse().unwrap_or_else(|problem: InvalidTermHeader| {
            self.complaints.push(Complaint::new(
                source,
                format!("\"{}\": {problem}", shown(&value)),
                "give a name of your own, as in --term-header x-fencing-token, or leave it out",
            ));
            TermHeader::default()
        })
    }

    /// The environment of a handler.
    pub(super) fn handler_env(&mut self, entries: &[String]) -> Vec<(String, String)> {
        let mut env = Vec::new();
        for entry in entries {
            match entry.split_once('=') {
                Some((key, value)) if !key.is_empty() => {
                    env.push((key.to_owned(), value.to_owned()))
                }
                // All of it may be a secret.
                _ => self.complaints.push(Complaint::new(
                    "--env …",
                    "this is not KEY=VALUE",
                    "give a variable as in --env REPORT_URL=https://example.com",
                )),
            }
        }
        env
    }
}

fn flag_of(setting: &str) -> Option<&'static str> {
    match setting {
        names::ELECTION => Some("--election"),
        names::CONNECTION_STRING => Some("--connection-string-file"),
        _ => None,
    }
}

/// A setting that the component does not see: its value, and where that came from.
fn host_setting(variable: &str, flag: &str, given: Option<&str>) -> Option<(String, String)> {
    if let Some(value) = given {
        return Some((format!("{flag} {}", shown(value)), value.to_owned()));
    }
    let value = std::env::var(variable).ok().filter(|value| !value.trim().is_empty())?;
    Some((variable.to_owned(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(setting: &str) -> contract::Complaint {
        contract::Complaint {
            setting: setting.to_owned(),
            problem: "wrong".to_owned(),
            advice: "mend it".to_owned(),
        }
    }

    #[test]
    fn a_complaint_names_where_the_value_came_from() {
        let mut configuration = Configuration::default();
        configuration.flag(names::LEASE, "--lease", Some("5s"));
        configuration.settings.set(names::RENEW, "1s");
        configuration.add(vec![
            complaint(names::LEASE),
            complaint(names::RENEW),
            complaint(names::ELECTION),
        ]);
        let sources: Vec<_> = configuration.complaints.iter().map(|c| c.source.as_str()).collect();
        assert_eq!(sources, ["--lease 5s", "TENURE_RENEW", "--election, or TENURE_ELECTION"]);
    }

    #[test]
    fn a_file_is_named_to_the_component_by_its_whole_path() {
        let mut configuration = Configuration::default();
        configuration.connection_string(Path::new("secret.txt"));
        let path = configuration.settings.get(names::CONNECTION_STRING_FILE).unwrap();
        assert_eq!(Path::new(path), std::path::absolute("secret.txt").unwrap());
        configuration.add(vec![complaint(names::CONNECTION_STRING_FILE)]);
        let [only] = configuration.complaints.as_slice() else { panic!("one complaint") };
        assert_eq!(only.source, "--connection-string-file secret.txt");
    }

    #[test]
    fn a_connection_string_is_no_file_and_never_shown() {
        let mut configuration = Configuration::default();
        configuration.connection_string(Path::new("AccountName=a;AccountKey=c2VjcmV0"));
        let text = super::super::complaint::report(&configuration.complaints);
        assert!(text.contains("not a file"), "{text}");
        assert!(!text.contains("c2VjcmV0"), "{text}");
    }

    #[test]
    fn the_grace_is_judged_at_its_bounds() {
        let mut configuration = Configuration::default();
        for (good, seconds) in [("0s", 0.0), ("2.5s", 2.5), ("1h", 3600.0), (" 1m 30s ", 90.0)] {
            let grace = configuration.grace(Some(good));
            assert_eq!(grace, Some(Duration::from_secs_f64(seconds)), "{good}");
        }
        assert_eq!(configuration.complaints, []);
        for bad in ["", "5", "soon", "-1s", "1h 1ms", "99999999999999999999s"] {
            assert_eq!(configuration.grace(Some(bad)), None, "{bad}");
        }
        assert_eq!(configuration.complaints.len(), 6);
        assert_eq!(configuration.complaints[1].source, "--grace 5");
        configuration.grace(Some("AccountKey=c2VjcmV0"));
        assert!(!format!("{:?}", configuration.complaints).contains("c2VjcmV0"));
    }

    #[test]
    fn the_memory_limit_is_judged_at_its_bounds() {
        let mut configuration = Configuration::default();
        for (good, bytes) in [("1MiB", 1 << 20), ("4GiB", 4 << 30), (" 64 MiB ", 64 << 20)] {
            assert_eq!(configuration.memory_limit(Some(good)), Some(bytes), "{good}");
        }
        assert_eq!(configuration.complaints, []);
        for bad in ["", "much", "1023KiB", "5GiB", "-1MiB", "1"] {
            assert_eq!(configuration.memory_limit(Some(bad)), None, "{bad}");
        }
        assert_eq!(configuration.complaints.len(), 6);
        assert_eq!(configuration.complaints[2].source, "--memory-limit 1023KiB");
    }

    #[test]
    fn a_header_that_cannot_carry_the_term_is_told() {
        let mut configuration = Configuration::default();
        assert_eq!(configuration.term_header(None), TermHeader::default());
        assert_eq!(configuration.term_header(Some("X-Fence")), "x-fence".parse().unwrap());
        for wrong in ["", "a b", "Host"] {
            assert_eq!(configuration.term_header(Some(wrong)), TermHeader::default());
        }
        let sources: Vec<_> = configuration.complaints.iter().map(|c| c.source.as_str()).collect();
        assert_eq!(sources, ["--term-header ", "--term-header a b", "--term-header Host"]);
    }

    #[test]
    fn every_wrong_entry_for_the_handler_is_told() {
        let mut configuration = Configuration::default();
        let list = ["a/b".to_owned(), "*".to_owned(), "ok".to_owned()];
        configuration.allow_list(&list);
        let env = ["A=b=c".to_owned(), "B".to_owned(), "=secret".to_owned()];
        assert_eq!(configuration.handler_env(&env), [("A".to_owned(), "b=c".to_owned())]);
        let sources: Vec<_> = configuration.complaints.iter().map(|c| c.source.as_str()).collect();
        assert_eq!(sources, ["--allow-host a/b", "--allow-host *", "--env …", "--env …"]);
    }
}
