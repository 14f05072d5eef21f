//! Commands that exceed their time limit while their runner continues to lead.

use std::time::Duration;

use super::stage::{BEATER, FAMILY_MODE, Stage, TIMEOUT, turn_ended};

const LIMITED: [&str; 4] = ["--turn-timeout", "4s", "--stop-time", "2s"];

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn command_handling_sigterm_ends_at_time_limit() {
    let stage = Stage::new().await;
    let script = "trap 'echo told; exit 0' TERM; while :; do sleep 0.05; done";
    let candidate = stage.start("ada", &LIMITED, &["sh", "-c", script]);
    let ended = turn_ended(&candidate, 0).await;
    // The exit code is irrelevant: the command did not finish.
    assert_eq!(ended.event["outcome"], "timed-out", "{}", candidate.transcript());
    assert!(ended.event["elapsed_ms"].as_u64().unwrap() >= 4_000, "{}", ended.event);
    // Its shell also prints a message about the signal.
    let printed_on_term = |line: &tenure_tests::Line| line.event["line"] == "told";
    candidate.line("word of its own", 0, TIMEOUT, printed_on_term).await;
    let stood_down = candidate.event("stood-down", TIMEOUT).await;
    assert_eq!(stood_down.event["reason"], "work-failed");
}

/// Uses a time limit below the stop time.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn command_has_stop_time_after_time_limit() {
    let stage = Stage::new().await;
    let script = "trap 'sleep 2; echo clean; exit 0' TERM; while :; do sleep 0.05; done";
    let limited = ["--turn-timeout", "4s", "--stop-time", "7s"];
    let candidate = stage.start("ada", &limited, &["sh", "-c", script]);
    let ended = turn_ended(&candidate, 0).await;
    assert_eq!(ended.event["outcome"], "timed-out", "{}", candidate.transcript());
    let clean = |line: &tenure_tests::Line| line.event["line"] == "clean";
    assert!(candidate.lines().iter().any(clean), "{}", candidate.transcript());
    let problem =
        |line: &tenure_tests::Line| line.event.to_string().contains("took longer than 4s");
    candidate.line("reason", 0, TIMEOUT, problem).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn command_has_time_to_clean_up_when_candidate_leaves() {
    let stage = Stage::new().await;
    let script = "trap 'sleep 1; echo clean; exit 0' TERM; echo up; while :; do sleep 0.05; done";
    let mut candidate = stage.start("ada", &[], &["sh", "-c", script]);
    candidate.event("handler", TIMEOUT).await;
    assert!(candidate.terminate(TIMEOUT).await.unwrap().success(), "{}", candidate.transcript());
    assert_eq!(turn_ended(&candidate, 0).await.event["outcome"], "cut-off");
    let clean = |line: &tenure_tests::Line| line.event["line"] == "clean";
    assert!(candidate.lines().iter().any(clean), "{}", candidate.transcript());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn command_ignoring_sigterm_is_killed_with_children_in_time() {
    let stage = Stage::new().await;
    let candidate = stage.start("ada", &LIMITED, &[BEATER, FAMILY_MODE]);
    let started = candidate.event("turn-started", TIMEOUT).await;
    stage.wait_for_family_beats(started.term()).await;
    let ended = turn_ended(&candidate, 0).await;
    assert_eq!(ended.event["outcome"], "timed-out", "{}", candidate.transcript());
    stage.assert_ended_in_time(&candidate, started.term());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn command_outside_its_process_group_is_killed() {
    let stage = Stage::new().await;
    let candidate = stage.start("ada", &LIMITED, &[BEATER, "moves"]);
    let term = candidate.event("turn-started", TIMEOUT).await.term();
    stage.wait_for_beat(term, 0).await;
    let ended = turn_ended(&candidate, 0).await;
    assert_eq!(ended.event["outcome"], "timed-out", "{}", candidate.transcript());
    stage.assert_ended_in_time(&candidate, term);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn background_children_are_killed_when_command_ends() {
    let stage = Stage::new().await;
    let mut candidate = stage.start("ada", &[], &[BEATER, FAMILY_MODE, "leave"]);
    let started = candidate.event("turn-started", TIMEOUT).await;
    stage.wait_for_family_beats(started.term()).await;
    let ended = turn_ended(&candidate, 0).await;
    assert_eq!(ended.event["outcome"], "succeeded", "{}", candidate.transcript());
    let line_count = candidate.lines().len();
    turn_ended(&candidate, line_count).await;
    assert!(candidate.terminate(TIMEOUT).await.unwrap().success(), "{}", candidate.transcript());
    // The beats of a slot end before those of the next one begin.
    let slots: Vec<_> = stage.sink.beats().iter().map(|beat| beat.slot).collect();
    assert!(slots.is_sorted() && slots.first() < slots.last(), "{slots:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn long_command_runs_on_while_lease_is_renewed() {
    let stage = Stage::new().await;
    let mut candidate = stage.start("ada", &[], &[BEATER, FAMILY_MODE]);
    let started = candidate.event("turn-started", TIMEOUT).await;
    // Longer than one validity.
    let at = started.at + Duration::from_secs(14);
    let late_beat = stage.sink.wait_for_beat(|beat| beat.received_at >= at && beat.beat == 0);
    tokio::time::timeout(TIMEOUT, late_beat).await.unwrap();
    assert_eq!(candidate.count("turn-ended"), 0, "{}", candidate.transcript());
    let line_count = candidate.lines().len();
    assert!(candidate.terminate(TIMEOUT).await.unwrap().success(), "{}", candidate.transcript());
    assert_eq!(turn_ended(&candidate, line_count).await.event["outcome"], "cut-off");
}

#[cfg(target_os = "linux")]
mod unwatched {
    use super::super::processes::{is_alive, supervisor};
    use super::*;
    use rustix::process::{Pid, Signal, kill_process};

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_command_does_not_outlive_its_watchdog() {
        let stage = Stage::new().await;
        let candidate = stage.start("ada", &[], &[BEATER, "stray"]);
        let term = candidate.event("turn-started", TIMEOUT).await.term();
        let family = stage.wait_for_family_beats(term).await;
        assert!(family.iter().all(|pid| is_alive(*pid)), "the command and its children run");
        kill_process(supervisor(&candidate), Signal::KILL).unwrap();
        let ended = turn_ended(&candidate, 0).await;
        assert_eq!(ended.event["outcome"], "trapped", "{}", candidate.transcript());
        let detail = ended.event["detail"].as_str().unwrap();
        assert!(detail.contains("because the process that supervises it was killed"), "{detail}");
        assert!(!family.iter().any(|pid| is_alive(*pid)), "all are dead before the turn is over");
        stage.assert_ended_in_time(&candidate, term);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_command_that_left_its_group_does_not_outlive_its_watchdog() {
        let stage = Stage::new().await;
        let candidate = stage.start("ada", &[], &[BEATER, "moves"]);
        let term = candidate.event("turn-started", TIMEOUT).await.term();
        let pid =
            Pid::from_raw(stage.wait_for_beat(term, 0).await.pid.try_into().unwrap()).unwrap();
        assert!(is_alive(pid), "the command runs");
        kill_process(supervisor(&candidate), Signal::KILL).unwrap();
        let ended = turn_ended(&candidate, 0).await;
        assert_eq!(ended.event["outcome"], "trapped", "{}", candidate.transcript());
        assert!(!is_alive(pid), "it is dead before the turn is over");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn stopped_watchdog_does_not_keep_command_alive() {
        let stage = Stage::new().await;
        let candidate = stage.start("ada", &LIMITED, &[BEATER, "kin"]);
        let started = candidate.event("turn-started", TIMEOUT).await;
        stage.wait_for_beat(started.term(), 1).await;
        let supervisor = supervisor(&candidate);
        kill_process(supervisor, Signal::STOP).unwrap();
        // The command is dead, but the runner cannot observe that, so it releases nothing.
        let problem = candidate.event("problem", TIMEOUT).await;
        assert_eq!(problem.event["class"], "work", "{}", problem.event);
        assert_eq!(candidate.count("turn-ended"), 0, "{}", candidate.transcript());
        stage.assert_ended_in_time(&candidate, started.term());
        kill_process(supervisor, Signal::CONT).unwrap();
        assert_eq!(turn_ended(&candidate, 0).await.event["outcome"], "timed-out");
    }
}
