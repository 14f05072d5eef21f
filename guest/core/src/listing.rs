//! The list of candidates: each leaves its name now and then in a blob beside the election's. protocol.md §7.4.
//!
//! It is for people and pages alone: nothing is decided by it. So its requests go out in the background
//! ([`super::background`]), one read and one write in about eleven minutes, and nothing waits for them. A write goes
//! over what was read and nothing else (`If-Match`), so that no candidate loses the entry of another one; where somebody
//! else was quicker it reads again.

use core::time::Duration;

use super::Moment;
use super::chance::{Chance, jittered};
use super::problem::Problem;
use super::service_clock::Timestamp;
use super::settings::Settings;
use super::side_blob_rules::{self, CANDIDATE};
use super::text::{LONGEST_ADDRESS, LONGEST_NAME, encoded, fit};
use crate::mutants::mutant;
use chrono::DateTime;
use serde::{Deserialize, Serialize};
use tenure_azure::answer::{Answer, Class, Properties};
use tenure_azure::metadata::Metadata;
use tenure_azure::name::SideBlob;
use tenure_azure::operation::{ETag, Operation};
use tenure_base::prelude::*;

/// The first read comes so soon after the start at the latest, and the next one after another candidate was quicker.
const SOON: Duration = Duration::from_secs(20);

/// From one write to the next read, and by how much it is more at most, so that candidates do not come together.
const EVERY: Duration = Duration::from_secs(10 * 60);
const SPREAD: Duration = Duration::from_secs(2 * 60);

/// An entry that was not written again for so long is nobody's: it was due twice.
const LATELY: Duration = Duration::from_secs(30 * 60);

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
    next: Next,
    /// So often in a row another candidate was quicker.
    tries: u32,
    /// The entry changed while it was written.
    outdated: bool,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
enum Next {
    /// This may not be done.
    #[default]
    Nothing,
    Read(Moment),
    /// Write it, over what is there with that tag if something is.
    Write(Option<ETag>),
}

impl Listing {
    /// That of a candidate which begins now. An observer only reads.
    pub fn begin(settings: &Settings, now: Moment, nonce: u64) -> Self {
        let next = match !settings.one_shot && settings.election.may_have_side_blobs() {
            // The nonce is as random as anything.
            true => Next::Read(now + SOON / 2 + part_of(SOON / 2, nonce)),
            false => Next::Nothing,
        };
        Self { next, ..Self::default() }
    }

    /// Something else is to be told of this candidate than before.
    pub fn changed(&mut self, now: Moment) {
        match &mut self.next {
            Next::Read(due) => *due = now.min(*due),
            Next::Write(_) => self.outdated = true,
            Next::Nothing => {}
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
        match &self.next {
            Next::Nothing => None,
            Next::Read(due) => Some((*due, Operation::ReadSideBlob(blob))),
            Next::Write(over) => {
                let entries = with_own(&self.known, settings, ready, time?);
                let (over, metadata) = (over.clone(), written(&entries, settings));
                Some((Moment::ZERO, Operation::WriteSideBlob { blob, over, metadata }))
            }
        }
    }

    /// Takes the answer to a read, or to a write of this entry. True: the list may be another one than before.
    pub fn answered(
        &mut self,
        (writes, answer): (bool, Option<&Answer>),
        (settings, ready): (&Settings, bool),
        (time, now): (Option<Timestamp>, Moment),
        chance: &mut dyn Chance,
    ) -> bool {
        let class = answer.map(|answer| answer.class);
        let quicker = matches!(class, Some(Class::ConditionNotMet | Class::Conflict)) && writes;
        let there = answer.filter(|_| class == Some(Class::Done) && !writes).and_then(read);
        let later =
            |chance: &mut dyn Chance| Next::Read(now + EVERY + part_of(SPREAD, chance.bits()));
        let (next, known) = match (class, there) {
            (_, Some((_, entries))) if settings.observes => {
                (later(chance), Some(lately(entries, time)))
            }
            (Some(Class::MissingBlob), _) if settings.observes => (later(chance), Some(Vec::new())),
            (Some(Class::MissingBlob), _) if !writes => (Next::Write(None), Some(Vec::new())),
            (_, Some((etag, entries))) => (Next::Write(Some(etag)), Some(lately(entries, time))),
            _ if quicker && self.tries < MOST_TRIES => {
                (Next::Read(now + jittered(SOON, chance)), None)
            }
            // Written, or given up until then. Somebody else's blob is left untouched.
            _ => {
                let done = class == Some(Class::Done) && writes;
                let own = time.filter(|_| done);
                let known = own.map(|time| with_own(&self.known, settings, ready, time));
                (later(chance), known)
            }
        };
        self.tries = match &next {
            Next::Read(_) if quicker && self.tries < MOST_TRIES => self.tries + 1,
            Next::Write(_) => self.tries,
            Next::Read(_) | Next::Nothing => 0,
        };
        let outdated = writes && core::mem::take(&mut self.outdated);
        self.next = if outdated { Next::Read(now) } else { next };
        let news = known.is_some();
        if let Some(known) = known {
            self.known = known;
        }
        news
    }

    /// The names of the others, to be told to whoever named one that is not among them; none where it is, or where
    /// nobody is known.
    pub fn without(&self, wanted: &str, own: &str) -> Option<String> {
        let others = self.known.iter().map(|entry| &entry.name).filter(|name| *name != own);
        let names: Vec<_> = others.cloned().collect();
        (!names.is_empty() && !names.iter().any(|name| name == wanted)).then(|| names.join(", "))
    }
}

/// A part of a span, by chance.
fn part_of(span: Duration, bits: u64) -> Duration {
    let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX).max(1);
    Duration::from_millis(bits % millis)
}

/// The entries with that of this candidate, those seen last first.
fn with_own(known: &[Listed], settings: &Settings, ready: bool, time: Timestamp) -> Vec<Listed> {
    let own = Listed {
        name: settings.name.clone(),
        address: settings.address.clone(),
        ready,
        failover: settings.timings.failover.map(|failover| failover.within),
        seen: time,
    };
    let others = known.iter().filter(|entry| entry.name != own.name).cloned();
    let others = if mutant!(ListsOnlyItself) { Vec::new() } else { others.collect() };
    let mut entries = lately(others, Some(time));
    entries.insert(0, own);
    entries
}

/// Those that were seen lately, the last one first.
fn lately(entries: Vec<Listed>, time: Option<Timestamp>) -> Vec<Listed> {
    // Nobody else's time is so far ahead: such an entry would stay for ever.
    let is_fresh =
        |time: Timestamp, seen: Timestamp| time.since(seen) < LATELY && seen.since(time) < LATELY;
    let mut sorted: Vec<Listed> = Vec::new();
    // They come sorted, since they were written so; the sort of the library is 5 KB of component.
    for entry in entries {
        if time.is_none_or(|time| is_fresh(time, entry.seen)) {
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
fn written(entries: &[Listed], settings: &Settings) -> Metadata {
    let mut list = String::new();
    for entry in entries {
        let text = entry.text();
        if list.len() + 1 + text.len() > MOST_BYTES {
            break;
        }
        if !list.is_empty() {
            list.push(' ');
        }
        list += &text;
    }
    let mut metadata = Metadata::default();
    metadata.insert(CANDIDATE.into(), encoded(&settings.name));
    metadata.insert(LIST.into(), list);
    metadata
}

/// The tag and the entries of the list in the answer to a read; none where the blob is somebody else's.
fn read(answer: &Answer) -> Option<(ETag, Vec<Listed>)> {
    let properties =
        answer.properties.as_ref().filter(|seen| side_blob_rules::is_from_candidate(seen))?;
    Some((answer.etag.clone()?, entries(properties).flatten().collect()))
}

/// What stands on the list. What no candidate writes is none.
fn entries(properties: &Properties) -> impl Iterator<Item = Option<Listed>> {
    properties.metadata.get(LIST).unwrap_or_default().split_whitespace().map(Listed::read)
}

/// Whether candidates wrote this, or a version that is not known.
pub(super) fn is_fit(properties: &Properties) -> bool {
    entries(properties).all(|entry| entry.is_some())
}

/// The candidates that were seen lately, by the answer to a read of their list: for people.
///
/// # Errors
/// The list could not be read.
pub fn listed(answer: &Answer, settings: &Settings) -> Result<Vec<Listed>, Problem> {
    match answer.class {
        Class::Done => {
            let time = answer.date.map(Timestamp::from_date);
            Ok(read(answer).map(|(_, entries)| lately(entries, time)).unwrap_or_default())
        }
        Class::MissingBlob | Class::MissingContainer => Ok(Vec::new()),
        _ => {
            let operation = Operation::ReadSideBlob(SideBlob::Candidates);
            Err(Problem::of_answer(answer, &operation, settings))
        }
    }
}

impl Listed {
    /// `NAME,SECONDS,STATE,MILLISECONDS,ADDRESS`. A field that a version to come adds stands behind them.
    fn text(&self) -> String {
        let seconds = self.seen.to_date().timestamp();
        let state = if self.ready { "ready" } else { "unready" };
        let failover = self.failover.map(|within| within.as_millis().to_string());
        let address = self.address.as_deref().map(encoded);
        [
            encoded(&self.name),
            seconds.to_string(),
            state.into(),
            failover.unwrap_or_default(),
            address.unwrap_or_default(),
        ]
        .join(",")
    }

    fn read(text: &str) -> Option<Self> {
        let mut fields = text.split(',');
        let name = fit(fields.next()?, LONGEST_NAME)?;
        let seconds: i64 = fields.next()?.parse().ok()?;
        let ready = fields.next()? != "unready";
        let failover = match fields.next()? {
            "" => None,
            millis => Some(Duration::from_millis(millis.parse().ok()?)),
        };
        let address = match fields.next()? {
            "" => None,
            address => Some(fit(address, LONGEST_ADDRESS)?),
        };
        let seen = Timestamp::from_date(DateTime::from_timestamp(seconds, 0)?);
        Some(Self { name, address, ready, failover, seen })
    }
}
