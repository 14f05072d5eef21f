//! The election on which orders are tested.

use crate::PROGRAM;
use std::process::Output;
use std::time::Duration;

use tenure_tests::{Candidate, Group, Line, Sink, Store, reserved};
use tokio::process::Command;

/// For what has no bound of its own, on a busy machine.
pub const SOON: Duration = tenure_tests::PATIENCE;

/// Followers look so often that a test does not take long.
const QUICK: [&str; 4] = ["--poll", "1s", "--renew", "3s"];

pub struct Stage {
    _store: Store,
    pub sink: Sink,
    pub group: Group,
}

impl Stage {
    pub async fn new(store: Store) -> Self {
        let sink = Sink::start().await.unwrap();
        let mut group = Group::new(PROGRAM, &store, &sink);
        group.timer = ["--every", "1s"];
        group.turn_ms = 600;
        group.patient = true;
        group.warm_up().await.unwrap();
        Self { _store: store, sink, group }
    }

    pub async fn embedded() -> Self {
        Self::new(Store::embedded().await.unwrap()).await
    }

    /// A candidate that hints reach.
    pub fn start(&self, name: &str, more: &[&str]) -> Candidate {
        let listen = reserved().unwrap().to_string();
        let address = format!("http://{listen}");
        let own = ["--listen", &listen, "--address", &address];
        self.hidden(name, &[&own, more].concat())
    }

    /// A candidate without listener and address.
    pub fn hidden(&self, name: &str, more: &[&str]) -> Candidate {
        self.group.start(name, &[&QUICK, more].concat()).unwrap()
    }

    /// Candidates of these names; the first leads.
    pub async fn started(&self, names: &[&str]) -> Vec<Candidate> {
        let mut candidates = Vec::new();
        for name in names {
            let candidate = self.start(name, &[]);
            let event = if candidates.is_empty() { "elected" } else { "following" };
            candidate.event(event, SOON).await;
            candidates.push(candidate);
        }
        candidates
    }

    /// Runs the program as an operator does.
    pub async fn operate(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).kill_on_drop(true);
        self.group.access.give(&mut command);
        tokio::time::timeout(2 * SOON, command.output()).await.unwrap().unwrap()
    }

    /// Runs `tenure transfer` for the election.
    pub async fn transfer(&self, arguments: &[&str]) -> Output {
        let election = self.group.election.as_str();
        self.operate(&[&["transfer", election], arguments].concat()).await
    }
}

/// Where a candidate listens.
pub async fn address(candidate: &Candidate) -> String {
    let listens = |line: &Line| {
        line.name() == "note" && line.event["detail"].as_str().unwrap().starts_with("listening on ")
    };
    let line = candidate.line("address", 0, SOON, listens).await;
    line.event["detail"].as_str().unwrap().trim_start_matches("listening on ").to_owned()
}

/// Waits for the event after so many lines.
pub async fn event(candidate: &Candidate, name: &str, after: usize) -> Line {
    candidate.line(name, after, SOON, |line| line.name() == name).await
}

pub fn said(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

pub fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}
