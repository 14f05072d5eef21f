//! What the page shows at an instant: one small value, told whole each time.
//!
//! All times are ages and spans in milliseconds, counted from the instant of the view: the clock of
//! whoever looks does not matter.

use crate::settings::FailOver;
use serde::Serialize;
use std::time::Duration;

/// How far back the page shows.
pub const WINDOW: Duration = Duration::from_secs(120);

/// As many candidates are told at most.
pub const LANES: usize = 12;
/// As many turns of one candidate are told at most.
pub const TURNS: usize = 120;
/// As many sentences of a kind are told at most.
pub const NOTES: usize = 12;

/// The longest text, in characters.
const TEXT: usize = 300;

/// The page at an instant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct View {
    /// `container/blob`.
    pub election: String,
    /// The candidate that tells this; none when all of them are seen.
    pub told_by: Option<String>,
    /// Who leads, where that is known.
    pub leader: Option<Leader>,
    /// How soon somebody else leads when the leader dies, as a sentence.
    pub fail_over: Option<String>,
    /// How soon the present leader took over, and from whom, where somebody saw that.
    pub take_over: Option<TakeOver>,
    /// How long a leader that is gone keeps the others out, where that is known.
    pub vacancy: Option<Validity>,
    /// The candidates, in the order in which they are shown.
    pub lanes: Vec<Lane>,
    /// The newest turn.
    pub last_turn: Option<LastTurn>,
    /// The newest first.
    pub changes: Vec<Note>,
    /// The newest first.
    pub problems: Vec<Note>,
    /// Turns that should not have been, where somebody judges that.
    pub overlapping: Option<usize>,
}

/// Who leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Leader {
    /// How candidates name it.
    pub name: String,
    /// Its fencing token.
    pub term: u64,
    /// Since when, as the record on the blob tells it.
    pub since: Option<String>,
    /// For how long it was seen to lead.
    pub seen_ms: u64,
    /// How long it may act, where that is known.
    pub validity: Option<Validity>,
}

/// That a leader took over from the one before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TakeOver {
    /// From what happened to the leader until the next one led.
    pub after_ms: u64,
    /// What happened, as in "after its machine died".
    pub cause: &'static str,
}

/// How long a leader may act without another renewal, or a lease lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Validity {
    /// From the instant of the view on.
    pub left_ms: u64,
    /// Right after a renewal.
    pub whole_ms: u64,
}

/// One candidate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lane {
    /// How candidates name it.
    pub name: String,
    /// One word.
    pub state: &'static str,
    /// What else is the matter with it, in a word or two each.
    pub hindered: Vec<&'static str>,
    /// Requests that it sent in the last minute, where they are counted.
    pub requests_per_minute: Option<usize>,
    /// What it was, by time.
    pub spans: Vec<Span>,
    /// The turns that it ran.
    pub turns: Vec<Tick>,
    /// What can be done to it: see the demo.
    pub actions: Vec<&'static str>,
}

/// A stretch of time in a lane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Span {
    /// What the candidate was.
    pub kind: Kind,
    /// The fencing token of a leader.
    pub term: Option<u64>,
    /// The age of its beginning.
    pub from_ms: u64,
    /// The age of its end; none while it goes on.
    pub to_ms: Option<u64>,
    /// How soon the leader took over, where somebody saw that.
    pub after_ms: Option<u64>,
}

/// What a candidate is in a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// It leads.
    Leads,
    /// Another one leads.
    Follows,
    /// The leader is gone, and its lease keeps the others out.
    LeaseRuns,
    /// Its process stands still.
    Frozen,
    /// It does not reach the store.
    CutOff,
    /// There is no process.
    Gone,
}

/// A turn in a lane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tick {
    /// `running`, or as the log names it.
    pub outcome: String,
    /// The age of its beginning.
    pub age_ms: u64,
}

/// The newest turn of the election.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LastTurn {
    /// The scheduled instant, RFC 3339; or `trigger` and its id.
    pub slot: String,
    /// `running`, or as the log names it.
    pub outcome: String,
    /// Who ran it.
    pub candidate: String,
    /// The age of its beginning.
    pub age_ms: u64,
}

/// A sentence for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// The age of what it tells.
    pub age_ms: u64,
    /// The sentence, of 300 characters at most.
    pub text: String,
}

impl Note {
    /// A sentence, cut where it is too long.
    pub fn new(age: Duration, text: &str) -> Self {
        Self { age_ms: millis(age), text: short(text) }
    }
}

impl Span {
    /// A span as seen at `now`, unless it is out of sight.
    pub fn seen(
        now: Duration,
        kind: Kind,
        term: Option<u64>,
        from: Duration,
        to: Option<Duration>,
    ) -> Option<Self> {
        let age = |at: Duration| now.saturating_sub(at);
        let to = to.filter(|to| *to <= now).map(age);
        if to.is_some_and(|to| to > WINDOW) {
            return None;
        }
        let from_ms = millis(age(from).min(WINDOW + Duration::from_secs(10)));
        Some(Self { kind, term, from_ms, to_ms: to.map(millis), after_ms: None })
    }
}

/// As a sentence of its own.
pub fn sentence(told: &FailOver) -> String {
    let told = told.to_string();
    let mut letters = told.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).chain(['.']).collect()
}

/// A text that cannot make the view large.
pub fn short(text: &str) -> String {
    match text.char_indices().nth(TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// As the page counts time.
pub fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn spans_are_told_by_age_as_far_as_they_are_in_sight() {
        let seen = |from, to: Option<u64>| {
            let span = Span::seen(s(1_000), Kind::Leads, Some(7), s(from), to.map(s))?;
            Some((span.from_ms, span.to_ms))
        };
        assert_eq!(seen(990, None), Some((10_000, None)));
        assert_eq!(seen(990, Some(998)), Some((10_000, Some(2_000))));
        // An end that lies ahead has not come yet.
        assert_eq!(seen(990, Some(1_001)), Some((10_000, None)));
        assert_eq!(seen(1, Some(900)), Some((130_000, Some(100_000))));
        assert_eq!(seen(1, Some(879)), None);
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(short("brief"), "brief");
        let long = "ü".repeat(TEXT + 1);
        assert_eq!(short(&long).chars().count(), TEXT + 1);
        assert!(short(&long).ends_with('…'));
    }
}
