//! I1 (protocol.md §12): handler spans of two terms never overlap in true time.
//!
//! Without A3 they may overlap for a renewal interval and a request timeout, starting when an
//! outsider ended the lease. If the network or a pause keeps the old leader from learning that, its
//! validity is the bound, which I3 checks.

use super::super::fault::{Fault, Kind};
use super::super::history::{CandidateId, Entry, History, HistoryEvent, Span, Win};
use super::super::plan::Class;
use super::super::world::Millis;
use super::{Violation, violation};

/// Checks the spans of all pairs of terms.
pub fn check_i1(history: &History, class: Class) -> Vec<Violation> {
    let mut spans: Vec<_> =
        history.spans().into_iter().filter(|span| span.to > span.from).collect();
    spans.sort_by_key(|span| span.from);
    let wins = history.wins();
    let mut violations = Vec::new();
    for (index, first) in spans.iter().enumerate() {
        for second in spans[index + 1..].iter().take_while(|second| second.from < first.to) {
            if (first.candidate, first.term) == (second.candidate, second.term) {
                continue;
            }
            // Ordered by when they were won: a later term may be lower after a record loss.
            let wins_span = |span: &Span, w: &Win| {
                (w.candidate, w.term) == (span.candidate, span.term) && w.at <= span.from
            };
            let won_index = |span: &Span| wins.iter().rposition(|win| wins_span(span, win));
            let in_order = (won_index(first), first.term) <= (won_index(second), second.term);
            let (older, newer) = if in_order { (first, second) } else { (second, first) };
            let (from, to) = (second.from, first.to.min(second.to));
            if class == Class::WithoutA3 && is_excused(history, older, to) {
                continue;
            }
            violations.push(violation(
                "I1",
                from,
                format!(
                    "c{} works under term {} and c{} under term {}, both until {to} ms",
                    older.candidate, older.term, newer.candidate, newer.term
                ),
            ));
        }
    }
    violations
}

/// Returns true if an outsider's action explains that the older leader still worked at `to`.
fn is_excused(history: &History, older: &Span, to: Millis) -> bool {
    let wins = history.wins();
    // After a record loss, another leader may have raised the same term before.
    let wins_span = |win: &&Win| {
        (win.candidate, win.term) == (older.candidate, older.term) && win.at <= older.from
    };
    let last_win = wins.iter().rfind(wins_span);
    let Some(won_at) = last_win.map(|win| win.at) else { return false };
    let attack = injected_faults(history)
        .find(|(at, fault, ..)| fault.kind() == Kind::Outsider && *at >= won_at && *at <= to);
    let Some((attack, ..)) = attack else { return false };
    let life = &history.lives[older.candidate];
    let most = life.periods.renew + life.periods.timeout;
    // On a clock that is 1 % slow.
    let stopped_in_time = to <= attack + most + most / 100 + 1;
    let was_hindered = injected_faults(history).any(|(at, fault, candidate, until)| {
        let window_start = attack.saturating_sub(life.periods.timeout + 2_000);
        let affects_all = matches!(fault.kind(), Kind::Network | Kind::Condition);
        let affects_leader =
            candidate == Some(older.candidate) || (candidate.is_none() && affects_all);
        affects_leader && until.max(at) >= window_start && at <= to
    });
    // A leader with invalid settings neither renews nor learns of a loss.
    let settings_faults = [Fault::SettingsSpoilt, Fault::SecretSpoilt];
    stopped_in_time
        || was_hindered
        || settings_faults.into_iter().any(|fault| history.has_fault(fault, older.candidate, to))
}

fn injected_faults(
    history: &History,
) -> impl Iterator<Item = (Millis, Fault, Option<CandidateId>, Millis)> {
    history.entries.iter().filter_map(|Entry { at, event }| match event {
        HistoryEvent::FaultInjected(fault, candidate, until) => {
            Some((*at, *fault, *candidate, *until))
        }
        _ => None,
    })
}
