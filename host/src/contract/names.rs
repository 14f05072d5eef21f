//! Values of the contract as people read them, and as the log and the pages tell them.

use super::{EndingReason, ProblemClass};
use chrono::{DateTime, SecondsFormat};

/// The name of a reason, as the WIT spells it.
pub(crate) fn reason_name(reason: EndingReason) -> &'static str {
    match reason {
        EndingReason::ValidityEnded => "validity-ended",
        EndingReason::LeaseLost => "lease-lost",
        EndingReason::Left => "left",
        EndingReason::WorkFailed => "work-failed",
        EndingReason::Resigned => "resigned",
        EndingReason::HandedOver => "handed-over",
    }
}

/// The name of a class of problem, as the WIT spells it.
pub fn class_name(class: ProblemClass) -> &'static str {
    match class {
        ProblemClass::Configuration => "configuration",
        ProblemClass::UnusableBlob => "unusable-blob",
        ProblemClass::ForeignLease => "foreign-lease",
        ProblemClass::Refused => "refused",
        ProblemClass::Clock => "clock",
        ProblemClass::Unreachable => "unreachable",
        ProblemClass::Unavailable => "unavailable",
        ProblemClass::Nonsense => "nonsense",
        ProblemClass::LeaseLost => "lease-lost",
        ProblemClass::Schedule => "schedule",
        ProblemClass::Work => "work",
        ProblemClass::Order => "order",
    }
}

/// A timestamp of the contract, in nanoseconds since 1970, with as many digits as it needs.
pub fn rfc3339(nanoseconds: u64) -> String {
    let time = DateTime::from_timestamp_nanos(i64::try_from(nanoseconds).unwrap_or(i64::MAX));
    time.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}
