//! Formats events as text lines.

use super::times::{attempt_clause, last_success_clause, whole_seconds};
use super::wrap_words;
use crate::complaint::printable;
use anstyle::{AnsiColor, Style};
use std::time::Duration;
use tenure::Event;
use tenure::handler::{Stream, TurnEnd};
use tenure::status::{TurnSummary, UpcomingTurn, local_time};
use tenure_base::duration::format_duration;
use tenure_core::{Turn, Zone};

const GREEN: Style = AnsiColor::Green.on_default().bold();
const RED: Style = AnsiColor::Red.on_default();
const YELLOW: Style = AnsiColor::Yellow.on_default();
const DIM: Style = Style::new().dimmed();
const PLAIN: Style = Style::new();

/// Width of the column with the names of events.
const NAME: usize = 10;

/// Minimum time until a next turn that a line announces, in milliseconds.
const SOON_MS: u64 = 10_000;

/// Time format on a terminal.
pub(crate) const TIME: &str = "%H:%M:%S%.3f";

/// Time format for logs that are read later.
pub(crate) const DATE_AND_TIME: &str = "%Y-%m-%dT%H:%M:%S%.3f%:z";

/// The layout of a line.
#[derive(Clone, Copy)]
pub(crate) struct Layout<'a> {
    /// The election if there are several, and the length of the longest name.
    pub election: Option<(&'a str, usize)>,
    /// The time zone of the instants in the line.
    pub zone: Zone,
    pub colour: bool,
    /// The columns of the terminal, or none to leave lines unbroken.
    pub width: Option<usize>,
}

/// Formats an event as text. Returns none if the event has no text.
pub(crate) fn line(time: &str, event: &Event, layout: Layout<'_>) -> Option<String> {
    let (style, name, text) = describe(event, layout.zone)?;
    Some(format_line(time, (style, name, NAME), &text, layout))
}

/// Formats a line, broken at words on a terminal. The name has a style and a width.
pub(crate) fn format_line(
    time: &str,
    (style, name, name_width): (Style, &str, usize),
    text: &str,
    layout: Layout<'_>,
) -> String {
    let Layout { election, colour, width, .. } = layout;
    let (dim, style) = if colour { (DIM, style) } else { (PLAIN, PLAIN) };
    let election = election.map(|(name, width)| format!("{:<width$}  ", printable(name)));
    let election = election.unwrap_or_default();
    let indent =
        time.chars().count() + 2 + election.chars().count() + name.len().max(name_width) + 2;
    // Names, errors and lines of the handler may contain anything.
    let text = wrap_words(&printable(text), indent, width);
    format!("{dim}{time}{dim:#}  {election}{style}{name:<name_width$}{style:#}  {text}")
        .trim_end()
        .to_owned()
}

/// Returns the style and the name of the event's line, and its text.
fn describe(event: &Event, zone: Zone) -> Option<(Style, &'static str, String)> {
    Some(match event {
        Event::Starting { .. } => (PLAIN, "tenure", describe_candidate(event)?),
        Event::Note { detail } => (DIM, "note", detail.clone()),
        Event::Following { leader, term } => {
            let leader = leader.as_deref().unwrap_or("a leader whose name is not known");
            let term = term.map(|term| format!(", term {term}")).unwrap_or_default();
            (PLAIN, "following", format!("{leader}{term}"))
        }
        Event::Elected { term, valid_for, next_turn } => {
            let (valid_for, next) =
                (format_elapsed(*valid_for), next_turn_clause(next_turn.as_ref()));
            (GREEN, "elected", format!("term {term}, to be renewed within {valid_for}{next}"))
        }
        Event::Renewed { term, valid_for } => (
            DIM,
            "renewed",
            format!("term {term}, to be renewed within {}", format_elapsed(*valid_for)),
        ),
        Event::TurnStarted { turn } => (PLAIN, "turn", describe_turn_start(turn, zone)),
        Event::TurnEnded { turn, end, elapsed, other_turns } => {
            let style = if matches!(end, TurnEnd::Succeeded) { PLAIN } else { YELLOW };
            (style, "turn", describe_turn_end(turn, end, *elapsed, other_turns, zone))
        }
        Event::StoodDown { term, reason } => {
            (YELLOW, "stood down", format!("term {term}, {reason}"))
        }
        Event::Ordered { order } => (YELLOW, "ordered", order.clone()),
        Event::Leaving { grace } => {
            let text = match grace.is_zero() {
                true => "at once".to_owned(),
                false => format!("a running turn ends within {}", format_duration(*grace)),
            };
            (YELLOW, "leaving", text)
        }
        Event::Compiling { component } => {
            (DIM, "compiling", format!("{component}, unless it is cached; this may take a minute"))
        }
        Event::Compiled { component, elapsed } => {
            (DIM, "compiled", format!("{component} after {}", format_elapsed(*elapsed)))
        }
        Event::Problem { class, detail } => (RED, "problem", format!("{class}: {detail}")),
        Event::Handler { line, stream: Stream::Stdout } => (DIM, "handler", line.clone()),
        Event::Handler { line, stream: Stream::Stderr } => (DIM, "handler", format!("! {line}")),
        Event::Stopped => (PLAIN, "stopped", String::new()),
        // Future versions of the library may have more events.
        _ => return None,
    })
}

/// Describes the candidate of the event [`Starting`](Event::Starting). Returns none for other
/// events.
fn describe_candidate(event: &Event) -> Option<String> {
    let Event::Starting {
        version,
        candidate,
        election,
        elector,
        schedule,
        work,
        lease,
        failover,
        account,
        credential,
    } = event
    else {
        return None;
    };
    let schedule = schedule.as_deref().unwrap_or("no timer");
    let lease = format_duration(*lease);
    let failover = failover.map(|time| format!(", failover {}", format_duration(time)));
    let failover = failover.unwrap_or_default();
    let summary = match work {
        Some(work) => {
            format!("contends for {election}; {schedule}: {work}; lease {lease}{failover}")
        }
        None => format!("observes {election}"),
    };
    Some(format!(
        "{version}: {candidate} {summary}; elector: {elector}; account {account}; credential: {credential}"
    ))
}

fn describe_turn_start(turn: &Turn, zone: Zone) -> String {
    let trigger = turn.trigger.as_ref().map_or_else(String::new, |id| format!(", trigger {id}"));
    let attempt = attempt_clause(turn.attempt);
    let late = if turn.past_due { ", past due" } else { "" };
    let missed = match turn.missed {
        0 => String::new(),
        1 => ", 1 slot missed".to_owned(),
        count => format!(", {count} slots missed"),
    };
    let slot = local_time(turn.slot, zone);
    format!("{slot}{trigger}{attempt}{late}{missed}")
}

fn describe_turn_end(
    turn: &Turn,
    end: &TurnEnd,
    elapsed: Duration,
    other_turns: &TurnSummary,
    zone: Zone,
) -> String {
    let success = match end {
        TurnEnd::Succeeded => String::new(),
        _ => last_success_clause(other_turns, zone),
    };
    let detail = end.detail().map(|text| format!(": {text}")).unwrap_or_default();
    let (slot, elapsed) = (local_time(turn.slot, zone), format_elapsed(elapsed));
    let next = next_turn_clause(other_turns.next_turn.as_ref());
    let trigger = turn.trigger.as_ref().map(|id| format!(", trigger {id},"));
    let trigger = trigger.unwrap_or_default();
    format!("{slot}{trigger} {end} after {elapsed}{detail}{success}{next}")
}

/// Describes the next turn, unless it is too close to be worth mentioning.
fn next_turn_clause(next: Option<&UpcomingTurn>) -> String {
    let next = next.filter(|next| next.in_ms >= SOON_MS);
    next.map(|next| format!("; next turn {} (in {})", next.local, whole_seconds(next.in_ms)))
        .unwrap_or_default()
}

fn format_elapsed(time: Duration) -> String {
    match time.as_millis() {
        milliseconds @ 0..1000 => format!("{milliseconds} ms"),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure::status::EndedTurn;
    use tenure_core::Timestamp;

    const LAYOUT: Layout<'_> =
        Layout { election: None, zone: Zone::UTC, colour: false, width: None };

    fn plain(event: &Event) -> String {
        line("00:00:00.000", event, LAYOUT).unwrap()
    }

    #[test]
    fn lines_are_aligned_and_end_with_their_text() {
        let elected =
            Event::Elected { term: 7, valid_for: Duration::from_secs(12), next_turn: None };
        assert_eq!(
            plain(&elected),
            "00:00:00.000  elected     term 7, to be renewed within 12.0 s"
        );
        let local = "1970-01-02T03:00:00+01:00[Europe/Berlin]".to_owned();
        let next_turn = Some(UpcomingTurn { slot: "y".into(), local, in_ms: 93_600_000 });
        let valid_for = Duration::from_secs(12);
        assert_eq!(
            plain(&Event::Elected { term: 7, valid_for, next_turn }),
            "00:00:00.000  elected     term 7, to be renewed within 12.0 s; next turn \
             1970-01-02T03:00:00+01:00[Europe/Berlin] (in 1d 2h)"
        );
        assert_eq!(plain(&Event::Stopped), "00:00:00.000  stopped");
    }

    #[test]
    fn first_line_describes_the_candidate() {
        let starting = Event::Starting {
            version: "1.2.3 (0123456789ab, 2026-11-23)".to_owned(),
            candidate: "ada".to_owned(),
            election: "jobs/a".to_owned(),
            elector: "component",
            schedule: Some("every 1h".to_owned()),
            work: Some("command /bin/true".to_owned()),
            lease: Duration::from_secs(60),
            failover: Some(Duration::from_secs(3)),
            account: "acme at https://acme".to_owned(),
            credential: "the account's key".to_owned(),
        };
        assert_eq!(
            plain(&starting),
            "00:00:00.000  tenure      1.2.3 (0123456789ab, 2026-11-23): ada contends for jobs/a; every 1h: command \
             /bin/true; lease 1m, failover 3s; elector: component; account acme at https://acme; credential: the account's key"
        );
    }

    #[test]
    fn orders_and_leaving_have_lines_of_their_own() {
        let order = "resign".to_owned();
        assert_eq!(plain(&Event::Ordered { order }), "00:00:00.000  ordered     resign");
        assert_eq!(
            plain(&Event::Leaving { grace: Duration::from_secs(10) }),
            "00:00:00.000  leaving     a running turn ends within 10s"
        );
        // An observer has no turns.
        assert_eq!(
            plain(&Event::Leaving { grace: Duration::ZERO }),
            "00:00:00.000  leaving     at once"
        );
    }

    #[test]
    fn turn_end_shows_last_success_and_next_turn() {
        let ended = |in_ms, end: TurnEnd| {
            let turn = Turn {
                election: String::new(),
                key: String::new(),
                term: 7,
                slot: Timestamp(0),
                trigger: None,
                attempt: 1,
                past_due: false,
                missed: 0,
                valid_for: Duration::from_nanos(1),
                time_limit: None,
                share: None,
            };
            let success = EndedTurn {
                slot: "x".into(),
                triggered: false,
                local: "x".into(),
                outcome: "succeeded",
                ended: Some("1970-01-01T03:00:09Z".into()),
                ago_ms: None,
                took_ms: None,
                candidate: None,
                reason: None,
            };
            let local = "1970-01-02T04:00:00+01:00[Europe/Berlin]".to_owned();
            let next = UpcomingTurn { slot: "y".into(), local, in_ms };
            let (last_success, next_turn) = (Some(success), Some(next));
            let other_turns =
                Box::new(TurnSummary { last_success, next_turn, ..TurnSummary::default() });
            let elapsed = Duration::from_millis(12);
            plain(&Event::TurnEnded { turn, end, elapsed, other_turns })
        };
        let turn = "00:00:00.000  turn        1970-01-01T00:00:00Z";
        assert_eq!(ended(9_999, TurnEnd::Succeeded), format!("{turn} succeeded after 12 ms"));
        let next = "next turn 1970-01-02T04:00:00+01:00[Europe/Berlin] (in 1d 3h)";
        assert_eq!(
            ended(97_200_000, TurnEnd::CutOff),
            format!("{turn} cut-off after 12 ms; last success 1970-01-01T03:00:09Z; {next}")
        );
    }

    #[test]
    fn lines_break_at_words_below_their_beginning() {
        let event =
            Event::Note { detail: "one two three four five six seven eight nine".to_owned() };
        let election = Some(("jobs/a", 8));
        for colour in [false, true] {
            let layout = Layout { election, colour, width: Some(68), ..LAYOUT };
            let text = line("00:00:00.000", &event, layout).unwrap();
            let (first, second) = text.split_once('\n').expect("two lines");
            assert!(first.ends_with("five six"), "{text}");
            assert_eq!(second, format!("{:36}seven eight nine", ""));
        }
        let narrow = Layout { election, width: Some(60), ..LAYOUT };
        assert!(!line("00:00:00.000", &event, narrow).unwrap().contains('\n'), "no room for words");
    }

    #[test]
    fn all_instants_of_a_line_are_in_the_zone_of_the_schedule() {
        let turn = Turn {
            election: String::new(),
            key: String::new(),
            term: 7,
            slot: Timestamp(0),
            trigger: None,
            attempt: 1,
            past_due: false,
            missed: 0,
            valid_for: Duration::from_nanos(1),
            time_limit: None,
            share: None,
        };
        let success = EndedTurn {
            slot: "x".into(),
            triggered: false,
            local: "x".into(),
            outcome: "succeeded",
            ended: Some("1970-01-01T03:00:09Z".into()),
            ago_ms: None,
            took_ms: None,
            candidate: None,
            reason: None,
        };
        let other_turns =
            Box::new(TurnSummary { last_success: Some(success), ..TurnSummary::default() });
        let elapsed = Duration::from_millis(12);
        let zone = Zone::from_name("Europe/Berlin").unwrap();
        let layout = Layout { zone, ..LAYOUT };
        let started = line("t", &Event::TurnStarted { turn: turn.clone() }, layout).unwrap();
        assert_eq!(started, "t  turn        1970-01-01T01:00:00+01:00[Europe/Berlin]");
        let ended = Event::TurnEnded { turn, end: TurnEnd::CutOff, elapsed, other_turns };
        let ended = line("t", &ended, layout).unwrap();
        assert!(ended.contains("1970-01-01T01:00:00+01:00[Europe/Berlin] cut-off"), "{ended}");
        assert!(!ended.contains('Z'), "{ended}");
    }

    #[test]
    fn colour_is_for_terminals() {
        let layout = Layout { colour: true, ..LAYOUT };
        let coloured = line("00:00:00.000", &Event::Stopped, layout).unwrap();
        assert!(coloured.contains('\u{1b}'));
        assert!(!plain(&Event::Stopped).contains('\u{1b}'));
    }
}
