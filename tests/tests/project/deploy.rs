//! Files in `deploy/`, checked as far as possible without their platforms.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use tenure_tests::{BEAT_HANDLER, examples, needs, tools};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tenure-under-test");

fn run_checks(deploy: &Path) -> Output {
    run_checks_in(&tools::repository(), deploy)
}

/// Runs the checks on files of a repository, which may be a spoilt copy.
fn run_checks_in(repository: &Path, deploy: &Path) -> Output {
    let installed = tools::pip("deploy-checks", "tests/deploy/requirements.txt").unwrap();
    Command::new("python3")
        .arg("-B")
        .arg(tools::repository().join("tests/deploy/check.py"))
        .args([deploy, repository, Path::new(PROGRAM), Path::new(BEAT_HANDLER)])
        .env("PYTHONPATH", installed)
        .output()
        .unwrap()
}

fn text(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

fn deploy_files_pass_all_checks() {
    let output = run_checks(&tools::repository().join("deploy"));
    assert!(output.status.success(), "{}", text(&output));
}

needs!(Python => fn deploy_files_pass_all_checks);

/// Seeds one or two mistakes into each file, and expects a complaint for each.
fn checks_detect_seeded_mistakes() {
    let mistakes = [
        ("Dockerfile", "rust:1.95.0-bookworm", "rust", "DL3006"),
        ("kubernetes/base/deployment.yaml", "maxSurge", "maxSurgery", "maxSurgery"),
        ("kubernetes/base/deployment.yaml", "--log=json", "--logs=json", "--logs is no option"),
        ("kubernetes/base/deployment.yaml", "TENURE_GRACE", "TENURE_GRASS", "TENURE_GRASS is no"),
        ("kubernetes/base/deployment.yaml", "Not run:", "Fine:", "does not say what was not run"),
        (
            "kubernetes/base/deployment.yaml",
            "path: /healthz",
            "path: /readyz",
            "does not ask /healthz",
        ),
        ("spinkube/cronjob.yaml", "schedule:", "timetable:", "schedule"),
        ("spinkube/cronjob.yaml", "metadata:\n", "metadata:\n   ", "indentation"),
        ("spinkube/cronjob.yaml", "metadata.name", "spec.nodeName", "no TENURE_NAME from its pod"),
        ("runwasi/tenure.yaml", "handler: wasmtime", "runtime: wasmtime", "RuntimeClass: "),
        ("runwasi/tenure.yaml", "value: 1m", "value: soon", "TENURE_EVERY: "),
        ("runwasi/tenure.yaml", "metadata.name", "status.podIP", "no TENURE_NAME from its pod"),
        (
            "wasmcloud/workload.yaml",
            "store.blob.core.windows.net",
            "store.net/path",
            "store.net/path",
        ),
        ("wasmcloud/workload.yaml", "maxRestarts: 2147", "maxRestarts: 9147", "the maximum"),
        ("wasmcloud/workload.yaml", "TENURE_EVERY: 1m", "TENURE_EVERY: soon", "TENURE_EVERY: "),
        ("wasmcloud/workload.yaml", "TENURE_NAME", "TENURE_GRACE", "election has no TENURE_NAME"),
        (
            "wasmcloud/workload.yaml",
            "- https://reports.example.com",
            "- https://other.example.com",
            "report may not reach its REPORT_URL",
        ),
        ("wasmcloud/http.yaml", "host: tenure", "name: tenure", "'host' is a required"),
        ("spin/spin.toml", "component = \"tenure\"", "component = \"other\"", "names no component"),
        (
            "spin/spin.toml",
            "https://reports.example.com\"]",
            "https://other.com\"]",
            "may not reach",
        ),
        ("spin/spin.toml", "1/10 * * * * *", "* * * * *", "six fields"),
        ("spin/spin.toml", "TENURE_NAME = \"spin\"", "", "has no TENURE_NAME"),
        ("spin/spin.toml", "TENURE_EVERY = \"1m\"", "TENURE_EVERY = \"soon\"", "TENURE_EVERY: "),
        ("container-apps/main.bicep", "value: '30s'", "value: '30'", "TENURE_GRACE: "),
        (
            "container-apps/main.bicep",
            "param every string = '1m'",
            "param every string = '1'",
            "TENURE_EVERY",
        ),
        ("spinkube/spin.toml", "trigger.command", "trigger.cron", "refuses an application"),
        ("spinkube/spin.toml", "tenure_name = {", "tenure_names = {", "not both declared and used"),
        ("container-apps/main.bicep", "value: storage.name", "value: storage.listKeys()", "key"),
        ("container-apps/main.bicep", "minReplicas: 2", "minReplicas 2", "does not parse"),
        ("container-apps/main.bicep", "failureThreshold: 10", "failureThreshold: 60", "maximum"),
        ("container-apps/main.bicep", "scope: elections", "scop: elections", "'scop' was"),
        ("container-apps/main.bicep", "containerApps@2024", "containerApps@2023", "not known here"),
        ("cloudflare/wrangler.toml", "crons = [\"* ", "crons = [\"", "five fields"),
        ("cloudflare/wrangler.toml", "TENURE_NAME", "TENURE_GRACE", "has no TENURE_NAME"),
        ("grafana/tenure.json", "\"y\": 6,", "\"y\": 5,", "has no room"),
        ("prometheus/tenure.rules.yml", "Not run:", "Fine:", "does not say what was not run"),
        (
            "container-apps/main.bicep",
            "value: storage.name",
            "value: 'AccountKey=bXk='",
            "holds a key",
        ),
    ];
    for (file, from, to, complaint) in mistakes {
        let spoilt = tempfile::tempdir().unwrap();
        let source = tools::repository().join("deploy").join(file);
        let target = spoilt.path().join(file);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        let good = fs::read_to_string(source).unwrap();
        assert!(good.contains(from), "{file} has no {from}");
        fs::write(target, good.replacen(from, to, 1)).unwrap();
        let output_text = text(&run_checks(spoilt.path()));
        let found =
            output_text.lines().any(|line| line.starts_with(file) && line.contains(complaint));
        assert!(found, "{file}, {from} → {to}:\n{output_text}");
    }
}

needs!(Python => fn checks_detect_seeded_mistakes);

/// Runs Prometheus' own tool on these rules, which tests when each alert fires.
fn test_alerts(rules: &str) -> Output {
    tools::require_tool("promtool", "install Prometheus' tools (Debian: prometheus)").unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("tenure.rules.yml"), rules).unwrap();
    let tests = tools::repository().join("tests/deploy/alerts.yml");
    fs::copy(tests, folder.path().join("alerts.yml")).unwrap();
    let mut promtool = Command::new("promtool");
    promtool.args(["test", "rules", "alerts.yml"]).current_dir(folder.path()).output().unwrap()
}

fn each_alert_fires_when_it_should() {
    let file = tools::repository().join("deploy/prometheus/tenure.rules.yml");
    let rules = fs::read_to_string(file).unwrap();
    let output = test_alerts(&rules);
    assert!(output.status.success(), "{}", text(&output));
    let tests = tools::repository().join("tests/deploy/alerts.yml");
    let tests = fs::read_to_string(tests).unwrap();
    for alert in rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        assert!(tests.contains(&format!("alertname: {alert}\n")), "{alert} is not tested");
    }
    for (from, to) in [
        ("tenure_is_leader) == 0", "tenure_is_leader) == 2"),
        ("max by (namespace, election) (tenure_is_leader)", "max by (election) (tenure_is_leader)"),
        (
            "max by (namespace, election) (tenure_is_leader)",
            "min by (namespace, election) (tenure_is_leader)",
        ),
        ("[6h]", "[1h]"),
        ("tenure_ready == 0", "tenure_ready == 2"),
        ("or 0 * max", "or 1e9 * max"),
        ("> 300", "> 3000"),
        ("3 * 86400", "30 * 86400"),
    ] {
        assert!(rules.contains(from), "{from}");
        let output = test_alerts(&rules.replacen(from, to, 1));
        assert!(!output.status.success(), "{from} → {to}: {}", text(&output));
    }
}

needs!(Prometheus => fn each_alert_fires_when_it_should);

/// Checks that the queries of the dashboard and of the alerts use metrics in the documentation's
/// table.
fn queries_are_valid_and_use_documented_metrics() {
    let deploy = tools::repository().join("deploy");
    let dashboard = fs::read_to_string(deploy.join("grafana/tenure.json")).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&dashboard).unwrap();
    let targets = dashboard["panels"].as_array().unwrap().iter().flat_map(|panel| {
        panel["targets"].as_array().unwrap().iter().map(|target| target["expr"].as_str().unwrap())
    });
    let mut recorded = "groups:\n  - name: dashboard\n    rules:\n".to_owned();
    for (number, query) in targets.enumerate() {
        let query = query.replace("$__rate_interval", "5m");
        let query = serde_json::Value::from(query);
        recorded += &format!("      - record: panel:{number}\n        expr: {query}\n");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dashboard.yml");
    fs::write(&file, &recorded).unwrap();
    tools::require_tool("promtool", "install Prometheus' tools (Debian: prometheus)").unwrap();
    tools::run_command(Command::new("promtool").args(["check", "rules"]).arg(&file)).unwrap();

    let documented = fs::read_to_string(tools::repository().join("docs/observability.md")).unwrap();
    let rules = fs::read_to_string(deploy.join("prometheus/tenure.rules.yml")).unwrap();
    let names = |text: &str| {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let names =
            words.filter(|word| word.starts_with("tenure_") || word.starts_with("process_"));
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    let known = names(&documented);
    for name in names(&(recorded + &rules)) {
        let name = name.trim_end_matches("_bucket");
        assert!(known.iter().any(|known| known == name), "{name} is not documented");
    }
}

needs!(Prometheus => fn queries_are_valid_and_use_documented_metrics);

/// Seeds a mistake into files that are applied together, and expects a complaint about the
/// mismatch.
fn checks_detect_mistakes_between_manifests() {
    let mistakes = [
        (
            "base/service.yaml",
            "    app: tenure\n  ports",
            "    app: other\n  ports",
            "Service selects",
        ),
        ("base/service.yaml", "targetPort: http", "targetPort: web", "web is no port"),
        (
            "base/pod-disruption-budget.yaml",
            "app: tenure",
            "app: other",
            "PodDisruptionBudget selects",
        ),
        ("base/kustomization.yaml", "  - service-account.yaml\n", "", "tenure is not made"),
        ("base/kustomization.yaml", "resources:", "resource:", "unknown field"),
        ("base/deployment.yaml", "kubernetes.io/hostname", "kubernetes.io/host", "does not spread"),
        ("base/deployment.yaml", "value: 30s", "value: soon", "TENURE_GRACE: "),
        ("base/deployment.yaml", "=reports.example", "=https:reports.example", "--allow-host"),
        ("components/pod-monitor/pod-monitor.yaml", "port: http", "port: web", "web is no port"),
        (
            "components/pod-monitor/pod-monitor.yaml",
            "interval:",
            "every:",
            "'every' was unexpected",
        ),
        (
            "overlays/connection-string/kustomization.yaml",
            "connection-string\n      - op",
            "connection_string\n      - op",
            "AZURE_STORAGE_CONNECTION_STRING_FILE: the file",
        ),
        (
            "overlays/workload-identity/kustomization.yaml",
            "identity/client-id:",
            "identity/client:",
            "names no identity",
        ),
        (
            "overlays/workload-identity/kustomization.yaml",
            "mystore",
            "My_Store",
            "AZURE_STORAGE_ACCOUNT: ",
        ),
        (
            "overlays/sidecar/kustomization.yaml",
            "restartPolicy: Always",
            "imagePullPolicy: Always",
            "waits for the end of tenure",
        ),
        (
            "overlays/sidecar/kustomization.yaml",
            "127.0.0.1:8080/watch",
            "127.0.0.1:8081/watch",
            "no application reads http://127.0.0.1:8080/watch",
        ),
        (
            "overlays/sidecar/kustomization.yaml",
            "              - name: tenure\n                $patch: delete\n",
            "",
            "not one container is called tenure",
        ),
        (
            "overlays/sidecar/kustomization.yaml",
            "targetPort: 8080",
            "targetPort: 8081",
            "8081 is no port",
        ),
        (
            "overlays/sidecar/kustomization.yaml",
            "path: /healthz",
            "path: /readyz",
            "does not ask /healthz",
        ),
        (
            "overlays/sidecar/kustomization.yaml",
            "value: jobs/poller",
            "value: poller",
            "TENURE_ELECTION: ",
        ),
    ];
    let source = tools::repository().join("deploy/kubernetes");
    for (file, from, to, complaint) in mistakes {
        let spoilt = tempfile::tempdir().unwrap();
        tools::run_command(Command::new("cp").arg("-R").args([&source, spoilt.path()])).unwrap();
        let target = spoilt.path().join("kubernetes").join(file);
        let good = fs::read_to_string(&target).unwrap();
        assert!(good.contains(from), "{file} has no {from}");
        fs::write(target, good.replacen(from, to, 1)).unwrap();
        let output_text = text(&run_checks(spoilt.path()));
        let found = output_text
            .lines()
            .any(|line| line.starts_with("kubernetes/overlays/") && line.contains(complaint));
        assert!(found, "{file}, {from} → {to}:\n{output_text}");
    }
}

needs!(Python => fn checks_detect_mistakes_between_manifests);

/// Seeds a mistake into the page about Kubernetes, whose commands the checks run.
fn checks_detect_mistakes_in_the_page() {
    let mistakes = [
        ("export NAMESPACE", "export NAMESPACES", "kubernetes/overlays/mine: "),
        ("../workload-identity", "../workload-identities", "kubernetes/overlays/mine: "),
        ("value: 1m", "value: soon", "kubernetes/overlays/mine: TENURE_EVERY: "),
        ("--listen=0.0.0.0:8080", "--listens=0.0.0.0:8080", "kubernetes/overlays/mine: "),
        ("FROM debian:bookworm-slim", "FROM debian", "docs/kubernetes.md: -:3 DL3006"),
    ];
    let repository = tools::repository();
    let good = fs::read_to_string(repository.join("docs/kubernetes.md")).unwrap();
    for (from, to, complaint) in mistakes {
        let spoilt = tempfile::tempdir().unwrap();
        for folder in ["deploy", "guest", "host"] {
            symlink(repository.join(folder), spoilt.path().join(folder)).unwrap();
        }
        fs::create_dir(spoilt.path().join("docs")).unwrap();
        assert!(good.contains(from), "the page has no {from}");
        let page = good.replacen(from, to, 1);
        fs::write(spoilt.path().join("docs/kubernetes.md"), page).unwrap();
        let output_text = text(&run_checks_in(spoilt.path(), &spoilt.path().join("deploy")));
        let found = output_text.lines().any(|line| line.starts_with(complaint));
        assert!(found, "{from} → {to}:\n{output_text}");
    }
}

needs!(Python => fn checks_detect_mistakes_in_the_page);

/// The first stage of the image uses the components that the build makes, here in another profile.
#[test]
fn image_has_only_built_files() {
    let dockerfile = fs::read_to_string(tools::repository().join("deploy/Dockerfile")).unwrap();
    let build = "cargo build --profile dist --locked -p tenure-cli --features otel --target ";
    assert!(dockerfile.contains(build), "{dockerfile}");
    let profile = examples::components().unwrap().parent().unwrap().to_owned();
    let files = dockerfile.split("target/$target/dist/").skip(1);
    let files: Vec<_> = files.filter_map(|text| text.split('"').next()).collect();
    let [program, handler] = files[..] else { panic!("{files:?}") };
    assert_eq!(program, "tenure");
    assert!(profile.join(handler).is_file(), "{handler} is not made");
}
