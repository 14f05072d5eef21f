//! The calls for one turn without a request: `wasi:cli/run` and `handle-cron-event`.

use wasip2::cli::stdout::get_stdout;

use super::Component;
use super::bindings::{Error, Guest as CronGuest, Metadata};
use super::host::Host;
use super::invocation::Invocation;
use crate::entry::{Answer, invalid_settings_answer, turn_answer};

/// Runs one turn with the settings of the environment.
fn turn() -> Answer {
    match Invocation::from_environment(&Host::from_environment()) {
        Ok(invocation) => turn_answer(&invocation.one_turn()),
        Err(complaints) => invalid_settings_answer(&complaints),
    }
}

wasip2::cli::command::export!(Component);

/// Reports the turn on standard output. For `wasmtime run`, and Kubernetes jobs.
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

/// For Spin's cron trigger, which fires in every replica. The time of the event is not used: slots are
/// counted in the service's time.
impl CronGuest for Component {
    fn handle_cron_event(_: Metadata) -> Result<(), Error> {
        let answer = turn();
        if answer.status == 200 { Ok(()) } else { Err(Error::Other(answer.body)) }
    }
}
