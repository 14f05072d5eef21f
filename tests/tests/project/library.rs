//! Libraries for other programs: they have no dependencies that only the program `tenure` needs,
//! their components have bounded size, and their packages are complete.

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Runs cargo in this workspace, and returns its output.
fn cargo(arguments: &[&str]) -> String {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(arguments).args(["--locked", "--offline"]);
    let output = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the names of a library's direct and indirect dependencies, with default features.
fn dependencies(package: &str) -> BTreeSet<String> {
    let text = cargo(&[
        "tree",
        &format!("--package={package}"),
        "--edges=normal",
        "--prefix=none",
        "--format={p}",
    ]);
    text.lines().filter_map(|line| Some(line.split(' ').next()?.to_owned())).collect()
}

/// Returns the manifests of the published crates.
fn published() -> Vec<Value> {
    let metadata = cargo(&["metadata", "--no-deps", "--format-version=1"]);
    let metadata: Value = serde_json::from_str(&metadata).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    packages.iter().filter(|package| package["publish"].is_null()).cloned().collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

#[test]
fn libraries_do_not_depend_on_program_crates() {
    const PROGRAM: [&str; 12] = [
        "anstyle",
        "axum",
        "clap",
        "clap_complete",
        "clap_mangen",
        "hostname",
        "humantime",
        "strsim",
        "tempfile",
        "tenure-guest",
        "tenure-server",
        "tenure-store",
    ];
    const ENGINE: [&str; 3] = ["wac-graph", "wasmtime", "wit-bindgen"];
    let library = dependencies("tenure");
    assert!(library.contains("reqwest"), "{library:?}");
    for name in PROGRAM.iter().chain(&ENGINE) {
        assert!(!library.contains(*name), "{name}");
    }
    let host = dependencies("tenure-wasmtime");
    assert!(host.contains("wasmtime") && host.contains("tenure"), "{host:?}");
    for name in PROGRAM.iter().chain(&["wac-graph"]) {
        assert!(!host.contains(*name), "{name}");
    }
}

/// Checks the dependencies that a program gets with the library, without optional features.
#[test]
fn the_library_brings_few_crates() {
    let library = dependencies("tenure");
    assert!((50..=150).contains(&library.len()), "{}: {library:?}", library.len());
}

/// Hosts fetch, compile and instantiate the component. The bound falls with each removal, and rises
/// only with a new part of the contract.
#[test]
fn the_components_stay_small() {
    const MAX_BYTES: usize = 490_000;
    const MAX_WEBHOOK_BYTES: usize = 20_000;
    let election = tenure_wasmtime::ELECTION_COMPONENT.len();
    let universal = tenure_wasmtime::compose::UNIVERSAL_COMPONENT.len();
    assert!(election <= MAX_BYTES, "the election has {election} bytes, and may have {MAX_BYTES}");
    let webhook = universal.saturating_sub(election);
    assert!(
        webhook <= MAX_WEBHOOK_BYTES,
        "the webhook has {webhook} bytes, and may have {MAX_WEBHOOK_BYTES}"
    );
}

/// Checks the fields that a registry requires and users search for.
#[test]
fn manifests_of_published_crates_are_complete() {
    let packages = published();
    let is_published = |name: &Value| packages.iter().any(|package| package["name"] == *name);
    assert!(is_published(&"tenure".into()) && is_published(&"tenure-cli".into()));
    for package in &packages {
        let name = &package["name"];
        for field in ["description", "license", "repository", "rust_version"] {
            assert!(
                package[field].as_str().is_some_and(|text| !text.is_empty()),
                "{name}: {field}"
            );
        }
        for field in ["keywords", "categories"] {
            let words = package[field].as_array().unwrap();
            assert!((1..=5).contains(&words.len()), "{name}: {field}");
            assert!(words.iter().all(|word| word.as_str().unwrap().len() <= 30), "{name}: {field}");
        }
        for dependency in package["dependencies"].as_array().unwrap() {
            if !dependency["path"].is_null() && dependency["kind"] != "dev" {
                assert!(is_published(&dependency["name"]), "{name} needs {}", dependency["name"]);
                assert_ne!(dependency["req"], "*", "{name} needs {}", dependency["name"]);
            }
        }
    }
}

/// Bindings are generated from `wit/`, and the library's build script builds components from
/// unpublished crates. `.ci/release/package` builds the program from the packages; this test only
/// checks their contents.
#[test]
fn packages_hold_the_contract_and_the_components() {
    let contract: Vec<String> = ["wit", "wit/deps/spin-cron"]
        .iter()
        .flat_map(|folder| {
            let files = fs::read_dir(root().join(folder)).unwrap().map(Result::unwrap);
            let files = files.filter(|file| file.file_type().unwrap().is_file());
            files.map(move |file| format!("{folder}/{}", file.file_name().to_str().unwrap()))
        })
        .collect();
    assert!(contract.iter().any(|file| file == "wit/types.wit"), "{contract:?}");
    let files = cargo(&["package", "--list", "--allow-dirty", "--package=tenure-wasmtime"]);
    for file in &contract {
        assert!(files.lines().any(|line| line == file), "{file}");
    }
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    assert!(read("host/wasmtime/Cargo.toml").contains("\"/components/*.wasm\""));
    let (build, script) = (read("host/wasmtime/build.rs"), read(".ci/release/package"));
    let components = build.split("file: \"").skip(1).map(|tail| tail.split('"').next().unwrap());
    let components: Vec<_> = components.collect();
    assert_eq!(components.len(), 5);
    let packaged = script.lines().find_map(|line| line.strip_prefix("for component in ")).unwrap();
    for component in components {
        assert!(packaged.split([' ', ';']).any(|word| word == component), "{component}");
    }
}
