//! Election for the tests of orders.

use crate::PROGRAM;
use std::process::Output;
use std::time::Duration;

use tenure_tests::{Candidate, Group, Line, Sink, Store, reserve_port};
use tokio::process::Command;

/// Limit of waits without a specific bound, on a busy machine.
pub const TIMEOUT: Duration = tenure_tests::PATIENCE;

/// Followers poll frequently, so that tests stay short.
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
        group.patient_timings = true;
        group.warm_up().await.unwrap();
        Self { _store: store, sink, group }
    }

    pub async fn embedded() -> Self {
        Self::new(Store::embedded().await.unwrap()).await
    }

    /// Starts a candidate that hints can reach.
    pub fn start(&self, name: &str, extra_args: &[&str]) -> Candidate {
        let listen = reserve_port().unwrap().to_string();
        let address = format!("http://{listen}");
        let listen_args = ["--listen", &listen, "--address", &address];
        self.start_without_listener(name, &[&listen_args, extra_args].concat())
    }

    /// Starts a candidate without listener and address.
    pub fn start_without_listener(&self, name: &str, extra_args: &[&str]) -> Candidate {
        self.group.start(name, &[&QUICK, extra_args].concat()).unwrap()
    }

    /// Starts candidates with these names; the first leads.
    pub async fn start_all(&self, names: &[&str]) -> Vec<Candidate> {
        let mut candidates = Vec::new();
        for name in names {
            let candidate = self.start(name, &[]);
            let event = if candidates.is_empty() { "elected" } else { "following" };
            candidate.event(event, TIMEOUT).await;
            candidates.push(candidate);
        }
        candidates
    }

    /// Runs the program as an operator does.
    pub async fn run_command(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).kill_on_drop(true);
        self.group.access.apply(&mut command);
        tokio::time::timeout(2 * TIMEOUT, command.output()).await.unwrap().unwrap()
    }

    /// Runs `tenure transfer` for the election.
    pub async fn transfer(&self, arguments: &[&str]) -> Output {
        let election = self.group.election.as_str();
        self.run_command(&[&["transfer", election], arguments].concat()).await
    }
}

/// Returns the address at which a candidate listens.
pub async fn address(candidate: &Candidate) -> String {
    let is_listening = |line: &Line| {
        line.name() == "note" && line.event["detail"].as_str().unwrap().starts_with("listening on ")
    };
    let line = candidate.line("address", 0, TIMEOUT, is_listening).await;
    line.event["detail"].as_str().unwrap().trim_start_matches("listening on ").to_owned()
}

/// Waits for the event after the first `after` lines.
pub async fn event(candidate: &Candidate, name: &str, after: usize) -> Line {
    candidate.line(name, after, TIMEOUT, |line| line.name() == name).await
}

pub fn output_text(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

pub fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}
