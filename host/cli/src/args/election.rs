//! Which election is meant, and how its storage account is reached.

use clap::Args;
use std::path::PathBuf;

/// The election of a command that looks at it or steers it, and its storage account. Help shows
/// options in the order of their declaration, so those of the command that stand between the two
/// are declared between them.
#[derive(Args)]
pub(crate) struct ElectionArguments<Between: Args = ()> {
    /// The election: a container and a blob in it [env: TENURE_ELECTION]
    #[arg(long, value_name = "CONTAINER/BLOB")]
    pub election: Option<String>,
    #[command(flatten)]
    pub between: Between,
    #[command(flatten)]
    pub storage: StorageArguments,
}

#[derive(Args)]
pub(crate) struct StorageArguments {
    /// A file that holds the connection string; it is read again while this runs, so that the key can be
    /// replaced [env: AZURE_STORAGE_CONNECTION_STRING_FILE, or the string itself in
    /// AZURE_STORAGE_CONNECTION_STRING]
    #[arg(long, value_name = "FILE")]
    pub connection_string_file: Option<PathBuf>,
    /// Certificates in PEM form that are trusted beside the platform's, for the storage account
    /// and whoever gives out tokens for it; not for the handler [env: TENURE_CA_FILE]
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
}
