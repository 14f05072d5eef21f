//! Which variables of this process are none of the work's business.

use std::ffi::OsStr;

/// Variables whose names begin so are the election's: they hold credentials, or settings that would
/// be mistaken for the work's own.
const OURS: [&str; 4] = ["AZURE_", "IDENTITY_", "MSI_", "TENURE_"];

/// How whoever started this process speaks with it: what a command said there would be taken for the
/// runner's word.
const SUPERVISOR: [&str; 3] = ["NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"];

/// Whether a variable is kept from commands.
pub(crate) fn is_ours(name: &OsStr) -> bool {
    OURS.iter().any(|ours| name.as_encoded_bytes().starts_with(ours.as_bytes()))
        || SUPERVISOR.iter().any(|supervisor| name == *supervisor)
}
