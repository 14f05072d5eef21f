//! What the runner needs to know of the work.

use super::{Configuration, host_setting};
use crate::complaint::{Complaint, shown};
#[cfg(unix)]
use crate::stop_time;
use bytesize::ByteSize;
use std::ops::RangeInclusive;
use std::time::Duration;
use tenure::egress::{AllowList, InvalidTermHeader, TermHeader};
#[cfg(unix)]
use tenure::program::command;

/// The runner's own setting, which the component does not see.
const GRACE: &str = "TENURE_GRACE";

/// The most grace that a turn is given.
const MOST_GRACE: Duration = Duration::from_secs(3600);

/// The variable of `--ready-cmd`.
const READY_CMD: &str = "TENURE_READY_CMD";

/// The variable of `--stop-time`. It is the host's business too.
#[cfg(unix)]
const STOP_TIME: &str = "TENURE_STOP_TIME";

/// The variable of `--memory-limit`. It is the host's business too.
const MEMORY_LIMIT: &str = "TENURE_MEMORY_LIMIT";

/// What a turn may take at least and at most. One memory has no more than 4 GiB.
const MEMORY: RangeInclusive<u64> = bytesize::MIB..=4 * bytesize::GIB;

/// The variable of `--term-header`. It is the host's business alone.
const TERM_HEADER: &str = "TENURE_TERM_HEADER";

impl Configuration {
    /// How long the last turn may go on; none when it was not said, or is wrong.
    pub(crate) fn grace(&mut self, flag: Option<&str>) -> Option<Duration> {
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
    pub(crate) fn stop_time(&mut self, flag: Option<&str>) -> Option<Duration> {
        let said = host_setting(STOP_TIME, "--stop-time", flag);
        let read = said.as_ref().map(|(_, value)| humantime::parse_duration(value.trim()));
        let (problem, advice) = match read {
            Some(Err(_)) => {
                let value = said.as_ref().map(|(_, value)| shown(value)).unwrap_or_default();
                (format!("\"{value}\" is not a duration"), "give one like 3s".to_owned())
            }
            Some(Ok(time)) => match stop_time::judge(time, self.settings.periods()) {
                None => return Some(time),
                Some(breach) => breach,
            },
            None => stop_time::judge(command::STOP_TIME, self.settings.periods())?,
        };
        let source = said.map_or_else(|| "--stop-time".to_owned(), |(source, _)| source);
        self.complaints.push(Complaint::new(source, problem, advice));
        None
    }

    #[cfg(not(unix))]
    pub(crate) fn stop_time(&mut self, _: Option<&str>) -> Option<Duration> {
        None
    }

    /// The command that tells whether this process can work.
    pub(crate) fn ready_cmd(&self, flag: Option<&str>) -> Option<String> {
        host_setting(READY_CMD, "--ready-cmd", flag).map(|(_, command)| command)
    }

    /// Bytes of memory for a turn; none when it was not said, or is wrong.
    pub(crate) fn memory_limit(&mut self, flag: Option<&str>) -> Option<usize> {
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

    /// The hosts that a handler may reach.
    pub(crate) fn allow_list(&mut self, entries: &[String]) -> AllowList {
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

    /// The header that carries the term.
    pub(crate) fn term_header(&mut self, flag: Option<&str>) -> TermHeader {
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
    pub(crate) fn handler_env(&mut self, entries: &[String]) -> Vec<(String, String)> {
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
