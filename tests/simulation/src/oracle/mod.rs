//! The oracle: one small function for each invariant (protocol.md §12), and for required progress:
//! turns, recorded outcomes, handovers, and releases.
//!
//! It uses the order of accepted writes, the requests on the wire, and the times at which handlers
//! worked. It knows the clocks of candidates, but not what candidates believe.

mod announcements;
mod beats;
mod candidate_lists;
mod fault_periods;
mod foreign_fields;
mod handovers;
mod hints;
mod invocations;
mod leases;
mod limits;
mod liveness;
mod overlap;
mod pace;
mod progress;
mod releases;
mod service_time;
mod slots;
mod succession;
mod terms;
mod transfers;
mod validity;

use std::fmt;

use super::history::History;
use super::plan::Class;
use super::world::Millis;

/// Violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// `I1` to `I9`, or the name of another rule.
    pub invariant: &'static str,
    /// When the violation occurred.
    pub at: Millis,
    /// Description of the violation.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { invariant, at, message } = self;
        write!(f, "{invariant} at {}.{:03}: {message}", at / 1_000, at % 1_000)
    }
}

/// Checks a schedule against all rules.
#[must_use]
pub fn check(history: &History, class: Class) -> Vec<Violation> {
    let mut violations = Vec::new();
    violations.extend(overlap::check_i1(history, class));
    violations.extend(terms::check_i2(history));
    violations.extend(validity::check_i3(history));
    violations.extend(succession::check_i4(history));
    violations.extend(slots::check_i5(history));
    violations.extend(liveness::check_i6(history));
    violations.extend(pace::check_i7(history));
    violations.extend(leases::check_i8(history));
    violations.extend(beats::check_i9(history));
    violations.extend(beats::check_versions(history));
    violations.extend(foreign_fields::check_foreign_fields(history));
    violations.extend(limits::check_limits(history));
    violations.extend(progress::check_progress(history));
    violations.extend(releases::check_releases(history));
    violations.extend(handovers::check_handovers(history));
    violations.extend(announcements::check_announcements(history));
    violations.extend(hints::check_hints(history));
    violations.extend(candidate_lists::check_candidate_lists(history));
    violations.extend(transfers::check_transfers(history));
    violations.sort_by_key(|violation| violation.at);
    violations
}

/// Checks a schedule against the rules that hold even if no supervisor stops a handler in time.
#[must_use]
pub fn check_slots(history: &History) -> Vec<Violation> {
    let mut violations = terms::check_i2(history);
    violations.extend(slots::check_i5(history));
    violations.extend(leases::check_i8(history));
    violations.extend(invocations::check_invocations(history));
    violations.sort_by_key(|violation| violation.at);
    violations
}

fn violation(invariant: &'static str, at: Millis, message: impl Into<String>) -> Violation {
    Violation { invariant, at, message: message.into() }
}
