//! Ends of turns that would run forever, and of turns that fail.

use std::time::Duration;

use tenure::handler::TurnEnd;
use tenure_clock::Clock;

use super::stage::{LONG, Stage, trap_text};

#[tokio::test]
async fn spinning_ends_at_the_deadline_and_not_before() {
    for mode in ["spin", "spin-clock"] {
        let stage = Stage::new(mode, None);
        let deadline = stage.clock.now() + Duration::from_secs(1);
        assert_eq!(stage.run_turn_for(Duration::from_secs(1)).await, TurnEnd::CutOff, "{mode}");
        assert!(stage.clock.now() >= deadline, "{mode}");
        assert_eq!(stage.lines(), ["begins"], "{mode}");
    }
}

#[tokio::test]
async fn spinning_before_the_turn_ends_at_the_deadline_too() {
    let stage = Stage::new("spin-at-start", None);
    assert_eq!(stage.run_turn_for(Duration::from_secs(1)).await, TurnEnd::CutOff);
    assert_eq!(stage.lines(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spinning_ends_when_the_clock_jumps_past_the_deadline() {
    for mode in ["spin", "spin-clock", "flood"] {
        let stage = Stage::new(mode, None);
        let jump = async {
            stage.wait_for_line(|line| line == "begins").await;
            stage.clock.jump(LONG);
        };
        let (end, ()) = tokio::join!(stage.run_turn(), jump);
        assert_eq!(end, TurnEnd::CutOff, "{mode}");
    }
}

#[tokio::test]
async fn panic_is_a_trap_with_logged_message() {
    let stage = Stage::new("trap", None);
    let text = trap_text(stage.run_turn().await);
    assert_eq!(text, "it panicked or aborted; its standard error may say why");
    assert!(stage.lines().iter().any(|line| line == "on purpose"), "{:?}", stage.lines());
}

#[tokio::test]
async fn trap_before_turn_counts_for_the_turn() {
    let stage = Stage::new("trap-at-start", None);
    let text = trap_text(stage.run_turn().await);
    assert!(text.starts_with("it panicked or aborted"), "{text}");
    assert_eq!(stage.lines(), [""; 0]);
}

#[tokio::test]
async fn endless_recursion_is_a_trap() {
    let text = trap_text(Stage::new("deep", None).run_turn().await);
    assert_eq!(text, "its calls nest too deeply: the stack is full");
}

#[tokio::test]
async fn an_error_is_a_failed_turn() {
    let end = Stage::new("fail", None).run_turn().await;
    assert_eq!(end, TurnEnd::Failed("on purpose".to_owned()));
}
