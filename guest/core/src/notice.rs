//! Notices: how a leader hears of a candidate that follows another schedule. protocol.md §6.
//!
//! Two schedules on one election are a mistake, most likely two jobs that share it. A follower sees
//! the leader's in the record. The leader sees nothing of a follower, which cannot write to a leased
//! blob; so the follower leaves a notice beside it, a small blob without a lease, and the leader
//! looks there now and then. Both are errands ([`super::errands`]): nothing waits for them, and what
//! becomes of them changes nothing but what people are told.

use core::time::Duration;

use chrono::TimeDelta;

use super::heir::Forward;
use super::record::encoded;
use super::settings::Settings;
use super::text::{LONGEST_NAME, LONGEST_SCHEDULE, fit};
use super::trouble::{Trouble, TroubleClass};
use tenure_azure::answer::{Answer, Properties};
use tenure_azure::metadata::Metadata;
use tenure_azure::name::Aside;
use tenure_base::prelude::*;

/// How long a leader leads before it looks for a notice.
pub(super) const FIRST_LOOK: Duration = Duration::from_secs(60);

/// How long a leader waits between two looks, and a follower before it leaves its notice again.
pub(super) const EVERY: Duration = Duration::from_secs(5 * 60);

/// An older notice is nobody's any more: whoever still has another schedule leaves it again before.
const FRESH: TimeDelta = TimeDelta::minutes(10);

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
        Some(Self { candidate: settings.name.clone(), schedule: settings.agenda.words()? })
    }

    pub fn write(&self) -> Metadata {
        let mut metadata = Metadata::default();
        metadata.insert(CANDIDATE.into(), encoded(&self.candidate));
        metadata.insert(SCHEDULE.into(), encoded(&self.schedule));
        metadata
    }

    fn read(properties: &Properties) -> Option<Self> {
        let field = |name, longest| fit(properties.metadata.get(name)?, longest);
        let candidate = field(CANDIDATE, LONGEST_NAME)?;
        let notice = Self { candidate, schedule: field(SCHEDULE, LONGEST_SCHEDULE)? };
        is_a_candidates(properties).then_some(notice)
    }

    /// The notice in the answer to a look, unless it is an old one.
    pub fn fresh(answer: &Answer) -> Option<Self> {
        let age = answer.date?.signed_duration_since(answer.modified?);
        let seen = answer.properties.as_ref().filter(|_| age.abs() < FRESH)?;
        Self::read(seen)
    }
}

/// Trouble about a fresh blob beside the election's that holds what no candidate writes. It is as if it were
/// not there.
pub(super) fn strange(aside: Aside, answer: &Answer, settings: &Settings) -> Option<Trouble> {
    let seen = answer.properties.as_ref().filter(|seen| is_a_candidates(seen))?;
    let age = answer.date?.signed_duration_since(answer.modified?);
    let fit = match aside {
        Aside::Heir => Forward::is_fit(seen),
        Aside::Notice => {
            let fits = |name, longest| {
                seen.metadata.get(name).is_none_or(|value| fit(value, longest).is_some())
            };
            fits(CANDIDATE, LONGEST_NAME) && fits(SCHEDULE, LONGEST_SCHEDULE)
        }
    };
    let name = settings.election.aside_name(aside);
    let detail = format!(
        "the blob {name} holds what no candidate writes, and is ignored. See who else may write beside the \
         election's blob, and delete this one"
    );
    let class = TroubleClass::Configuration;
    (!fit && age.abs() < FRESH).then_some(Trouble { class, detail })
}

/// Whether a blob was left by a candidate, of this version or another one, and may be written over.
pub(super) fn is_a_candidates(properties: &Properties) -> bool {
    properties.content_length == 0 && properties.metadata.get(CANDIDATE).is_some()
}

/// Whether candidates with these settings leave notices and look for them.
pub(super) fn are_in_use(settings: &Settings) -> bool {
    settings.agenda.schedule.is_some() && settings.election.may_have_asides()
}
