//! `tenure store` and `tenure demo`: to try things out without a storage account. The store is the
//! embedded blob store, which runs until a signal; the demo is a self-contained failover demo.

use super::signals::Signals;
use crate::configuration::listen_address;
use crate::output::{CommandResult, fail, print};
use clap::Args;
use std::net::SocketAddr;
use std::process::ExitCode;
use tenure_store as store;

#[cfg(feature = "demo")]
use crate::output::{eprint, wants_colour};
#[cfg(feature = "demo")]
use tenure_demo::{DemoEnd, Options};

#[derive(Args)]
#[command(after_long_help = tenure_store::help())]
pub(super) struct StoreArguments {
    /// Where to listen; port 0 picks a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:10000", value_parser = listen)]
    pub listen: SocketAddr,
}

fn listen(text: &str) -> Result<SocketAddr, &'static str> {
    listen_address(text)
        .ok_or("it is not an address with a port, like 127.0.0.1:10000 or localhost:10000")
}

pub(super) async fn store(arguments: &StoreArguments) -> CommandResult {
    let mut signals = Signals::new().map_err(fail)?;
    let store = store::run(arguments.listen, Vec::new()).await.map_err(|error| {
        fail(format_args!("{} cannot be listened on: {error}", arguments.listen))
    })?;
    print(&format!(
        "listening on {}\nexport AZURE_STORAGE_CONNECTION_STRING='{}'\n",
        store.address(),
        store.connection_string()
    ));
    signals.next().await;
    store.stop().await;
    Ok(ExitCode::SUCCESS)
}

#[cfg(feature = "demo")]
const DEMO_HELP: &str = "\
Everything runs on this machine, on free ports of 127.0.0.1, and is gone afterwards. Anyone who reaches the page can \
read it; its buttons need the token in the address that is printed.

Exit codes: 0 all went well, with --page until Ctrl-C; 1 turns overlapped, were of an earlier term or repeated a slot, \
an expected event did not happen, or the demo could not go on; 2 it could not be started; 130 it was interrupted.";

#[cfg(feature = "demo")]
#[derive(Args)]
#[command(after_long_help = DEMO_HELP)]
pub(super) struct DemoArguments {
    /// Number of candidates, 2 to 9
    #[arg(long, value_name = "NUMBER", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u8).range(2..=9))]
    pub candidates: u8,
    /// Serves the demo as a page for a browser on this machine, where you kill, freeze and cut off
    /// candidates yourself. Prints its address, and runs until Ctrl-C
    #[arg(long)]
    pub page: bool,
}

/// Exit code if the demo did not show what it should, or could not go on.
#[cfg(feature = "demo")]
const FAILED: u8 = 1;

/// Exit code after SIGINT, as in shells.
#[cfg(feature = "demo")]
const INTERRUPTED: u8 = 130;

#[cfg(feature = "demo")]
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
