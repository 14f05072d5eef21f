//! Shell completions and manual pages, checked by the programs that read them.

use crate::PROGRAM;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;
use tenure_tests::needs;

use super::stage::{tenure, text};

fn run_on_file(program: &str, arguments: &[&str], file: &Path) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).arg(file).stdin(Stdio::null()).output().unwrap()
}

fn script(shell: &str) -> String {
    let output = tenure(&["completions", shell], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let script = String::from_utf8(output.stdout).unwrap();
    assert!(script.contains("tenure") && script.contains("reset-slot"), "{shell}: {script}");
    script
}

#[test]
fn every_shell_has_its_script() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        script(shell);
    }
}

fn assert_shell_parses(shell: &str) {
    let folder = tempfile::tempdir().unwrap();
    let script = script(shell);
    let (good, bad) = (folder.path().join(shell), folder.path().join(format!("{shell}.bad")));
    std::fs::write(&good, &script).unwrap();
    std::fs::write(&bad, script + "\nif (((\n").unwrap();
    let parsed = run_on_file(shell, &["-n"], &good);
    assert!(parsed.status.success(), "{shell}: {}", text(&parsed));
    assert!(!run_on_file(shell, &["-n"], &bad).status.success(), "{shell}");
}

fn bash_can_read_its_script() {
    assert_shell_parses("bash");
}

needs!(Bash => fn bash_can_read_its_script);

fn fish_can_read_its_script() {
    assert_shell_parses("fish");
}

needs!(Fish => fn fish_can_read_its_script);

fn zsh_can_read_its_script() {
    assert_shell_parses("zsh");
}

needs!(Zsh => fn zsh_can_read_its_script);

/// Returns a folder with a page for each command.
fn manual() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let output = tenure(&["man", folder.path().to_str().unwrap()], &[]);
    assert_eq!((output.status.code(), text(&output).as_str()), (Some(0), ""));
    folder
}

fn pages(manual: &TempDir) -> Vec<PathBuf> {
    let pages = std::fs::read_dir(manual.path()).unwrap();
    pages.map(|page| page.unwrap().path()).collect()
}

#[test]
fn each_command_has_a_page() {
    let manual = manual();
    let first = tenure(&["man"], &[]).stdout;
    assert_eq!(first, std::fs::read(manual.path().join("tenure.1")).unwrap());
    assert!(pages(&manual).len() > 10);
    let output = tenure(&["man", "/proc/nowhere"], &[]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
}

fn groff_shows_every_page() {
    for page in pages(&manual()) {
        let rendered = run_on_file("groff", &["-man", "-Tutf8", "-ww"], &page);
        assert!(rendered.status.success(), "{}", text(&rendered));
        assert!(text(&rendered).contains("tenure"), "{}", text(&rendered));
        let warnings = String::from_utf8_lossy(&rendered.stderr).into_owned();
        assert_eq!(warnings, "", "{}", page.display());
    }
}

needs!(Groff => fn groff_shows_every_page);

fn mandoc_accepts_every_page() {
    for page in pages(&manual()) {
        let linted = run_on_file("mandoc", &["-Tlint", "-Werror"], &page);
        assert!(linted.status.success(), "{}", text(&linted));
    }
}

needs!(Mandoc => fn mandoc_accepts_every_page);

#[test]
fn closed_pipe_is_no_failure() {
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
