//! With what requests are authorised.

use super::sas::Sas;
use super::shared_key::Key;

/// What the holder of an account, or of a part of it, has. `Debug` prints nothing secret.
#[derive(Clone, Debug)]
pub enum Credential {
    /// The account's key: every request is signed.
    SharedKey(Key),
    /// A shared access signature: it goes into the query of every request.
    Sas(Sas),
}
