//! Parses values by their kind, and checks the ranges of the table.

use super::Configuration;
use crate::complaint::redacted;
use crate::output::log::{Format, LogContext, Output, Style};
use crate::settings::table::{LOG, LOG_LEVEL};
use crate::settings::{Kind, Part, Range, Setting};
use bytesize::ByteSize;
use std::time::Duration;
use tenure::RootCertificates;
use tenure_base::duration::parse_duration;
use tracing::Level;

impl Configuration {
    /// Returns the format, level and output of the log.
    pub(crate) fn log_style(&mut self, output: Output) -> Style {
        let format = match self.choice(&LOG) {
            "json" => Format::Json,
            _ => Format::Text,
        };
        let level = self.choice(&LOG_LEVEL).parse().unwrap_or(Level::INFO);
        Style { format, level, output }
    }

    /// Returns the election and the candidate that log lines name.
    pub(crate) fn log_context(&self) -> LogContext {
        let candidate = self.settings.options.name.clone().unwrap_or_default();
        LogContext { election: self.election(), candidate }
    }

    /// Returns the name of the election. Empty if there is none.
    pub(crate) fn election(&self) -> String {
        self.settings.options.election.clone().unwrap_or_default()
    }

    /// Returns a duration, or none if it is missing or wrong.
    pub(crate) fn duration(&mut self, setting: &Setting) -> Option<Duration> {
        self.parse_in_range(setting, "a duration", parse_duration, |range, duration| match range {
            Range::Durations(range) => range.contains(duration),
            Range::From(least) => duration >= least,
            _ => true,
        })
    }

    /// Returns a size in bytes, or none if it is missing or wrong.
    pub(crate) fn size(&mut self, setting: &Setting) -> Option<u64> {
        let parse = |text: &str| text.trim().parse::<ByteSize>().ok().map(|size| size.as_u64());
        self.parse_in_range(setting, "a size", parse, |range, size| match range {
            Range::Sizes(range) => range.contains(size),
            _ => true,
        })
    }

    /// Returns a whole number, or none if it is missing or wrong.
    pub(crate) fn number(&mut self, setting: &Setting) -> Option<u32> {
        let parse = |text: &str| text.trim().parse().ok();
        self.parse_in_range(setting, "a whole number", parse, |range, number| match range {
            Range::Numbers(range) => range.contains(number),
            _ => true,
        })
    }

    fn parse_in_range<T>(
        &mut self,
        setting: &Setting,
        kind: &str,
        read: impl Fn(&str) -> Option<T>,
        fits: impl Fn(&Range, &T) -> bool,
    ) -> Option<T> {
        let text = self.resolved.text(setting)?;
        let problem = match (read(&text), setting.allowed()) {
            (Some(value), _) if fits(&setting.range, &value) => return Some(value),
            (Some(_), Some(allowed)) => format!("\"{}\" is not {allowed}", redacted(&text)),
            (_, _) => format!("\"{}\" is not {kind}", redacted(&text)),
        };
        self.complain(setting, &problem, setting.advice);
        None
    }

    /// Returns one of the choices of a setting, or its default if none was given.
    pub(crate) fn choice(&mut self, setting: &Setting) -> &'static str {
        let (Kind::OneOf(words), [Part::Words(default)]) = (setting.kind, setting.default) else {
            return "";
        };
        let Some(text) = self.resolved.text(setting) else { return default };
        if let Some(known) = words.iter().find(|known| **known == text.trim()) {
            return known;
        }
        let problem = format!("\"{}\" is not one of: {}", redacted(&text), words.join(", "));
        self.complain(setting, &problem, "choose one of them");
        default
    }

    /// Reads the certificate authorities in the PEM file that a setting names.
    pub(crate) fn authorities_of(&mut self, setting: &Setting) -> Option<RootCertificates> {
        let value = self.resolved.get(setting).filter(|value| !value.is_blank())?;
        let file = value.path();
        let read = std::fs::read(&file).map_err(|error| format!("cannot be read: {error}"));
        let read = read.and_then(|pem| RootCertificates::from_pem(&pem).map_err(|e| e.to_string()));
        match read {
            Ok(authorities) => Some(authorities),
            Err(problem) => {
                let problem = format!("\"{}\" {problem}", redacted(&file.to_string_lossy()));
                self.complain(setting, &problem, setting.advice);
                None
            }
        }
    }
}
