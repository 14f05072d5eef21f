//! Runs the functions for fuzzing on the committed corpus.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::Path;

use tenure_inputs::TARGETS;

#[test]
fn every_function_takes_its_corpus() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("fuzz/corpus");
    let mut folders: Vec<_> =
        fs::read_dir(&corpus).unwrap().map(|e| e.unwrap().file_name()).collect();
    folders.sort();
    let mut names: Vec<_> = TARGETS.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    assert_eq!(folders, names, "each function has a corpus");
    for (name, function) in TARGETS {
        let files: Vec<_> = fs::read_dir(corpus.join(name)).unwrap().collect();
        assert!(!files.is_empty(), "{name} has no input");
        for file in files {
            let path = file.unwrap().path();
            // Shown when the function panics.
            println!("{}", path.display());
            function(&fs::read(path).unwrap());
        }
    }
}

#[test]
fn every_function_is_a_target() {
    let targets = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("fuzz/targets");
    let manifest = fs::read_to_string(targets.parent().unwrap().join("Cargo.toml")).unwrap();
    assert_eq!(fs::read_dir(&targets).unwrap().count(), TARGETS.len());
    for (name, _) in TARGETS {
        let source = fs::read_to_string(targets.join(name).with_extension("rs")).unwrap();
        assert!(source.contains(&format!("tenure_inputs::{name}(data)")), "{source}");
        assert!(manifest.contains(&format!("path = \"targets/{name}.rs\"")), "{name}");
    }
}
