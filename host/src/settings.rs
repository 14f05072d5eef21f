//! Settings of a candidate: the election, its credential, its schedule and its timings.
//!
//! A program creates [`Settings`], and an [`Elector`](crate::Elector) validates them.
//! [`InvalidSettings`] contains all complaints at once. Programs that are configured by their
//! deployment use [`Variables`].

pub(crate) mod candidate;
pub(crate) mod variables;

pub(crate) use candidate::CandidateSettings;
pub use tenure_core::{Complaint, Delivery, Missed, Secret, SettingId, limits};
pub(crate) use variables::Variables;

use crate::token::Tokens;
pub use crate::token::{Token, TokenProvider};
use std::path::PathBuf;
use std::time::Duration;
use tenure_core::variable;

/// Invalid settings, with all complaints about them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", sentences(.0))]
pub struct InvalidSettings(pub Vec<Complaint>);

fn sentences(complaints: &[Complaint]) -> String {
    let texts = complaints.iter().map(|Complaint { setting, problem, advice }| {
        format!("{}: {problem}; {advice}", setting.field_name())
    });
    texts.collect::<Vec<_>>().join(". ")
}

/// Settings of one candidate, named like the program's options.
///
/// `None` selects the default. `docs/configuration.md` describes each setting in detail.
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
    /// The election, as `CONTAINER/BLOB`. Both are created if missing. Each job needs its own blob.
    pub election: String,
    /// Credential for requests to the storage account.
    pub credential: Credential,
    /// Name of this candidate, at most [`MAX_NAME`](limits::MAX_NAME) bytes. The default is made of
    /// the machine's name and the process id.
    ///
    /// Operators cannot distinguish processes with the same name.
    pub name: Option<String>,
    /// Address of this candidate while it leads, at most [`MAX_ADDRESS`](limits::MAX_ADDRESS)
    /// bytes. Operators and followers see it.
    ///
    /// If it begins with `http://` or `https://`, followers that run a `Watcher` of the crate
    /// `tenure-server` read `/watch` there. They then notice the end of leadership at once.
    /// Commands that place an order notify the leader there.
    pub address: Option<String>,
    /// Time over which the turns of different elections are spread, within
    /// [`JITTER`](limits::JITTER) and less than the schedule's interval. The turns of one election
    /// are all delayed by the same part of this time.
    pub jitter: Duration,
    /// Delivery of turns: at most once, or at least once with a number of attempts within
    /// [`MAX_ATTEMPTS`](limits::MAX_ATTEMPTS).
    pub delivery: Delivery,
    /// Rule for missed slots. [`MISSED`](limits::MISSED) is the range of [`Missed::All`].
    pub missed: Missed,
    /// Duration of a lease without a renewal, within [`LEASE`](limits::LEASE), in whole seconds.
    /// The default is [`DEFAULT_LEASE`](limits::DEFAULT_LEASE), or
    /// [`DEFAULT_LEASE_WITH_FAILOVER`](limits::DEFAULT_LEASE_WITH_FAILOVER) with
    /// [`failover`](Settings::failover).
    pub lease: Option<Duration>,
    /// Time before the end of the lease at which the work is stopped, at least
    /// [`MIN_MARGIN`](limits::MIN_MARGIN). The default is a fifth of the lease.
    pub margin: Option<Duration>,
    /// Interval between renewals of a leader, at least [`MIN_RENEW`](limits::MIN_RENEW). The
    /// default is 4/15 of the lease.
    ///
    /// This interval and two renewal attempts (a request timeout and 0.5 s each) must fit into the
    /// lease minus the margin.
    pub renew: Option<Duration>,
    /// Longest interval between two polls of a follower, within [`POLL`](limits::POLL). The default
    /// is [`DEFAULT_POLL`](limits::DEFAULT_POLL). The shortest interval is half of it.
    pub poll: Option<Duration>,
    /// Approximate time until a dead leader is replaced, within [`FAILOVER`](limits::FAILOVER). By
    /// default it is replaced when its lease ends.
    ///
    /// Leader and followers send a request every sixth of this time.
    pub failover: Option<Duration>,
    /// Timeout of one request, within [`REQUEST_TIMEOUT`](limits::REQUEST_TIMEOUT). The default is
    /// [`DEFAULT_REQUEST_TIMEOUT`](limits::DEFAULT_REQUEST_TIMEOUT).
    pub request_timeout: Option<Duration>,
    /// Time limit of a turn, within [`TURN_TIMEOUT`](limits::TURN_TIMEOUT). By default a turn may
    /// last as long as leadership. A turn that exceeds it is stopped, and ends leadership.
    pub turn_timeout: Option<Duration>,
    /// Number of failed turns in a row that end leadership, within
    /// [`MAX_FAILURES`](limits::MAX_FAILURES); 0 means never. The default is
    /// [`DEFAULT_MAX_FAILURES`](limits::DEFAULT_MAX_FAILURES), or
    /// [`DEFAULT_MAX_FAILURES_WHILE_LEADING`](limits::DEFAULT_MAX_FAILURES_WHILE_LEADING) with
    /// [`Schedule::WhileLeading`]. A panic or a timeout ends it at once.
    pub max_failures: Option<u32>,
    /// Time for which a candidate does not contend after its work failed, within
    /// [`COOL_DOWN`](limits::COOL_DOWN). The default is
    /// [`DEFAULT_COOL_DOWN`](limits::DEFAULT_COOL_DOWN).
    ///
    /// The actual time is random, between half and all of it. It doubles with each failure until a
    /// turn succeeds.
    pub cool_down: Option<Duration>,
    /// Time after which a leader resigns: four leases to [`MAX_TENURE`](limits::MAX_TENURE). The
    /// default is never.
    pub max_tenure: Option<Duration>,
}

/// Schedule of the work.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Schedule {
    /// A turn for each interval within [`EVERY`](limits::EVERY), aligned to the epoch. An interval
    /// of an hour means each full hour, UTC.
    Every(Duration),
    /// A turn at each of these times.
    Cron {
        /// Five fields, like `0 9 * * MON-FRI`, or six with the seconds first.
        expression: String,
        /// IANA name of the time zone, like `Europe/Berlin`. `None` is UTC.
        time_zone: Option<String>,
    },
    /// No timer: one turn starts with leadership, and may last as long. When it ends, leadership
    /// ends.
    ///
    /// After `Ok` the candidate contends again after two polls. After an error or a panic it waits
    /// for the [cool-down](Settings::cool_down) first. Work that is to last until leadership ends
    /// can await `std::future::pending()`. Settings of jitter, missed slots, delivery and turn
    /// timeouts are rejected with this schedule.
    WhileLeading,
    /// No timer: turns run for triggers only (`tenure trigger`).
    OnTrigger,
}

/// Credential for requests to the storage account.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Credential {
    /// Credential from the environment of this process, as for the program `tenure`.
    ///
    /// `docs/security.md` lists the variables, some of which platforms set; [`variable`] contains
    /// all names. Other variables are not read. Use [`tokens`](Self::tokens) for a credential that
    /// the program already has.
    Environment,
    /// Connection string with a key or a shared access signature, or `UseDevelopmentStorage=true`.
    ConnectionString(Secret),
    /// File that contains a connection string. It is read in each step, so the key can be replaced
    /// without a restart.
    ConnectionStringFile(PathBuf),
    /// Tokens of Microsoft Entra ID from a provider: see [`tokens`](Self::tokens).
    #[non_exhaustive]
    Tokens {
        /// Name of the storage account, or an address of its Blob service that contains the name.
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

    /// Returns the name of this machine, if it is valid text.
    #[cfg(unix)]
    #[must_use]
    pub fn machine_name() -> Option<String> {
        rustix::system::uname().nodename().to_str().ok().map(str::to_owned)
    }

    /// Returns the name of this machine, if the environment contains it.
    #[cfg(not(unix))]
    #[must_use]
    pub fn machine_name() -> Option<String> {
        std::env::var("COMPUTERNAME").ok()
    }

    /// Returns the default [name](Self::name) of a candidate: the machine's name, a hyphen and the
    /// process id.
    #[must_use]
    pub fn default_name() -> String {
        let machine = Self::machine_name().unwrap_or_else(|| "candidate".to_owned());
        format!("{machine}-{}", std::process::id())
    }
}

impl Credential {
    /// Creates a credential from a provider of Microsoft Entra ID tokens.
    ///
    /// `account` is the name of the storage account, or an address of its Blob service that
    /// contains the name: a custom domain does not. Clones share their tokens. The election
    /// component does not support this credential.
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
