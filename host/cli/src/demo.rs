//! `tenure demo`: a self-contained failover demo.

use super::args::DemoArguments;
use super::signals::Signals;
use crate::output::stdio::{CommandResult, eprint, fail};
use crate::output::terminal::wants_colour;
use std::process::ExitCode;
use tenure_demo::{DemoEnd, Options};

/// Exit code if the demo did not show what it should.
const FAILED: u8 = 1;

/// Exit code after SIGINT, as in shells.
const INTERRUPTED: u8 = 130;

pub(super) async fn demo(arguments: &DemoArguments) -> CommandResult {
    let mut signals = Signals::new().map_err(fail)?;
    let DemoArguments { candidates, page } = *arguments;
    let options = Options { candidates, page, colour: wants_colour() };
    let interrupt = async { _ = signals.next().await };
    let (problem, code) = match tenure_demo::demo(&options, interrupt).await {
        DemoEnd::Completed => return Ok(ExitCode::SUCCESS),
        DemoEnd::Interrupted => {
            ("\ntenure: interrupted; all candidates have ended\n".to_owned(), INTERRUPTED)
        }
        DemoEnd::Failed(problem) => (format!("\ntenure: {problem}\n"), FAILED),
        DemoEnd::SetupFailed(error) => {
            return Err(fail(format_args!("the demo could not be set up: {error}")));
        }
        DemoEnd::Aborted(error) => (format!("tenure: the demo could not go on: {error}\n"), FAILED),
    };
    eprint(problem);
    Ok(ExitCode::from(code))
}
