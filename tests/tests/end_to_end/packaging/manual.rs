//! Completions and pages for man, judged by those who read them.

use crate::PROGRAM;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::stage::{tenure, text};

/// What a program says of a file; none where the program is not installed.
fn judged(program: &str, arguments: &[&str], file: &Path) -> Option<Output> {
    let output = Command::new(program).args(arguments).arg(file).stdin(Stdio::null()).output();
    if output.is_err() {
        println!("{program} is not here: {} is not judged", file.display());
    }
    output.ok()
}

#[test]
fn every_shell_can_read_its_script() {
    let folder = tempfile::tempdir().unwrap();
    let mut judges = 0;
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let output = tenure(&["completions", shell], &[]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(script.contains("tenure") && script.contains("reset-slot"), "{shell}: {script}");
        if ["powershell", "elvish"].contains(&shell) {
            continue;
        }
        let (good, bad) = (folder.path().join(shell), folder.path().join(format!("{shell}.bad")));
        std::fs::write(&good, &script).unwrap();
        std::fs::write(&bad, script + "\nif (((\n").unwrap();
        let Some(read) = judged(shell, &["-n"], &good) else { continue };
        assert!(read.status.success(), "{shell}: {}", text(&read));
        assert!(!judged(shell, &["-n"], &bad).unwrap().status.success(), "{shell}");
        judges += 1;
    }
    assert!(judges > 0, "no shell is here");
}

#[test]
fn man_can_show_every_page() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("man1");
    let output = tenure(&["man", directory.to_str().unwrap()], &[]);
    assert_eq!((output.status.code(), text(&output).as_str()), (Some(0), ""));
    let first = tenure(&["man"], &[]).stdout;
    assert_eq!(first, std::fs::read(directory.join("tenure.1")).unwrap());
    assert!(!directory.join("tenure-supervise.1").exists());
    for page in std::fs::read_dir(&directory).unwrap() {
        let page = page.unwrap().path();
        if let Some(shown) = judged("groff", &["-man", "-Tutf8", "-ww"], &page) {
            assert!(shown.status.success(), "{}", text(&shown));
            assert!(text(&shown).contains("tenure"), "{}", text(&shown));
            let warnings = String::from_utf8_lossy(&shown.stderr).into_owned();
            assert_eq!(warnings, "", "{}", page.display());
        }
        if let Some(linted) = judged("mandoc", &["-Tlint", "-Werror"], &page) {
            assert!(linted.status.success(), "{}", text(&linted));
        }
    }
    let output = tenure(&["man", "/proc/nowhere"], &[]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
}

#[test]
fn nobody_reading_is_no_reason_to_fail() {
    for arguments in [&["completions", "bash"][..], &["man"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = Command::new(PROGRAM)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(writer)
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        assert_eq!((output.status.code(), text(&output).as_str()), (Some(0), ""), "{arguments:?}");
    }
}
