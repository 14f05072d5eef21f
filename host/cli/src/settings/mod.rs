//! The settings of the program. [`table`] has a row for each of them, and all other modules derive
//! from it.
//!
//! 1. [`command_line`] generates the options, and reads their values.
//! 2. [`parse`] reads `tenure.toml`, whose keys are the options.
//! 3. [`resolved`] determines the effective values, from the command line, variables and the file.
//! 4. [`elections`] does that for each election, and [`pattern`] makes several elections of one.
//!
//! [`Configuration`](crate::configuration::Configuration) defines which commands read which of
//! them.

mod command_line;
mod elections;
mod parse;
mod pattern;
mod resolved;
mod secret;
pub(crate) mod setting;
mod source;
pub(crate) mod table;
#[cfg(test)]
mod tests;

pub(crate) use command_line::{CommandLine, MAX_WIDTH, format_section, with_options};
pub(crate) use elections::Elections;
pub(crate) use pattern::Pattern;
pub(crate) use resolved::{Origin, ResolvedSettings, Value};

/// Returns the complaints about the text of a settings file.
pub(crate) fn complaints_in(text: &str) -> Vec<crate::complaint::Complaint> {
    parse::parse(&source::SettingsFile::from_text(text), table::TABLE).complaints
}
