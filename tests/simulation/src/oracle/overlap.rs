//! I1 (protocol.md §12): handler spans of two terms never overlap in true time.
//!
//! Without A3 they may, from the instant at which somebody ended the lease, for a renewal
//! interval and a request time-out. When the network or a pause keeps the old leader from
//! learning of it, its validity is the bound: I3 watches over that one.

use super::super::fault::{Fault, Kind};
use super::super::history::{Entry, History, Span, What, Who, Win};
use super::super::plan::Class;
use super::super::world::Millis;
use super::{Violation, violation};

/// Judges the spans of all pairs of terms.
pub fn i1(history: &History, class: Class) -> Vec<Violation> {
    let mut spans: Vec<_> =
        history.spans().into_iter().filter(|span| span.to > span.from).collect();
    spans.sort_by_key(|span| span.from);
    let wins = history.wins();
    let mut violations = Vec::new();
    for (index, one) in spans.iter().enumerate() {
        for other in spans[index + 1..].iter().take_while(|other| other.from < one.to) {
            if (one.who, one.term) == (other.who, other.term) {
                continue;
            }
            // By when they were won: where the record was lost, a later term may be lower.
            let of = |span: &Span, w: &Win| {
                (w.who, w.term) == (span.who, span.term) && w.at <= span.from
            };
            let won = |span: &Span| wins.iter().rposition(|win| of(span, win));
            let in_order = (won(one), one.term) <= (won(other), other.term);
            let (older, newer) = if in_order { (one, other) } else { (other, one) };
            let (from, to) = (other.from, one.to.min(other.to));
            if class == Class::WithoutA3 && is_excused(history, older, to) {
                continue;
            }
            violations.push(violation(
                "I1",
                from,
                format!(
                    "c{} works under term {} and c{} under term {}, both until {to} ms",
                    older.who, older.term, newer.who, newer.term
                ),
            ));
        }
    }
    violations
}

/// Whether an outsider's deed explains that the older leader still worked at `to`.
fn is_excused(history: &History, older: &Span, to: Millis) -> bool {
    let wins = history.wins();
    // Where the record was lost, one may have raised the same term before.
    let of_span =
        |win: &&Win| (win.who, win.term) == (older.who, older.term) && win.at <= older.from;
    let won = wins.iter().rfind(of_span);
    let Some(won) = won.map(|win| win.at) else { return false };
    let deed = faults(history)
        .find(|(at, fault, ..)| fault.kind() == Kind::Outsider && *at >= won && *at <= to);
    let Some((deed, ..)) = deed else { return false };
    let life = &history.lives[older.who];
    let most = life.periods.renew + life.periods.timeout;
    // By a clock that is 1 % slow.
    let prompt = to <= deed + most + most / 100 + 1;
    let hindered = faults(history).any(|(at, fault, who, until)| {
        let earlier = deed.saturating_sub(life.periods.timeout + 2_000);
        let of_all = matches!(fault.kind(), Kind::Network | Kind::Condition);
        let hits = who == Some(older.who) || (who.is_none() && of_all);
        hits && until.max(at) >= earlier && at <= to
    });
    // With settings that cannot be used it renews nothing, and learns of nothing.
    let spoilt = [Fault::SettingsSpoilt, Fault::SecretSpoilt];
    prompt || hindered || spoilt.into_iter().any(|fault| history.meets(fault, older.who, to))
}

fn faults(history: &History) -> impl Iterator<Item = (Millis, Fault, Option<Who>, Millis)> {
    history.entries.iter().filter_map(|Entry { at, what }| match what {
        What::Struck(fault, who, until) => Some((*at, *fault, *who, *until)),
        _ => None,
    })
}
