//! Values by their kinds, judged by the ranges of the table.

use super::Configuration;
use crate::complaint::shown;
use crate::log::{Format, Output, Style, Whose};
use crate::settings::setting::{Kind, Part, Range, Setting};
use crate::settings::table::{LOG, LOG_LEVEL};
use bytesize::ByteSize;
use std::time::Duration;
use tenure::Authorities;
use tenure_base::duration::parse_duration;
use tracing::Level;

impl Configuration {
    /// How it is to be written.
    pub(crate) fn log_style(&mut self, output: Output) -> Style {
        let format = match self.word(&LOG) {
            "json" => Format::Json,
            _ => Format::Text,
        };
        let level = self.word(&LOG_LEVEL).parse().unwrap_or(Level::INFO);
        Style { format, level, output }
    }

    /// Whose it is.
    pub(crate) fn whose(&self) -> Whose {
        let candidate = self.settings.options.name.clone().unwrap_or_default();
        Whose { election: self.election(), candidate }
    }

    /// Returns the name of the election. Empty if there is none.
    pub(crate) fn election(&self) -> String {
        self.settings.options.election.clone().unwrap_or_default()
    }

    /// A duration; none when it was not said, or is wrong.
    pub(crate) fn duration(&mut self, setting: &Setting) -> Option<Duration> {
        self.judged(setting, "a duration", parse_duration, |range, duration| match range {
            Range::Durations(range) => range.contains(duration),
            Range::From(least) => duration >= least,
            _ => true,
        })
    }

    /// Bytes; none when it was not said, or is wrong.
    pub(crate) fn size(&mut self, setting: &Setting) -> Option<u64> {
        let read = |text: &str| text.trim().parse::<ByteSize>().ok().map(|size| size.as_u64());
        self.judged(setting, "a size", read, |range, size| match range {
            Range::Sizes(range) => range.contains(size),
            _ => true,
        })
    }

    /// A whole number; none when it was not said, or is wrong.
    pub(crate) fn number(&mut self, setting: &Setting) -> Option<u32> {
        let read = |text: &str| text.trim().parse().ok();
        self.judged(setting, "a whole number", read, |range, number| match range {
            Range::Numbers(range) => range.contains(number),
            _ => true,
        })
    }

    fn judged<T>(
        &mut self,
        setting: &Setting,
        kind: &str,
        read: impl Fn(&str) -> Option<T>,
        fits: impl Fn(&Range, &T) -> bool,
    ) -> Option<T> {
        let text = self.given.text(setting)?;
        let problem = match (read(&text), setting.allowed()) {
            (Some(value), _) if fits(&setting.range, &value) => return Some(value),
            (Some(_), Some(allowed)) => format!("\"{}\" is not {allowed}", shown(&text)),
            (_, _) => format!("\"{}\" is not {kind}", shown(&text)),
        };
        self.complain(setting, &problem, setting.advice);
        None
    }

    /// One of the words of a setting, its default when none was given.
    pub(crate) fn word(&mut self, setting: &Setting) -> &'static str {
        let (Kind::OneOf(words), [Part::Words(default)]) = (setting.kind, setting.default) else {
            return "";
        };
        let Some(text) = self.given.text(setting) else { return default };
        if let Some(word) = words.iter().find(|word| **word == text.trim()) {
            return word;
        }
        let problem = format!("\"{}\" is not one of: {}", shown(&text), words.join(", "));
        self.complain(setting, &problem, "choose one of them");
        default
    }

    /// The authorities in the file of a setting.
    pub(crate) fn authorities_of(&mut self, setting: &Setting) -> Option<Authorities> {
        let value = self.given.get(setting).filter(|value| !value.is_blank())?;
        let file = value.path();
        let read = std::fs::read(&file).map_err(|error| format!("cannot be read: {error}"));
        let read = read.and_then(|pem| Authorities::from_pem(&pem).map_err(|e| e.to_string()));
        match read {
            Ok(authorities) => Some(authorities),
            Err(problem) => {
                let problem = format!("\"{}\" {problem}", shown(&file.to_string_lossy()));
                self.complain(setting, &problem, setting.advice);
                None
            }
        }
    }
}
