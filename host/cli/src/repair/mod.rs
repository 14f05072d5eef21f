//! `tenure reshare`, `break` and `reset-slot`: changes that cannot be undone, and ask for
//! confirmation.

mod break_lease;
mod reset_slot;
mod reshare;

use crate::output::eprint;
pub(super) use break_lease::break_lease;
pub(super) use reset_slot::reset_slot;
pub(super) use reshare::reshare;
use std::io::{IsTerminal, stdin};

/// Asks for confirmation on the terminal. `prompt` describes the consequences, in sentences.
///
/// # Errors
///
/// Standard input is not a terminal, or the answer was not yes.
fn confirm(prompt: &str) -> Result<(), String> {
    if !stdin().is_terminal() {
        return Err(format!(
            "{prompt} This needs confirmation, and standard input is not a terminal: add --yes"
        ));
    }
    eprint(format_args!("{prompt}\nContinue? [y/N] "));
    let mut answer = String::new();
    let _ = stdin().read_line(&mut answer);
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err("nothing was changed".to_owned()),
    }
}
