//! What the environment says of the timer and its rules.

use core::time::Duration;

use super::super::agenda::{Agenda, Missed};
use super::super::limits;
use super::super::slots::{Cron, CronError, Delivery, Schedule, ZONES_OF, Zone};
use super::super::text::LONGEST_CRON;
use super::super::timings::Timings;
use super::{Reader, is_quoted, shown, variable};
use tenure_azure::name::BlobName;
use tenure_base::duration::format_duration;
use tenure_base::prelude::*;

/// A slot that nobody could claim for so long was missed; two leases where they are longer.
const TOLERANCE: Duration = Duration::from_secs(60);

impl Reader<'_> {
    pub(super) fn agenda(
        &mut self,
        election: Option<&BlobName>,
        timings: Option<&Timings>,
    ) -> Agenda {
        let schedule = match self.while_leading() {
            true => Some(Schedule::WhileLeading),
            false => self.schedule(),
        };
        let jitter = self.jitter(schedule.as_ref());
        let lease = timings.map_or(Duration::ZERO, |timings| timings.lease);
        Agenda {
            schedule,
            delivery: self.delivery(),
            missed: self.missed(),
            tolerance: TOLERANCE.max(2 * lease),
            delay: election.map_or(Duration::ZERO, |e| Agenda::delay(&e.to_string(), jitter)),
        }
    }

    fn schedule(&mut self) -> Option<Schedule> {
        let every = self.every();
        let cron = self.cron();
        let both = [variable::EVERY, variable::CRON].map(|name| self.get(name).is_some());
        if both == [true; 2] {
            let problem = format!("excludes {}", self.called(variable::EVERY, variable::CRON));
            self.complain(variable::CRON, problem, "choose one of the two for the timer");
        }
        let on_trigger = self.get(variable::ON_TRIGGER).is_some_and(|value| value == "true");
        cron.or(every).or(on_trigger.then_some(Schedule::OnTrigger))
    }

    /// Whether the work is one turn that lasts; what is for a timer is refused then.
    fn while_leading(&mut self) -> bool {
        const SETTING: &str = variable::WHILE_LEADING;
        let Some(value) = self.get(SETTING) else { return false };
        match value.trim() {
            "true" => {}
            "false" => return false,
            other => {
                let problem = format!("\"{}\" is neither true nor false", shown(other));
                let advice =
                    "set true for work that lasts as long as the leadership, or leave it out";
                self.complain(SETTING, problem, advice);
                return false;
            }
        }
        let of_timers = [
            variable::EVERY,
            variable::CRON,
            variable::JITTER,
            variable::MISSED,
            variable::DELIVERY,
            variable::MAX_ATTEMPTS,
            variable::TURN_TIMEOUT,
        ];
        for setting in of_timers {
            if self.get(setting).is_some() {
                let problem =
                    format!("needs a timer, and {} has none", self.called(SETTING, setting));
                self.complain(setting, problem, "leave out one of the two");
            }
        }
        if self.lease.is_some() {
            let problem = "each call is one whole turn here, and ends";
            self.complain(SETTING, problem, "set TENURE_EVERY or TENURE_CRON, or use tenure run");
        }
        true
    }

    fn every(&mut self) -> Option<Schedule> {
        let every = self.duration(variable::EVERY)?;
        match Schedule::every(every) {
            Ok(schedule) => Some(schedule),
            Err(rule) => {
                let problem = format!("{} {rule}", format_duration(every));
                self.complain(variable::EVERY, problem, "choose a period like 5s, 10m or 24h");
                None
            }
        }
    }

    fn cron(&mut self) -> Option<Schedule> {
        let zone = self.zone();
        let text = self.get(variable::CRON)?;
        if text.len() > LONGEST_CRON {
            let problem = format!("has {} bytes, more than {LONGEST_CRON}", text.len());
            self.complain(variable::CRON, problem, "use ranges and steps; it is kept in the blob");
            return None;
        }
        // Manifests and files of variables hand quotation marks on.
        if is_quoted(&text) {
            let inside = shown(text.trim().trim_matches(['"', '\'']));
            self.complain_of_quotes(variable::CRON, format!("write the fields alone: {inside}"));
            return None;
        }
        match Cron::parse(&text) {
            Ok(cron) => Some(Schedule::Cron(Box::new(cron), zone?)),
            Err(errors) => {
                let whole = shown(&text);
                for CronError { position, piece, problem, expected } in errors {
                    // A piece of a secret is one too.
                    let piece = match piece.is_empty() || whole != text {
                        true => String::new(),
                        false => format!("\"{piece}\": "),
                    };
                    let problem = format!("\"{whole}\", at character {position}: {piece}{problem}");
                    self.complain(variable::CRON, problem, &format!("expected: {expected}"));
                }
                None
            }
        }
    }

    fn zone(&mut self) -> Option<Zone> {
        let Some(name) = self.get(variable::TIME_ZONE) else { return Some(Zone::UTC) };
        let name = name.trim();
        if self.get(variable::CRON).is_none() {
            let cron = self.called(variable::CRON, variable::TIME_ZONE);
            let problem = format!("is set without {cron}");
            self.complain(variable::TIME_ZONE, problem, "leave it out; intervals have no zone");
        }
        let zone = Zone::named(name);
        if zone.is_none() {
            let problem = format!(" is not a time zone of IANA's {ZONES_OF}");
            let advice = "write it like Europe/Berlin, or UTC";
            self.complain_of(variable::TIME_ZONE, name, &problem, advice);
        }
        zone
    }

    /// Less than what lies between two slots, so that they stay in order.
    fn jitter(&mut self, schedule: Option<&Schedule>) -> Duration {
        const ADVICE: &str = "choose less than the interval between two turns, like 30s or 5m";
        let jitter = self.duration_in(variable::JITTER, limits::JITTER, ADVICE).unwrap_or_default();
        if jitter.is_zero() {
            return jitter;
        }
        let shortest = schedule.and_then(Schedule::shortest);
        if let Some(shortest) = shortest.filter(|shortest| *shortest <= jitter) {
            let [jitter, shortest] = [jitter, shortest].map(format_duration);
            let problem =
                format!("{jitter} is not less than {shortest}, the interval of the turns");
            self.complain(variable::JITTER, problem, ADVICE);
        }
        jitter
    }

    fn delivery(&mut self) -> Delivery {
        let attempts = self.number(
            variable::MAX_ATTEMPTS,
            limits::MAX_ATTEMPTS,
            "choose how often a slot may be tried; 5 is usual",
        );
        let value = self.get(variable::DELIVERY);
        match value.as_deref().map(str::trim) {
            Some("at-least-once") => {
                return Delivery::AtLeastOnce {
                    max_attempts: attempts.unwrap_or(limits::DEFAULT_MAX_ATTEMPTS),
                };
            }
            Some("at-most-once") | None if attempts.is_some() => {
                let problem = "is set, but each slot is tried once";
                let delivery = self.called(variable::DELIVERY, variable::MAX_ATTEMPTS);
                let advice = format!("leave it out, or set {delivery} to at-least-once");
                self.complain(variable::MAX_ATTEMPTS, problem, &advice);
            }
            Some("at-most-once") | None => {}
            Some(other) => {
                let advice =
                    "choose at-most-once (a failed turn is not retried) or at-least-once (it is)";
                let problem = " is not a rule of delivery";
                self.complain_of(variable::DELIVERY, other, problem, advice);
            }
        }
        Delivery::AtMostOnce
    }

    fn missed(&mut self) -> Missed {
        let Some(value) = self.get(variable::MISSED) else { return Missed::Once };
        let mut words = value.split_whitespace();
        let number = |word: &str| word.parse().ok().filter(|n| limits::MISSED.contains(n));
        match (words.next(), words.next().map(number), words.next()) {
            (Some("skip"), None, None) => Missed::Skip,
            (Some("once"), None, None) => Missed::Once,
            (Some("all"), Some(Some(most)), None) => Missed::All(most),
            _ => {
                let (least, most) = limits::MISSED.into_inner();
                let advice = format!(
                    "choose skip (they do not run), once (one turn for all), or all N (one turn for each, at most the \
                     newest N; N from {least} to {most})"
                );
                let problem = " is not a rule for missed slots";
                self.complain_of(variable::MISSED, &value, problem, &advice);
                Missed::Once
            }
        }
    }
}
