//! Commands that look at an election, and take no part.

use super::ElectionArguments;
use clap::Args;

pub(super) const STATUS_HELP: &str = "\
Exit codes: 0 somebody leads; 1 nobody does; 2 it could not be found out.";

pub(super) const DOCTOR_HELP: &str = "\
It connects to the storage account, and tries each request that a candidate sends on an empty \
blob of its own beside the election's, BLOB.doctor-…, which it removes. A credential that may not \
delete blobs leaves one of them, BLOB.doctor. A missing container is made, as a candidate would \
make it. The election itself is looked at, and not touched: run it while candidates run.

Exit codes: 0 all is well, for an emulator too; 1 there are warnings; 2 something failed, or a setting is wrong; 130 \
it was interrupted.";

pub(super) const HISTORY_HELP: &str = "\
The record on the blob keeps the newest leaders, ten at most.

Exit codes: 0 somebody led; 1 nobody ever did; 2 it could not be found out.";

/// Of somebody who looks on, and takes no part.
#[derive(Args)]
pub(crate) struct LookArguments {
    #[command(flatten)]
    pub target: ElectionArguments<LookTimes>,
    /// One JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub(crate) struct LookTimes {
    /// The longest that one request may take; default 3s [env: TENURE_REQUEST_TIMEOUT]
    #[arg(long, value_name = "DURATION")]
    pub request_timeout: Option<String>,
}

const WATCH_HELP: &str = "\
It looks, and takes no part. Changes that come and go between two looks are not seen.

It ends with SIGINT (Ctrl-C) or SIGTERM, or when nobody reads any more. Exit codes: 0 it was \
ended; 2 something is wrong with the settings.";

#[derive(Args)]
#[command(after_help = WATCH_HELP)]
pub(crate) struct WatchArguments {
    #[command(flatten)]
    pub target: ElectionArguments<WatchTimes>,
    /// One JSON object per line instead of text
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub(crate) struct WatchTimes {
    /// From one look to the next, 200ms to 1h; default 2s
    #[arg(long, value_name = "DURATION")]
    pub interval: Option<String>,
    #[command(flatten)]
    pub look: LookTimes,
}
