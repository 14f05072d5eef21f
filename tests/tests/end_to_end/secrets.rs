//! No secret ever appears in output: runs every subcommand and every failure with recognisable
//! secrets.

use crate::PROGRAM;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use tenure_store::{Account, KeyName};
use tenure_tests::identity::{Endpoint, Expected, Reply};
use tenure_tests::{BEAT_HANDLER, Group, Sink, Store};

const TIMEOUT: Duration = tenure_tests::PATIENCE;

/// A key in the portal's form; the test also searches for its parts.
const KEY: &str = "TGVha2VkS2V5MUxlYWtlZEtleTJMZWFrZWRLZXkzTGVha2VkS2V5NExlYWtlZEtleTVMZWFrZWRLZXk2TGVha2VkS2V5Nw==";
const SIGNATURE: &str = "TGVha2VkU2lnbmF0dXJlTGVha2VkU2lnbmF0dXJlMTI=";
const TOKEN: &str = "eyJ0eXAiOiJKV1QifQ.TGVha2VkVG9rZW4.TGVha2VkVG9rZW4";
const CLIENT_SECRET: &str = "LeK8Q~LeakedClientSecret0123456789abcdef";
const HEADER: &str = "1EAKEDHEADER4000A000000000000000";
const TICK_TOKEN: &str = "LeakedTickToken0123456789LeakedTickToken";
const WEBHOOK_SECRET: &str = "whsec_TGVha2VkSG9va1NlY3JldExlYWtlZEhvb2s=";
const WEBHOOK_TOKEN: &str = "LeakedHookToken0123456789LeakedHookToken";

/// Fragments of secrets that must not appear, each long enough to recognise.
const SECRET_FRAGMENTS: [&str; 9] = [
    KEY_PART,
    "TGVha2VkU2ln",
    "TGVha2VkVG9r",
    "LeakedClient",
    "1EAKEDHEADER",
    "LeakedTick",
    "TGVha2VkSG9v",
    "LeakedHook",
    "LeakedKey",
];
const KEY_PART: &str = "TGVha2VkS2V5";

fn sas() -> String {
    format!("sp=rcw&se=2099-01-01T00%3A00%3A00Z&spr=https,http&sv=2022-11-02&sr=c&sig={SIGNATURE}")
}

/// Returns the secrets by variable.
fn secrets(origin: &str) -> Vec<(&'static str, String)> {
    vec![
        (
            "AZURE_STORAGE_CONNECTION_STRING",
            format!(
                "AccountName=devstoreaccount1;AccountKey={KEY};BlobEndpoint={origin}/devstoreaccount1"
            ),
        ),
        ("AZURE_STORAGE_KEY", KEY.into()),
        ("AZURE_STORAGE_SAS_TOKEN", sas()),
        ("AZURE_STORAGE_AUTH_TOKEN", TOKEN.into()),
        ("AZURE_CLIENT_SECRET", CLIENT_SECRET.into()),
        ("IDENTITY_HEADER", HEADER.into()),
        ("TENURE_TICK_TOKEN", TICK_TOKEN.into()),
        ("TENURE_HANDLER_SECRET", WEBHOOK_SECRET.into()),
        ("TENURE_HANDLER_TOKEN", WEBHOOK_TOKEN.into()),
    ]
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).stdin(Stdio::null());
    for (name, _) in std::env::vars() {
        if ["AZURE_", "TENURE_", "IDENTITY_"].iter().any(|prefix| name.starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command.env("RUST_BACKTRACE", "full");
    command
}

fn assert_no_secret(context: &str, text: &str) {
    for fragment in SECRET_FRAGMENTS {
        assert!(!text.contains(fragment), "{context} shows a secret ({fragment}): {text}");
    }
}

/// Runs a command to completion, and checks all its output.
fn run(context: &str, mut command: Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let [out, err] = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let output_text = format!("{out}{err}");
    assert_no_secret(context, &output_text);
    assert!(status.code().is_some(), "{context}: {status}: {output_text}");
    output_text
}

const RUN: [&str; 6] = ["run", "leases/leader", "--every", "1h", "--handler", BEAT_HANDLER];

#[test]
fn secrets_in_the_wrong_variable_are_not_shown() {
    let variables = [
        "AZURE_STORAGE_CONNECTION_STRING",
        "AZURE_STORAGE_CONNECTION_STRING_FILE",
        "AZURE_STORAGE_ACCOUNT",
        "AZURE_STORAGE_SERVICE_ENDPOINT",
        "AZURE_STORAGE_KEY",
        "AZURE_STORAGE_KEY_FILE",
        "AZURE_STORAGE_SAS_TOKEN",
        "AZURE_STORAGE_AUTH_TOKEN",
        "AZURE_CLIENT_ID",
        "AZURE_TENANT_ID",
        "AZURE_AUTHORITY_HOST",
        "AZURE_FEDERATED_TOKEN_FILE",
        "IDENTITY_ENDPOINT",
        "TENURE_ELECTION",
        "TENURE_LEASE",
        "TENURE_EVERY",
        "TENURE_CRON",
        "TENURE_TIME_ZONE",
        "TENURE_DELIVERY",
        "TENURE_MISSED",
        "TENURE_MAX_FAILURES",
        "TENURE_GRACE",
        "TENURE_MEMORY_LIMIT",
        "TENURE_STOP_TIME",
        "TENURE_CA_FILE",
        "TENURE_HANDLER_URL",
        "TENURE_HANDLER_TIMEOUT",
        "TENURE_HANDLER_CA_FILE",
        "TENURE_HANDLER_TOKEN",
        "TENURE_HANDLER_TOKEN_FILE",
        "TENURE_HANDLER_SECRET",
        "TENURE_HANDLER_SECRET_FILE",
    ];
    let webhook = ["run", "--webhook", "http://127.0.0.1:9/"];
    for name in variables {
        for (source_variable, secret) in secrets("http://127.0.0.1:1") {
            let webhook_args = Some(&webhook[..]).filter(|_| name.starts_with("TENURE_HANDLER_"));
            let subcommands = [&["run", "--handler", BEAT_HANDLER][..], &["status"]];
            for subcommand in subcommands.into_iter().chain(webhook_args) {
                // Another setting is invalid, so that the command ends.
                let mut command = command(subcommand);
                command.env("TENURE_POLL", "never").env(name, &secret);
                run(&format!("{subcommand:?} with {name} = {source_variable}"), command);
            }
        }
    }
}

#[test]
fn secrets_in_the_wrong_option_are_not_shown() {
    let secrets = secrets("http://127.0.0.1:1");
    for option in [
        "--connection-string-file",
        "--ca-file",
        "--handler",
        "--webhook",
        "--webhook-timeout",
        "--webhook-ca-file",
        "--webhook-token-file",
        "--webhook-secret-file",
        "--lease",
        "--every",
        "--cron",
        "--time-zone",
        "--allow-host",
        "--env",
        "--memory-limit",
        "--stop-time",
        "--grace",
        "--missed",
        // The separator before a command.
        "--",
    ] {
        for (source_variable, secret) in &secrets {
            let mut command = command(&["run", "--poll", "never", option, secret]);
            if option.starts_with("--webhook-") {
                command.args(["--webhook", "http://127.0.0.1:9/"]);
            }
            command.env("TENURE_LOG", "json");
            run(&format!("{option} {source_variable}"), command);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_and_failures_show_no_secret() {
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let group = Group::new(PROGRAM, &store, &sink);
    group.warm_up().await.unwrap();
    let origin = group.connection_string.split("BlobEndpoint=").nth(1).unwrap();
    let origin = origin.trim_end_matches(';').trim_end_matches("/devstoreaccount1").to_owned();
    let app = Expected::AppService { path: "/msi".into(), header: HEADER.into(), client_id: None };
    let identity = Endpoint::start(app).await.unwrap();
    let error_reply = Reply::text(400, &format!(r#"{{"message":"no identity of {HEADER} here"}}"#));
    identity.set_default_reply(error_reply.clone());
    let endpoint = format!("{origin}/devstoreaccount1");
    let credential_sets: Vec<Vec<(&str, String)>> = vec![
        vec![secrets(&origin)[0].clone()],
        vec![
            ("AZURE_STORAGE_ACCOUNT", "devstoreaccount1".into()),
            ("AZURE_STORAGE_SERVICE_ENDPOINT", endpoint.clone()),
            ("AZURE_STORAGE_KEY", KEY.into()),
        ],
        vec![
            ("AZURE_STORAGE_SERVICE_ENDPOINT", endpoint.clone()),
            ("AZURE_STORAGE_SAS_TOKEN", sas()),
        ],
        vec![("AZURE_STORAGE_SAS_TOKEN", format!("{endpoint}/leases?{}", sas()))],
        vec![
            ("AZURE_STORAGE_SERVICE_ENDPOINT", endpoint.clone()),
            ("AZURE_STORAGE_AUTH_TOKEN", TOKEN.into()),
        ],
        vec![
            ("AZURE_STORAGE_SERVICE_ENDPOINT", endpoint.clone()),
            ("AZURE_TENANT_ID", "t".into()),
            ("AZURE_CLIENT_ID", "c".into()),
            ("AZURE_CLIENT_SECRET", CLIENT_SECRET.into()),
            ("AZURE_AUTHORITY_HOST", identity.origin()),
        ],
        vec![
            ("AZURE_STORAGE_SERVICE_ENDPOINT", endpoint.clone()),
            ("IDENTITY_ENDPOINT", identity.url()),
            ("IDENTITY_HEADER", HEADER.into()),
        ],
        // An address without a listener.
        vec![secrets("http://127.0.0.1:9")[0].clone()],
    ];
    for variables in credential_sets {
        for subcommand in [
            &["status", "leases/leader"][..],
            &["status", "leases/leader", "--json"],
            &["status", "--history", "leases/leader"],
            &["check", "leases/leader"],
            &["check", "leases/leader", "--json"],
            &["reset-slot", "leases/leader", "--yes"],
            &["check", "leases/leader", "--every", "1h", "--", "/bin/sh"],
            &["check", "leases/leader", "--every", "1h", "--json", "--", "/bin/sh"],
        ] {
            let mut command = command(subcommand);
            command.envs(variables.iter().map(|(name, value)| (name, value)));
            command.env("TENURE_REQUEST_TIMEOUT", "1s");
            let output_text = tokio::task::spawn_blocking({
                let context = format!("{subcommand:?}, {:?}", variables[0].0);
                move || run(&context, command)
            });
            assert!(!output_text.await.unwrap().is_empty());
        }
        for log in ["text", "json"] {
            let mut command = command(&RUN);
            command.args(["--log", log]).envs(variables.iter().map(|(name, value)| (name, value)));
            command.env("TENURE_REQUEST_TIMEOUT", "1s").args(["--listen", "127.0.0.1:0"]);
            let output_text = run_until_problem(command).await;
            assert_no_secret(&format!("run --log {log}, {:?}", variables[0].0), &output_text);
        }
    }
    let token_requests =
        identity.requests().into_iter().filter(|request| request.path == "/msi").count();
    assert!(token_requests >= 2, "the answer that repeats the secret was given: {token_requests}");
}

/// Runs a candidate until it reports a problem, fetches all its HTTP pages, and ends it.
async fn run_until_problem(command: Command) -> String {
    use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
    let mut command = tokio::process::Command::from(command);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut output_text = String::new();
    let problem = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            output_text.push_str(&line);
            output_text.push('\n');
            if line.contains("problem") {
                return;
            }
        }
    };
    tokio::time::timeout(TIMEOUT, problem).await.expect("it reports a problem");
    let address = output_text.split("listening on http://").nth(1).expect("it listens");
    let address: String = address.chars().take_while(|c| !c.is_whitespace() && *c != '"').collect();
    let client = tenure_tests::certificates::client(None).unwrap();
    for page in ["healthz", "readyz", "leader", "history", "metrics"] {
        let answer = client.get(format!("http://{address}/{page}")).send().await.unwrap();
        output_text.push_str(&answer.text().await.unwrap());
    }
    assert!(output_text.contains("tenure_problems_total"), "the figures are there: {output_text}");
    child.kill().await.unwrap();
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).await.unwrap();
    assert!(output_text.contains("problem"), "{output_text}{stderr}");
    output_text + &stderr
}

#[test]
fn debug_output_shows_no_secret() {
    let settings = tenure::engine::Variables::new().with("AZURE_STORAGE_KEY", KEY);
    let account = Account::new("tenure", &[KEY]).unwrap();
    let printed =
        format!("{settings:?} {settings:#?} {account:?} {account:#?} {:?}", KeyName::Key1);
    assert_no_secret("Debug", &printed);
}
