//! `--webhook`: where turns are posted to.

use super::args::RunArguments;
use super::complaint::Complaint;
use tenure_guest::webhook::{Target, variable};

/// The flags, and the variables that say the same.
fn flags(arguments: &RunArguments) -> [(&'static str, &'static str, Option<&str>); 3] {
    [
        (variable::URL, "--webhook", arguments.webhook.as_deref()),
        (variable::TIMEOUT, "--webhook-timeout", arguments.webhook_timeout.as_deref()),
        (variable::TERM_HEADER, "--term-header", arguments.term_header.as_deref()),
    ]
}

/// What asks for a webhook, if anything does: the flag or the variable.
pub(super) fn asked_by(arguments: &RunArguments) -> Option<&'static str> {
    let variable = || std::env::var(variable::URL).is_ok_and(|value| !value.trim().is_empty());
    match arguments.webhook {
        Some(_) => Some("--webhook"),
        None => variable().then_some(variable::URL),
    }
}

/// Where to, and how; by the same rules as in `tenure.wasm`.
///
/// # Errors
///
/// All that is wrong. Without values: a URL may hold a secret.
pub(super) fn target(arguments: &RunArguments) -> Result<Target, Vec<Complaint>> {
    let flags = flags(arguments);
    let of = |name: &str| flags.iter().find(|(variable, ..)| *variable == name);
    let value = |name: &str| match of(name) {
        Some((.., Some(value))) => Some((*value).to_owned()),
        _ => std::env::var(name).ok(),
    };
    let mut complaints = match Target::read(value) {
        Ok(target) => return Ok(target),
        Err(complaints) => complaints,
    };
    // What only the command line can say.
    for complaint in &mut complaints {
        if complaint.setting == variable::URL && arguments.webhook.is_some() {
            complaint.advice = "give it like --webhook https://example.com/tick".into();
        }
    }
    let source = |setting| match of(setting) {
        Some((_, flag, Some(_))) => *flag,
        _ => setting,
    };
    Err(complaints
        .into_iter()
        .map(|c| Complaint::new(source(c.setting), c.problem, c.advice))
        .collect())
}
