//! What the demo hears from its candidates: the lines of their logs, and their end.

use chrono::{DateTime, Utc};
use serde::Deserialize;

/// Something that one candidate said or did.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Heard {
    /// Which candidate, by number.
    pub who: usize,
    pub at: DateTime<Utc>,
    pub what: What,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum What {
    /// An event of its log.
    Event(Event),
    /// A line that is not of the log: a complaint, a panic.
    Words(String),
    /// The process is gone; how, in words.
    Ended(String),
    /// It was asked to resign and did not agree; why.
    NotResigned(String),
}

/// An event of a log, as far as the demo looks at it.
#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(super) enum Event {
    Following {
        leader: Option<String>,
    },
    Note {
        detail: String,
    },
    Elected {
        term: u64,
        valid_for_ms: u64,
    },
    Renewed {
        term: u64,
    },
    TurnStarted {
        term: u64,
        slot: String,
        past_due: bool,
    },
    TurnEnded {
        term: u64,
        slot: String,
        outcome: String,
        detail: Option<String>,
    },
    StoodDown {
        term: u64,
        reason: String,
    },
    Problem {
        class: String,
        detail: String,
    },
    Handler {
        line: String,
        stream: String,
    },
    #[serde(other)]
    Other,
}

/// A line of standard output. What cannot be read as an event is passed on as it is.
pub(super) fn read(line: &str, now: DateTime<Utc>) -> (DateTime<Utc>, What) {
    #[derive(Deserialize)]
    struct Line {
        timestamp: String,
        #[serde(flatten)]
        event: Event,
    }
    let read = serde_json::from_str(line).ok().and_then(|Line { timestamp, event }| {
        let at = DateTime::parse_from_rfc3339(&timestamp).ok()?;
        Some((at.with_timezone(&Utc), What::Event(event)))
    });
    read.unwrap_or_else(|| (now, What::Words(line.to_owned())))
}

/// Where a candidate listens, if that is what it says.
pub(super) fn listens(detail: &str) -> Option<&str> {
    detail.strip_prefix("listening on http://")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tenure::contract::Turn;
    use tenure::handler::TurnEnd;
    use tenure::runner;

    fn event(line: &str) -> Event {
        match read(line, DateTime::UNIX_EPOCH) {
            (at, What::Event(event)) => {
                assert_eq!(at.timestamp_millis(), 1_500);
                event
            }
            (_, other) => panic!("{other:?}"),
        }
    }

    /// As `tenure run --log json` writes it.
    fn logged(event: &runner::Event) -> String {
        let mut line = serde_json::to_value(event).unwrap();
        line["timestamp"] = "1970-01-01T00:00:01.500Z".into();
        line["candidate"] = "anna".into();
        line.to_string()
    }

    #[test]
    fn the_events_of_a_log_are_understood() {
        let elected =
            runner::Event::Elected { term: 7, valid_for: Duration::from_secs(12), next_turn: None };
        assert_eq!(event(&logged(&elected)), Event::Elected { term: 7, valid_for_ms: 12_000 });
        let ended = runner::Event::TurnEnded {
            turn: Turn {
                election: "jobs/report".to_owned(),
                key: "acme/jobs/report/1970-01-01T00:00:01Z".to_owned(),
                term: 7,
                slot: 1_000_000_000,
                trigger: None,
                attempt: 1,
                past_due: false,
                missed: 0,
                valid_for: 1,
                time_limit: None,
                share: None,
            },
            end: TurnEnd::Failed("no paper".to_owned()),
            elapsed: Duration::from_millis(3),
            before: Box::default(),
        };
        assert_eq!(
            event(&logged(&ended)),
            Event::TurnEnded {
                term: 7,
                slot: "1970-01-01T00:00:01Z".to_owned(),
                outcome: "failed".to_owned(),
                detail: Some("no paper".to_owned()),
            }
        );
        assert_eq!(event(&logged(&runner::Event::Stopped)), Event::Other);
    }

    #[test]
    fn other_lines_are_kept() {
        let (at, what) = read("thread 'main' panicked", DateTime::UNIX_EPOCH);
        assert_eq!(at, DateTime::UNIX_EPOCH);
        assert_eq!(what, What::Words("thread 'main' panicked".to_owned()));
    }
}
