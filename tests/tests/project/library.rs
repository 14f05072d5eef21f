//! The library is for other programs: it brings nothing that only the program `tenure` needs, and a component of
//! bounded size.

use std::process::Command;

/// What the library depends on without features, direct or not, by name.
fn dependencies() -> Vec<String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["tree", "--locked", "--offline", "--package", "tenure", "--no-default-features"]);
    cargo.args(["--edges", "normal", "--prefix", "none", "--format", "{p}"]);
    let output = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter_map(|line| Some(line.split(' ').next()?.to_owned())).collect()
}

#[test]
fn nothing_of_the_program_is_a_dependency_of_the_library() {
    let names = dependencies();
    assert!(names.iter().any(|name| name == "wasmtime"), "{names:?}");
    for program in [
        "anstyle",
        "axum",
        "clap",
        "clap_complete",
        "clap_mangen",
        "hostname",
        "humantime",
        "prometheus-client",
        "strsim",
        "tempfile",
        "tenure-guest",
        "tenure-store",
        "wac-graph",
    ] {
        assert!(!names.iter().any(|name| name == program), "{program}");
    }
}

/// What hosts fetch, compile and instantiate. The bounds may only fall.
#[test]
fn the_components_stay_small() {
    const MOST: usize = 400_000;
    const MOST_WEBHOOK: usize = 20_000;
    let election = tenure::component::ELECTION_COMPONENT.len();
    let universal = tenure::compose::UNIVERSAL_COMPONENT.len();
    for (name, size) in [("election.wasm", election), ("tenure.wasm", universal)] {
        assert!(size <= MOST, "{name} has {size} bytes, and may have {MOST}");
    }
    let webhook = universal.saturating_sub(election);
    assert!(
        webhook <= MOST_WEBHOOK,
        "the webhook has {webhook} bytes, and may have {MOST_WEBHOOK}"
    );
}
