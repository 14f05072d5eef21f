//! Commands that need no election.

use crate::configuration::listen_address;
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;

const COMPOSE_HELP: &str = "\
The composed component runs one whole turn for each call: as a command (wasi:cli/run), as an HTTP server (POST \
/tick, GET /leader, GET /healthz) or by Spin's cron trigger. It is configured by the variables TENURE_ELECTION, \
AZURE_STORAGE_CONNECTION_STRING, TENURE_EVERY or TENURE_CRON and the others; over HTTP, TENURE_TICK_TOKEN too. The \
handler sees none of them.

Nothing renews the lease during a turn there. It lasts 60 s unless TENURE_LEASE says otherwise. A turn that takes \
longer than the lease less the margin (48 s) has the outcome `overran`. A handler that traps ends the whole instance: \
its slot stays claimed, and the lease is not released, but expires.

Exit codes: 0 it is written; 2 it is not.";

#[derive(Args)]
#[command(after_long_help = COMPOSE_HELP)]
pub(crate) struct ComposeArguments {
    /// The handler: a component that exports tenure:election/leader-handler
    #[arg(value_name = "HANDLER.wasm")]
    pub handler: PathBuf,
    /// Where to write the composed component
    #[arg(short, long, value_name = "APP.wasm")]
    pub output: PathBuf,
    /// Replaces an existing file
    #[arg(long)]
    pub force: bool,
}

#[derive(Args)]
#[command(after_long_help = tenure_store::help())]
pub(crate) struct StoreArguments {
    /// Where to listen; port 0 picks a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:10000", value_parser = listen)]
    pub listen: SocketAddr,
}

fn listen(text: &str) -> Result<SocketAddr, &'static str> {
    listen_address(text)
        .ok_or("it is not an address with a port, like 127.0.0.1:10000 or localhost:10000")
}

#[cfg(feature = "demo")]
const DEMO_HELP: &str = "\
Everything runs on this machine, on free ports of 127.0.0.1, and is gone afterwards. Anyone who reaches the page can \
read it; its buttons need the token in the address that is printed.

Exit codes: 0 all went well, with --page until Ctrl-C; 1 turns overlapped, or an expected event did not happen; 2 it \
could not be started; 130 it was interrupted.";

#[cfg(feature = "demo")]
#[derive(Args)]
#[command(after_long_help = DEMO_HELP)]
pub(crate) struct DemoArguments {
    /// Number of candidates, 2 to 9
    #[arg(long, value_name = "NUMBER", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u8).range(2..=9))]
    pub candidates: u8,
    /// Serves the demo as a page for a browser on this machine, where you kill, freeze and cut off
    /// candidates yourself. Prints its address, and runs until Ctrl-C
    #[arg(long)]
    pub page: bool,
}

const COMPLETIONS_HELP: &str = "\
Where shells look for it:
  bash  tenure completions bash > ~/.local/share/bash-completion/completions/tenure
  zsh   tenure completions zsh > \"${fpath[1]}/_tenure\"
  fish  tenure completions fish > ~/.config/fish/completions/tenure.fish";

#[derive(Args)]
#[command(after_long_help = COMPLETIONS_HELP)]
pub(crate) struct CompletionsArguments {
    /// The shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

#[derive(Args)]
pub(crate) struct ManArguments {
    /// The directory for the pages tenure.1, tenure-run.1 and so on; without it, prints only the
    /// first
    pub directory: Option<PathBuf>,
}
