//! `tenure store`: the embedded blob store, until a signal.

use super::args::StoreArguments;
use super::signals::Signals;
use crate::output::stdio::{CommandResult, fail, print};
use std::process::ExitCode;
use tenure_store as store;

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
