//! Problems for the operator, and the failures of requests that got no answer. A lasting problem is
//! reported at a limited rate.

use core::fmt;
use core::time::Duration;

use super::clocks::Timestamp;
use super::settings::Settings;
use crate::Moment;
use crate::record::metadata::UnusableRecord;
use serde::{Deserialize, Serialize};
use tenure_azure::answer::{Answer, Class};
use tenure_azure::blob::{BlobName, SideBlob};
use tenure_azure::credential::Credential;
use tenure_azure::operation::Operation;
use tenure_base::prelude::*;

/// Interval between two reports of a lasting problem.
const REMINDER: Duration = Duration::from_secs(60);

/// Maximum number of remembered problems.
const MAX_REMEMBERED: usize = 6;

/// Advice if a candidate cannot create the container.
const CREATE_CONTAINER_ADVICE: &str =
    "create the container once, by hand or by template, or check the name of the election";

/// The kind of problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemClass {
    /// The account, the container or a setting does not suit the election.
    Configuration,
    /// The blob holds other content, so no candidate can lead with it.
    UnusableBlob,
    /// Another program holds the lease.
    ForeignLease,
    /// The service refuses the credential, its permission, or the request.
    Refused,
    /// The clock of this machine differs too much.
    Clock,
    /// There was no response.
    Unreachable,
    /// The service cannot serve now.
    Unavailable,
    /// The response is not one that the service gives.
    Nonsense,
    /// A leader lost its lease.
    LeaseLost,
    /// The schedule does not match the record, or another candidate has a different one.
    Schedule,
    /// The leader's work fails.
    Work,
    /// An order by an operator or a rule could not be carried out.
    Order,
}

impl ProblemClass {
    /// Returns the name of the class, as the WIT package spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Configuration => "configuration",
            Self::UnusableBlob => "unusable-blob",
            Self::ForeignLease => "foreign-lease",
            Self::Refused => "refused",
            Self::Clock => "clock",
            Self::Unreachable => "unreachable",
            Self::Unavailable => "unavailable",
            Self::Nonsense => "nonsense",
            Self::LeaseLost => "lease-lost",
            Self::Schedule => "schedule",
            Self::Work => "work",
            Self::Order => "order",
        }
    }
}

/// A problem, as an operator reads it. It holds no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The kind.
    pub class: ProblemClass,
    /// Description of the problem and advice.
    pub detail: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.class.name(), self.detail)
    }
}

impl core::error::Error for Problem {}

impl Problem {
    /// Returns the problem of two different schedules on one blob, which two jobs most likely share
    /// by mistake. None if the schedules do not differ.
    pub fn schedule_mismatch(leader_schedule: Option<&str>, settings: &Settings) -> Option<Self> {
        let (leader_schedule, own_schedule) = (leader_schedule?, settings.agenda.description()?);
        let election = &settings.election;
        let detail = format!(
            "the leader of {election} ran \"{leader_schedule}\", this candidate has \"{own_schedule}\"; give every job its own \
             election, unless its schedule is just being changed"
        );
        (leader_schedule != own_schedule).then_some(Self { class: ProblemClass::Schedule, detail })
    }

    /// Creates the problem of a blob that no candidate can lead with.
    pub(crate) fn from_unusable(unusable: UnusableRecord) -> Self {
        Self { class: ProblemClass::UnusableBlob, detail: unusable.detail }
    }

    /// Returns the problem of a lease without an end. Candidates acquire leases of 60 s at most.
    pub fn infinite_lease(settings: &Settings) -> Self {
        let election = &settings.election;
        let detail = format!(
            "something other than a candidate holds the lease of {election}: the lease has no end, so no candidate \
             can lead. Find out which program acquired it, and stop that; then end the lease: tenure break {election}"
        );
        Self { class: ProblemClass::ForeignLease, detail }
    }

    /// Returns the problem of a missing container that the credential certainly cannot create. None
    /// if it may be able to.
    pub fn container_missing(settings: &Settings) -> Option<Self> {
        let Credential::Sas(sas) = settings.account.credential() else { return None };
        if sas.can_create_containers() {
            return None;
        }
        let detail = format!(
            "{}, and this SAS cannot create it: {CREATE_CONTAINER_ADVICE}",
            missing_container(&settings.election)
        );
        Some(Self { class: ProblemClass::Refused, detail })
    }

    /// Returns the problem of a side blob with data that no candidate wrote. Such a blob counts as
    /// absent.
    pub fn foreign_side_blob(blob: SideBlob, settings: &Settings) -> Self {
        let name = settings.election.side_blob_name(blob);
        let detail = format!(
            "the blob {name} holds data that no candidate wrote; it is left untouched. Find out who else may write \
             beside the election's blob, and delete this one"
        );
        Self { class: ProblemClass::Configuration, detail }
    }

    /// Returns the problem of an unexpected answer.
    pub fn from_answer(answer: &Answer, operation: &Operation, settings: &Settings) -> Self {
        let class = match answer.class {
            Class::Refused => ProblemClass::Refused,
            Class::MissingBlob | Class::MissingContainer => ProblemClass::Configuration,
            // A policy forbids the request, so retries do not help.
            Class::Conflict if answer.code.as_deref() == Some("BlobImmutableDueToPolicy") => {
                ProblemClass::Configuration
            }
            Class::Unavailable
            | Class::Conflict
            | Class::LeaseMismatch
            | Class::ConditionNotMet => ProblemClass::Unavailable,
            Class::Done | Class::Nonsense => ProblemClass::Nonsense,
        };
        let mut detail = answer.explain(operation, &settings.election, &settings.account);
        if matches!(operation, Operation::CreateContainer)
            && (answer.class, answer.status) == (Class::Refused, 403)
        {
            let missing = missing_container(&settings.election);
            detail = format!(
                "{missing}, and this credential may not create it ({}): {CREATE_CONTAINER_ADVICE}",
                ["403", answer.code.as_deref().unwrap_or_default()].join(" ").trim_end()
            );
        }
        if let (Class::Refused, Credential::Sas(sas), Some(now)) =
            (answer.class, settings.account.credential(), answer.date)
            && let Some(times) = sas.validity_note(now)
        {
            detail.push_str("; ");
            detail.push_str(&times);
        }
        Self { class, detail }
    }

    /// Returns the problem of a last claimed slot in the future, which blocks the turns of the
    /// schedule.
    pub fn slot_ahead(slot: Timestamp) -> Self {
        let slot = slot.to_rfc3339();
        let detail = format!(
            "the last claimed slot, {slot}, lies in the future; until then only triggers run. If \
             that is a mistake, run: tenure reset-slot"
        );
        Self { class: ProblemClass::Schedule, detail }
    }
}

fn missing_container(election: &BlobName) -> String {
    format!("the container {} does not exist", election.container())
}

/// The problems that were reported recently.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecentProblems(Vec<(u64, Moment)>);

impl RecentProblems {
    /// Notes a problem. Returns true if it should be reported now, because it was not reported
    /// recently.
    pub fn note(&mut self, problem: &Problem, now: Moment) -> bool {
        let fingerprint = fingerprint(problem);
        self.0.retain(|(_, at)| now.saturating_sub(*at) < REMINDER);
        if self.0.iter().any(|(known, _)| *known == fingerprint) {
            return false;
        }
        if self.0.len() == MAX_REMEMBERED {
            self.0.remove(0);
        }
        self.0.push((fingerprint, now));
        true
    }
}

/// Returns a hash that distinguishes a handful of problems. It is the same in every process.
fn fingerprint(problem: &Problem) -> u64 {
    // FNV-1a.
    let bytes = [problem.class as u8].into_iter().chain(problem.detail.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The reason why there was no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The kind of failure.
    pub kind: FailureKind,
    /// Detail from the host; empty if there is none.
    pub detail: String,
}

/// The kind of failure that prevented an answer. Only [`FailureKind::Denied`] proves that the
/// service did not act on the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureKind {
    /// The request timed out.
    Timeout,
    /// The host name could not be resolved.
    Name,
    /// The connection was refused, or there is no route.
    Connect,
    /// The connection ended before the answer.
    Reset,
    /// The TLS certificate or protocol was not accepted.
    Tls,
    /// The host of this component does not allow the request.
    Denied,
    /// Any other failure.
    Other,
}

impl Failure {
    /// Returns the problem of a request that failed. `name` is the name of the request.
    pub fn to_problem(&self, name: &str, origin: &str) -> Problem {
        self.to_problem_with_advice(name, origin, None)
    }

    /// Returns the problem with `custom_advice`, if given, instead of the usual advice.
    pub(crate) fn to_problem_with_advice(
        &self,
        name: &str,
        origin: &str,
        custom_advice: Option<&str>,
    ) -> Problem {
        let (class, description, advice) = match self.kind {
            FailureKind::Timeout => (
                ProblemClass::Unreachable,
                "did not answer in time",
                "check the network and any firewall in between",
            ),
            FailureKind::Name => (
                ProblemClass::Unreachable,
                "cannot be resolved",
                "check the account name, the endpoint suffix, and DNS on this machine",
            ),
            FailureKind::Connect => (
                ProblemClass::Unreachable,
                "does not accept a connection",
                "check that the endpoint and its port are right and the service runs",
            ),
            FailureKind::Reset => (
                ProblemClass::Unreachable,
                "closed the connection before it answered",
                "the request is retried; if this goes on, check proxies and firewalls in between",
            ),
            FailureKind::Tls => (
                ProblemClass::Unreachable,
                "cannot be trusted over TLS",
                "check the endpoint's certificate and the authorities that this machine trusts; --ca-file \
                 of tenure run adds others",
            ),
            FailureKind::Denied => (
                ProblemClass::Configuration,
                "is not an origin that this component may connect to",
                "allow that origin in the host's settings",
            ),
            // The detail is the cause, which need not be the network.
            FailureKind::Other => (
                ProblemClass::Unreachable,
                "could not be reached",
                if self.detail.is_empty() { "check the network" } else { "the request is retried" },
            ),
        };
        let detail = match self.detail.as_str() {
            "" => String::new(),
            detail => format!(" ({detail})"),
        };
        let advice = custom_advice.unwrap_or(advice);
        Problem { class, detail: format!("{name}: {origin} {description}{detail}; {advice}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(detail: &str) -> Problem {
        Problem { class: ProblemClass::Refused, detail: detail.into() }
    }

    #[test]
    fn the_same_problem_is_reported_once_a_minute() {
        let mut reported = RecentProblems::default();
        let at = Duration::from_secs;
        assert!(reported.note(&problem("a"), at(0)));
        assert!(!reported.note(&problem("a"), at(59)));
        assert!(reported.note(&problem("b"), at(59)), "another one is news");
        let other = Problem { class: ProblemClass::Clock, ..problem("a") };
        assert!(reported.note(&other, at(59)), "another class is news");
        assert!(reported.note(&problem("a"), at(60)));
    }

    #[test]
    fn remembered_problems_are_bounded() {
        let mut reported = RecentProblems::default();
        for n in 0..100 {
            assert!(reported.note(&problem(&n.to_string()), Duration::ZERO));
        }
        assert_eq!(reported.0.len(), MAX_REMEMBERED);
    }
}
