//! The terminal is gone.

use crate::PROGRAM;
use std::process::Stdio;

use rustix::process::Signal;
use tenure_tests::{Candidate, Group, Sink, Store};
use tokio::process::Command;

use super::stage::SOON;

/// With `shell`, the program is started by the shell, with the whole command line as `"$0" "$@"`.
async fn leader(shell: Option<&str>) -> (Store, Sink, Candidate) {
    let (store, sink) = (Store::embedded().await.unwrap(), Sink::start().await.unwrap());
    let group = Group::new(PROGRAM, &store, &sink);
    let mut command = group.command("ada", &[], &["/bin/sh", "-c", "true"]);
    if let Some(shell) = shell {
        let plain = command.as_std();
        let mut wrapped = Command::new("/bin/sh");
        wrapped.args(["-c", shell]).arg(plain.get_program()).args(plain.get_args());
        for (name, value) in plain.get_envs() {
            match value {
                Some(value) => wrapped.env(name, value),
                None => wrapped.env_remove(name),
            };
        }
        wrapped.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command = wrapped;
    }
    let candidate = Candidate::spawn("ada", command).unwrap();
    candidate.event("turn-ended", SOON).await;
    (store, sink, candidate)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_hung_up_on_releases_the_lease() {
    let (_store, _sink, mut candidate) = leader(None).await;
    candidate.signal(Signal::HUP).unwrap();
    assert_eq!(candidate.end(SOON).await.unwrap().code(), Some(0));
    let ended = candidate.all_lines().await.into_iter().find(|line| line.name() == "stood-down");
    assert_eq!(ended.unwrap().event["reason"], "left", "{}", candidate.transcript());
}

/// As `nohup` starts it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hang_up_that_was_to_be_ignored_is_ignored() {
    let (_store, _sink, mut candidate) = leader(Some("trap '' HUP; exec \"$0\" \"$@\"")).await;
    candidate.signal(Signal::HUP).unwrap();
    for _ in 0..2 {
        let after = candidate.lines().len();
        candidate.line("turn", after, SOON, |line| line.name() == "turn-ended").await;
    }
    candidate.signal(Signal::TERM).unwrap();
    assert_eq!(candidate.end(SOON).await.unwrap().code(), Some(0), "{}", candidate.transcript());
}
