//! `tenure store`: the embedded blob store, until a signal.

use super::args::StoreArguments;
use super::output::{fail, print};
use super::signals::Signals;
use std::process::ExitCode;
use tenure_store as store;

pub(super) async fn store(arguments: &StoreArguments) -> ExitCode {
    let mut signals = match Signals::new() {
        Ok(signals) => signals,
        Err(error) => return fail(format_args!("signals cannot be handled: {error}")),
    };
    let store = match store::run(arguments.listen, Vec::new()).await {
        Ok(store) => store,
        Err(error) => {
            return fail(format_args!("{} cannot be listened on: {error}", arguments.listen));
        }
    };
    print(&format!(
        "listening on {}\nexport AZURE_STORAGE_CONNECTION_STRING='{}'\n",
        store.address(),
        store.connection_string()
    ));
    signals.next().await;
    store.stop().await;
    ExitCode::SUCCESS
}
