//! The list of candidates: each leaves its name now and then in a blob beside the election's. protocol.md §7.4.
//!
//! It is for people and pages alone: nothing is decided by it. So its requests go out in the background
//! ([`super::background`]), one read and one write in about eleven minutes, and nothing waits for them. A write goes
//! over what was read and nothing else (`If-Match`), so that no candidate loses the entry of another one; where somebody
//! else was quicker it reads again.

use core::time::Duration;

use super::Moment;
use super::chance::{Chance, jitter};
use super::problem::Problem;
use super::service_clock::Timestamp;
use super::settings::Settings;
use super::side_blob_rules::{self, CANDIDATE};
use super::text::{LONGEST_ADDRESS, LONGEST_NAME, encode, decode_allowed};
use crate::mutants::mutant;
use chrono::DateTime;
use serde::{Deserialize, Serialize};
use tenure_azure::answer::{Answer, Class, Properties};
use tenure_azure::metadata::Metadata;
use tenure_azure::name::SideBlob;
use tenure_azure::operation::{ETag, Operation};
use tenure_base::prelude::*;

/// The first read comes so soon after the start at the latest, and the next one after another candidate was quicker.
const FIRST_READ: Duration = Duration::from_secs(20);

/// From one write to the next read, and by how much it is more at most, so that candidates do not come together.
const READ_INTERVAL: Duration = Duration::from_secs(10 * 60);
const READ_JITTER: Duration = Duration::from_secs(2 * 60);

/// An entry that was not written again for so long is nobody's: it was due twice.
const MAX_AGE: Duration = Duration::from_secs(30 * 60);

/// So often in a row another candidate may be quicker, before this one waits for its next time.
const MOST_TRIES: u32 = 3;

/// The most bytes that the entries take: the metadata of a blob has 8 KiB. That is some 80 candidates, each with an
/// address; of more of them, those seen last.
const MOST_BYTES: usize = 6 * 1024;

/// The entries, with a space between two of them.
const LIST: &str = "tenurecandidates";

/// A candidate that was seen lately.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// Its name; not unique.
    pub name: String,
    /// Where it can be reached, if it said so.
    pub address: Option<String>,
    /// False: its host is not ready (`--ready-cmd`), so it does not contend.
    pub ready: bool,
    /// How soon it replaces a leader that died, where that is sooner than the lease ends.
    pub failover: Option<Duration>,
    /// When it wrote this; on the blob in whole seconds.
    pub seen: Timestamp,
}

/// What a candidate knows of the list, and what it does about it next.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Listing {
    /// The others and itself, as they were read or written last.
    pub known: Vec<Listed>,
    next_request: NextRequest,
    /// So often in a row another candidate was quicker.
    lost_races: u32,
    /// The entry changed while it was written.
    is_outdated: bool,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
enum NextRequest {
    /// This may not be done.
    #[default]
    Nothing,
    Read(Moment),
    /// Write it, over what is there with that tag if something is.
    Write(Option<ETag>),
}

impl Listing {
    /// That of a candidate which begins now. An observer only reads.
    pub fn new(settings: &Settings, now: Moment, nonce: u64) -> Self {
        let next = match !settings.one_shot && settings.election.may_have_side_blobs() {
            // The nonce is as random as anything.
            true => NextRequest::Read(now + FIRST_READ / 2 + random_part(FIRST_READ / 2, nonce)),
            false => NextRequest::Nothing,
        };
        Self { next_request: next, ..Self::default() }
    }

    /// Something else is to be told of this candidate than before.
    pub fn on_own_change(&mut self, now: Moment) {
        match &mut self.next_request {
            NextRequest::Read(due) => *due = now.min(*due),
            NextRequest::Write(_) => self.is_outdated = true,
            NextRequest::Nothing => {}
        }
    }

    /// The request that is due next, and when. There is none without the service's time.
    pub fn request(
        &self,
        settings: &Settings,
        ready: bool,
        time: Option<Timestamp>,
    ) -> Option<(Moment, Operation)> {
        let blob = SideBlob::Candidates;
        match &self.next_request {
            NextRequest::Nothing => None,
            NextRequest::Read(due) => Some((*due, Operation::ReadSideBlob(blob))),
            NextRequest::Write(over) => {
                let entries = with_own_entry(&self.known, settings, ready, time?);
                let (over, metadata) = (over.clone(), to_metadata(&entries, settings));
                Some((Moment::ZERO, Operation::WriteSideBlob { blob, replaces: over, metadata }))
            }
        }
    }

    /// Takes the answer to a read, or to a write of this entry. True: the list may be another one than before.
    pub fn on_answer(
        &mut self,
        (is_write, answer): (bool, Option<&Answer>),
        (settings, ready): (&Settings, bool),
        (time, now): (Option<Timestamp>, Moment),
        chance: &mut dyn Chance,
    ) -> bool {
        let class = answer.map(|answer| answer.class);
        let lost_race = matches!(class, Some(Class::ConditionNotMet | Class::Conflict)) && is_write;
        let read_list = answer.filter(|_| class == Some(Class::Done) && !is_write).and_then(read_list);
        let read_later =
            |chance: &mut dyn Chance| NextRequest::Read(now + READ_INTERVAL + random_part(READ_JITTER, chance.bits()));
        let (next, known) = match (class, read_list) {
            (_, Some((_, entries))) if settings.observes => {
                (read_later(chance), Some(recent(entries, time)))
            }
            (Some(Class::MissingBlob), _) if settings.observes => (read_later(chance), Some(Vec::new())),
            (Some(Class::MissingBlob), _) if !is_write => (NextRequest::Write(None), Some(Vec::new())),
            (_, Some((etag, entries))) => (NextRequest::Write(Some(etag)), Some(recent(entries, time))),
            _ if lost_race && self.lost_races < MOST_TRIES => {
                (NextRequest::Read(now + jitter(FIRST_READ, chance)), None)
            }
            // Written, or given up until then. Somebody else's blob is left untouched.
            _ => {
                let done = class == Some(Class::Done) && is_write;
                let own_time = time.filter(|_| done);
                let known = own_time.map(|time| with_own_entry(&self.known, settings, ready, time));
                (read_later(chance), known)
            }
        };
        self.lost_races = match &next {
            NextRequest::Read(_) if lost_race && self.lost_races < MOST_TRIES => self.lost_races + 1,
            NextRequest::Write(_) => self.lost_races,
            NextRequest::Read(_) | NextRequest::Nothing => 0,
        };
        let outdated = is_write && core::mem::take(&mut self.is_outdated);
        self.next_request = if outdated { NextRequest::Read(now) } else { next };
        let is_changed = known.is_some();
        if let Some(known) = known {
            self.known = known;
        }
        is_changed
    }

    /// The names of the others, to be told to whoever named one that is not among them; none where it is, or where
    /// nobody is known.
    pub fn others_if_missing(&self, wanted: &str, own_name: &str) -> Option<String> {
        let others = self.known.iter().map(|entry| &entry.name).filter(|name| *name != own_name);
        let names: Vec<_> = others.cloned().collect();
        (!names.is_empty() && !names.iter().any(|name| name == wanted)).then(|| names.join(", "))
    }
}

/// A part of a span, by chance.
fn random_part(span: Duration, bits: u64) -> Duration {
    let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX).max(1);
    Duration::from_millis(bits % millis)
}

/// The entries with that of this candidate, those seen last first.
fn with_own_entry(known: &[Listed], settings: &Settings, ready: bool, time: Timestamp) -> Vec<Listed> {
    let own_entry = Listed {
        name: settings.name.clone(),
        address: settings.address.clone(),
        ready,
        failover: settings.timings.failover.map(|failover| failover.within),
        seen: time,
    };
    let others = known.iter().filter(|entry| entry.name != own_entry.name).cloned();
    let others = if mutant!(ListsOnlyItself) { Vec::new() } else { others.collect() };
    let mut entries = recent(others, Some(time));
    entries.insert(0, own_entry);
    entries
}

/// Those that were seen lately, the last one first.
fn recent(entries: Vec<Listed>, time: Option<Timestamp>) -> Vec<Listed> {
    // Nobody else's time is so far ahead: such an entry would stay for ever.
    let is_recent =
        |time: Timestamp, seen: Timestamp| time.since(seen) < MAX_AGE && seen.since(time) < MAX_AGE;
    let mut sorted: Vec<Listed> = Vec::new();
    // They come sorted, since they were written so; the sort of the library is 5 KB of component.
    for entry in entries {
        if time.is_none_or(|time| is_recent(time, entry.seen)) {
            let comes_before = |other: &Listed| {
                entry.seen > other.seen || entry.seen == other.seen && entry.name < other.name
            };
            let place = sorted.iter().position(comes_before).unwrap_or(sorted.len());
            sorted.insert(place, entry);
        }
    }
    sorted
}

/// As the blob has them: as many as there is room for.
fn to_metadata(entries: &[Listed], settings: &Settings) -> Metadata {
    let mut list = String::new();
    for entry in entries {
        let text = entry.to_text();
        if list.len() + 1 + text.len() > MOST_BYTES {
            break;
        }
        if !list.is_empty() {
            list.push(' ');
        }
        list += &text;
    }
    let mut metadata = Metadata::default();
    metadata.insert(CANDIDATE.into(), encode(&settings.name));
    metadata.insert(LIST.into(), list);
    metadata
}

/// The tag and the entries of the list in the answer to a read; none where the blob is somebody else's.
fn read_list(answer: &Answer) -> Option<(ETag, Vec<Listed>)> {
    let properties =
        answer.properties.as_ref().filter(|properties| side_blob_rules::is_from_candidate(properties))?;
    Some((answer.etag.clone()?, parse_entries(properties).flatten().collect()))
}

/// What stands on the list. What no candidate writes is none.
fn parse_entries(properties: &Properties) -> impl Iterator<Item = Option<Listed>> {
    properties.metadata.get(LIST).unwrap_or_default().split_whitespace().map(Listed::parse)
}

/// Whether candidates wrote this, or a version that is not known.
pub(super) fn is_valid(properties: &Properties) -> bool {
    parse_entries(properties).all(|entry| entry.is_some())
}

/// The candidates that were seen lately, by the answer to a read of their list: for people.
///
/// # Errors
/// The list could not be read.
pub fn listed(answer: &Answer, settings: &Settings) -> Result<Vec<Listed>, Problem> {
    match answer.class {
        Class::Done => {
            let time = answer.date.map(Timestamp::from_date);
            Ok(read_list(answer).map(|(_, entries)| recent(entries, time)).unwrap_or_default())
        }
        Class::MissingBlob | Class::MissingContainer => Ok(Vec::new()),
        _ => {
            let operation = Operation::ReadSideBlob(SideBlob::Candidates);
            Err(Problem::from_answer(answer, &operation, settings))
        }
    }
}

impl Listed {
    /// `NAME,SECONDS,STATE,MILLISECONDS,ADDRESS`. A field that a version to come adds stands behind them.
    fn to_text(&self) -> String {
        let seconds = self.seen.to_date().timestamp();
        let state = if self.ready { "ready" } else { "unready" };
        let failover = self.failover.map(|within| within.as_millis().to_string());
        let address = self.address.as_deref().map(encode);
        [
            encode(&self.name),
            seconds.to_string(),
            state.into(),
            failover.unwrap_or_default(),
            address.unwrap_or_default(),
        ]
        .join(",")
    }

    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split(',');
        let name = decode_allowed(fields.next()?, LONGEST_NAME)?;
        let seconds: i64 = fields.next()?.parse().ok()?;
        let ready = fields.next()? != "unready";
        let failover = match fields.next()? {
            "" => None,
            millis => Some(Duration::from_millis(millis.parse().ok()?)),
        };
        let address = match fields.next()? {
            "" => None,
            address => Some(decode_allowed(address, LONGEST_ADDRESS)?),
        };
        let seen = Timestamp::from_date(DateTime::from_timestamp(seconds, 0)?);
        Some(Self { name, address, ready, failover, seen })
    }
}
