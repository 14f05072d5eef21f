//! Remarks about this machine: obstacles to leading for a candidate on it, and differences between
//! its settings or clock and the election.

use super::row;
use crate::output::times::described_zone;
use serde::Serialize;
use tenure::status::{ClockDifference, local_time};
use tenure_core::{LeaseState, ProblemClass, Snapshot, Timestamp};

/// The settings that a candidate on this machine would use.
#[derive(Debug, Default)]
pub(super) struct LocalConfig {
    pub name: Option<String>,
    /// The description of the schedule, in the form of the record.
    pub schedule: Option<String>,
}

/// Entry of the section `here`, in text and in JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Remark {
    /// `role`, or a class of problem.
    pub class: &'static str,
    pub detail: String,
}

/// Returns the remarks about this machine. The snapshot was read between the two times of day in
/// the last parameter (nanoseconds since 1970).
pub(super) fn remarks(
    snapshot: &Snapshot,
    local: &LocalConfig,
    (before, after): (Timestamp, Timestamp),
) -> Vec<Remark> {
    let mut remarks = Vec::new();
    let mut add = |class, detail| remarks.push(Remark { class, detail });
    add("role", role(snapshot, local));
    if let Some(problem) = slot_ahead(snapshot) {
        add("schedule", problem);
    }
    if let (Some(recorded), Some(configured)) = (&snapshot.turns.schedule, &local.schedule)
        && recorded != configured
    {
        add(
            "schedule",
            format!(
                "the leader ran \"{recorded}\", the settings here say \"{configured}\"; give every job its \
                 own election, unless its schedule is just being changed"
            ),
        );
    }
    if let Some(difference) = ClockDifference::new(snapshot.answered_at, before, after) {
        add("clock", difference.to_string());
    }
    remarks
}

/// Explains a claimed slot in the future.
fn slot_ahead(snapshot: &Snapshot) -> Option<String> {
    let zone = described_zone(snapshot.turns.schedule.as_deref());
    let slot = local_time(snapshot.answered_at.plus(snapshot.ahead?), zone);
    Some(format!(
        "the last claimed slot, {slot}, lies in the future, and until then only triggers run; if that \
         is a mistake, run: tenure reset-slot"
    ))
}

/// Formats the remarks as rows.
pub(super) fn rows(remarks: &[Remark], width: Option<usize>) -> String {
    let row = |(number, Remark { detail, .. }): (usize, &Remark)| {
        row(if number == 0 { "here" } else { "" }, detail, width)
    };
    remarks.iter().enumerate().map(row).collect()
}

/// Describes the role of a candidate with these settings, and obstacles to leading.
fn role(snapshot: &Snapshot, local: &LocalConfig) -> String {
    const LOGS: &str = "the logs of the candidates say why; tenure check tests it from here";
    let local_name = local.name.as_deref();
    if let Some(problem) = &snapshot.problem {
        return meaning(problem.class).to_owned();
    }
    match (snapshot.leader(), snapshot.lease) {
        (Some(leader), _) if local_name == Some(&leader.name) => {
            format!("{} leads; that is the candidate with this machine's settings", leader.name)
        }
        (Some(leader), _) => format!(
            "as far as can be seen from here, {} can take over when {} is gone",
            local_name.unwrap_or("a candidate on this machine"),
            leader.name
        ),
        (None, LeaseState::Leased | LeaseState::Infinite | LeaseState::Breaking) => {
            "a candidate holds the lease and is about to lead".to_owned()
        }
        (None, LeaseState::Absent) => {
            format!(
                "there is no leader, because no candidate has run yet, or none can create the \
                 blob: {LOGS}"
            )
        }
        (None, LeaseState::Broken) => {
            format!(
                "there is no leader: the lease was broken, and no candidate has acquired it \
                 since: {LOGS}"
            )
        }
        (None, LeaseState::Available | LeaseState::Expired) => {
            format!(
                "there is no leader: no candidate runs, or none of them can win, or each waits \
                 because its work failed: {LOGS}"
            )
        }
    }
}

/// Explains a problem that prevented reading the election, for a candidate on this machine.
pub(super) fn meaning(class: ProblemClass) -> &'static str {
    match class {
        ProblemClass::Refused => {
            "a candidate with these settings is refused too, so it cannot lead"
        }
        ProblemClass::UnusableBlob => "no candidate can lead with this blob as it is",
        ProblemClass::ForeignLease => "no candidate can lead until this lease ends",
        ProblemClass::Configuration => "a candidate with these settings cannot lead",
        ProblemClass::Clock => "a candidate on this machine cannot lead until the clock is right",
        ProblemClass::Unreachable => {
            "a candidate on this machine cannot lead, because it gets no answer either; others may lead: \
             ask from another machine"
        }
        ProblemClass::Unavailable => {
            "no candidate can win while the service is unavailable; the present leader keeps its lease for \
             some seconds more"
        }
        ProblemClass::Nonsense => {
            "a candidate on this machine cannot lead, because the server there is not the Blob service"
        }
        ProblemClass::LeaseLost
        | ProblemClass::Schedule
        | ProblemClass::Work
        | ProblemClass::Order => "a candidate with these settings does not lead",
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{idle, incumbent};
    use super::*;
    use std::time::Duration;
    use tenure_core::{LastSlot, Turns};

    const NOW: Timestamp = Timestamp(1_800_000_000_000_000_000);
    const SECOND: Duration = Duration::from_secs(1);

    fn snapshot(lease: LeaseState) -> Snapshot {
        let turns = Turns {
            schedule: Some("every 5s".to_owned()),
            last_slot: Some(LastSlot { slot: NOW.minus(SECOND), attempt: 1 }),
            ..idle(lease, None).turns
        };
        Snapshot { turns, answered_at: NOW, ..idle(lease, Some(incumbent("ben", 7, 0))) }
    }

    fn local_remarks(snapshot: &Snapshot, local: &LocalConfig) -> Vec<Remark> {
        remarks(snapshot, local, (NOW, NOW))
    }

    #[test]
    fn role_explains_why_there_is_no_leader() {
        let ada = LocalConfig { name: Some("ada".to_owned()), schedule: None };
        let ben = LocalConfig { name: Some("ben".to_owned()), schedule: None };
        for (lease, local, words) in [
            (
                LeaseState::Leased,
                &LocalConfig::default(),
                "a candidate on this machine can take over when ben is gone",
            ),
            (
                LeaseState::Leased,
                &ada,
                "as far as can be seen from here, ada can take over when ben is gone",
            ),
            (
                LeaseState::Breaking,
                &ben,
                "ben leads; that is the candidate with this machine's settings",
            ),
            (LeaseState::Available, &ada, "no candidate runs, or none of them can win"),
            (LeaseState::Expired, &ada, "tenure check"),
            (LeaseState::Broken, &ada, "the lease was broken"),
            (LeaseState::Absent, &ada, "none can create the blob"),
        ] {
            let found = local_remarks(&snapshot(lease), local);
            assert_eq!((found.len(), found[0].class), (1, "role"), "{found:?}");
            assert!(found[0].detail.contains(words), "{lease:?}: {found:?}");
        }
    }

    #[test]
    fn settings_that_differ_are_reported() {
        let local =
            |schedule: &str| LocalConfig { name: None, schedule: Some(schedule.to_owned()) };
        assert_eq!(local_remarks(&snapshot(LeaseState::Leased), &local("every 5s")).len(), 1);
        let other = local_remarks(&snapshot(LeaseState::Leased), &local("every 1h"));
        assert_eq!((other.len(), other[1].class), (2, "schedule"));
        for words in ["every 5s", "every 1h"] {
            assert!(other[1].detail.contains(words), "{other:?}");
        }
        let ahead = Snapshot { ahead: Some(60 * SECOND), ..snapshot(LeaseState::Leased) };
        let ahead = local_remarks(&ahead, &LocalConfig::default());
        for words in ["until then only triggers run", "tenure reset-slot"] {
            assert!(ahead[1].detail.contains(words), "{ahead:?}");
        }
        assert_eq!(rows(&ahead, None).lines().filter(|line| line.starts_with("here")).count(), 1);
    }
}
