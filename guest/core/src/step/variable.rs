//! The names of the environment variables. docs/configuration.md and docs/security.md list them.
//! The account's variables have the names that the Azure CLI uses, and the identities' variables
//! have those of the Azure SDKs, where such names exist.

/// The prefixes of all variables.
pub const PREFIXES: [&str; 3] = ["TENURE_", "AZURE_", "IDENTITY_"];
/// `CONTAINER/BLOB`: the election.
pub const ELECTION: &str = "TENURE_ELECTION";
/// The name of this candidate, for display.
pub const NAME: &str = "TENURE_NAME";
/// Address at which this candidate can be reached when it leads, for operators and followers.
pub const ADDRESS: &str = "TENURE_ADDRESS";
/// Period of the lease.
pub const LEASE: &str = "TENURE_LEASE";
/// Time before the lease's end at which a leader stops acting.
pub const MARGIN: &str = "TENURE_MARGIN";
/// Time from one renewal to the next.
pub const RENEW: &str = "TENURE_RENEW";
/// Maximum wait of a follower between two polls.
pub const POLL: &str = "TENURE_POLL";
/// Time-out of one request.
pub const REQUEST_TIMEOUT: &str = "TENURE_REQUEST_TIMEOUT";
/// Time within which a dead leader is replaced, before its lease ends.
pub const FAILOVER: &str = "TENURE_FAILOVER";
/// `true`: one turn for each leadership, for its whole length, instead of a timer.
pub const WHILE_LEADING: &str = "TENURE_WHILE_LEADING";
/// Time after which a leader resigns.
pub const MAX_TENURE: &str = "TENURE_MAX_TENURE";
/// The interval of the timer. Without this and `CRON`, there is no timer.
pub const EVERY: &str = "TENURE_EVERY";
/// The times of the timer, as a cron expression.
pub const CRON: &str = "TENURE_CRON";
/// The time zone of the cron expression, by its IANA name.
pub const TIME_ZONE: &str = "TENURE_TIME_ZONE";
/// Time over which the slots of all elections are spread.
pub const JITTER: &str = "TENURE_JITTER";
/// `at-most-once` or `at-least-once`.
pub const DELIVERY: &str = "TENURE_DELIVERY";
/// Number of turns after which a slot with at-least-once delivery is abandoned.
pub const MAX_ATTEMPTS: &str = "TENURE_MAX_ATTEMPTS";
/// `skip`, `once` or `all N`: the rule for missed slots.
pub const MISSED: &str = "TENURE_MISSED";
/// Time limit of a turn. Without it, a turn may last as long as the leadership.
pub const TURN_TIMEOUT: &str = "TENURE_TURN_TIMEOUT";
/// Number of failed turns in a row that end the leadership; 0: never.
pub const MAX_FAILURES: &str = "TENURE_MAX_FAILURES";
/// Time for which a candidate does not contend after its work ended its leadership.
pub const COOL_DOWN: &str = "TENURE_COOL_DOWN";
/// The storage account with its key or a SAS.
pub const CONNECTION_STRING: &str = "AZURE_STORAGE_CONNECTION_STRING";
/// A file with the connection string, read again in each step.
pub const CONNECTION_STRING_FILE: &str = "AZURE_STORAGE_CONNECTION_STRING_FILE";
/// The name of the storage account.
pub const ACCOUNT: &str = "AZURE_STORAGE_ACCOUNT";
/// The address of the account's Blob service, if not in the public cloud.
pub const SERVICE_ENDPOINT: &str = "AZURE_STORAGE_SERVICE_ENDPOINT";
/// A key of the account.
pub const KEY: &str = "AZURE_STORAGE_KEY";
/// A file with the key, read again in each step.
pub const KEY_FILE: &str = "AZURE_STORAGE_KEY_FILE";
/// A shared access signature, alone or with the address that it is for.
pub const SAS_TOKEN: &str = "AZURE_STORAGE_SAS_TOKEN";
/// A file with the SAS, read again in each step.
pub const SAS_TOKEN_FILE: &str = "AZURE_STORAGE_SAS_TOKEN_FILE";
/// A token of Microsoft Entra ID for storage.
pub const AUTH_TOKEN: &str = "AZURE_STORAGE_AUTH_TOKEN";
/// A file with the token, read again in each step.
pub const AUTH_TOKEN_FILE: &str = "AZURE_STORAGE_AUTH_TOKEN_FILE";
/// The client id of the application, or of one of several managed identities.
pub const CLIENT_ID: &str = "AZURE_CLIENT_ID";
/// The tenant (directory) of the application.
pub const TENANT_ID: &str = "AZURE_TENANT_ID";
/// The application's secret.
pub const CLIENT_SECRET: &str = "AZURE_CLIENT_SECRET";
/// A file with that secret, read again in each step.
pub const CLIENT_SECRET_FILE: &str = "AZURE_CLIENT_SECRET_FILE";
/// The file with the token of a workload identity.
pub const FEDERATED_TOKEN_FILE: &str = "AZURE_FEDERATED_TOKEN_FILE";
/// The authority at which applications request tokens.
pub const AUTHORITY_HOST: &str = "AZURE_AUTHORITY_HOST";
/// The endpoint at which an app requests tokens of its managed identity.
pub const IDENTITY_ENDPOINT: &str = "IDENTITY_ENDPOINT";
/// The secret for that endpoint.
pub const IDENTITY_HEADER: &str = "IDENTITY_HEADER";
/// The endpoint at which a machine requests tokens, if not 169.254.169.254.
pub const IMDS_HOST: &str = "AZURE_POD_IDENTITY_AUTHORITY_HOST";

// The host sets the remaining variables, not the user.

/// `true`: the candidate only observes.
pub const OBSERVE: &str = "TENURE_OBSERVE";
/// `true`: the election coordinates shares.
pub const COORDINATES: &str = "TENURE_COORDINATES";
/// `true`: the work has no timer, and runs for triggers only.
pub const ON_TRIGGER: &str = "TENURE_ON_TRIGGER";
/// The time between two reads of orders by a leader: a duration, or `never`.
pub const ORDERS: &str = "TENURE_ORDERS";
/// `true`: the host sends the background requests of reports.
pub const BACKGROUND: &str = "TENURE_BACKGROUND";
/// `true`: reports include the leader's last will.
pub const LAST_WILL: &str = "TENURE_LAST_WILL";
