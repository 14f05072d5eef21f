//! The variables, by the names that Azure users know. docs/configuration.md and docs/security.md list them.

/// The prefixes of all variables.
pub const PREFIXES: [&str; 3] = ["TENURE_", "AZURE_", "IDENTITY_"];
/// `CONTAINER/BLOB`: the election.
pub const ELECTION: &str = "TENURE_ELECTION";
/// The name of this candidate, for people.
pub const NAME: &str = "TENURE_NAME";
/// Where this candidate can be reached when it leads, for people and followers.
pub const ADDRESS: &str = "TENURE_ADDRESS";
/// Period of the lease.
pub const LEASE: &str = "TENURE_LEASE";
/// How long before its end a leader stops acting.
pub const MARGIN: &str = "TENURE_MARGIN";
/// From one renewal to the next.
pub const RENEW: &str = "TENURE_RENEW";
/// The longest a follower waits between two polls.
pub const POLL: &str = "TENURE_POLL";
/// The longest that one request may take.
pub const REQUEST_TIMEOUT: &str = "TENURE_REQUEST_TIMEOUT";
/// How soon a leader that died is replaced, where that is to be sooner than its lease ends.
pub const FAILOVER: &str = "TENURE_FAILOVER";
/// `true`: one turn for each leadership, as long as it lasts, instead of a timer.
pub const WHILE_LEADING: &str = "TENURE_WHILE_LEADING";
/// A leader resigns after so long.
pub const MAX_TENURE: &str = "TENURE_MAX_TENURE";
/// The period of the timer. Without this and `CRON` it has no slots.
pub const EVERY: &str = "TENURE_EVERY";
/// The times of the timer, as a cron expression.
pub const CRON: &str = "TENURE_CRON";
/// The time zone of the cron expression, by its IANA name.
pub const TIME_ZONE: &str = "TENURE_TIME_ZONE";
/// Over how long the slots of all elections are spread.
pub const JITTER: &str = "TENURE_JITTER";
/// `at-most-once` or `at-least-once`.
pub const DELIVERY: &str = "TENURE_DELIVERY";
/// After so many turns, a slot that is delivered at least once is abandoned.
pub const MAX_ATTEMPTS: &str = "TENURE_MAX_ATTEMPTS";
/// `skip`, `once` or `all N`: what becomes of missed slots.
pub const MISSED: &str = "TENURE_MISSED";
/// The longest that a turn may take. Without it, a turn may last as long as the leadership.
pub const TURN_TIMEOUT: &str = "TENURE_TURN_TIMEOUT";
/// So many failed turns in a row end the leadership; 0: never.
pub const MAX_FAILURES: &str = "TENURE_MAX_FAILURES";
/// How long a candidate waits before it contends again when its work ended its leadership.
pub const COOL_DOWN: &str = "TENURE_COOL_DOWN";
/// The storage account with its key or a SAS.
pub const CONNECTION_STRING: &str = "AZURE_STORAGE_CONNECTION_STRING";
/// A file that holds it, read again in each step.
pub const CONNECTION_STRING_FILE: &str = "AZURE_STORAGE_CONNECTION_STRING_FILE";
/// The name of the storage account.
pub const ACCOUNT: &str = "AZURE_STORAGE_ACCOUNT";
/// The address of its Blob service, where it is not the one of the public cloud.
pub const SERVICE_ENDPOINT: &str = "AZURE_STORAGE_SERVICE_ENDPOINT";
/// A key of the account.
pub const KEY: &str = "AZURE_STORAGE_KEY";
/// A file that holds it, read again in each step.
pub const KEY_FILE: &str = "AZURE_STORAGE_KEY_FILE";
/// A shared access signature, alone or with the address that it is for.
pub const SAS_TOKEN: &str = "AZURE_STORAGE_SAS_TOKEN";
/// A file that holds it, read again in each step.
pub const SAS_TOKEN_FILE: &str = "AZURE_STORAGE_SAS_TOKEN_FILE";
/// A token of Microsoft Entra ID for storage.
pub const AUTH_TOKEN: &str = "AZURE_STORAGE_AUTH_TOKEN";
/// A file that holds it, read again in each step.
pub const AUTH_TOKEN_FILE: &str = "AZURE_STORAGE_AUTH_TOKEN_FILE";
/// The application, or which managed identity of several.
pub const CLIENT_ID: &str = "AZURE_CLIENT_ID";
/// The directory of the application.
pub const TENANT_ID: &str = "AZURE_TENANT_ID";
/// The application's secret.
pub const CLIENT_SECRET: &str = "AZURE_CLIENT_SECRET";
/// A file that holds it, read again in each step.
pub const CLIENT_SECRET_FILE: &str = "AZURE_CLIENT_SECRET_FILE";
/// The file with the token of a workload identity.
pub const FEDERATED_TOKEN_FILE: &str = "AZURE_FEDERATED_TOKEN_FILE";
/// Where applications ask for tokens.
pub const AUTHORITY_HOST: &str = "AZURE_AUTHORITY_HOST";
/// Where an app asks for tokens of its managed identity.
pub const IDENTITY_ENDPOINT: &str = "IDENTITY_ENDPOINT";
/// What it shows there.
pub const IDENTITY_HEADER: &str = "IDENTITY_HEADER";
/// Where a machine asks for tokens, if not at 169.254.169.254.
pub const IMDS_HOST: &str = "AZURE_POD_IDENTITY_AUTHORITY_HOST";

// A host sets the rest, and no user.

/// `true`: the candidate looks and takes no part.
pub const OBSERVE: &str = "TENURE_OBSERVE";
/// `true`: the election coordinates shares.
pub const COORDINATES: &str = "TENURE_COORDINATES";
/// `true`: the work has no timer, and runs for triggers only.
pub const ON_TRIGGER: &str = "TENURE_ON_TRIGGER";
/// The time between two reads of orders by a leader: a duration, or `never`.
pub const ORDERS: &str = "TENURE_ORDERS";
/// `true`: the host sends the requests that reports hold.
pub const BACKGROUND: &str = "TENURE_BACKGROUND";
/// `true`: reports hold the leader's last will.
pub const LAST_WILL: &str = "TENURE_LAST_WILL";
