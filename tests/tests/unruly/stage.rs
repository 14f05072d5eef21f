//! The handler in this process, with a mode for its misbehaviour.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tenure::Lease;
use tenure::engine::AllowList;
use tenure::handler::{Handler, Stream, TurnEnd};
use tenure_clock::Clock;
use tenure_core::{Timestamp, Turn};
use tenure_tests::UNRULY_HANDLER;
use tenure_wasmtime::{ComponentHandler, Engine, Options};
use tokio::sync::watch;
use tokio::time::timeout;

use super::clock::JumpingClock;

pub const TURN: Turn = Turn {
    election: String::new(),
    key: String::new(),
    term: 7,
    slot: Timestamp(0),
    trigger: None,
    attempt: 1,
    past_due: false,
    missed: 0,
    valid_for: Duration::from_secs(1),
    time_limit: None,
    share: None,
};

/// Limit of waits without a specific bound, on a busy machine.
pub const TIMEOUT: Duration = tenure_tests::PATIENCE;

/// Longer than any test: only a jump of the clock reaches it.
pub const LONG: Duration = Duration::from_secs(1800);

/// Memory limit of the handler, in bytes.
pub const MEMORY: usize = 64 * 1024 * 1024;

/// A handler, its clock, and its output.
pub struct Stage {
    pub handler: ComponentHandler,
    pub clock: JumpingClock,
    lines: watch::Receiver<Vec<String>>,
}

impl Stage {
    /// Creates a stage with the handler's mode and a sink at `host`.
    pub fn new(mode: &str, host: Option<&str>) -> Self {
        let clock = JumpingClock::new();
        let mut env = vec![("UNRULY".to_owned(), mode.to_owned())];
        let mut allow = AllowList::default();
        if let Some(host) = host {
            env.push(("BEAT_URL".to_owned(), format!("http://{host}/")));
            allow.allow(host).unwrap();
        }
        let (written, lines) = watch::channel(Vec::new());
        let output = move |_: Stream, line| written.send_modify(|lines| lines.push(line));
        let options = Options { env, allow, output: Some(Arc::new(output)), memory_limit: MEMORY };
        let engine = Engine::new().unwrap();
        let file = Path::new(UNRULY_HANDLER);
        let handler = ComponentHandler::from_file(&engine, file, options, &clock).unwrap();
        Self { handler, clock, lines }
    }

    pub fn lease(&self, validity: Duration) -> Lease {
        Lease::new(1, self.clock.handle(), self.clock.now() + validity)
    }

    /// Runs a turn with a long validity.
    pub async fn run_turn(&self) -> TurnEnd {
        self.run_turn_for(LONG).await
    }

    /// Runs a turn.
    pub async fn run_turn_for(&self, validity: Duration) -> TurnEnd {
        let turn = self.handler.on_tick(TURN, self.lease(validity));
        timeout(TIMEOUT, turn).await.expect("the turn has no end")
    }

    pub fn lines(&self) -> Vec<String> {
        self.lines.borrow().clone()
    }

    /// Waits for a line that satisfies `predicate`.
    pub async fn wait_for_line(&self, predicate: impl Fn(&str) -> bool) {
        self.wait_for_lines(|lines| lines.iter().any(|line| predicate(line))).await;
    }

    /// Waits until the lines satisfy `predicate`.
    pub async fn wait_for_lines(&self, predicate: impl Fn(&[String]) -> bool) {
        let mut lines = self.lines.clone();
        let matching = lines.wait_for(|lines| predicate(lines));
        timeout(TIMEOUT, matching).await.expect("no such lines").unwrap();
    }
}

/// Returns the text of a trap.
pub fn trap_text(end: TurnEnd) -> String {
    match end {
        TurnEnd::Trapped(text) => text,
        other => panic!("no trap: {other:?}"),
    }
}
