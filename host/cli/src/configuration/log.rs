//! The log of a candidate, as its settings have it.

use super::Configuration;
use crate::log::{Format, Output, Style, Whose};
use crate::settings::table::{LOG, LOG_LEVEL};
use tenure::settings::names;
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
        let setting = |name| self.settings.get(name).unwrap_or_default().to_owned();
        Whose { election: setting(names::ELECTION), candidate: setting(names::NAME) }
    }
}
