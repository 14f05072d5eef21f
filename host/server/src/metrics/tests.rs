use super::*;
use chrono::DateTime;
use std::collections::BTreeSet;
use std::time::SystemTime;
use tenure_core::{
    End, Ended, Exchange, ExchangeResult, NextTurn, Outcome, RequestKind, Timestamp, Turns,
};

fn board() -> Board {
    Board::new("jobs/a \"b\"", "ada\\\n", Duration::ZERO)
}

fn text_of(accept: &str, board: Board) -> String {
    exposition(accept, &[Arc::new(board)], Duration::ZERO).1
}

#[test]
fn the_older_format_names_counters_by_their_samples() {
    let labels = r#"{election="jobs/a \"b\"",candidate="ada\\\n"}"#;
    for (accept, name) in [(OPEN_METRICS, "tenure_stand_downs"), (TEXT, "tenure_stand_downs_total")]
    {
        let expected = format!(
            "# HELP {name} Leaderships that ended.\n# TYPE {name} counter\n\
             tenure_stand_downs_total{labels} 0\n# HELP "
        );
        let text = text_of(accept, board());
        assert!(text.contains(&expected), "{text}");
    }
}

#[test]
fn a_time_is_in_its_bucket_and_in_all_above() {
    let board = board();
    for took in [2_000_000, 2_000_001, 60_000_000_000].map(Duration::from_nanos) {
        let (what, result) = (RequestKind::RenewLease, ExchangeResult::Done);
        board.metrics.on_exchange(&Exchange { what, result, took });
    }
    let text = text_of(TEXT, board);
    let samples_of = |end: &str| {
        let beginning = format!("tenure_renewal_seconds_{end}{{");
        let lines = text.lines().filter(move |line| line.starts_with(&beginning));
        lines.map(|line| line.rsplit_once("candidate=\"ada\\\\\\n\"").unwrap().1)
    };
    let buckets = samples_of("bucket").map(|rest| rest.split_once("le=\"").unwrap().1);
    let buckets = buckets.collect::<Vec<_>>();
    assert_eq!(buckets.len(), renewal_bounds().count() + 1);
    assert_eq!(buckets[..3], ["0.001\"} 0", "0.002\"} 1", "0.004\"} 2"]);
    assert_eq!(buckets[14..], ["16.384\"} 2", "+Inf\"} 3"]);
    assert_eq!(samples_of("sum").collect::<Vec<_>>(), ["} 60.004000001"]);
    assert_eq!(samples_of("count").collect::<Vec<_>>(), ["} 3"]);
}

/// Detects a value that is reported under another metric's name.
#[test]
fn each_metric_has_the_value_of_its_name() {
    let board = board().with_expiry(|| DateTime::from_timestamp(4, 500_000_000));
    let ended = |second: u64, outcome| {
        let end = End { outcome, at: Timestamp(second * 1_000_000_000), took: None };
        Some(Ended { slot: Timestamp(0), triggered: false, end })
    };
    board.state().turns = Some(Turns {
        last_success: ended(1, Outcome::Succeeded),
        last_failure: ended(2, Outcome::Failed),
        failure_detail: None,
        missed: None,
        next: Some(NextTurn { slot: Timestamp(0), at: Timestamp(3_000_000_000) }),
        schedule: None,
        last_slot: None,
        finished: None,
        triggered: None,
    });
    {
        let mut counts = board.metrics.counts();
        counts.elected = 5;
        counts.stood_down = 6;
        counts.triggered = 7;
        counts.past_due = 8;
        counts.missed = 9;
        counts.refused = 10;
        counts.preempted = 11;
    }
    let text = text_of(TEXT, board);
    for (name, value) in [
        ("tenure_last_success_timestamp_seconds", "1"),
        ("tenure_last_failure_timestamp_seconds", "2"),
        ("tenure_next_turn_timestamp_seconds", "3"),
        ("tenure_credential_expires_timestamp_seconds", "4.5"),
        ("tenure_elections_won_total", "5"),
        ("tenure_stand_downs_total", "6"),
        ("tenure_turns_triggered_total", "7"),
        ("tenure_turns_past_due_total", "8"),
        ("tenure_slots_missed_total", "9"),
        ("tenure_turns_refused_total", "10"),
        ("tenure_preemptions_total", "11"),
    ] {
        let line = text.lines().find(|line| line.starts_with(&format!("{name}{{")));
        assert!(line.unwrap().ends_with(&format!("}} {value}")), "{name}: {line:?}");
    }
}

#[test]
fn an_observer_omits_leadership_metrics() {
    let of_candidate = ["is_leader", "ready", "term", "valid_for_seconds"];
    let contains_metric = |text: &str, name| text.contains(&format!("\ntenure_{name}{{"));
    let (candidate, observer) = (text_of(TEXT, board()), text_of(TEXT, board().for_observer()));
    for name in of_candidate {
        assert_eq!(
            (contains_metric(&candidate, name), contains_metric(&observer, name)),
            (true, false),
            "{name}"
        );
    }
    assert!(contains_metric(&observer, "elections_won_total"), "{observer}");
}

/// The documented table lists exactly the existing metrics.
#[test]
fn the_documentation_lists_every_metric() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/observability.md");
    let page = std::fs::read_to_string(page).unwrap();
    let documented = page.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
        let known = name.starts_with("tenure_") || name.starts_with("process_");
        known.then(|| (name.to_owned(), rest.split(' ').next().unwrap().to_owned()))
    });
    let (mut text, sample) = (String::new(), [Sample::unlabelled(Value::Integer(0))]);
    Metric::all().for_each(|metric| write_metric(&mut text, false, metric, &sample));
    let shown = text.lines().filter_map(|line| {
        let (name, kind) = line.strip_prefix("# TYPE ")?.split_once(' ')?;
        Some((name.to_owned(), kind.to_owned()))
    });
    assert_eq!(documented.collect::<BTreeSet<_>>(), shown.collect::<BTreeSet<_>>());
}

#[test]
fn open_metrics_is_sent_on_request() {
    let accept_header =
        "application/openmetrics-text;version=1.0.0;q=0.9,text/plain;version=0.0.4;q=0.5";
    for (accept, kind, ends) in [
        (accept_header, OPEN_METRICS, true),
        ("*/*", TEXT, false),
        ("text/plain", TEXT, false),
        ("", TEXT, false),
    ] {
        let (content_type, text) = exposition(accept, &[], Duration::ZERO);
        assert_eq!((content_type, text.ends_with("\n# EOF\n")), (kind, ends), "{accept}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn the_figures_are_those_of_this_process() {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
    let started = process_started_at().unwrap();
    assert!(started <= now + 1.0 && started > now - 24.0 * 3600.0, "{started}");
    assert!(resident_bytes().unwrap() > 1024 * 1024);
    let before = open_descriptors().unwrap();
    let _open_files: Vec<_> =
        (0..200).map(|_| std::fs::File::open("/proc/self/stat").unwrap()).collect();
    assert!(open_descriptors().unwrap() + 50 > before + 200, "{before}");
    let used = cpu_seconds().unwrap();
    while cpu_seconds().unwrap() <= used {}
}
