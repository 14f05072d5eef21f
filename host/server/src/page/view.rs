//! What the page shows at an instant: one small value, told whole each time.
//!
//! All times are ages and spans in milliseconds, counted from the instant of the view: the clock of
//! whoever looks does not matter.

use serde::Serialize;
use std::time::Duration;
use tenure::status::{Outlook, Replacement};
use tenure_core::milliseconds;

/// How far back the page shows at least.
pub const WINDOW: Duration = Duration::from_secs(120);

/// As many candidates are told at most.
pub(crate) const LANES: usize = 12;
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
    /// Nobody knows who leads: the storage account does not answer, or was not asked yet, or the leader is not on
    /// record yet.
    pub unseen: bool,
    /// How soon somebody else leads when the leader dies, as a sentence.
    pub replacement: Option<String>,
    /// How soon the present leader took over, and from whom, where somebody saw that.
    pub take_over: Option<TakeOver>,
    /// How long a leader that is gone keeps the others out, where that is known.
    pub vacancy: Option<Validity>,
    /// How far back the lanes show.
    pub window_ms: u64,
    /// The age of the first of this election that was seen and is known still; none when all of it is.
    pub began_ms: Option<u64>,
    /// The candidates, in the order in which they are shown.
    pub lanes: Vec<Lane>,
    /// When turns are due, in words, where a schedule is on record.
    pub schedule: Option<String>,
    /// The last ten turns, the oldest first.
    pub turns: Vec<PastTurn>,
    /// The newest turn.
    pub last_turn: Option<LastTurn>,
    /// How turns go by the record, and when the next one comes.
    pub outlook: Outlook,
    /// The newest first.
    pub changes: Vec<Note>,
    /// The newest first.
    pub problems: Vec<Note>,
    /// Turns that should not have been, where somebody judges that.
    pub overlapping: Option<usize>,
    /// The commands that an operator may copy. None: the page shows none.
    pub commands: Option<Commands>,
}

/// The commands that an operator may copy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Commands {
    /// The candidates that a transfer may name: first those that were seen lately.
    pub successors: Vec<String>,
    /// True if the work has turns that a trigger can start.
    pub triggers: bool,
}

/// A slot that is over, or a turn that runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PastTurn {
    /// RFC 3339 in UTC.
    pub slot: String,
    /// The same with the offset and the name of the schedule's time zone (RFC 9557).
    pub local: String,
    /// It ran for a trigger, and was asked for at that time.
    pub triggered: bool,
    /// How it ended, as the log names it; `running`; `claimed`: it runs, or its outcome is not on record;
    /// `missed`: it has no turn and never will; or `unknown`.
    pub outcome: String,
    /// How long it ran, where that is known.
    pub took_ms: Option<u64>,
    /// The age of its slot.
    pub age_ms: u64,
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
    /// What happened, as in "after the leader's machine died".
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
    /// The scheduled instant, RFC 3339.
    pub slot: String,
    /// `running`, or as the log names it.
    pub outcome: String,
    /// Who ran it; none where the record tells of it alone.
    pub candidate: Option<String>,
    /// How long it ran, where that is known.
    pub took_ms: Option<u64>,
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
        Self { age_ms: milliseconds(age), text: short(text) }
    }
}

impl Span {
    /// A span as seen at `now`, unless it is out of sight in this window.
    pub fn seen(
        window: Duration,
        now: Duration,
        kind: Kind,
        term: Option<u64>,
        from: Duration,
        to: Option<Duration>,
    ) -> Option<Self> {
        let age = |at: Duration| now.saturating_sub(at);
        let to = to.filter(|to| *to <= now).map(age);
        if to.is_some_and(|to| to > window) {
            return None;
        }
        let from_ms = milliseconds(age(from).min(window + window / 12));
        Some(Self { kind, term, from_ms, to_ms: to.map(milliseconds), after_ms: None })
    }
}

/// How far back lanes show in which something so old is to be seen: a time of which people can name the
/// quarters, and [`WINDOW`] at least.
pub(crate) fn window(oldest: Duration) -> Duration {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    const WEEK: u64 = 7 * DAY;
    const LENGTHS: [(u64, &[u64]); 5] = [
        (MINUTE, &[2, 4, 8, 12, 20, 40]),
        (HOUR, &[1, 2, 4, 8, 12]),
        (DAY, &[1, 2, 4, 8, 12]),
        (WEEK, &[4, 8, 12, 16]),
        (52 * WEEK, &[1, 4]),
    ];
    let lengths = LENGTHS.iter().flat_map(|(unit, counts)| counts.iter().map(move |n| n * unit));
    let mut windows = lengths.map(Duration::from_secs);
    windows.find(|window| oldest <= *window).unwrap_or(Duration::from_secs(12 * 52 * WEEK))
}

/// As a sentence of its own.
pub fn sentence(told: &Replacement) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn spans_are_told_by_age_as_far_as_they_are_in_sight() {
        let seen = |from, to: Option<u64>| {
            let span = Span::seen(WINDOW, s(1_000), Kind::Leads, Some(7), s(from), to.map(s))?;
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
    fn the_window_fits_the_schedule() {
        const DAY: u64 = 86_400;
        for (oldest, shown) in [
            (0, 120),
            (120, 120),
            (121, 240),
            (10 * 60, 12 * 60),
            (9 * 3_600 + 1, 12 * 3_600),
            (9 * DAY + 3_600, 12 * DAY),
            (10 * 7 * DAY, 12 * 7 * DAY),
            (300 * DAY, 364 * DAY),
            (100 * 365 * DAY, 12 * 364 * DAY),
        ] {
            assert_eq!(window(s(oldest)), s(shown), "{oldest}");
        }
        assert_eq!(window(Duration::ZERO), WINDOW);
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(short("brief"), "brief");
        let long = "ü".repeat(TEXT + 1);
        assert_eq!(short(&long).chars().count(), TEXT + 1);
        assert!(short(&long).ends_with('…'));
    }
}
