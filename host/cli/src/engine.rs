//! The engine that runs the components of a command.

use super::output::eprint;
use std::sync::Once;
use tenure::component::Engine;

/// For a command that keeps a log: that tells why there is no cache, where there is none.
///
/// # Errors
///
/// Why there is none, for people.
pub(super) fn logged() -> Result<Engine, String> {
    Engine::new().map_err(|error| error.to_string())
}

/// For a command that keeps none: standard error tells it.
///
/// # Errors
///
/// As [`logged`].
pub(super) fn unlogged() -> Result<Engine, String> {
    static TOLD: Once = Once::new();
    let engine = logged()?;
    if let Some(why) = engine.uncached() {
        TOLD.call_once(|| eprint(format_args!("tenure: warning: {why}\n")));
    }
    Ok(engine)
}
