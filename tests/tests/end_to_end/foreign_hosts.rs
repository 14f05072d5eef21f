//! The shipped components without our runner: on wasmtime from PyPI, wasmtime's own program, jco
//! and workerd, against Azurite. The same file also runs on our runner.

use crate::PROGRAM;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use chrono::{DateTime, FixedOffset};
use serde_json::Value;
use tenure::engine::{AllowList, Runner, Variables};
use tenure_clock::BootClock;
use tenure_tests::cloudflare::Worker;
use tenure_tests::examples::Language;
use tenure_tests::foreign::{self, Server};
use tenure_tests::{Candidate, Reports, Store, examples, needs, tools};
use tenure_wasmtime::{ComponentHandler, ElectionComponent, Engine, Options};
use tokio::process::Command;
use tokio::task::spawn_blocking;

const TIMEOUT: Duration = tenure_tests::PATIENCE;
pub(super) const TOKEN: &str = "only-for-tests";

pub(super) fn component(name: &str) -> PathBuf {
    examples::components().unwrap().join(name)
}

/// A store, an endpoint, and the common settings of all invocations of one election.
pub(super) struct Scene {
    store: Store,
    pub(super) reports: Reports,
    election: String,
    every: &'static str,
}

impl Scene {
    pub(super) async fn new(every: &'static str) -> Self {
        let store = Store::azurite().await.unwrap();
        let reports = Reports::start().await.unwrap();
        Self { store, reports, election: "tenure-test/leader".into(), every }
    }

    /// Returns all settings, for the built-in webhook and for a handler.
    fn settings(&self) -> BTreeMap<&'static str, String> {
        BTreeMap::from([
            ("TENURE_ELECTION", self.election.clone()),
            ("TENURE_EVERY", self.every.into()),
            ("TENURE_TICK_TOKEN", TOKEN.into()),
            ("TENURE_HANDLER_URL", self.reports.url()),
            ("REPORT_URL", self.reports.url()),
            ("AZURE_STORAGE_CONNECTION_STRING", self.store.connection_string()),
        ])
    }

    /// Returns a command that runs `run.py` on this component.
    pub(super) async fn wasmtime(&self, component: &Path) -> Command {
        self.python("run.py", component).await
    }

    async fn python(&self, script: &'static str, component: &Path) -> Command {
        let component = component.to_owned();
        let made = spawn_blocking(move || foreign::wasmtime_script(script, &component)).await;
        let mut command = made.unwrap().unwrap();
        command.envs(self.settings());
        command
    }

    async fn jco(&self, verb: &'static str, component: &Path) -> Command {
        let component = component.to_owned();
        let made = spawn_blocking(move || foreign::jco_command(verb, &component)).await;
        let mut command = made.unwrap().unwrap();
        command.envs(self.settings());
        command
    }

    /// Returns a command of wasmtime's own program.
    async fn program(&self, arguments: &[&str]) -> Command {
        let program = spawn_blocking(foreign::wasmtime_program).await.unwrap().unwrap();
        let mut command = Command::new(program);
        command.args(arguments).envs(self.settings());
        for name in self.settings().keys() {
            command.args(["--env", name]);
        }
        command.current_dir(tools::repository());
        command
    }

    /// Starts `wasmtime serve`.
    pub(super) async fn serve_by_wasmtime(&self, component: &Path, url: &str) -> Server {
        let mut wasmtime = self.program(&["serve", "-S", "cli"]).await;
        wasmtime.env("TENURE_HANDLER_URL", url);
        let listen = |port: u16| {
            wasmtime.args(["--addr", &format!("127.0.0.1:{port}")]).arg(component);
            wasmtime
        };
        Server::start(listen).await.unwrap()
    }

    /// Starts `jco serve`.
    pub(super) async fn serve_by_jco(&self, component: &Path, url: &str) -> Server {
        let mut jco = self.jco("serve", component).await;
        jco.env("TENURE_HANDLER_URL", url);
        let listen = |port: u16| {
            jco.args(["--host", "127.0.0.1", "--port", &port.to_string()]);
            jco
        };
        Server::start(listen).await.unwrap()
    }

    /// Starts a bundled worker.
    pub(super) async fn serve_by_workerd(&self, worker: &Worker, url: &str) -> Server {
        let settings = self.settings();
        let listen = |port: u16| {
            let mut workerd = worker.command(port, settings.keys().copied()).unwrap();
            workerd.envs(&settings).env("TENURE_HANDLER_URL", url);
            workerd
        };
        Server::start(listen).await.unwrap()
    }

    /// Asserts that no turn was reported twice and that each report has its headers. Returns the
    /// number of turns.
    pub(super) fn assert_reported_once(&self) -> usize {
        let turns = self.reports.turns();
        assert!(turns.values().all(|count| *count == 1), "{turns:?}");
        for report in self.reports.all() {
            assert_eq!(report.term, Some(report.json["term"].to_string()));
        }
        turns.len()
    }
}

fn text(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

/// Parses the last line, the result of the turn; the handler's output precedes it.
fn parse_outcome(output: &Output) -> Value {
    assert!(output.status.success(), "{}", text(output));
    let out = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(out.lines().last().unwrap_or_default()).expect("JSON")
}

pub(super) async fn post(url: String, token: Option<&str>) -> (u16, Value) {
    ask(http_client().post(url), token).await
}

async fn get(url: String) -> (u16, Value) {
    ask(http_client().get(url), None).await
}

fn http_client() -> reqwest::Client {
    // reqwest is built without a default crypto provider. A second call has no effect.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().timeout(TIMEOUT).no_proxy().build().unwrap()
}

async fn ask(request: reqwest::RequestBuilder, token: Option<&str>) -> (u16, Value) {
    let request = match token {
        Some(token) => request.header("authorization", format!("Bearer {token}")),
        None => request,
    };
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    (status, serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap_or_default())
}

async fn jco_run_takes_one_turn() {
    let scene = Scene::new("1s").await;
    let mut jco = scene.jco("run", &component("tenure.wasm")).await;
    let without_url = jco.env("TENURE_HANDLER_URL", "").output().await.unwrap();
    assert!(!without_url.status.success() && text(&without_url).contains("TENURE_HANDLER_URL"));
    jco.envs(scene.settings());
    // The first slot of a new election is in the future.
    while parse_outcome(&jco.output().await.unwrap())["outcome"] != "succeeded" {}
    assert_eq!(scene.assert_reported_once(), 1);
}

needs!(Node => async fn jco_run_takes_one_turn);

async fn jco_serve_answers_http() {
    let scene = Scene::new("1s").await;
    let server = scene.serve_by_jco(&component("tenure.wasm"), &scene.reports.url()).await;
    over_http(&scene, &server).await;
}

needs!(Node => async fn jco_serve_answers_http);

pub(super) async fn over_http(scene: &Scene, server: &Server) {
    assert_eq!(get(server.url("/healthz")).await.0, 200);
    let (status, no_leader) = get(server.url("/leader")).await;
    assert_eq!((status, &no_leader["lease"]), (200, &"absent".into()), "{no_leader}");
    assert_eq!(post(server.url("/tick"), None).await.0, 401);
    assert_eq!(post(server.url("/tick"), Some("another")).await.0, 401);
    assert!(scene.reports.all().is_empty());

    // The first slot of a new election is in the future.
    let response = loop {
        let (status, response) = post(server.url("/tick"), Some(TOKEN)).await;
        assert_eq!(status, 200, "{response}");
        if response["outcome"] == "succeeded" {
            break response;
        }
        assert_eq!(response["outcome"], "nothing-due", "{response}");
    };
    assert_eq!(scene.assert_reported_once(), 1);
    let (_, leader_status) = get(server.url("/leader")).await;
    assert_eq!(leader_status["last_leader"]["term"], response["term"], "{leader_status}");
}

/// Runs `tenure compose`.
async fn composed(language: Language, folder: &Path) -> PathBuf {
    let handler = spawn_blocking(move || language.handler()).await.unwrap().unwrap();
    let app = folder.join("app.wasm");
    let mut compose = Command::new(PROGRAM);
    let output = compose.arg("compose").arg(handler).arg("-o").arg(&app).output().await.unwrap();
    let text = text(&output);
    assert!(output.status.success(), "{text}");
    // runwasi calls the first export that it knows.
    assert!(text.contains("exports   wasi:http/incoming-handler@0.2.12, wasi:cli/run"), "{text}");
    app
}

/// Parses a slot; hosts differ in the number of trailing zeros.
pub(super) fn instant(slot: &Value) -> DateTime<FixedOffset> {
    DateTime::parse_from_rfc3339(slot.as_str().unwrap()).unwrap()
}

/// Runs one turn of the composed example in this language on `host`.
async fn example_composed(language: Language, host: &str) {
    let scene = Scene::new("1s").await;
    let folder = tempfile::tempdir().unwrap();
    let app = composed(language, folder.path()).await;
    let mut command = match host {
        "jco" => scene.jco("run", &app).await,
        _ => scene.wasmtime(&app).await,
    };
    // The first slot of a new election is in the future.
    let result = loop {
        let result = parse_outcome(&command.output().await.unwrap());
        if result["outcome"] == "succeeded" {
            break result;
        }
        assert_eq!(result["outcome"], "nothing-due", "{result}");
    };
    assert_eq!(scene.assert_reported_once(), 1);
    let report = &scene.reports.all()[0];
    assert_eq!(report.json["term"], result["term"]);
    assert_eq!(instant(&report.json["slot"]), instant(&result["slot"]));
}

async fn the_rust_example_composed_on_wasmtime() {
    example_composed(Language::Rust, "wasmtime").await;
}

needs!(Node, Python => async fn the_rust_example_composed_on_wasmtime);

async fn the_javascript_example_composed_on_wasmtime() {
    example_composed(Language::JavaScript, "wasmtime").await;
}

needs!(Node, Python => async fn the_javascript_example_composed_on_wasmtime);

async fn the_javascript_example_composed_on_jco() {
    example_composed(Language::JavaScript, "jco").await;
}

needs!(Node => async fn the_javascript_example_composed_on_jco);

async fn the_python_example_composed_on_wasmtime() {
    example_composed(Language::Python, "wasmtime").await;
}

needs!(Node, Python => async fn the_python_example_composed_on_wasmtime);

/// Runs three short Python runners in one election.
async fn python_runners_share_an_election() {
    const TURNS: usize = 3;
    let scene = Scene::new("1s").await;
    let mut runners = Vec::new();
    for name in ["ada", "ben", "cyd"] {
        let mut runner = scene.python("loop.py", &component("tenure.wasm")).await;
        runner.arg(TURNS.to_string()).env("TENURE_NAME", name);
        runners.push(Candidate::spawn(name, runner).unwrap());
    }
    for runner in &mut runners {
        let status = runner.end(TIMEOUT).await.unwrap();
        assert!(status.success(), "{}", runner.transcript());
    }
    assert_eq!(scene.assert_reported_once(), runners.len() * TURNS);
    let all = scene.reports.all();
    let terms: Vec<_> = all.iter().map(|report| report.json["term"].as_u64().unwrap()).collect();
    assert!(terms.is_sorted(), "{terms:?}");
    assert_ne!(terms.first(), terms.last());
}

needs!(Node, Python => async fn python_runners_share_an_election);

/// The fourth host is our own runner, with the same file in place of the embedded component.
async fn native_runner_accepts_universal_component() {
    let scene = Scene::new("1s").await;
    let file = std::fs::read(component("tenure.wasm")).unwrap();
    let (engine, clock) = (Engine::new().unwrap(), BootClock::new());
    let settings = scene
        .settings()
        .into_iter()
        .fold(Variables::new(), |settings, (name, value)| settings.with(name, value));
    let elector = ElectionComponent::with_binary(&engine, &file, settings, &clock).unwrap();
    elector.check().await.unwrap();
    let url = scene.reports.url();
    let mut allow = AllowList::default();
    allow.allow(url.strip_suffix("/report").unwrap()).unwrap();
    let options = Options { env: vec![("REPORT_URL".into(), url)], allow, ..Options::default() };
    let handler = component("report.wasm");
    let handler = ComponentHandler::from_file(&engine, &handler, options, &clock).unwrap();
    let reported = async {
        scene.reports.wait_for(3, TIMEOUT).await;
    };
    Runner::new(elector, handler, clock).run(reported).await;
    assert!(scene.assert_reported_once() >= 3);
}

needs!(Node => async fn native_runner_accepts_universal_component);

/// Follows the commands of `docs/platforms.md`.
async fn wasmtime_program_serves_and_runs() {
    let scene = Scene::new("1s").await;
    let tenure = component("tenure.wasm");
    over_http(&scene, &scene.serve_by_wasmtime(&tenure, &scene.reports.url()).await).await;
    let ran = scene.program(&["run", "-S", "http"]).await.arg(&tenure).output().await.unwrap();
    let outcome = parse_outcome(&ran)["outcome"].as_str().unwrap_or_default().to_owned();
    assert!(["nothing-due", "succeeded"].contains(&&*outcome), "{}", text(&ran));
}

needs!(Node, Python => async fn wasmtime_program_serves_and_runs);
