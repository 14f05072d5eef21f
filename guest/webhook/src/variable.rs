//! Names of the variables that configure calls.

/// The URL to call.
pub const URL: &str = "TENURE_HANDLER_URL";
/// Time-out of the call.
pub const TIMEOUT: &str = "TENURE_HANDLER_TIMEOUT";
/// A bearer token.
pub const TOKEN: &str = "TENURE_HANDLER_TOKEN";
/// A file with the token, read again for each call.
pub const TOKEN_FILE: &str = "TENURE_HANDLER_TOKEN_FILE";
/// Secrets that sign calls.
pub const SECRET: &str = "TENURE_HANDLER_SECRET";
/// A file with the secrets, read again for each call.
pub const SECRET_FILE: &str = "TENURE_HANDLER_SECRET_FILE";
