//! Names of the variables that calls are set with.

/// Where to call.
pub const URL: &str = "TENURE_HANDLER_URL";
/// The longest that the call may take.
pub const TIMEOUT: &str = "TENURE_HANDLER_TIMEOUT";
/// A bearer token.
pub const TOKEN: &str = "TENURE_HANDLER_TOKEN";
/// A file that holds it, read again for each call.
pub const TOKEN_FILE: &str = "TENURE_HANDLER_TOKEN_FILE";
/// Secrets that calls are signed with.
pub const SECRET: &str = "TENURE_HANDLER_SECRET";
/// A file that holds them, read again for each call.
pub const SECRET_FILE: &str = "TENURE_HANDLER_SECRET_FILE";
