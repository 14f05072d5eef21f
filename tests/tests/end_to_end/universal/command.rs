//! Entry points for commands and for Spin's cron trigger.

use ::http::StatusCode;
use serde_json::Value;
use tenure_tests::Platform;
use tenure_tests::platform::ClockOffset;
use tenure_wasmtime::compose::UNIVERSAL_COMPONENT;

use super::world::World;

async fn run(platform: &Platform) -> (bool, Value) {
    let (succeeded, stdout) = platform.run().await.unwrap();
    let line = stdout.strip_suffix('\n').expect("one line");
    (succeeded, serde_json::from_str(line).expect("of JSON"))
}

#[tokio::test]
async fn run_takes_one_turn_with_exit_code() {
    let world = World::new(&[("TENURE_TICK_TOKEN", "")]).await;
    world.start_first_slot().await;
    let replica = world.replica("a");
    let (succeeded, json) = run(&replica).await;
    assert!(succeeded, "{json}");
    assert_eq!((&json["outcome"], &json["ran"]), (&"succeeded".into(), &true.into()));
    let (succeeded, json) = run(&replica).await;
    assert!(succeeded, "nothing due is no error");
    assert_eq!(json["outcome"], "nothing-due");
    world.time.advance(std::time::Duration::from_secs(3600));
    world.endpoint.answer_with(StatusCode::INTERNAL_SERVER_ERROR);
    let (succeeded, json) = run(&replica).await;
    assert!(!succeeded, "a failed turn is");
    assert_eq!(json["outcome"], "failed");
}

#[tokio::test]
async fn panic_message_has_text_and_position() {
    const MIB: usize = 1024 * 1024;
    // Memory suffices for the value, but not for a copy.
    let name = [("TENURE_NAME", &*"x".repeat(10 * MIB))];
    let platform = Platform::new(UNIVERSAL_COMPONENT, &name, ClockOffset::default()).unwrap();
    let words = platform.run_out_of_memory(16 * MIB).await.unwrap();
    let [place, message] = words.lines().collect::<Vec<_>>()[..] else { panic!("{words:?}") };
    assert!(place.starts_with("panicked at ") && place.contains(".rs:"), "{words}");
    assert_eq!(message, format!("memory allocation of {} bytes failed", 10 * MIB));
}

#[tokio::test]
async fn spin_cron_trigger_runs_one_turn() {
    let world = World::new(&[("TENURE_TICK_TOKEN", "")]).await;
    world.start_first_slot().await;
    let replica = world.replica("a");
    replica.call_cron().await.unwrap().unwrap();
    replica.call_cron().await.unwrap().unwrap();
    assert_eq!(world.endpoint.calls().len(), 1, "a second call in the same slot is harmless");
    world.time.advance(std::time::Duration::from_secs(3600));
    world.endpoint.answer_with(StatusCode::INTERNAL_SERVER_ERROR);
    let words = replica.call_cron().await.unwrap().unwrap_err();
    let json: Value = serde_json::from_str(&words).unwrap();
    assert_eq!(json["outcome"], "failed");
}

#[tokio::test]
async fn run_lists_all_missing_settings() {
    let unconfigured = Platform::new(UNIVERSAL_COMPONENT, &[], ClockOffset::default()).unwrap();
    let (succeeded, json) = run(&unconfigured).await;
    assert!(!succeeded);
    let complaints = json["complaints"].as_array().unwrap();
    let settings: Vec<_> = complaints.iter().map(|c| c["setting"].as_str().unwrap()).collect();
    let missing = [
        "TENURE_EVERY",
        "TENURE_ELECTION",
        "AZURE_STORAGE_CONNECTION_STRING",
        "TENURE_HANDLER_URL",
    ];
    assert_eq!(settings, missing);
}
