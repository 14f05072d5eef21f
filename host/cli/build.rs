//! Sets `TENURE_BUILD`: the commit and its date, which `tenure --version` shows after the version
//! number.
//!
//! Builds are reproducible: the date is that of `SOURCE_DATE_EPOCH` or of the commit, never the
//! current date. Debug builds contain neither, because each commit would otherwise rebuild and
//! relink every crate that depends on this one.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Number of commit digits to show.
const DIGITS: usize = 12;

/// A commit and its Unix time in seconds. Both are optional.
#[derive(Default)]
struct Source {
    commit: Option<String>,
    time: Option<i64>,
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for variable in ["TENURE_COMMIT", "SOURCE_DATE_EPOCH"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    println!("cargo::rustc-env=TENURE_BUILD={}", build());
}

/// Returns the commit and the date in parentheses, or an empty string if both are unknown.
fn build() -> String {
    if env::var("PROFILE").is_ok_and(|profile| profile == "debug") {
        return " (debug build)".to_owned();
    }
    let Source { commit, time } =
        from_variable().or_else(from_package).or_else(from_git).unwrap_or_default();
    // An explicit `SOURCE_DATE_EPOCH` takes precedence over the commit's time.
    let time = variable("SOURCE_DATE_EPOCH").and_then(|time| time.parse().ok()).or(time);
    let commit = commit.map(|commit| commit.chars().take(DIGITS).collect());
    let parts: Vec<String> = commit.into_iter().chain(time.map(day)).collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

fn is_commit(text: &str) -> bool {
    text.len() >= DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Reads the commit from a variable, for builds in an image or by a packager.
fn from_variable() -> Option<Source> {
    let commit = variable("TENURE_COMMIT").filter(|commit| is_commit(commit))?;
    Some(Source { commit: Some(commit), time: None })
}

/// Reads the commit that `cargo package` recorded.
fn from_package() -> Option<Source> {
    let vcs_info = fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let commit = vcs_info.split('"').find(|text| is_commit(text)).map(str::to_owned);
    Some(Source { commit, time: None })
}

/// Returns the newest commit if this package is part of it, and not just in a directory below
/// another repository.
fn from_git() -> Option<Source> {
    git(&["ls-files", "--error-unmatch", "Cargo.toml"])?;
    let log_entry = git(&["log", "-1", "--format=%H %ct"])?;
    let (commit, time) = log_entry.split_once(' ')?;
    // Git writes to these files at each checkout and commit. A missing file would cause a rebuild
    // every time.
    for file in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", file])?;
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    Some(Source { commit: Some(commit.to_owned()), time: time.parse().ok() })
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let stdout = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| stdout.trim().to_owned())
}

/// Formats a Unix time in seconds as a UTC date (proleptic Gregorian calendar).
fn day(seconds: i64) -> String {
    // Years that begin in March have their leap day at the end.
    let days = seconds.div_euclid(86_400) + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) =
        (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = year + era * 400 + i64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
}
