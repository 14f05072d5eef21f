//! Triggers as they wait: a command leaves them in a side blob, and the leader looks there. protocol.md §6.1.
//!
//! Only commands write that blob, and only the record says which triggers were claimed. So whatever becomes of
//! a command or of a leader, a trigger waits until it is claimed or expires, and is claimed once.

use core::time::Duration;

use chrono::{DateTime, Utc};

use super::Moment;
use super::phase::{Hold, Waiting};
use super::problem::{Problem, ProblemClass};
use super::record::{Judged, Record, Trigger, TriggerState};
use super::service_clock::Timestamp;
use super::settings::Settings;
use super::side_blob_rules::{self, CANDIDATE};
use super::slots::Schedule;
use super::text::{LONGEST_NAME, encoded, fit};
use crate::mutants::mutant;
use tenure_azure::answer::{Answer, Class, LeaseState, Properties};
use tenure_azure::metadata::Metadata;
use tenure_azure::name::SideBlob;
use tenure_azure::operation::Operation;
use tenure_base::prelude::*;

/// So many triggers may wait.
const MOST: usize = 8;

/// The longest id, in characters.
const LONGEST_ID: usize = 64;

/// How long a leader waits between two looks. Commands tell one that has an address that there is something to
/// see; one that has none has to look more often.
const EVERY: Duration = Duration::from_secs(5 * 60);
const EVERY_UNREACHED: Duration = Duration::from_secs(60);

/// How soon it looks again when it was told once more.
const TOLD: Duration = Duration::from_secs(1);

/// How soon it looks again when there was no answer.
const UNANSWERED: Duration = Duration::from_secs(5);

/// Pause after a look that was refused, unless the credential changes before: permissions seldom change.
const FORBIDDEN: Duration = Duration::from_secs(15 * 60);

const TRIGGERS: &str = "tenuretriggers";

/// Whether leaders with these settings look for triggers. Work that lasts as long as the leadership has one turn,
/// an invocation is called for one, and an operator's candidate has none.
pub(super) fn are_in_use(settings: &Settings) -> bool {
    let agenda = &settings.agenda;
    let turns = agenda.schedule.is_some() && !settings.one_shot && !agenda.is_one_turn_a_term();
    turns && settings.election.may_have_side_blobs()
}

/// Somebody says that there may be triggers.
pub(super) fn told(hold: &mut Hold, now: Moment) {
    let waiting = &mut hold.triggers;
    (waiting.read_at, waiting.told) = (now.max(waiting.answered + TOLD), true);
}

/// The candidate has another key or token: a look that was refused is not put off any longer.
pub(super) fn credential_changed(hold: &mut Hold, now: Moment) {
    let waiting = &mut hold.triggers;
    if waiting.read_at == waiting.answered + FORBIDDEN {
        waiting.read_at = now;
    }
}

/// Takes the answer to a look that was `sent` then. Returns what people should know of it.
pub(super) fn read(
    answer: Option<&Answer>,
    sent: Moment,
    hold: &mut Hold,
    settings: &Settings,
    now: Moment,
) -> Option<Problem> {
    let waiting = &mut hold.triggers;
    let seen = answer.and_then(|answer| answer.properties.as_ref());
    let again = match answer.map(|answer| answer.class) {
        None | Some(Class::Unavailable | Class::Nonsense) => UNANSWERED,
        Some(Class::Refused) => FORBIDDEN,
        _ if settings.address.is_none() => EVERY_UNREACHED,
        _ => EVERY,
    };
    match answer.map(|answer| answer.class) {
        Some(Class::Done) => waiting.seen = seen.and_then(list).unwrap_or_default(),
        Some(Class::MissingBlob) => waiting.seen.clear(),
        _ => {}
    }
    // It was told meanwhile, of one that it may not have seen.
    let told = waiting.read_at > sent;
    let (first, expected) = (waiting.answered == Moment::ZERO, waiting.told);
    waiting.told = told;
    let again = if told { waiting.read_at.max(now + TOLD) } else { now + again };
    let deaf = mutant!(TriggersUnseen) && !told;
    (waiting.read_at, waiting.answered) = (if deaf { Moment::MAX } else { again }, now);
    // Of elections that nobody triggers it is told once.
    let refused = answer.filter(|answer| answer.class == Class::Refused);
    refused.filter(|_| first || expected).map(|answer| {
        let read = Operation::ReadSideBlob(SideBlob::Trigger);
        let Problem { class, detail } = Problem::of_answer(answer, &read, settings);
        let blob = settings.election.side_blob_name(SideBlob::Trigger);
        let detail = format!(
            "{detail}. So this leader does not see triggers (tenure trigger) in the blob {blob}; everything else works"
        );
        Problem { class, detail }
    })
}

/// What a new leader knows. It looks at once: what was asked for while nobody led waits there.
pub(super) fn unseen(won: Moment) -> Waiting {
    let read_at = if mutant!(TriggersUnseen) { Moment::MAX } else { won };
    Waiting { seen: Vec::new(), read_at, answered: Moment::ZERO, told: false }
}

/// Whether a command wrote this, or a version that is not known.
pub(super) fn is_fit(properties: &Properties) -> bool {
    list(properties).is_some()
}

/// The triggers on a side blob.
fn list(properties: &Properties) -> Option<Vec<Trigger>> {
    let field = |name| properties.metadata.get(name);
    fit(field(CANDIDATE)?, LONGEST_NAME)
        .filter(|_| side_blob_rules::is_from_candidate(properties))?;
    let one = |word: &str| {
        let (id, asked) = word.split_once('@')?;
        let asked = Timestamp(asked.parse::<u64>().ok()?.checked_mul(1_000_000)?);
        is_id(id).then(|| Trigger { id: id.into(), asked })
    };
    let words = field(TRIGGERS).unwrap_or_default().split(',').filter(|word| !word.is_empty());
    words.take(MOST).map(one).collect()
}

fn write(triggers: &[Trigger], settings: &Settings) -> Metadata {
    let one = |trigger: &Trigger| format!("{}@{}", trigger.id, trigger.asked.0 / 1_000_000);
    let mut metadata = Metadata::default();
    metadata.insert(CANDIDATE.into(), encoded(&settings.name));
    metadata.insert(TRIGGERS.into(), triggers.iter().map(one).collect::<Vec<_>>().join(","));
    metadata
}

/// Whether a trigger may have this name.
pub fn is_id(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=LONGEST_ID).contains(&text.len()) && text.bytes().all(plain)
}

/// What is to be done for a trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placing {
    /// It is known, or is not to be placed.
    Known(TriggerState),
    /// No candidate has led yet: this creates the election's blob, or its container. Then all is to be read anew.
    Create(Operation),
    /// This is to be written. When it is done, the trigger waits; otherwise all is to be read anew.
    Write(Operation, TriggerState),
}

/// Says what became of a trigger of that id, or what is to be written to `place` it. What is beside the
/// election was read first, then the election: what a command cleared away in between is on its record.
///
/// # Errors
/// It cannot be placed, or could not be looked for.
pub fn trigger(
    (id, place): (&str, bool),
    (beside, election): (&Answer, &Answer),
    settings: &Settings,
    wall: DateTime<Utc>,
) -> Result<Placing, Problem> {
    let refused = |class, detail: String| Err(Problem { class, detail });
    let (order, configured) = (ProblemClass::Order, ProblemClass::Configuration);
    if !is_id(id) {
        let detail = "a trigger's id has 1 to 64 letters, digits, dots, hyphens and underscores";
        return refused(configured, detail.into());
    }
    let name = &settings.election;
    if place && !name.may_have_side_blobs() {
        let detail = "the name of the election's blob is too long for a second blob beside it";
        return refused(configured, detail.into());
    }
    let (over, mut waiting) = match (beside.class, &beside.properties) {
        (Class::MissingBlob | Class::MissingContainer, _) => (None, Vec::new()),
        (Class::Done, Some(seen)) => match list(seen) {
            Some(waiting) => (beside.etag.clone(), waiting),
            None => return Err(Problem::of_foreign(SideBlob::Trigger, settings)),
        },
        _ => {
            let read = Operation::ReadSideBlob(SideBlob::Trigger);
            return Err(Problem::of_answer(beside, &read, settings));
        }
    };
    let now = Timestamp::from_date(election.date.unwrap_or(wall));
    let (record, held) = match (election.class, &election.properties) {
        (Class::Done, Some(seen)) => {
            let judged = Record::judge(name, seen, Some(now));
            let Judged { record, .. } = judged.map_err(Problem::of_unusable)?;
            (record, matches!(seen.lease, LeaseState::Leased | LeaseState::Breaking))
        }
        (Class::MissingBlob, _) if place => return Ok(Placing::Create(Operation::CreateBlob)),
        (Class::MissingContainer, _) if place => {
            return Ok(Placing::Create(Operation::CreateContainer));
        }
        (Class::MissingBlob | Class::MissingContainer, _) => (None, false),
        _ => {
            let read = Operation::Read { lease: None };
            return Err(Problem::of_answer(election, &read, settings));
        }
    };
    // Without a record no candidate has led yet. The first one runs what waits.
    let is_new = record.is_none();
    let record = record.unwrap_or_default();
    if let Some(state) = record.triggers.state(id, held.then_some(record.term)) {
        return Ok(Placing::Known(state));
    }
    waiting.retain(|trigger| record.triggers.lets(trigger, now));
    if let Some(trigger) = waiting.iter().find(|trigger| trigger.id == id) {
        return Ok(Placing::Known(TriggerState::Waiting(trigger.expires())));
    }
    if !place {
        return Ok(Placing::Known(TriggerState::Missing));
    }
    if record.schedule == Some(Schedule::WhileLeading.description()) {
        let detail = format!(
            "the work of {name} lasts as long as a leadership (--while-leading), so there are no turns to trigger. \
             tenure resign restarts it, on another candidate"
        );
        return refused(order, detail);
    }
    if !is_new && record.schedule.is_none() {
        let why = match record.is_coordinated() {
            true => "its work is split into shares (trigger one: BLOB.share.SPLIT.INDEX-of-COUNT)",
            false => "it has no schedule",
        };
        let detail = format!("the leader of {name} runs no turns: {why}");
        return refused(order, detail);
    }
    if waiting.len() >= MOST {
        let detail = format!(
            "{MOST} triggers of {name} wait already, which is the limit; try again when one has run, or find out why \
             none runs (tenure status)"
        );
        return refused(order, detail);
    }
    let newest = waiting.iter().map(|trigger| trigger.asked).max();
    let after = newest.max(record.triggers.mark(now)).map(|newest| newest.plus(MILLISECOND));
    let asked = after.map_or(now, |after| after.max(now)).to_whole_millis();
    let trigger = Trigger { id: id.into(), asked };
    let state = TriggerState::Waiting(trigger.expires());
    waiting.push(trigger);
    let (blob, metadata) = (SideBlob::Trigger, write(&waiting, settings));
    Ok(Placing::Write(Operation::WriteSideBlob { blob, over, metadata }, state))
}

const MILLISECOND: Duration = Duration::from_millis(1);
