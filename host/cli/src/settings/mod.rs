//! What a person can set, and what was set. [`table`] has a row for each setting; all else follows from it.
//!
//! 1. [`options`] makes the command line of it, and reads what was given there.
//! 2. [`parse`] reads `tenure.toml`, whose keys are the options.
//! 3. [`given`] finds what counts: command line, variable, election's table, beginning of the file.
//! 4. [`elections`] does that for each election of `tenure run`, and [`pattern`] makes several of one.
//!
//! What is read where is up to [`Configuration`](super::configuration::Configuration).

mod elections;
mod given;
mod options;
mod parse;
mod pattern;
mod secret;
pub(crate) mod setting;
mod source;
pub(crate) mod table;
#[cfg(test)]
mod tests;

pub(crate) use elections::Elections;
pub(crate) use given::{ResolvedSettings, Origin, Value};
pub(crate) use options::{CommandLine, MAX_WIDTH, format_section, with_options};
pub(crate) use pattern::Pattern;

/// Returns what is wrong with the text of a settings file.
pub(crate) fn complaints_in(text: &str) -> Vec<crate::complaint::Complaint> {
    parse::parse(&source::SettingsFile::from_text(text), table::TABLE).complaints
}
