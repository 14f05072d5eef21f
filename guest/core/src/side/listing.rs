//! The list of candidates: each candidate writes its name from time to time to a blob next to the
//! election's. protocol.md §7.4.
//!
//! The list informs operators and status pages only; no decision depends on it. So its requests run
//! in the background ([`super::background`]), one read and one write in about eleven minutes. A
//! write replaces exactly the version that was read (`If-Match`), so that no candidate drops
//! another's entry. If another candidate wrote first, this one reads again.

use core::time::Duration;

use super::announcement::{self, CANDIDATE};
use crate::Moment;
use crate::mutants::mutant;
use crate::record::text::{MAX_ADDRESS, MAX_NAME, decode_allowed, encode};
use crate::step::clocks::Timestamp;
use crate::step::pace::{Chance, jitter};
use crate::step::problem::Problem;
use crate::step::settings::Settings;
use chrono::DateTime;
use serde::{Deserialize, Serialize};
use tenure_azure::answer::{Answer, Class, Properties};
use tenure_azure::blob::{Metadata, SideBlob};
use tenure_azure::operation::{ETag, Operation};
use tenure_base::prelude::*;

/// Maximum time from the start to the first read, and from a lost race to the next read.
const FIRST_READ: Duration = Duration::from_secs(20);

/// Time from one write to the next read, and the maximum jitter, so that candidates do not
/// coincide.
const READ_INTERVAL: Duration = Duration::from_secs(10 * 60);
const READ_JITTER: Duration = Duration::from_secs(2 * 60);

/// Age at which an entry expires: by then its candidate should have renewed it twice.
const MAX_AGE: Duration = Duration::from_secs(30 * 60);

/// Maximum lost races in a row after which this candidate reads soon. After more, it waits for its
/// next regular read.
const MAX_LOST_RACES: u32 = 3;

/// Maximum bytes of the entries: the metadata of a blob has 8 KiB. There is room for about 80
/// candidates with an address. The most recent entries are kept.
const MAX_BYTES: usize = 6 * 1024;

/// The field with the entries, separated by spaces.
const LIST: &str = "tenurecandidates";

/// A recently seen candidate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// The candidate's name; not unique.
    pub name: String,
    /// Address at which the candidate can be reached, if one is configured.
    pub address: Option<String>,
    /// False if the process is not ready (`--ready-cmd`), so that the candidate does not contend.
    pub ready: bool,
    /// Time within which the candidate replaces a dead leader, if that is shorter than the lease.
    pub failover: Option<Duration>,
    /// Time at which the candidate wrote this entry. The blob has it in whole seconds.
    pub seen_at: Timestamp,
}

/// A candidate's copy of the list, and its next request about it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Listing {
    /// The entries as last read or written, with this candidate's own.
    pub known: Vec<Listed>,
    next_request: NextRequest,
    /// Number of races in a row that another candidate won.
    lost_races: u32,
    /// True if this candidate's entry changed while it was being written.
    is_outdated: bool,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
enum NextRequest {
    /// This candidate does not use the list.
    #[default]
    Nothing,
    /// The list is read at this time.
    Read(Moment),
    /// The list is written over the version with that tag, or created.
    Write(Option<ETag>),
}

impl Listing {
    /// Creates the listing of a new candidate. An invocation does not use the list, and neither
    /// does a candidate of an election whose blob's name leaves no room for that of the list.
    pub fn new(settings: &Settings, now: Moment, nonce: u64) -> Self {
        let next = match !settings.one_shot && settings.election.may_have_side_blobs() {
            // The nonce is random, so it also serves as jitter.
            true => NextRequest::Read(now + FIRST_READ / 2 + random_part(FIRST_READ / 2, nonce)),
            false => NextRequest::Nothing,
        };
        Self { next_request: next, ..Self::default() }
    }

    /// Records that this candidate's entry has to change.
    pub fn on_own_change(&mut self, now: Moment) {
        match &mut self.next_request {
            NextRequest::Read(due) => *due = now.min(*due),
            NextRequest::Write(_) => self.is_outdated = true,
            NextRequest::Nothing => {}
        }
    }

    /// Returns the next request and its due time. `None` if the list is not used. `None` also if
    /// the next request is a write and the service's time is not known.
    pub fn request(
        &self,
        settings: &Settings,
        is_ready: bool,
        time: Option<Timestamp>,
    ) -> Option<(Moment, Operation)> {
        let blob = SideBlob::Candidates;
        match &self.next_request {
            NextRequest::Nothing => None,
            NextRequest::Read(due) => Some((*due, Operation::ReadSideBlob(blob))),
            NextRequest::Write(replaced_etag) => {
                let entries = with_own_entry(&self.known, settings, is_ready, time?);
                let (replaces, metadata) = (replaced_etag.clone(), to_metadata(&entries, settings));
                Some((Moment::ZERO, Operation::WriteSideBlob { blob, replaces, metadata }))
            }
        }
    }

    /// Handles the answer to a read or write of the list. Returns true if the known list may have
    /// changed. An observer only reads.
    pub fn on_answer(
        &mut self,
        (is_write, answer): (bool, Option<&Answer>),
        (settings, is_ready): (&Settings, bool),
        (time, now): (Option<Timestamp>, Moment),
        chance: &mut dyn Chance,
    ) -> bool {
        let class = answer.map(|answer| answer.class);
        let has_lost_race =
            matches!(class, Some(Class::ConditionNotMet | Class::Conflict)) && is_write;
        let list = answer.filter(|_| class == Some(Class::Done) && !is_write).and_then(read_list);
        let read_later = |chance: &mut dyn Chance| {
            NextRequest::Read(now + READ_INTERVAL + random_part(READ_JITTER, chance.bits()))
        };
        let (next, known) = match (class, list) {
            (_, Some((_, entries))) if settings.observes => {
                (read_later(chance), Some(recent(entries, time)))
            }
            (Some(Class::MissingBlob), _) if settings.observes => {
                (read_later(chance), Some(Vec::new()))
            }
            (Some(Class::MissingBlob), _) if !is_write => {
                (NextRequest::Write(None), Some(Vec::new()))
            }
            (_, Some((etag, entries))) => {
                (NextRequest::Write(Some(etag)), Some(recent(entries, time)))
            }
            _ if has_lost_race && self.lost_races < MAX_LOST_RACES => {
                (NextRequest::Read(now + jitter(FIRST_READ, chance)), None)
            }
            // The entry is written, or is given up until the next regular read. A foreign blob is
            // left untouched.
            _ => {
                let is_written = class == Some(Class::Done) && is_write;
                let own_time = time.filter(|_| is_written);
                let known =
                    own_time.map(|time| with_own_entry(&self.known, settings, is_ready, time));
                (read_later(chance), known)
            }
        };
        self.lost_races = match &next {
            NextRequest::Read(_) if has_lost_race && self.lost_races < MAX_LOST_RACES => {
                self.lost_races + 1
            }
            NextRequest::Write(_) => self.lost_races,
            NextRequest::Read(_) | NextRequest::Nothing => 0,
        };
        let is_outdated = is_write && core::mem::take(&mut self.is_outdated);
        self.next_request = if is_outdated { NextRequest::Read(now) } else { next };
        let is_changed = known.is_some();
        if let Some(known) = known {
            self.known = known;
        }
        is_changed
    }

    /// Returns the names of the other candidates for a message about a missing one. None if
    /// `wanted` is listed, or if no candidate is known.
    pub fn others_if_missing(&self, wanted: &str, own_name: &str) -> Option<String> {
        let others = self.known.iter().map(|entry| &entry.name).filter(|name| *name != own_name);
        let names: Vec<_> = others.cloned().collect();
        (!names.is_empty() && !names.iter().any(|name| name == wanted)).then(|| names.join(", "))
    }
}

/// Returns a random duration shorter than `span`.
fn random_part(span: Duration, bits: u64) -> Duration {
    let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX).max(1);
    Duration::from_millis(bits % millis)
}

/// Returns the entries including this candidate's, the most recent first.
fn with_own_entry(
    known: &[Listed],
    settings: &Settings,
    is_ready: bool,
    time: Timestamp,
) -> Vec<Listed> {
    let own_entry = Listed {
        name: settings.name.clone(),
        address: settings.address.clone(),
        ready: is_ready,
        failover: settings.timings.failover.map(|failover| failover.within),
        seen_at: time,
    };
    let others = known.iter().filter(|entry| entry.name != own_entry.name).cloned();
    let others = if mutant!(ListsOnlyItself) { Vec::new() } else { others.collect() };
    let mut entries = recent(others, Some(time));
    entries.insert(0, own_entry);
    entries
}

/// Returns the recently seen entries, the most recent first.
fn recent(entries: Vec<Listed>, time: Option<Timestamp>) -> Vec<Listed> {
    // An entry too far in the future would stay forever. No candidate writes one: entries have the
    // service's time.
    let is_recent = |time: Timestamp, seen_at: Timestamp| {
        time.since(seen_at) < MAX_AGE && seen_at.since(time) < MAX_AGE
    };
    let mut sorted: Vec<Listed> = Vec::new();
    // Entries are stored sorted, and the library's sort would add 5 KB to the component.
    for entry in entries {
        if time.is_none_or(|time| is_recent(time, entry.seen_at)) {
            let comes_before = |other: &Listed| {
                entry.seen_at > other.seen_at
                    || entry.seen_at == other.seen_at && entry.name < other.name
            };
            let index = sorted.iter().position(comes_before).unwrap_or(sorted.len());
            sorted.insert(index, entry);
        }
    }
    sorted
}

/// Returns the metadata of the list, with as many entries as there is room for.
fn to_metadata(entries: &[Listed], settings: &Settings) -> Metadata {
    let mut list = String::new();
    for entry in entries {
        let text = entry.to_text();
        if list.len() + 1 + text.len() > MAX_BYTES {
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

/// Returns the tag and the entries of the list in the answer to a read. None if the blob is
/// foreign.
fn read_list(answer: &Answer) -> Option<(ETag, Vec<Listed>)> {
    let properties = answer
        .properties
        .as_ref()
        .filter(|properties| announcement::is_from_candidate(properties))?;
    Some((answer.etag.clone()?, parse_entries(properties).flatten().collect()))
}

/// Parses the entries of the list. An entry that no candidate wrote is `None`.
fn parse_entries(properties: &Properties) -> impl Iterator<Item = Option<Listed>> {
    properties.metadata.get(LIST).unwrap_or_default().split_whitespace().map(Listed::parse)
}

/// Returns true if each entry has the format of a candidate, possibly of a later version.
pub(crate) fn is_valid(properties: &Properties) -> bool {
    parse_entries(properties).all(|entry| entry.is_some())
}

/// Returns the recently seen candidates from the answer to a read of their list, for operators.
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
    /// Returns `NAME,SECONDS,STATE,MILLISECONDS,ADDRESS`. Later versions may add fields at the end.
    fn to_text(&self) -> String {
        let seconds = self.seen_at.to_date().timestamp();
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
        let name = decode_allowed(fields.next()?, MAX_NAME)?;
        let seconds: i64 = fields.next()?.parse().ok()?;
        let ready = fields.next()? != "unready";
        let failover = match fields.next()? {
            "" => None,
            millis => Some(Duration::from_millis(millis.parse().ok()?)),
        };
        let address = match fields.next()? {
            "" => None,
            address => Some(decode_allowed(address, MAX_ADDRESS)?),
        };
        let seen_at = Timestamp::from_date(DateTime::from_timestamp(seconds, 0)?);
        Some(Self { name, address, ready, failover, seen_at })
    }
}
