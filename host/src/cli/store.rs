//! `tenure store`: the embedded blob store, until a signal.

use super::args::StoreArguments;
use super::fail;
use super::signals::Signals;
use crate::store;
use std::io::Write as _;
use std::process::ExitCode;

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
    let mut out = std::io::stdout();
    let _ = writeln!(
        out,
        "listening on {}\nAZURE_STORAGE_CONNECTION_STRING='{}'",
        store.address(),
        store.connection_string()
    );
    let _ = out.flush();
    signals.next().await;
    store.stop().await;
    ExitCode::SUCCESS
}
