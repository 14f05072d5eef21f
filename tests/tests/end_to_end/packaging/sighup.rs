//! SIGHUP after the terminal has closed.

use crate::PROGRAM;
use std::process::Stdio;

use rustix::process::Signal;
use tenure_tests::{Candidate, Group, Sink, Store};
use tokio::process::Command;

use super::stage::TIMEOUT;

/// Starts a leader; with `shell`, through a shell that gets the whole command line as `"$0" "$@"`.
async fn leader(shell: Option<&str>) -> (Store, Sink, Candidate) {
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let group = Group::new(PROGRAM, &store, &sink);
    let mut command = group.command("ada", &[], &["/bin/sh", "-c", "true"]);
    if let Some(shell) = shell {
        let original = command.as_std();
        let mut wrapped = Command::new("/bin/sh");
        wrapped.args(["-c", shell]).arg(original.get_program()).args(original.get_args());
        for (name, value) in original.get_envs() {
            match value {
                Some(value) => wrapped.env(name, value),
                None => wrapped.env_remove(name),
            };
        }
        wrapped.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command = wrapped;
    }
    let candidate = Candidate::spawn("ada", command).unwrap();
    candidate.event("turn-ended", TIMEOUT).await;
    (store, sink, candidate)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sighup_releases_the_lease() {
    let (_store, _sink, mut candidate) = leader(None).await;
    candidate.signal(Signal::HUP).unwrap();
    assert_eq!(candidate.end(TIMEOUT).await.unwrap().code(), Some(0));
    let ended = candidate.all_lines().await.into_iter().find(|line| line.name() == "stood-down");
    assert_eq!(ended.unwrap().event["reason"], "left", "{}", candidate.transcript());
}

/// Starts it like `nohup`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ignored_sighup_stays_ignored() {
    let (_store, _sink, mut candidate) = leader(Some("trap '' HUP; exec \"$0\" \"$@\"")).await;
    candidate.signal(Signal::HUP).unwrap();
    for _ in 0..2 {
        let after = candidate.lines().len();
        candidate.line("turn", after, TIMEOUT, |line| line.name() == "turn-ended").await;
    }
    candidate.signal(Signal::TERM).unwrap();
    assert_eq!(candidate.end(TIMEOUT).await.unwrap().code(), Some(0), "{}", candidate.transcript());
}
