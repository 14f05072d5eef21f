//! What a candidate is told: the election, its credential, its schedule and its timings.
//!
//! A program writes [`Settings`], and an [`Elector`](crate::Elector) judges them: [`InvalidSettings`] has all that is wrong
//! with them at once. Programs that a deployment configures take its [`Variables`].

pub(crate) mod candidate;
pub(crate) mod replacement;
pub(crate) mod variables;

pub(crate) use candidate::CandidateSettings;
pub use tenure_core::{Complaint, Delivery, Missed, Secret, SettingId};
pub(crate) use variables::Variables;

use crate::token::Tokens;
pub use crate::token::{Token, TokenProvider};
use std::path::PathBuf;
use std::time::Duration;
use tenure_core::variable;

/// The settings cannot be used. All that is wrong with them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", sentences(.0))]
pub struct InvalidSettings(pub Vec<Complaint>);

fn sentences(complaints: &[Complaint]) -> String {
    let texts = complaints.iter().map(|Complaint { setting, problem, advice }| {
        format!("{}: {problem}; {advice}", setting.field_name())
    });
    texts.collect::<Vec<_>>().join(". ")
}

/// The settings of one candidate, by the names of the program's options. Where there is an `Option`, none means the
/// default. `docs/configuration.md` says more about each.
///
/// ```
/// use std::time::Duration;
/// use tenure::settings::{Credential, Settings};
///
/// let mut settings = Settings::new("jobs/nightly-report", Credential::Environment);
/// settings.name = Some("replica-1".to_owned());
/// settings.lease = Some(Duration::from_secs(20));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// The election, as `CONTAINER/BLOB`. Both are created when they are missing. Each job needs a blob of its own.
    pub election: String,
    /// What the requests to the storage account are authorised with.
    pub credential: Credential,
    /// How others see this candidate, in at most 128 bytes; by default the names of the machine and the process. Processes
    /// of one name cannot be told apart by operators.
    pub name: Option<String>,
    /// Where this candidate can be reached while it leads, in at most 256 bytes. People and followers are shown it. If it
    /// begins with `http://` or `https://`, followers that run a `Watcher` (feature `server`) read `/watch` there, so that
    /// they learn at once when the leader goes. Commands that give an order notify the leader there.
    pub address: Option<String>,
    /// Over how long the turns of all elections are spread, up to a day and less than the interval. All turns of one
    /// election come late by the same part of it.
    pub jitter: Duration,
    /// Whether a turn that went wrong is repeated; up to 100 attempts.
    pub delivery: Delivery,
    /// What becomes of slots that nobody could run in time. [`Missed::All`] takes up to 1000.
    pub missed: Missed,
    /// How long a lease lasts without a renewal: 15 s to 60 s, in whole seconds; by default 15 s, or 60 s
    /// with [`failover`](Settings::failover).
    pub lease: Option<Duration>,
    /// How long before the end of the lease the work is stopped: at least 2.5 s; by default a fifth of the lease.
    pub margin: Option<Duration>,
    /// How often a leader renews: at least 1 s, by default 4/15 of the lease. This interval and two
    /// attempts at a renewal (a request time-out and 0.5 s each) must fit into the lease less the margin.
    pub renew: Option<Duration>,
    /// The longest that a follower waits between two polls: 500 ms to a minute, by default 4 s. The shortest is half
    /// of it.
    pub poll: Option<Duration>,
    /// How soon a leader that died is replaced: 1 s to 10 s, by default when its lease ends. Leader and followers
    /// send a request every sixth of it.
    pub failover: Option<Duration>,
    /// The longest that one request may take: 1 s to 30 s, by default 3 s.
    pub request_timeout: Option<Duration>,
    /// The longest that a turn may take: 100 ms to a day, by default as long as the leadership. A turn that takes
    /// longer is stopped, and ends the leadership.
    pub turn_timeout: Option<Duration>,
    /// How many failed turns in a row end the leadership, up to 1000; 0: never. Default 3; with
    /// [`Schedule::WhileLeading`] 1. A panic and a time-out end it at once.
    pub max_failures: Option<u32>,
    /// How long a candidate whose work failed stays out at first: 1 s to an hour, by default 30 s. It is a random time from
    /// half of this to all of it, and doubles each time until a turn succeeds.
    pub cool_down: Option<Duration>,
    /// After so long a leader resigns: four leases to 366 days; by default never.
    pub max_tenure: Option<Duration>,
}

/// When the work runs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Schedule {
    /// A turn for each interval of 1 s to 366 days, aligned to the epoch: an hour is each full hour, UTC.
    Every(Duration),
    /// A turn at each of these times.
    Cron {
        /// Five fields, like `0 9 * * MON-FRI`, or six that begin with the second.
        expression: String,
        /// By its IANA name, like `Europe/Berlin`; none is UTC.
        time_zone: Option<String>,
    },
    /// No timer: one turn begins with the leadership, and may last as long. When it ends, so does the leadership. After
    /// `Ok` the candidate contends again after two polls; an error or a panic keeps it out for the
    /// [cool-down](Settings::cool_down). Work that has nothing to return ends with `std::future::pending().await`. Jitter,
    /// a rule for missed slots, a delivery and a turn's time-out are refused beside it.
    WhileLeading,
    /// No timer: a turn for each trigger (`tenure trigger`), and no other.
    OnTrigger,
}

/// What the requests to the storage account are authorised with.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Credential {
    /// What the environment of this process says, as for the program `tenure`: `docs/security.md` lists the
    /// variables, some of which platforms set; [`variable`] has them all. Its other variables are not read. A
    /// credential that the program has already is given by [`tokens`](Self::tokens).
    Environment,
    /// A connection string with a key or a shared access signature, or `UseDevelopmentStorage=true`.
    ConnectionString(Secret),
    /// A file that holds one. It is read again in each step, so that the key can be replaced.
    ConnectionStringFile(PathBuf),
    /// Tokens of Microsoft Entra ID from a provider: see [`tokens`](Self::tokens).
    #[non_exhaustive]
    Tokens {
        /// The name of the storage account, or the address of its Blob service.
        account: String,
        /// The provider, and its last token.
        tokens: Tokens,
    },
}

impl Settings {
    /// Creates the settings of a candidate of that election, with defaults for everything else.
    pub fn new(election: impl Into<String>, credential: Credential) -> Self {
        Self {
            election: election.into(),
            credential,
            name: None,
            address: None,
            jitter: Duration::ZERO,
            delivery: Delivery::default(),
            missed: Missed::Once,
            lease: None,
            margin: None,
            renew: None,
            poll: None,
            failover: None,
            request_timeout: None,
            turn_timeout: None,
            max_failures: None,
            cool_down: None,
            max_tenure: None,
        }
    }

    /// Returns the name of this machine, if it has one that is text.
    #[cfg(unix)]
    #[must_use]
    pub fn machine_name() -> Option<String> {
        rustix::system::uname().nodename().to_str().ok().map(str::to_owned)
    }

    /// Returns the name of this machine, if the environment has it.
    #[cfg(not(unix))]
    #[must_use]
    pub fn machine_name() -> Option<String> {
        std::env::var("COMPUTERNAME").ok()
    }

    /// Returns the [name](Self::name) of a candidate that is given none: that of the machine and the process.
    #[must_use]
    pub fn default_name() -> String {
        let machine = Self::machine_name().unwrap_or_else(|| "candidate".to_owned());
        format!("{machine}-{}", std::process::id())
    }
}

impl Credential {
    /// Tokens of Microsoft Entra ID from a provider. `account` is the name of the storage account, or the address of its Blob
    /// service. Clones of this share their tokens. The election component cannot use them.
    pub fn tokens(account: impl Into<String>, provider: impl TokenProvider) -> Self {
        Self::Tokens { account: account.into(), tokens: Tokens::new(provider) }
    }

    fn into_variables(self) -> Variables {
        match self {
            Self::Environment => Variables::from_env().credentials_only(),
            Self::ConnectionString(text) => {
                Variables::new().with(variable::CONNECTION_STRING, text.reveal())
            }
            Self::ConnectionStringFile(path) => {
                let path = std::path::absolute(&path).unwrap_or(path);
                Variables::new().with(variable::CONNECTION_STRING_FILE, path.to_string_lossy())
            }
            Self::Tokens { account, tokens } => {
                let is_address = account.contains("://");
                let name = if is_address { variable::SERVICE_ENDPOINT } else { variable::ACCOUNT };
                Variables::new().with(name, account).with_tokens(tokens)
            }
        }
    }
}

#[cfg(test)]
mod tests;
