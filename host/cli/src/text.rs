//! Events as lines for people.

use super::candidacy::LEAVE;
use super::complaint::printable;
use anstyle::{AnsiColor, Style};
use chrono::{DateTime, TimeZone};
use std::fmt;
use std::time::Duration;
use tenure::contract::rfc3339;
use tenure::handler::{Stream, TurnEnd};
use tenure::runner::Event;

const GREEN: Style = AnsiColor::Green.on_default().bold();
const RED: Style = AnsiColor::Red.on_default();
const YELLOW: Style = AnsiColor::Yellow.on_default();
const DIM: Style = Style::new().dimmed();
const PLAIN: Style = Style::new();

/// One line, or none for what people need not see each time. `election` is which one of several, and how
/// much room to give it.
pub(super) fn line<Z: TimeZone<Offset: fmt::Display>>(
    now: &DateTime<Z>,
    election: Option<(&str, usize)>,
    event: &Event,
    colour: bool,
) -> Option<String> {
    let (style, name, text) = words(event)?;
    // Names, errors and the handler's lines come from elsewhere.
    let text = printable(&text);
    let time = now.format("%H:%M:%S%.3f");
    let (dim, style) = if colour { (DIM, style) } else { (PLAIN, PLAIN) };
    let election =
        election.map(|(name, width)| format!("{:<width$}  ", printable(name))).unwrap_or_default();
    Some(
        format!("{dim}{time}{dim:#}  {election}{style}{name:<10}{style:#}  {text}")
            .trim_end()
            .to_owned(),
    )
}

fn words(event: &Event) -> Option<(Style, &'static str, String)> {
    Some(match event {
        Event::Note { detail } => (DIM, "note", detail.clone()),
        Event::Following { leader, term } => {
            let leader = leader.as_deref().unwrap_or("a leader whose name is not known");
            let term = term.map(|term| format!(", term {term}")).unwrap_or_default();
            (PLAIN, "following", format!("{leader}{term}"))
        }
        Event::Elected { term, valid_for } => {
            (GREEN, "elected", format!("term {term}, to be renewed within {}", time(*valid_for)))
        }
        Event::Renewed { .. } => return None,
        Event::TurnStarted { turn } => {
            let value = match (&turn.value, &turn.trigger) {
                (Some(value), _) => format!(", for {value}"),
                (_, Some(id)) => format!(", trigger {id}"),
                (None, None) => String::new(),
            };
            let attempt = match turn.attempt {
                1 => String::new(),
                again => format!(", attempt {again}"),
            };
            let late = if turn.past_due { ", past due" } else { "" };
            let missed = match turn.missed {
                0 => String::new(),
                1 => ", after 1 slot without a turn".to_owned(),
                some => format!(", after {some} slots without a turn"),
            };
            let slot = rfc3339(turn.slot);
            (PLAIN, "turn", format!("{slot}{value}{attempt}{late}{missed}"))
        }
        Event::TurnEnded { turn, end, elapsed } => {
            let style = if *end == TurnEnd::Succeeded { PLAIN } else { YELLOW };
            let detail = end.detail().map(|text| format!(": {text}")).unwrap_or_default();
            let (slot, elapsed) = (rfc3339(turn.slot), time(*elapsed));
            (style, "turn", format!("{slot} {end} after {elapsed}{detail}"))
        }
        Event::StoodDown { term, reason } => {
            (YELLOW, "stood down", format!("term {term}, {reason}"))
        }
        // The end of the process is no operator's order to one election.
        Event::Ordered { order } => match order.strip_prefix(LEAVE) {
            Some(rest) => (YELLOW, "stopping", rest.to_owned()),
            None => (YELLOW, "ordered", order.clone()),
        },
        Event::Problem { class, detail } => (RED, "problem", format!("{class}: {detail}")),
        Event::Handler { line, stream: Stream::Stdout } => (DIM, "handler", line.clone()),
        Event::Handler { line, stream: Stream::Stderr } => (DIM, "handler", format!("! {line}")),
        Event::Stopped => (PLAIN, "stopped", String::new()),
        // The library may tell of more one day.
        _ => return None,
    })
}

fn time(time: Duration) -> String {
    match time.as_millis() {
        milliseconds @ 0..1000 => format!("{milliseconds} ms"),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::Utc;

    fn plain(event: &Event) -> Option<String> {
        line(&DateTime::<Utc>::UNIX_EPOCH, None, event, false)
    }

    #[test]
    fn lines_are_aligned_and_end_with_their_text() {
        let elected = Event::Elected { term: 7, valid_for: Duration::from_secs(12) };
        let line = "00:00:00.000  elected     term 7, to be renewed within 12.0 s";
        assert_eq!(plain(&elected).unwrap(), line);
        assert_eq!(plain(&Event::Stopped).unwrap(), "00:00:00.000  stopped");
        assert_eq!(plain(&Event::Renewed { term: 7, valid_for: Duration::from_secs(12) }), None);
    }

    #[test]
    fn an_order_is_an_operators_and_the_end_is_not() {
        let ordered = |order: String| plain(&Event::Ordered { order }).unwrap();
        assert_eq!(ordered("resign".into()), "00:00:00.000  ordered     resign");
        assert_eq!(
            ordered(format!("{LEAVE}a turn that runs may go on for 10s")),
            "00:00:00.000  stopping    a turn that runs may go on for 10s"
        );
    }

    #[test]
    fn colour_is_for_terminals() {
        let coloured = line(&DateTime::<Utc>::UNIX_EPOCH, None, &Event::Stopped, true).unwrap();
        assert!(coloured.contains('\u{1b}'));
        assert!(!plain(&Event::Stopped).unwrap().contains('\u{1b}'));
    }
}
