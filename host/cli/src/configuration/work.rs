//! Settings of the work.

use super::Configuration;
#[cfg(unix)]
use super::stop_time;
use crate::complaint::redacted;
#[cfg(unix)]
use crate::settings::table::STOP_TIME;
use crate::settings::table::{ALLOW_HOST, ENV};
#[cfg(unix)]
use std::time::Duration;
use tenure::engine::AllowList;

impl Configuration {
    /// Returns the time before the end of the leadership at which a command must stop. None if it
    /// is the default, or wrong. Validates the default too.
    #[cfg(unix)]
    pub(crate) fn stop_time(&mut self) -> Option<Duration> {
        let configured = self.duration(&STOP_TIME);
        if configured.is_none() && self.resolved.text(&STOP_TIME).is_some() {
            return None;
        }
        let periods = stop_time::Periods::from_timings(&self.settings.options.timings()?);
        let configured = configured.or(stop_time::with_failover(periods));
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
                // The whole text may be a secret.
                _ => wrong.push(entry.describe_item(Some(item))),
            }
        }
        for source in wrong {
            let problem = "this is neither KEY=VALUE nor the name of a variable that is set";
            self.complain_at(source, problem, ENV.advice);
        }
        env
    }
}

/// Returns the problem with a host to allow, and the correction where it is known.
fn host_problem(entry: &str) -> Option<(&'static str, String)> {
    let (scheme, authority) = match entry.split_once("://") {
        Some((scheme, remainder)) => (format!("{scheme}://"), remainder),
        None => (String::new(), entry),
    };
    // A part of the text may be a secret.
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

#[cfg(test)]
mod tests {
    use super::host_problem;

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
