//! The settings as given, each with its type, and the variables with the same meaning. The
//! environment is their source: variables, and the files that some of them name.

use core::fmt;
use core::ops::RangeInclusive;
use core::time::Duration;

use super::{limits, variable};
use crate::schedule::agenda::Missed;
use serde::{Deserialize, Serialize};
use tenure_azure::secret::Secret;
use tenure_base::duration::{format_duration, parse_duration};
use tenure_base::prelude::*;
use tenure_base::text::{QUOTED, QUOTED_ADVICE, is_quoted, redact};

/// Defines [`Options`] and the conversions between them and the variables, so that every option has
/// a variable.
macro_rules! options {
    ($($(#[$doc:meta])* $field:ident: $type:ty = $variable:ident,)*) => {
        /// The settings of a candidate as given, without its credential. None stands for the
        /// default.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Options {
            $($(#[$doc])* pub $field: Option<$type>,)*
            /// Complaints about variables that could not be read. Validation repeats them.
            pub invalid: Vec<Complaint>,
        }

        impl Options {
            /// Reads the variables. A variable that is set but blank counts as not set.
            #[must_use]
            pub fn read(variable: &dyn Fn(&str) -> Option<String>) -> Self {
                let mut options = Self::default();
                $(read(&mut options.$field, variable::$variable, &mut options.invalid, variable);)*
                options
            }

            /// Returns the variables from which [`read`](Self::read) reads these options.
            #[must_use]
            pub fn variables(&self) -> Vec<(&'static str, String)> {
                let mut variables = Vec::new();
                $(variables.extend(self.$field.as_ref().map(|v| (variable::$variable, v.to_text())));)*
                variables
            }

            /// Resets an option to its default.
            pub fn unset(&mut self, name: &str) {
                match name {
                    $(variable::$variable => self.$field = None,)*
                    _ => {}
                }
                self.invalid.retain(|complaint| complaint.setting.variable() != name);
            }
        }
    };
}

options! {
    /// The election, as `CONTAINER/BLOB`.
    election: String = ELECTION,
    /// The name of this candidate.
    name: String = NAME,
    /// The address at which this candidate can be reached when it leads.
    address: String = ADDRESS,
    /// The period of the lease.
    lease: Duration = LEASE,
    /// The time before the end of the lease at which a leader stops acting.
    margin: Duration = MARGIN,
    /// The time from one renewal to the next.
    renew: Duration = RENEW,
    /// The longest wait of a follower between two polls.
    poll: Duration = POLL,
    /// The time-out of one request.
    request_timeout: Duration = REQUEST_TIMEOUT,
    /// The time within which a leader that died is replaced.
    failover: Duration = FAILOVER,
    /// True if the work is one turn for each leadership.
    while_leading: bool = WHILE_LEADING,
    /// The interval between turns.
    every: Duration = EVERY,
    /// The times of the turns, as a cron expression.
    cron: String = CRON,
    /// The time zone of the cron expression.
    time_zone: String = TIME_ZONE,
    /// The time over which the turns of all elections are spread.
    jitter: Duration = JITTER,
    /// The rule for retries of a failed turn.
    retries: Retries = DELIVERY,
    /// The number of turns that a slot may have, if failed turns are retried.
    max_attempts: u32 = MAX_ATTEMPTS,
    /// The rule for missed slots.
    missed: Missed = MISSED,
    /// The time-out of a turn.
    turn_timeout: Duration = TURN_TIMEOUT,
    /// The first cool-down of a candidate whose work failed.
    cool_down: Duration = COOL_DOWN,
    /// The number of failed turns in a row that end a leadership; 0: never.
    max_failures: u32 = MAX_FAILURES,
    /// The time after which a leader resigns.
    max_tenure: Duration = MAX_TENURE,
    /// True if the candidate only observes.
    observe: bool = OBSERVE,
    /// True if the election coordinates shares.
    coordinates: bool = COORDINATES,
    /// True if the work has no timer, and runs for triggers only.
    on_trigger: bool = ON_TRIGGER,
    /// The time between two reads of orders by a leader.
    orders: Orders = ORDERS,
    /// True if the host sends the background requests of reports.
    background: bool = BACKGROUND,
    /// True if reports include the leader's last will.
    last_will: bool = LAST_WILL,
}

/// The rule for retries of a failed turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retries {
    /// At-most-once delivery.
    Never,
    /// At-least-once delivery.
    UntilSuccess,
}

/// The rule for reading orders as a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Orders {
    /// The leader reads no orders.
    Never,
    /// The leader reads orders at this interval.
    Every(Duration),
}

/// A value of a variable.
pub(crate) trait Value: Sized {
    /// Parses the value. None if the text is not such a value.
    fn read(text: &str) -> Option<Self>;

    /// Returns the text of the value, which `read` parses.
    fn to_text(&self) -> String;

    /// Returns the problem and the advice for an invalid value of that variable.
    fn rule(name: &str) -> (String, String);
}

pub(crate) fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// Returns a complaint. It mentions quotation marks around the value, although they need not be the
/// cause.
pub(crate) fn complaint(
    setting: &'static str,
    value: Option<&str>,
    problem: &str,
    advice: &str,
) -> Complaint {
    let (mut problem, mut advice) = (String::from(problem), String::from(advice));
    if value.is_some_and(is_quoted) {
        for (text, suffix) in [(&mut problem, QUOTED), (&mut advice, QUOTED_ADVICE)] {
            text.push_str("; ");
            text.push_str(suffix);
        }
    }
    Complaint { setting: SettingId::new(setting), problem, advice }
}

/// An option of any type. One function reads all options, which keeps the component small.
trait AnyOption {
    /// Sets the option from a text. Returns false if the text is invalid.
    fn set_from(&mut self, text: &str) -> bool;

    /// See [`Value::rule`].
    fn rule(&self, name: &str) -> (String, String);
}

impl<T: Value> AnyOption for Option<T> {
    fn set_from(&mut self, text: &str) -> bool {
        *self = T::read(text);
        self.is_some()
    }

    fn rule(&self, name: &str) -> (String, String) {
        T::rule(name)
    }
}

/// Reads a variable into its option, or adds a complaint about it to `invalid`.
fn read(
    option: &mut dyn AnyOption,
    name: &'static str,
    invalid: &mut Vec<Complaint>,
    variable: &dyn Fn(&str) -> Option<String>,
) {
    let text = variable(name).filter(|text| !is_blank(text));
    if let Some(text) = text.filter(|text| !option.set_from(text)) {
        invalid.push(unreadable(name, &text, option.rule(name)));
    }
}

/// Returns the complaint about a value that breaks the rule of its type.
pub(crate) fn unreadable(
    name: &'static str,
    text: &str,
    (problem, advice): (String, String),
) -> Complaint {
    complaint(name, Some(text), &format!("\"{}\"{problem}", redact(text)), &advice)
}

/// Returns the range of a numeric setting, and the advice for a number outside of it.
pub(crate) fn number_range(name: &str) -> (RangeInclusive<u32>, &'static str) {
    match name {
        variable::MAX_ATTEMPTS => {
            (limits::MAX_ATTEMPTS, "choose how often a slot may be tried; 5 is usual")
        }
        _ => (
            limits::MAX_FAILURES,
            "choose how many failed turns in a row are too many; 0 allows any number",
        ),
    }
}

impl Value for String {
    fn read(text: &str) -> Option<Self> {
        Some(text.into())
    }

    fn to_text(&self) -> String {
        self.clone()
    }

    fn rule(_: &str) -> (String, String) {
        ("".into(), "".into())
    }
}

impl Value for Duration {
    fn read(text: &str) -> Option<Self> {
        parse_duration(text)
    }

    fn to_text(&self) -> String {
        format_duration(*self)
    }

    fn rule(_: &str) -> (String, String) {
        (" is not a duration".into(), "write it with its unit, like 15s, 500ms or 1h30m".into())
    }
}

impl Value for u32 {
    fn read(text: &str) -> Option<Self> {
        text.trim().parse().ok()
    }

    fn to_text(&self) -> String {
        self.to_string()
    }

    fn rule(name: &str) -> (String, String) {
        let (range, advice) = number_range(name);
        let (least, most) = range.into_inner();
        (format!(" is not a whole number from {least} to {most}"), advice.into())
    }
}

impl Value for bool {
    fn read(text: &str) -> Option<Self> {
        text.trim().parse().ok()
    }

    fn to_text(&self) -> String {
        self.to_string()
    }

    fn rule(_: &str) -> (String, String) {
        (" is neither true nor false".into(), "set true, or leave it out".into())
    }
}

impl Value for Retries {
    fn read(text: &str) -> Option<Self> {
        match text.trim() {
            "at-most-once" => Some(Self::Never),
            "at-least-once" => Some(Self::UntilSuccess),
            _ => None,
        }
    }

    fn to_text(&self) -> String {
        match self {
            Self::Never => "at-most-once".into(),
            Self::UntilSuccess => "at-least-once".into(),
        }
    }

    fn rule(_: &str) -> (String, String) {
        (
            " is not a rule of delivery".into(),
            "choose at-most-once (a failed turn is not retried) or at-least-once (it is)".into(),
        )
    }
}

impl Value for Missed {
    fn read(text: &str) -> Option<Self> {
        let mut parts = text.split_whitespace();
        match (parts.next(), parts.next(), parts.next()) {
            (Some("skip"), None, None) => Some(Self::Skip),
            (Some("once"), None, None) => Some(Self::Once),
            (Some("all"), Some(limit), None) => limit.parse().ok().map(Self::All),
            _ => None,
        }
    }

    fn to_text(&self) -> String {
        match self {
            Self::Skip => "skip".into(),
            Self::Once => "once".into(),
            Self::All(limit) => format!("all {limit}"),
        }
    }

    fn rule(_: &str) -> (String, String) {
        let (least, most) = limits::MISSED.into_inner();
        let advice = format!(
            "choose skip (they do not run), once (one turn for all), or all N (one turn for each, at most the newest N; \
             N from {least} to {most})"
        );
        (" is not a rule for missed slots".into(), advice)
    }
}

impl Value for Orders {
    fn read(text: &str) -> Option<Self> {
        match text.trim() {
            "never" => Some(Self::Never),
            every => parse_duration(every).map(Self::Every),
        }
    }

    fn to_text(&self) -> String {
        match self {
            Self::Never => "never".into(),
            Self::Every(every) => format_duration(*every),
        }
    }

    fn rule(_: &str) -> (String, String) {
        (" is neither a duration nor never".into(), "set an interval like 10s, or never".into())
    }
}

/// A setting, identified by its environment variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SettingId(&'static str);

impl SettingId {
    /// Creates the id of the setting that this variable sets.
    #[must_use]
    pub const fn new(variable: &'static str) -> Self {
        Self(variable)
    }

    /// Returns the environment variable of the setting.
    #[must_use]
    pub const fn variable(self) -> &'static str {
        self.0
    }

    /// Returns the name of the field in the Rust library: `max_tenure` for `TENURE_MAX_TENURE`. For
    /// a credential, which has no field, returns the variable.
    #[must_use]
    pub fn field_name(self) -> String {
        match self.0.strip_prefix("TENURE_") {
            Some(name) => name.to_ascii_lowercase(),
            None => self.0.into(),
        }
    }
}

/// One problem with the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// The setting with the problem.
    pub setting: SettingId,
    /// The value, unless it is secret, and the rule that it breaks.
    pub problem: String,
    /// The action that solves it.
    pub advice: String,
}

impl Complaint {
    /// Joins all complaints into one text.
    #[must_use]
    pub fn join_all(complaints: &[Self]) -> String {
        complaints.iter().map(ToString::to_string).collect::<Vec<_>>().join(". ")
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.setting.variable(), self.problem, self.advice)
    }
}

/// The environment that a host provides.
pub trait Environment {
    /// Returns a variable. None if it is not set. A host that has [`options`](Self::options)
    /// returns the variables that are equivalent to them.
    fn variable(&self, name: &str) -> Option<String>;

    /// Returns the current content of a file.
    ///
    /// # Errors
    /// The reason why the file cannot be read.
    fn file(&self, path: &str) -> Result<Secret, FileError>;

    /// Returns the options of the candidate, if the host has them as values. Otherwise they are
    /// read from the variables.
    fn options(&self) -> Option<&Options> {
        None
    }

    /// Returns the name of a setting for a text about the setting `about`. The default is the
    /// variable. A host with several names for a setting can use the kind of name by which the user
    /// set `about`.
    fn setting_name(&self, setting: SettingId, _about: SettingId) -> String {
        setting.variable().into()
    }
}

/// The reason why a file cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileError {
    /// The host opened no directory for the component that could contain the file.
    NotGranted,
    /// The directory has no such file, or the file may not be read.
    Missing,
    /// The path leads to a directory.
    Directory,
    /// The file is larger than any secret, or is not text.
    NotText,
}

/// Reads a secret from a file, without surrounding white space or a byte order mark.
///
/// # Errors
/// The problem with the file, and the advice.
pub fn read_secret(
    environment: &dyn Environment,
    path: &str,
) -> Result<Secret, (String, &'static str)> {
    let (problem, advice) = match environment.file(path) {
        Ok(text) if text.reveal().trim().is_empty() => ("is empty", "write the secret into it"),
        // Some editors begin a file with a byte order mark.
        Ok(text) => return Ok(text.reveal().trim_start_matches('\u{feff}').trim().into()),
        Err(FileError::NotGranted) => (
            "cannot be read: the host has not opened its directory to this component",
            "let the host open it (wasmtime: --dir), or set the secret in a variable",
        ),
        Err(FileError::Missing) => (
            "is not there or may not be read",
            "check the path, the permissions, and that links do not lead out of its directory",
        ),
        Err(FileError::Directory) => ("is a directory", "name the file in it"),
        Err(FileError::NotText) => {
            ("is not text, or is larger than 64 KiB", "let it hold the secret alone")
        }
    };
    Err((format!("the file {} {problem}", redact(path)), advice))
}

/// An environment of variables without files.
impl<F: Fn(&str) -> Option<String>> Environment for F {
    fn variable(&self, name: &str) -> Option<String> {
        self(name)
    }

    fn file(&self, _path: &str) -> Result<Secret, FileError> {
        Err(FileError::NotGranted)
    }
}

/// A secret file, as it was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretFile {
    pub(crate) path: String,
    #[serde(with = "tenure_azure::secret::revealed")]
    pub(crate) text: Secret,
}

/// An environment in which `file` has its former content, and no other file exists.
pub(crate) struct FormerFileEnvironment<'e> {
    pub environment: &'e dyn Environment,
    pub file: &'e SecretFile,
}

impl Environment for FormerFileEnvironment<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        self.environment.variable(name)
    }

    fn file(&self, path: &str) -> Result<Secret, FileError> {
        if self.file.path == path { Ok(self.file.text.clone()) } else { Err(FileError::Missing) }
    }

    fn options(&self) -> Option<&Options> {
        self.environment.options()
    }

    fn setting_name(&self, setting: SettingId, about: SettingId) -> String {
        self.environment.setting_name(setting, about)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fields are listed one by one, so that a new option has to be added here.
    fn full() -> Options {
        let text = |text: &str| Some(String::from(text));
        let millis = |millis| Some(Duration::from_millis(millis));
        Options {
            election: text("jobs/report"),
            name: text("replica 1"),
            address: text("http://replica-1"),
            lease: millis(30_000),
            margin: millis(5_001),
            renew: Some(Duration::from_nanos(4_500_000_001)),
            poll: millis(2_000),
            request_timeout: millis(4_000),
            failover: millis(3_000),
            while_leading: Some(false),
            every: millis(5_400_000),
            cron: text("0 9 * * MON-FRI"),
            time_zone: text("Europe/Berlin"),
            jitter: Some(Duration::ZERO),
            retries: Some(Retries::UntilSuccess),
            max_attempts: Some(7),
            missed: Some(Missed::All(9)),
            turn_timeout: millis(100),
            cool_down: millis(60_000),
            max_failures: Some(0),
            max_tenure: millis(366 * 24 * 3_600_000),
            observe: Some(true),
            coordinates: Some(true),
            on_trigger: Some(true),
            orders: Some(Orders::Every(Duration::from_millis(200))),
            background: Some(true),
            last_will: Some(true),
            invalid: Vec::new(),
        }
    }

    fn read_back(options: &Options) -> Options {
        let variables = options.variables();
        Options::read(&|name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
        })
    }

    #[test]
    fn variables_and_options_are_inverses() {
        let full = full();
        assert_eq!(read_back(&full), full);
        let mut names: Vec<_> = full.variables().iter().map(|(name, _)| *name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!((names.len(), count), (27, 27), "each option has a variable of its own");
        assert_eq!(read_back(&Options::default()), Options::default());
        for other in [
            Options {
                retries: Some(Retries::Never),
                missed: Some(Missed::Skip),
                ..Options::default()
            },
            Options {
                missed: Some(Missed::Once),
                orders: Some(Orders::Never),
                ..Options::default()
            },
        ] {
            assert_eq!(read_back(&other), other);
        }
    }

    #[test]
    fn unset_restores_the_default() {
        let mut options = full();
        for (name, _) in full().variables() {
            options.unset(name);
        }
        assert_eq!(options, Options::default());
        let mut invalid =
            Options::read(&|name: &str| (name == variable::LEASE).then(|| "soon".into()));
        assert_eq!((invalid.lease, invalid.invalid.len()), (None, 1));
        invalid.unset(variable::LEASE);
        assert_eq!(invalid, Options::default());
    }
}
