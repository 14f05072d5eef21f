//! What the runner needs to know of the work.

use super::Configuration;
use crate::complaint::shown;
#[cfg(unix)]
use crate::settings::table::STOP_TIME;
use crate::settings::table::{ALLOW_HOST, ENV, TERM_HEADER};
#[cfg(unix)]
use crate::stop_time;
#[cfg(unix)]
use std::time::Duration;
use tenure::egress::{AllowList, InvalidTermHeader, TermHeader};
#[cfg(unix)]
use tenure::program::command;

impl Configuration {
    /// How long before the end of the leadership a command is told to end; none when it is as ever, or
    /// wrong. What goes without saying is judged too.
    #[cfg(unix)]
    pub(crate) fn stop_time(&mut self) -> Option<Duration> {
        let said = self.duration(&STOP_TIME);
        if said.is_none() && self.given.text(&STOP_TIME).is_some() {
            return None;
        }
        let periods = self.settings.periods()?;
        let said = said.or(stop_time::with_failover(periods));
        let breach = stop_time::judge(said.unwrap_or(command::STOP_TIME), periods);
        if let Some((problem, advice)) = &breach {
            self.complain(&STOP_TIME, problem, advice);
        }
        said.filter(|_| breach.is_none())
    }

    /// The hosts that a handler may reach.
    pub(crate) fn allow_list(&mut self) -> AllowList {
        let mut list = AllowList::default();
        let mut wrong = Vec::new();
        for (value, word) in self.given.words(&ALLOW_HOST) {
            if list.allow(&word.text.to_string_lossy()).is_err() {
                wrong.push(value.told_of(Some(word)));
            }
        }
        for source in wrong {
            let problem = "this is not HOST, HOST:PORT or SCHEME://HOST[:PORT]";
            self.complain_at(source, problem, ALLOW_HOST.advice);
        }
        list
    }

    /// The header that carries the term.
    pub(crate) fn term_header(&mut self) -> TermHeader {
        let Some(text) = self.given.text(&TERM_HEADER) else { return TermHeader::default() };
        text.parse().unwrap_or_else(|problem: InvalidTermHeader| {
            let problem = format!("\"{}\": {problem}", shown(&text));
            self.complain(&TERM_HEADER, &problem, TERM_HEADER.advice);
            TermHeader::default()
        })
    }

    /// The environment of a handler.
    pub(crate) fn handler_env(&mut self) -> Vec<(String, String)> {
        let mut env = Vec::new();
        let mut wrong = Vec::new();
        for (entry, word) in self.given.words(&ENV) {
            match word.text.to_string_lossy().split_once('=') {
                Some((key, value)) if !key.is_empty() => {
                    env.push((key.to_owned(), value.to_owned()));
                }
                // All of it may be a secret.
                _ => wrong.push(entry.told_of(Some(word))),
            }
        }
        for source in wrong {
            self.complain_at(source, "this is not KEY=VALUE", ENV.advice);
        }
        env
    }
}
