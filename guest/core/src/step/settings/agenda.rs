//! The timer and its rules from the settings.

use core::time::Duration;

use super::super::limits;
use super::super::options::Retries;
use super::timings::Timings;
use super::{SettingsReader, is_quoted, non_blank, redact, variable};
use crate::record::text::MAX_CRON;
use crate::schedule::agenda::{Agenda, Missed};
use crate::schedule::slots::{Cron, CronError, Delivery, Schedule, ZONES_RELEASE, Zone};
use tenure_azure::blob::BlobName;
use tenure_base::duration::format_duration;
use tenure_base::prelude::*;

/// Age at which an unclaimed slot counts as missed, or two leases if they are longer.
const TOLERANCE: Duration = Duration::from_secs(60);

impl SettingsReader<'_> {
    pub(super) fn agenda(
        &mut self,
        election: Option<&BlobName>,
        timings: Option<&Timings>,
    ) -> Agenda {
        let schedule = match self.options.while_leading {
            Some(true) => {
                self.refuse_timers();
                Some(Schedule::WhileLeading)
            }
            _ => self.schedule(),
        };
        let jitter = self.jitter(schedule.as_ref());
        let lease = timings.map_or(Duration::ZERO, |timings| timings.lease);
        Agenda {
            schedule,
            delivery: self.delivery(),
            missed: self.missed(),
            tolerance: TOLERANCE.max(2 * lease),
            delay: election
                .map_or(Duration::ZERO, |e| Agenda::jittered_delay(&e.to_string(), jitter)),
        }
    }

    pub(super) fn schedule(&mut self) -> Option<Schedule> {
        let every = self.every();
        let cron = self.cron();
        if self.options.every.is_some() && non_blank(&self.options.cron).is_some() {
            let problem =
                format!("excludes {}", self.setting_name(variable::EVERY, variable::CRON));
            self.complain(variable::CRON, problem, "choose one of the two for the timer");
        }
        let on_trigger = self.options.on_trigger == Some(true);
        cron.or(every).or(on_trigger.then_some(Schedule::OnTrigger))
    }

    /// Rejects timer settings if the work is one turn that lasts as long as the leadership.
    fn refuse_timers(&mut self) {
        const SETTING: &str = variable::WHILE_LEADING;
        let options = &self.options;
        let timer_settings = [
            (variable::EVERY, options.every.is_some()),
            (variable::CRON, non_blank(&options.cron).is_some()),
            (variable::JITTER, options.jitter.is_some()),
            (variable::MISSED, options.missed.is_some()),
            (variable::DELIVERY, options.retries.is_some()),
            (variable::MAX_ATTEMPTS, options.max_attempts.is_some()),
            (variable::TURN_TIMEOUT, options.turn_timeout.is_some()),
        ];
        for (setting, _) in timer_settings.into_iter().filter(|(_, is_set)| *is_set) {
            let problem =
                format!("needs a timer, and {} has none", self.setting_name(SETTING, setting));
            self.complain(setting, problem, "leave out one of the two");
        }
        if self.one_shot {
            let problem = "each call is one whole turn here, and ends";
            self.complain(SETTING, problem, "set TENURE_EVERY or TENURE_CRON, or use tenure run");
        }
    }

    fn every(&mut self) -> Option<Schedule> {
        let advice = "choose a period like 5s, 10m or 24h";
        let every = self.options.every;
        Schedule::every(self.duration_in(variable::EVERY, every, limits::EVERY, advice)?)
    }

    fn cron(&mut self) -> Option<Schedule> {
        let zone = self.zone();
        let text = non_blank(&self.options.cron)?;
        if text.len() > MAX_CRON {
            let problem = format!("has {} bytes, more than {MAX_CRON}", text.len());
            self.complain(variable::CRON, problem, "use ranges and steps; it is kept in the blob");
            return None;
        }
        // In manifests and env files, quotation marks become part of the value.
        if is_quoted(text) {
            let inside = redact(text.trim().trim_matches(['"', '\'']));
            self.complain_of_quotes(variable::CRON, format!("write the fields alone: {inside}"));
            return None;
        }
        match Cron::parse(text) {
            Ok(cron) => Some(Schedule::Cron(Box::new(cron), zone?)),
            Err(errors) => {
                let shown_text = redact(text);
                for CronError { position, piece, problem, expected } in errors {
                    // If the text may be a secret, its pieces are not shown either.
                    let piece = match piece.is_empty() || shown_text != text {
                        true => String::new(),
                        false => format!("\"{piece}\": "),
                    };
                    let problem =
                        format!("\"{shown_text}\", at character {position}: {piece}{problem}");
                    self.complain(variable::CRON, problem, &format!("expected: {expected}"));
                }
                None
            }
        }
    }

    fn zone(&mut self) -> Option<Zone> {
        let Some(name) = non_blank(&self.options.time_zone) else { return Some(Zone::UTC) };
        let name = name.trim();
        if non_blank(&self.options.cron).is_none() {
            let cron = self.setting_name(variable::CRON, variable::TIME_ZONE);
            let problem = format!("is set without {cron}");
            self.complain(variable::TIME_ZONE, problem, "leave it out; intervals have no zone");
        }
        let zone = Zone::from_name(name);
        if zone.is_none() {
            let problem = format!(" is not a time zone of IANA's {ZONES_RELEASE}");
            let advice = "write it like Europe/Berlin, or UTC";
            self.complain_of(variable::TIME_ZONE, name, &problem, advice);
        }
        zone
    }

    /// Returns the jitter, which must be less than the interval between two slots, so that they
    /// stay in order.
    fn jitter(&mut self, schedule: Option<&Schedule>) -> Duration {
        const ADVICE: &str = "choose less than the interval between two turns, like 30s or 5m";
        let jitter = self.options.jitter;
        let jitter = self.duration_in(variable::JITTER, jitter, limits::JITTER, ADVICE);
        let jitter = jitter.unwrap_or_default();
        if jitter.is_zero() {
            return jitter;
        }
        let shortest = schedule.and_then(Schedule::shortest_interval);
        if let Some(shortest) = shortest.filter(|shortest| *shortest <= jitter) {
            let [jitter, shortest] = [jitter, shortest].map(format_duration);
            let problem =
                format!("{jitter} is not less than {shortest}, the interval of the turns");
            self.complain(variable::JITTER, problem, ADVICE);
        }
        jitter
    }

    fn delivery(&mut self) -> Delivery {
        let attempts = self.number(variable::MAX_ATTEMPTS, self.options.max_attempts);
        if self.options.retries == Some(Retries::UntilSuccess) {
            let max_attempts = attempts.unwrap_or(limits::DEFAULT_MAX_ATTEMPTS);
            return Delivery::AtLeastOnce { max_attempts };
        }
        if attempts.is_some() && !self.has_complaint(&[variable::DELIVERY]) {
            let problem = "is set, but each slot is tried once";
            let delivery = self.setting_name(variable::DELIVERY, variable::MAX_ATTEMPTS);
            let advice = format!("leave it out, or set {delivery} to at-least-once");
            self.complain(variable::MAX_ATTEMPTS, problem, &advice);
        }
        Delivery::AtMostOnce
    }

    fn missed(&mut self) -> Missed {
        let missed = self.options.missed.unwrap_or(Missed::Once);
        if let Missed::All(most) = missed
            && !limits::MISSED.contains(&most)
        {
            self.refuse(variable::MISSED, &missed);
        }
        missed
    }
}
