//! `--webhook`: where turns are posted to.

use super::args::RunArguments;
use super::ca_file;
use super::complaint::Complaint;
use tenure::egress::Authorities;
use tenure::program::webhook::{Target, variable};

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

/// Where to, and who is trusted there beside the platform's authorities.
///
/// # Errors
///
/// All that is wrong.
pub(super) fn settings(arguments: &RunArguments) -> Result<(Target, Authorities), Vec<Complaint>> {
    let authorities = ca_file::WEBHOOK.authorities(arguments.webhook_ca_file.as_deref());
    match (target(arguments), authorities) {
        (Ok(target), Ok(authorities)) => Ok((target, authorities)),
        (target, authorities) => {
            Err(target.err().into_iter().flatten().chain(authorities.err()).collect())
        }
    }
}

/// Where to, and how; by the same rules as in `tenure.wasm`.
///
/// # Errors
///
/// All that is wrong. Without values: a URL may hold a secret.
fn target(arguments: &RunArguments) -> Result<Target, Vec<Complaint>> {
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
