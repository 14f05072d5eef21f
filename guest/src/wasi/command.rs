//! `wasi:cli/run`: one turn, reported on standard output. For `wasmtime run`, and Kubernetes jobs.

use wasip2::cli::stdout::get_stdout;

use super::Component;
use super::host::Host;
use super::invocation::Invocation;
use crate::entry::{Answer, invalid_settings_answer, turn_answer};

/// Runs one turn with the settings of the environment. Shared with the cron trigger.
pub fn turn() -> Answer {
    match Invocation::from_environment(&Host::from_environment()) {
        Ok(invocation) => turn_answer(&invocation.one_turn()),
        Err(complaints) => invalid_settings_answer(&complaints),
    }
}

wasip2::cli::command::export!(Component);

impl wasip2::exports::cli::run::Guest for Component {
    fn run() -> Result<(), ()> {
        let mut answer = turn();
        answer.body.push('\n');
        let stdout = get_stdout();
        for piece in answer.body.as_bytes().chunks(4096) {
            // A closed output is no reason to fail.
            let _ = stdout.blocking_write_and_flush(piece);
        }
        if answer.status == 200 { Ok(()) } else { Err(()) }
    }
}
