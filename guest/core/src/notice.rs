//! Schedule notices: how a leader hears of a candidate that has another schedule. protocol.md §6.
//!
//! Two schedules on one election are a mistake, most likely two jobs that share it. A follower sees
//! the leader's schedule in the record. The leader sees nothing of a follower, which cannot write to a
//! leased blob. So the follower writes a notice to a side blob, and the leader reads that now and then.
//! Both are background requests ([`super::background`]): nothing waits for them, and they change nothing
//! but the problems that are reported.

use core::time::Duration;

use chrono::TimeDelta;

use super::problem::{Problem, ProblemClass, SEPARATE};
use super::settings::Settings;
use super::text::{LONGEST_NAME, LONGEST_SCHEDULE, encoded, fit};
use tenure_azure::answer::{Answer, Properties};
use tenure_azure::metadata::Metadata;
use tenure_base::prelude::*;

/// How long a leader leads before it reads for a notice.
pub(super) const FIRST_READ: Duration = Duration::from_secs(60);

/// How long a leader waits between two reads, and a follower between two writes of its notice.
pub(super) const EVERY: Duration = Duration::from_secs(5 * 60);

/// An older notice does not count: a candidate that still has another schedule writes it again before.
pub(super) const FRESH: TimeDelta = TimeDelta::minutes(10);

/// The least time that a request about a notice is given.
pub(super) const LEAST_NOTICE: Duration = Duration::from_millis(200);

/// The longest that one may take: what happens meanwhile, the end of a turn or a wish to leave,
/// waits for it.
pub(super) const LONGEST_NOTICE: Duration = Duration::from_secs(1);

/// Of the candidate that left a blob beside an election's; nothing else has it.
pub(super) const CANDIDATE: &str = "tenurecandidate";
const SCHEDULE: &str = "tenureschedule";

/// What a candidate with another schedule than the leader's tells of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Notice {
    /// Its name; not unique.
    pub candidate: String,
    /// Its schedule, in words.
    pub schedule: String,
}

impl Notice {
    /// That of a candidate with these settings; none when it has no schedule.
    pub fn of(settings: &Settings) -> Option<Self> {
        Some(Self { candidate: settings.name.clone(), schedule: settings.agenda.description()? })
    }

    pub fn write(&self) -> Metadata {
        let mut metadata = Metadata::default();
        metadata.insert(CANDIDATE.into(), encoded(&self.candidate));
        metadata.insert(SCHEDULE.into(), encoded(&self.schedule));
        metadata
    }

    /// Two different schedules on one blob, as the leader tells it. None: they are the same.
    pub fn problem(&self, settings: &Settings) -> Option<Problem> {
        let Self { candidate, schedule } = self;
        let (ours, election) = (settings.agenda.description()?, &settings.election);
        let detail = format!(
            "the candidate \"{candidate}\" of {election} has \"{schedule}\", this leader runs \
             \"{ours}\"; {SEPARATE}"
        );
        (*schedule != ours).then_some(Problem { class: ProblemClass::Schedule, detail })
    }

    fn read(properties: &Properties) -> Option<Self> {
        let field = |name, longest| fit(properties.metadata.get(name)?, longest);
        let candidate = field(CANDIDATE, LONGEST_NAME)?;
        let notice = Self { candidate, schedule: field(SCHEDULE, LONGEST_SCHEDULE)? };
        is_a_candidates(properties).then_some(notice)
    }

    /// Whether a candidate wrote this, or a version that is not known.
    pub fn is_fit(properties: &Properties) -> bool {
        let fits = |name, longest| {
            properties.metadata.get(name).is_none_or(|value| fit(value, longest).is_some())
        };
        fits(CANDIDATE, LONGEST_NAME) && fits(SCHEDULE, LONGEST_SCHEDULE)
    }

    /// The notice in the answer to a read, unless it is an old one.
    pub fn fresh(answer: &Answer) -> Option<Self> {
        let age = answer.date?.signed_duration_since(answer.modified?);
        let seen = answer.properties.as_ref().filter(|_| age.abs() < FRESH)?;
        Self::read(seen)
    }
}

/// Whether a blob was left by a candidate, of this version or another one, and may be written over.
pub(super) fn is_a_candidates(properties: &Properties) -> bool {
    properties.content_length == 0 && properties.metadata.get(CANDIDATE).is_some()
}

/// Whether candidates with these settings leave notices and read for them.
pub(super) fn are_in_use(settings: &Settings) -> bool {
    let has_schedule = settings.agenda.schedule.is_some() && !settings.observes;
    has_schedule && settings.election.may_have_side_blobs()
}
