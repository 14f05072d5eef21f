//! What is shipped, without our runner: on wasmtime from PyPI and on jco, against Azurite. And the same
//! file on our runner, and on wasmtime's own program.

use crate::PROGRAM;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use chrono::{DateTime, FixedOffset};
use serde_json::Value;
use tenure::engine::{AllowList, Runner, Variables};
use tenure_clock::BootClock;
use tenure_tests::examples::Language;
use tenure_tests::foreign::{self, Server, Waiting};
use tenure_tests::{Candidate, Reports, SERVICE, Store, examples, needs, tools};
use tenure_wasmtime::{ComponentHandler, ElectionComponent, Engine, Options};
use tokio::process::Command;
use tokio::task::spawn_blocking;

const SOON: Duration = tenure_tests::PATIENCE;
const TOKEN: &str = "only-for-tests";

fn component(name: &str) -> PathBuf {
    examples::components().unwrap().join(name)
}

/// A store, an endpoint, and what every invocation of one election has in common.
struct Scene {
    store: Store,
    reports: Reports,
    election: String,
    every: &'static str,
}

impl Scene {
    async fn new(every: &'static str) -> Self {
        let store = Store::azurite().await.unwrap();
        let reports = Reports::start().await.unwrap();
        Self { store, reports, election: "tenure-test/leader".into(), every }
    }

    /// All settings, for the built-in webhook and for a handler.
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

    /// `run.py` on this component.
    async fn wasmtime(&self, component: &Path) -> Command {
        self.python("run.py", component).await
    }

    async fn python(&self, script: &'static str, component: &Path) -> Command {
        let component = component.to_owned();
        let made = spawn_blocking(move || foreign::wasmtime(script, &component)).await;
        let mut command = made.unwrap().unwrap();
        command.envs(self.settings());
        command
    }

    async fn jco(&self, verb: &'static str, component: &Path) -> Command {
        let component = component.to_owned();
        let made = spawn_blocking(move || foreign::jco(verb, &component)).await;
        let mut command = made.unwrap().unwrap();
        command.envs(self.settings());
        command
    }

    /// `jco serve`.
    async fn served(&self, component: &Path) -> Server {
        let mut jco = self.jco("serve", component).await;
        let listen = |port: u16| {
            jco.args(["--host", "127.0.0.1", "--port", &port.to_string()]);
            jco
        };
        Server::start(listen).await.unwrap()
    }

    /// No turn was reported twice, and each report was stamped. Returns their number.
    fn judge(&self) -> usize {
        let turns = self.reports.turns();
        assert!(turns.values().all(|count| *count == 1), "{turns:?}");
        for report in self.reports.all() {
            assert_eq!(report.stamp, Some(report.json["term"].to_string()));
        }
        turns.len()
    }
}

fn text(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

/// The last line is what became of the turn; what the handler prints comes before it.
fn told(output: &Output) -> Value {
    assert!(output.status.success(), "{}", text(output));
    let out = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(out.lines().last().unwrap_or_default()).expect("JSON")
}

async fn post(url: String, token: Option<&str>) -> (u16, Value) {
    ask(http_client().post(url), token).await
}

async fn get(url: String) -> (u16, Value) {
    ask(http_client().get(url), None).await
}

fn http_client() -> reqwest::Client {
    // reqwest is built without a provider of its own; a second call changes nothing.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().timeout(SOON).no_proxy().build().unwrap()
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

/// Ten invocations at once, again and again, from eight processes: six of Python, two of Node.js.
async fn ten_invocations_at_once_take_one_turn_per_slot() {
    const WAVES: usize = 4;
    let scene = Scene::new("1s").await;
    let tenure = component("tenure.wasm");
    let servers = [scene.served(&tenure).await, scene.served(&tenure).await];
    let mut hosts = Vec::new();
    for _ in 0..6 {
        hosts.push(Waiting::start(scene.wasmtime(&tenure).await).await.unwrap());
    }
    let mut told = Vec::new();
    for _ in 0..WAVES {
        let mut wave = tokio::task::JoinSet::new();
        for mut host in std::mem::take(&mut hosts) {
            wave.spawn(async move {
                let told = host.turn().await.unwrap();
                (told, Some(host))
            });
        }
        for server in servers.iter().chain(&servers) {
            let url = server.url("/tick");
            wave.spawn(async move {
                let (status, told) = post(url, Some(TOKEN)).await;
                assert_eq!(status, 200, "{told}");
                (told, None)
            });
        }
        for (answer, host) in wave.join_all().await {
            told.push(answer);
            hosts.extend(host);
        }
    }
    for host in hosts {
        assert!(host.end().await.unwrap());
    }

    assert_eq!(told.len(), 10 * WAVES);
    let known = ["succeeded", "followed", "nothing-due"];
    let outcome = |told: &Value| told["outcome"].as_str().unwrap_or_default().to_owned();
    assert!(told.iter().all(|told| known.contains(&&*outcome(told))), "{told:#?}");
    let succeeded = told.iter().filter(|told| outcome(told) == "succeeded").count();
    assert_eq!(scene.judge(), succeeded);
    assert!(succeeded > 1, "{told:#?}");
}

needs!(Node, Python => async fn ten_invocations_at_once_take_one_turn_per_slot);

async fn a_turn_by_jco_run() {
    let scene = Scene::new("1s").await;
    let mut jco = scene.jco("run", &component("tenure.wasm")).await;
    let nowhere = jco.env("TENURE_HANDLER_URL", "").output().await.unwrap();
    assert!(!nowhere.status.success() && text(&nowhere).contains("TENURE_HANDLER_URL"));
    jco.envs(scene.settings());
    // A new election has its first slot ahead.
    while told(&jco.output().await.unwrap())["outcome"] != "succeeded" {}
    assert_eq!(scene.judge(), 1);
}

needs!(Node => async fn a_turn_by_jco_run);

async fn http_on_jco() {
    let scene = Scene::new("1s").await;
    over_http(&scene, scene.served(&component("tenure.wasm")).await).await;
}

needs!(Node => async fn http_on_jco);

async fn over_http(scene: &Scene, server: Server) {
    assert_eq!(get(server.url("/healthz")).await.0, 200);
    let (status, nobody) = get(server.url("/leader")).await;
    assert_eq!((status, &nobody["lease"]), (200, &"absent".into()), "{nobody}");
    assert_eq!(post(server.url("/tick"), None).await.0, 401);
    assert_eq!(post(server.url("/tick"), Some("another")).await.0, 401);
    assert!(scene.reports.all().is_empty());

    // A new election has its first slot ahead.
    let told = loop {
        let (status, told) = post(server.url("/tick"), Some(TOKEN)).await;
        assert_eq!(status, 200, "{told}");
        if told["outcome"] == "succeeded" {
            break told;
        }
        assert_eq!(told["outcome"], "nothing-due", "{told}");
    };
    assert_eq!(scene.judge(), 1);
    let (_, looked) = get(server.url("/leader")).await;
    assert_eq!(looked["last_leader"]["term"], told["term"], "{looked}");
}

/// `tenure compose`.
async fn composed(language: Language, folder: &Path) -> PathBuf {
    let handler = spawn_blocking(move || language.handler()).await.unwrap().unwrap();
    let app = folder.join("app.wasm");
    let mut compose = Command::new(PROGRAM);
    let output = compose.arg("compose").arg(handler).arg("-o").arg(&app).output().await.unwrap();
    assert!(output.status.success(), "{}", text(&output));
    app
}

/// Some write more zeros than others.
fn instant(slot: &Value) -> DateTime<FixedOffset> {
    DateTime::parse_from_rfc3339(slot.as_str().unwrap()).unwrap()
}

/// One turn of the example in this language, composed, on `host`.
async fn example_composed(language: Language, host: &str) {
    let scene = Scene::new("1s").await;
    let folder = tempfile::tempdir().unwrap();
    let app = composed(language, folder.path()).await;
    let mut command = match host {
        "jco" => scene.jco("run", &app).await,
        _ => scene.wasmtime(&app).await,
    };
    // A new election has its first slot ahead.
    let told = loop {
        let told = told(&command.output().await.unwrap());
        if told["outcome"] == "succeeded" {
            break told;
        }
        assert_eq!(told["outcome"], "nothing-due", "{told}");
    };
    assert_eq!(scene.judge(), 1);
    let report = &scene.reports.all()[0];
    assert_eq!(report.json["term"], told["term"]);
    assert_eq!(instant(&report.json["slot"]), instant(&told["slot"]));
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

/// Three runners of a few lines of Python each, in one election.
async fn a_runner_in_python() {
    const TURNS: usize = 3;
    let scene = Scene::new("1s").await;
    let mut runners = Vec::new();
    for name in ["ada", "ben", "cyd"] {
        let mut runner = scene.python("loop.py", &component("tenure.wasm")).await;
        runner.arg(TURNS.to_string()).env("TENURE_NAME", name);
        runners.push(Candidate::spawn(name, runner).unwrap());
    }
    for runner in &mut runners {
        let status = runner.end(SOON).await.unwrap();
        assert!(status.success(), "{}", runner.transcript());
    }
    assert_eq!(scene.judge(), runners.len() * TURNS);
    let all = scene.reports.all();
    let terms: Vec<_> = all.iter().map(|report| report.json["term"].as_u64().unwrap()).collect();
    assert!(terms.is_sorted(), "{terms:?}");
    assert_ne!(terms.first(), terms.last());
}

needs!(Node, Python => async fn a_runner_in_python);

/// The fourth host is our own: the same file, in place of the component that it embeds.
async fn our_own_runner_takes_the_same_file() {
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
        scene.reports.wait_for(3, SOON).await;
    };
    Runner::new(elector, handler, clock).run(reported).await;
    assert!(scene.judge() >= 3);
}

needs!(Node => async fn our_own_runner_takes_the_same_file);

/// The pattern of wasmCloud: a service that imports what two components export.
async fn a_service_between_two_components() {
    let scene = Scene::new("1s").await;
    let mut service = scene.python("service.py", Path::new(SERVICE)).await;
    service.arg(component("tenure.wasm")).arg(component("report.wasm"));
    let service = Candidate::spawn("service", service).unwrap();
    let reported = tokio::time::timeout(SOON, scene.reports.wait_for(3, SOON)).await;
    assert!(reported.is_ok(), "{}", service.transcript());
    drop(service);
    scene.judge();
    let all = scene.reports.all();
    assert!(all.iter().all(|report| report.json["term"] == all[0].json["term"]), "{all:?}");
}

needs!(Node, Python => async fn a_service_between_two_components);

/// It sends nothing beside the steps.
async fn a_service_is_refused_what_it_cannot_do() {
    let scene = Scene::new("1s").await;
    let mut service = scene.python("service.py", Path::new(SERVICE)).await;
    service.arg(component("tenure.wasm")).arg(component("report.wasm"));
    service.env("TENURE_FAILOVER", "3s");
    let output = tokio::time::timeout(SOON, service.output()).await.unwrap().unwrap();
    let told = text(&output);
    assert!(
        told.contains(
            "TENURE_FAILOVER: failover before the lease ends needs requests between the steps"
        ),
        "{told}"
    );
    assert_eq!(scene.reports.all().len(), 0);
}

needs!(Node, Python => async fn a_service_is_refused_what_it_cannot_do);

/// As `deploy/README.md` says it.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
#[ignore = "needs the program `wasmtime` and Node.js"]
async fn the_program_of_wasmtime() {
    let wasmtime = foreign::wasmtime_program().expect("`wasmtime` on the PATH");
    let scene = Scene::new("1s").await;
    let tenure = component("tenure.wasm");
    let command = |arguments: &[&str]| {
        let mut command = Command::new(&wasmtime);
        command.args(arguments).envs(scene.settings());
        for name in scene.settings().keys() {
            command.args(["--env", name]);
        }
        command.current_dir(tools::repository());
        command
    };
    let listen = |port: u16| {
        let mut serve = command(&["serve", "-S", "cli", "--addr", &format!("127.0.0.1:{port}")]);
        serve.arg(&tenure);
        serve
    };
    over_http(&scene, Server::start(listen).await.unwrap()).await;
    let ran = command(&["run", "-S", "http"]).arg(&tenure).output().await.unwrap();
    let outcome = told(&ran)["outcome"].as_str().unwrap_or_default().to_owned();
    assert!(["nothing-due", "succeeded"].contains(&&*outcome), "{}", text(&ran));
}
