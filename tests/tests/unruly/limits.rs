//! Limits on a handler's use of host resources, each with a message that names the limit.

use tenure::handler::TurnEnd;

use super::stage::{LONG, MEMORY, Stage, trap_text};

/// Returns the peak memory of this process, in bytes.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kibibytes: usize = line.trim().trim_end_matches(" kB").parse().unwrap();
    kibibytes * 1024
}

#[tokio::test]
async fn a_leak_traps_at_its_limit() {
    let stage = Stage::new("leak", None);
    let before = peak();
    let text = trap_text(stage.run_turn().await);
    assert_eq!(text, "it needs more memory than its limit, 64 MiB");
    // Other tests run in the same process.
    let growth = peak().saturating_sub(before);
    assert!(growth < 8 * MEMORY, "{growth} bytes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_lines_is_cut_and_the_turn_goes_on() {
    let stage = Stage::new("flood", None);
    let flood = async {
        stage.wait_for_line(|line| line.contains("limit of 10000 lines a turn")).await;
        stage.clock.jump(LONG);
    };
    let (end, ()) = tokio::join!(stage.run_turn(), flood);
    assert_eq!(end, TurnEnd::CutOff);
    assert_lines_cut(&stage.lines());
}

/// Asserts that one line reports the limit, and another the number of missing lines at the end. No
/// lines are missing if the turn ended with the line that met the limit.
fn assert_lines_cut(lines: &[String]) {
    assert!(lines[10_000].contains("limit of 10000 lines a turn"), "{}", lines[10_000]);
    let after = &lines[10_001..];
    let only_drop_notices = after.iter().all(|line| line.ends_with("of the handler were dropped"));
    assert!(only_drop_notices && after.len() <= 1, "{after:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_requests_are_limited_in_the_log() {
    const REFUSED: &str = "tenure: a request to http://127.0.0.1:9 is not allowed; to allow it, give --allow-host 127.0.0.1:9";
    let stage = Stage::new("refused", None);
    let flood = async {
        let refused = |lines: &[String]| lines.iter().filter(|line| *line == REFUSED).count();
        let limit_reached =
            |lines: &[String]| lines.last().is_some_and(|line| line.contains("limit of"));
        stage.wait_for_lines(|lines| refused(lines) > 12_000 || limit_reached(lines)).await;
        stage.clock.jump(LONG);
    };
    let (end, ()) = tokio::join!(stage.run_turn(), flood);
    assert_eq!(end, TurnEnd::CutOff);
    assert_lines_cut(&stage.lines());
}

#[tokio::test]
async fn host_resources_of_a_handler_are_bounded() {
    let traps = [
        ("flood-at-once", "too much data"),
        ("headers", "too much data"),
        ("random", "exceeds limit"),
        ("handles", "it holds too many of the host's resources"),
        ("many-headers", "it used more than 32 MiB of the host's memory for headers"),
        ("many-requests", "it used more than 32 MiB of the host's memory for headers"),
    ];
    for (mode, expected) in traps {
        let stage = Stage::new(mode, None);
        let before = peak();
        let text = trap_text(stage.run_turn().await);
        assert!(text.contains(expected), "{mode}: {text}");
        let growth = peak().saturating_sub(before);
        assert!(growth < 8 * MEMORY, "{mode}: {growth} bytes");
    }
}

#[tokio::test]
async fn a_long_error_is_cut() {
    match Stage::new("fail-at-length", None).run_turn().await {
        TurnEnd::Failed(text) => assert!(text.len() < 10_000, "{} bytes", text.len()),
        other => panic!("{other:?}"),
    }
}
