//! The same handler in three languages, each built and started with the commands of its README.

use crate::PROGRAM;
use std::fs;
use std::path::Path;
use std::time::Duration;

use tenure_tests::candidate::Line;
use tenure_tests::examples::{self, Language};
use tenure_tests::{Candidate, Reports, Store, needs, tools};
use tokio::process::Command;
use tokio::task::spawn_blocking;

/// Limit for steps without work.
const TIMEOUT: Duration = tenure_tests::PATIENCE;

/// Limit for the first start of a handler: an unoptimised program compiles megabytes first, on a
/// busy machine. The limit only guesses when a start hangs.
const COMPILE_TIMEOUT: Duration = tenure_tests::PATIENCE.saturating_mul(2);

fn new_election() -> String {
    format!("tenure-test-{}/leader", uuid::Uuid::new_v4().simple())
}

/// Starts a candidate with this handler, which reports to `url`.
fn start(store: &Store, reports: &Reports, handler: &Path, url: &str, election: &str) -> Candidate {
    let mut command = Command::new(PROGRAM);
    command
        .args(["run", "--log", "json", "--every", "1s", election, "--handler"])
        .arg(handler)
        .args(["--env", &format!("REPORT_URL={url}"), "--allow-host", &reports.host()])
        .env("AZURE_STORAGE_CONNECTION_STRING", store.connection_string());
    Candidate::spawn("ada", command).unwrap()
}

async fn assert_turns_reported(language: Language) {
    let handler = spawn_blocking(move || language.handler()).await.unwrap().unwrap();
    let store = Store::embedded().await.unwrap();
    let reports = Reports::start().await.unwrap();
    let election = new_election();
    let mut ada = start(&store, &reports, &handler, &reports.url(), &election);
    let term = ada.event("elected", COMPILE_TIMEOUT).await.term();
    let all = reports.wait_for(2, TIMEOUT).await;
    let ended = ada.event("turn-ended", TIMEOUT).await;
    assert_eq!(ended.event["outcome"], "succeeded", "{}", ada.transcript());

    let slot = all[0].json["slot"].as_str().expect("a slot").to_owned();
    assert_eq!(all[0].term, Some(term.to_string()));
    assert_eq!(all[0].election.as_deref(), Some(election.as_str()));
    // On a busy machine the turn may come late.
    let late = all[0].json["past_due"].as_bool().expect("whether it is late");
    let expected = serde_json::json!({
        "election": election, "term": term, "slot": slot, "attempt": 1, "past_due": late,
    });
    assert_eq!(all[0].json, expected);
    assert_eq!(slot, ended.event["slot"].as_str().unwrap());
    assert!(reports.turns().values().all(|count| *count == 1), "{:?}", reports.turns());
    let printed = format!("slot {slot}, term {term}");
    ada.line("line of the handler", 0, TIMEOUT, |line| line.event.to_string().contains(&printed))
        .await;
    assert!(ada.terminate(TIMEOUT).await.unwrap().success(), "{}", ada.transcript());

    // The handler's own message describes the failure.
    let missing_url = format!("http://{}/nowhere", reports.host());
    let ben = start(&store, &reports, &handler, &missing_url, &new_election());
    let ended = ben.event("turn-ended", TIMEOUT).await;
    assert_eq!(ended.event["outcome"], "failed", "{}", ben.transcript());
    assert!(ended.event.to_string().contains("answered 404"), "{}", ended.event);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn rust_example_reports_its_turns() {
    assert_turns_reported(Language::Rust).await;
}

async fn javascript_example_reports_its_turns() {
    assert_turns_reported(Language::JavaScript).await;
    // The handler is now compiled.
    assert_readme_commands_work("javascript", Language::JavaScript).await;
}

needs!(Node => async fn javascript_example_reports_its_turns);

async fn python_example_reports_its_turns() {
    assert_turns_reported(Language::Python).await;
    assert_readme_commands_work("python", Language::Python).await;
}

needs!(Python => async fn python_example_reports_its_turns);

/// Follows the README from an empty folder to a turn. The first commands created the folder and the
/// handler; the last two run a store on a free port and a candidate.
async fn assert_readme_commands_work(language: &'static str, built: Language) {
    let handler = spawn_blocking(move || built.handler()).await.unwrap().unwrap();
    let commands = examples::commands(language).unwrap();
    assert!(commands.len() <= 5, "{commands:#?}");
    let [.., serve, lead] = commands.as_slice() else { panic!("{commands:#?}") };
    let path = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(PROGRAM, path.path().join("tenure")).unwrap();
    let start = |command: &str, connection_string: &str| {
        let path = format!("{}:{}", path.path().display(), std::env::var("PATH").unwrap());
        // `exec` replaces the shell, so that the process ends when the program ends.
        let mut shell = Command::new("sh");
        shell.arg("-ec").arg(format!("exec {command}")).current_dir(handler.parent().unwrap());
        shell.env("PATH", path).env("AZURE_STORAGE_CONNECTION_STRING", connection_string);
        Candidate::spawn("newcomer", shell).unwrap()
    };

    let serve = serve.strip_suffix(" &").expect("in the background");
    let store = start(&serve.replace(":10000", ":0"), "");
    let variable = "export AZURE_STORAGE_CONNECTION_STRING='";
    let has_connection_string =
        |line: &Line| line.event.as_str().is_some_and(|line| line.starts_with(variable));
    let line = store.line("connection string", 0, TIMEOUT, has_connection_string).await;
    let served_connection_string =
        line.event.as_str().unwrap()[variable.len()..].trim_end_matches('\'').to_owned();

    let emulator = "AZURE_STORAGE_CONNECTION_STRING=UseDevelopmentStorage=true ";
    let lead = lead.strip_prefix(emulator).expect("the store of the command before");
    let newcomer = start(lead, &served_connection_string);
    let has_handler_line = |line: &Line| line.event.to_string().contains("handler     slot ");
    newcomer.line("line of the handler", 0, TIMEOUT, has_handler_line).await;
    let succeeded = |line: &Line| line.event.to_string().contains(" succeeded after ");
    newcomer.line("turn", 0, TIMEOUT, succeeded).await;
}

#[test]
fn examples_have_current_wit() {
    let repository = tools::repository();
    for file in ["types.wit", "election.wit"] {
        let original = repository.join("wit").join(file);
        for language in ["javascript", "python"] {
            let folder = repository.join("examples").join(language);
            let copy = folder.join("wit/deps/tenure-election").join(file);
            let same = fs::read(&copy).unwrap() == fs::read(&original).unwrap();
            assert!(same, "copy {} to {}", original.display(), copy.display());
        }
    }
}
