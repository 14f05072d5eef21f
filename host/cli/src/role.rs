//! What the candidates of this process are at the moment, on standard error, for whoever sends
//! SIGUSR1.

use super::complaint::printable;
use super::log;
use super::log::Format;
use super::output::eprint;
use super::signals::StatusSignal;
use std::fmt::Write as _;
use std::io::{Write as _, stderr};
use std::time::Duration;
use tenure::clock::{BootClock, Clock as _};
use tenure::program::server::{LastTurn, Summary};
use tenure::server::Roster;
use tokio::task::spawn_blocking;

/// Answers each signal. Never ends.
pub(super) async fn on_signal(
    signal: &mut StatusSignal,
    roster: &Roster,
    clock: &BootClock,
    format: Format,
) {
    answer(signal, roster, clock, format, write).await;
}

/// Tells by `write`, on a thread of its own: standard error may be a pipe that nobody reads, and other signals are heard
/// meanwhile.
async fn answer(
    signal: &mut StatusSignal,
    roster: &Roster,
    clock: &BootClock,
    format: Format,
    write: impl Fn(&str, Format) + Clone + Send + 'static,
) {
    loop {
        signal.next().await;
        let now = clock.now();
        let summaries = roster.boards().into_iter().map(|board| board.summary(now));
        let texts = summaries.map(|summary| match format {
            Format::Text => text(&summary),
            Format::Json => log::json_line(&summary).unwrap_or_default() + "\n",
        });
        let texts: Vec<_> = texts.collect();
        let text = texts.join(if format == Format::Text { "\n" } else { "" });
        let write = write.clone();
        let _ = spawn_blocking(move || write(&text, format)).await;
    }
}

fn write(text: &str, format: Format) {
    match format {
        Format::Text => eprint(text),
        // Its lines must stay as they are. Nobody reading them is no reason to fail.
        Format::Json => drop(stderr().write_all(text.as_bytes())),
    }
}

/// What a candidate is, in few words.
pub(super) fn words(summary: &Summary) -> String {
    let term = |term: u64| format!("term {term}");
    match (summary.role, &summary.leader) {
        ("leading", Some(leader)) => format!("leading, {}", term(leader.term)),
        ("following", Some(leader)) => {
            format!("following {}, {}", printable(&leader.name), term(leader.term))
        }
        ("following", None) => "following, the leader's name is not known".to_owned(),
        ("left", _) => "it has left the election".to_owned(),
        _ => "no known leader".to_owned(),
    }
}

fn text(summary: &Summary) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<10} {}", printable(value));
    };
    row("election", &summary.election);
    row("candidate", &summary.candidate);
    let left = summary.valid_for_ms.map(Duration::from_millis);
    let left = left.map(|left| format!(", to be renewed within {:.1} s", left.as_secs_f64()));
    row("role", &(words(summary) + &left.unwrap_or_default()));
    row("last turn", &summary.turn.as_ref().map_or_else(|| "none yet".to_owned(), turn));
    let problem = summary.problem.as_ref().map(|told| format!("{}: {}", told.class, told.detail));
    let failing = (summary.failed_turns > 0).then(|| match summary.failed_turns {
        1 => "the last turn did not succeed".to_owned(),
        turns => format!("the last {turns} turns did not succeed"),
    });
    let problems: Vec<_> = failing.into_iter().chain(problem).collect();
    let problems = if problems.is_empty() { "none".to_owned() } else { problems.join("; ") };
    row("problem", &problems);
    if !summary.running {
        row("loop", "it is stalled");
    }
    text
}

fn turn(LastTurn { slot, trigger, outcome, elapsed_ms, detail, .. }: &LastTurn) -> String {
    let slot = trigger.as_ref().map_or_else(|| slot.clone(), |id| format!("trigger {id}"));
    let detail = detail.as_ref().map(|detail| format!(": {detail}")).unwrap_or_default();
    match (outcome, elapsed_ms) {
        (Some(outcome), Some(ms)) => format!("{slot} {outcome} after {ms} ms{detail}"),
        _ => format!("{slot} is running"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn summary(value: &Value) -> Summary {
        let leader = value["leader"].as_str().map(|name| tenure::program::server::Leader {
            name: name.to_owned(),
            term: 7,
            address: None,
            since: None,
        });
        Summary {
            election: "jobs/a".to_owned(),
            candidate: "ada".to_owned(),
            role: match value["role"].as_str().unwrap() {
                "leading" => "leading",
                "following" => "following",
                _ => "undecided",
            },
            leader,
            valid_for_ms: value["valid_for_ms"].as_u64(),
            turn: None,
            outlook: Default::default(),
            failed_turns: 0,
            problem: None,
            blocked: None,
            running: true,
            begun: true,
            failing: false,
        }
    }

    /// Whoever should read it does not: what else is waited for comes all the same.
    #[cfg(unix)]
    #[tokio::test]
    async fn nothing_waits_for_what_is_written() {
        use std::sync::atomic::{AtomicBool, Ordering};
        use std::sync::{Arc, Mutex};
        let (clock, mut signal) = (BootClock::new(), StatusSignal::new().unwrap());
        let roster = Roster::new(&clock).unwrap();
        let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
        let (release, released) = std::sync::mpsc::channel();
        let (told, released) = (Arc::new(AtomicBool::new(false)), Mutex::new(released));
        let (write, written) = (Arc::new(released), told.clone());
        let write = move |_: &str, _| {
            let _ = begun.send(());
            let waited = write.lock().unwrap().recv_timeout(Duration::from_secs(20));
            written.store(waited.is_ok(), Ordering::Relaxed);
            let _ = begun.send(());
        };
        let own = rustix::process::getpid();
        rustix::process::kill_process(own, rustix::process::Signal::USR1).unwrap();
        tokio::select! {
            () = answer(&mut signal, &roster, &clock, Format::Text, write) => {}
            () = async {
                begins.recv().await;
                let _ = release.send(());
                begins.recv().await;
            } => {}
        }
        assert!(told.load(Ordering::Relaxed));
    }

    #[test]
    fn a_leader_is_told_with_what_is_left() {
        let leading = json!({ "role": "leading", "leader": "ada", "valid_for_ms": 11_250 });
        let mut summary = summary(&leading);
        summary.turn = Some(LastTurn {
            slot: "2026-11-20T08:36:55Z".to_owned(),
            trigger: None,
            term: 7,
            outcome: Some("succeeded".to_owned()),
            elapsed_ms: Some(12),
            detail: None,
        });
        assert_eq!(
            text(&summary),
            "election   jobs/a\n\
             candidate  ada\n\
             role       leading, term 7, to be renewed within 11.2 s\n\
             last turn  2026-11-20T08:36:55Z succeeded after 12 ms\n\
             problem    none\n"
        );
    }

    #[test]
    fn turns_that_fail_are_a_problem() {
        let leading = json!({ "role": "leading", "leader": "ada", "valid_for_ms": 11_250 });
        let mut summary = summary(&leading);
        summary.failed_turns = 3;
        summary.turn = Some(LastTurn {
            slot: "2026-11-20T08:36:55Z".to_owned(),
            trigger: None,
            term: 7,
            outcome: Some("failed".to_owned()),
            elapsed_ms: Some(12),
            detail: Some("no paper".to_owned()),
        });
        let told = text(&summary);
        let turn = "last turn  2026-11-20T08:36:55Z failed after 12 ms: no paper\n";
        assert!(told.contains(turn), "{told}");
        assert!(told.ends_with("problem    the last 3 turns did not succeed\n"), "{told}");
        summary.problem =
            Some(tenure::program::server::Told { class: "refused", detail: "look".to_owned() });
        summary.failed_turns = 1;
        let told = text(&summary);
        let problem = "problem    the last turn did not succeed; refused: look\n";
        assert!(told.ends_with(problem), "{told}");
    }

    #[test]
    fn whoever_does_not_lead_says_whom_it_follows() {
        let mut followed = summary(&json!({ "role": "following", "leader": "b\n" }));
        followed.running = false;
        let text = text(&followed);
        assert!(text.contains("role       following b\\n, term 7\n"), "{text}");
        assert!(text.contains("last turn  none yet\n"), "{text}");
        assert!(text.ends_with("loop       it is stalled\n"), "{text}");
        assert_eq!(words(&summary(&json!({ "role": "" }))), "no known leader");
    }
}
