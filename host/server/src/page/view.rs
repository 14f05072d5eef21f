//! The content of the page at an instant: one small value that is always sent whole.
//!
//! All times are ages and durations in milliseconds, counted from the instant of the view. So the
//! viewer's clock does not matter.

use serde::Serialize;
use std::collections::VecDeque;
use std::time::Duration;
use tenure::status::TurnSummary;
use tenure_core::milliseconds;

/// The shortest time that the lanes show.
pub const WINDOW: Duration = Duration::from_secs(120);

/// The maximum number of candidates in a view.
pub(crate) const LANES: usize = 12;
/// The maximum number of turns of one candidate.
pub const TURNS: usize = 120;
/// The maximum number of notes of one kind.
pub const NOTES: usize = 12;

/// The time for which [`Rate`] counts a request.
const RATE_PERIOD: Duration = Duration::from_secs(60);

/// The maximum number of requests that are counted in a minute.
const MAX_REQUESTS: usize = 600;

/// The longest text, in characters.
const TEXT: usize = 300;

/// The content of the page at an instant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct View {
    /// `container/blob`.
    pub election: String,
    /// The candidate that reports this. `None` if the view covers all candidates.
    pub reported_by: Option<String>,
    /// The leader, if it is known.
    pub leader: Option<Leader>,
    /// True if the leader is unknown. The storage account does not answer, no request was sent yet,
    /// or the record does not name the leader yet.
    pub unseen: bool,
    /// The time until a dead leader is replaced, as a sentence.
    pub replacement: Option<String>,
    /// The takeover by the present leader, if it was observed.
    pub take_over: Option<TakeOver>,
    /// The time until another candidate may replace a dead leader, if it is known.
    pub vacancy: Option<Validity>,
    /// The time that the lanes show.
    pub window_ms: u64,
    /// The age up to which the observations are complete. Earlier, this process had not started, or
    /// it has dropped the observations. `None` if the view has all of them.
    pub began_ms: Option<u64>,
    /// The candidates, in the order in which they are shown.
    pub lanes: Vec<Lane>,
    /// The schedule in words, if one is on record.
    pub schedule: Option<String>,
    /// The last ten turns, the oldest first.
    pub turns: Vec<PastTurn>,
    /// The newest turn.
    pub last_turn: Option<LastTurn>,
    /// The results of turns and the next turn, by the record.
    pub outlook: TurnSummary,
    /// The changes of leadership, the newest first.
    pub changes: Vec<Note>,
    /// The problems, the newest first.
    pub problems: Vec<Note>,
    /// The number of turns that began while another one ran, if they are counted.
    pub overlapping: Option<usize>,
    /// The commands that an operator may copy. `None` if the page shows none.
    pub commands: Option<Commands>,
}

/// The commands that an operator may copy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Commands {
    /// The candidates that a transfer may name. Those seen recently come first.
    pub successors: Vec<String>,
    /// True if the work has turns that a trigger can start.
    pub triggers: bool,
}

/// A past slot or a running turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PastTurn {
    /// RFC 3339 in UTC.
    pub slot: String,
    /// The same with the offset and the name of the schedule's time zone (RFC 9557).
    pub local: String,
    /// True if it ran for a trigger; its slot is then the time of the trigger.
    pub triggered: bool,
    /// The outcome as the log names it, or one of these:
    ///
    /// - `running`
    /// - `claimed`: it runs, or its outcome is not on record
    /// - `missed`: it never gets a turn
    /// - `unknown`
    pub outcome: String,
    /// Its duration, if it is known.
    pub took_ms: Option<u64>,
    /// The age of its slot.
    pub age_ms: u64,
}

/// The leader of an election.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Leader {
    /// Its name.
    pub name: String,
    /// Its fencing token.
    pub term: u64,
    /// The time of its election by the record.
    pub since: Option<String>,
    /// The time for which it has been observed to lead.
    pub seen_ms: u64,
    /// The time for which it may act, if it is known.
    pub validity: Option<Validity>,
}

/// A takeover from the previous leader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TakeOver {
    /// The time from the cause until the next leader led.
    pub after_ms: u64,
    /// The cause, as in "after the leader's machine died".
    pub cause: &'static str,
}

/// The time for which a leader may act without another renewal, or for which a lease lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Validity {
    /// The time that is left at the instant of the view.
    pub left_ms: u64,
    /// The full time, right after a renewal.
    pub whole_ms: u64,
}

/// A candidate and its history.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lane {
    /// Its name.
    pub name: String,
    /// Its state in a few words.
    pub state: &'static str,
    /// Its impairments, in a word or two each.
    pub faults: Vec<&'static str>,
    /// The number of requests that it sent in the last minute, if they are counted.
    pub requests_per_minute: Option<usize>,
    /// Its states by time.
    pub spans: Vec<Span>,
    /// Its turns.
    pub turns: Vec<Tick>,
    /// The actions that the demo offers for it.
    pub actions: Vec<&'static str>,
}

/// A stretch of time in a lane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Span {
    /// The state of the candidate.
    pub kind: Kind,
    /// The fencing token of a leader.
    pub term: Option<u64>,
    /// The age of its beginning.
    pub from_ms: u64,
    /// The age of its end. `None` while it continues.
    pub to_ms: Option<u64>,
    /// The time that the takeover took, if it was observed.
    pub after_ms: Option<u64>,
}

/// The state of a candidate in a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The candidate leads.
    Leads,
    /// The candidate follows another leader.
    Follows,
    /// The leader is dead, and its lease excludes the other candidates.
    LeaseRuns,
    /// The candidate's process is frozen (SIGSTOP).
    Frozen,
    /// The candidate cannot reach the store.
    CutOff,
    /// The candidate's process has ended.
    Gone,
}

/// A turn in a lane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tick {
    /// `running`, or the outcome as the log names it.
    pub outcome: String,
    /// The age of its beginning.
    pub age_ms: u64,
}

/// The newest turn of the election.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LastTurn {
    /// The scheduled instant, RFC 3339.
    pub slot: String,
    /// `running`, or the outcome as the log names it.
    pub outcome: String,
    /// The candidate that ran it. `None` if only the record has it.
    pub candidate: Option<String>,
    /// Its duration, if it is known.
    pub took_ms: Option<u64>,
}

/// A sentence about an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// The age of the event.
    pub age_ms: u64,
    /// The sentence, of 300 characters at most.
    pub text: String,
}

/// Counter of the requests in the last minute, up to 600.
#[derive(Debug, Default)]
pub struct Rate(VecDeque<Duration>);

impl Rate {
    /// Counts requests at the instant `now` of any clock.
    pub fn add(&mut self, now: Duration, requests: usize) {
        while self.0.front().is_some_and(|at| now.saturating_sub(*at) >= RATE_PERIOD) {
            self.0.pop_front();
        }
        for _ in 0..requests.min(MAX_REQUESTS) {
            if self.0.len() == MAX_REQUESTS {
                self.0.pop_front();
            }
            self.0.push_back(now);
        }
    }

    /// Returns the number of requests in the minute before `now`.
    pub fn per_minute(&self, now: Duration) -> usize {
        self.0.iter().filter(|at| now.saturating_sub(**at) < RATE_PERIOD).count()
    }
}

impl Note {
    /// Creates a note and truncates a long text.
    pub fn new(age: Duration, text: &str) -> Self {
        Self { age_ms: milliseconds(age), text: short(text) }
    }
}

impl Span {
    /// Returns a span as seen at `now`, unless it ended before the window. The age of its beginning
    /// is limited to a little more than the window.
    pub fn visible(
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
        let from_ms = milliseconds(limit_age(age(from), window));
        Some(Self { kind, term, from_ms, to_ms: to.map(milliseconds), after_ms: None })
    }
}

/// Limits the age of a span's beginning, so that the page draws no long stretch that is out of
/// sight. The limit exceeds the window, so that the rounded corners of an older span stay out of
/// sight too.
pub(crate) fn limit_age(age: Duration, window: Duration) -> Duration {
    age.min(window + window / 12)
}

/// Returns the window that shows events of age `oldest`. It is at least [`WINDOW`]. Its quarters
/// are round numbers, because they label the axis.
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

/// Returns the text of a value with a capital letter and a period.
pub fn sentence(value: &impl ToString) -> String {
    let text = value.to_string();
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).chain(['.']).collect()
}

/// Truncates a text after 300 characters.
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
    fn visible_spans_carry_their_ages() {
        let visible = |from, to: Option<u64>| {
            let span = Span::visible(WINDOW, s(1_000), Kind::Leads, Some(7), s(from), to.map(s))?;
            Some((span.from_ms, span.to_ms))
        };
        assert_eq!(visible(990, None), Some((10_000, None)));
        assert_eq!(visible(990, Some(998)), Some((10_000, Some(2_000))));
        // An end in the future has not come yet.
        assert_eq!(visible(990, Some(1_001)), Some((10_000, None)));
        assert_eq!(visible(1, Some(900)), Some((130_000, Some(100_000))));
        assert_eq!(visible(1, Some(879)), None);
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

    #[test]
    fn requests_are_counted_for_a_minute_and_not_without_end() {
        let mut rate = Rate::default();
        rate.add(s(20), 3);
        rate.add(s(30), 1);
        assert_eq!((rate.per_minute(s(79)), rate.per_minute(s(80))), (4, 1));
        // Older entries are dropped.
        rate.add(s(85), 1);
        assert_eq!(rate.0, [s(30), s(85)]);
        for _ in 0..3 {
            rate.add(s(90), usize::MAX);
        }
        assert_eq!((rate.per_minute(s(90)), rate.0.len()), (MAX_REQUESTS, MAX_REQUESTS));
    }
}
