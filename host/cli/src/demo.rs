//! `tenure demo`: an election to watch.

use super::args::DemoArguments;
use super::output::{CommandResult, eprint, fail};
use super::signals::Signals;
use super::terminal::colour_wanted;
use std::process::ExitCode;
use tenure_demo::{End, Options};

/// The demo did not show what it should.
const FAILED: u8 = 1;

/// As shells report the end by SIGINT.
const INTERRUPTED: u8 = 130;

pub(super) async fn demo(arguments: &DemoArguments) -> CommandResult {
    let mut signals = Signals::new().map_err(fail)?;
    let DemoArguments { candidates, page } = *arguments;
    let options = Options { candidates, page, colour: colour_wanted() };
    let interrupt = async { _ = signals.next().await };
    let (problem, code) = match tenure_demo::demo(&options, interrupt).await {
        End::Played => return Ok(ExitCode::SUCCESS),
        End::Interrupted => {
            ("\ntenure: interrupted; all candidates have ended\n".to_owned(), INTERRUPTED)
        }
        End::Failed(problem) => (format!("\ntenure: {problem}\n"), FAILED),
        End::NotSetUp(error) => {
            return Err(fail(format_args!("the demo could not be set up: {error}")));
        }
        End::BrokeOff(error) => (format!("tenure: the demo could not go on: {error}\n"), FAILED),
    };
    eprint(problem);
    Ok(ExitCode::from(code))
}
