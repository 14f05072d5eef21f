//! The handler in this process, told how to misbehave.

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

/// For what has no bound of its own, on a busy machine.
pub const SOON: Duration = tenure_tests::PATIENCE;

/// Longer than any test: only a jump of the clock gets there.
pub const LONG: Duration = Duration::from_secs(1800);

/// Bytes of memory that the handler may have.
pub const MEMORY: usize = 64 * 1024 * 1024;

/// A handler, the clock that it obeys, and what it wrote.
pub struct Stage {
    pub handler: ComponentHandler,
    pub clock: JumpingClock,
    lines: watch::Receiver<Vec<String>>,
}

impl Stage {
    /// With the mode `unruly`, and a sink at `host`.
    pub fn new(unruly: &str, host: Option<&str>) -> Self {
        let clock = JumpingClock::new();
        let mut env = vec![("UNRULY".to_owned(), unruly.to_owned())];
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

    pub fn lease(&self, lasts: Duration) -> Lease {
        Lease::new(1, self.clock.reading(), self.clock.now() + lasts)
    }

    /// Runs a turn that may last for long.
    pub async fn turn(&self) -> TurnEnd {
        self.turn_of(LONG).await
    }

    /// Runs a turn.
    pub async fn turn_of(&self, lasts: Duration) -> TurnEnd {
        let turn = self.handler.on_tick(TURN, self.lease(lasts));
        timeout(SOON, turn).await.expect("the turn has no end")
    }

    pub fn lines(&self) -> Vec<String> {
        self.lines.borrow().clone()
    }

    /// Waits for a line that is as wanted.
    pub async fn line(&self, wanted: impl Fn(&str) -> bool) {
        self.lines_until(|lines| lines.iter().any(|line| wanted(line))).await;
    }

    /// Waits until the lines are as wanted.
    pub async fn lines_until(&self, wanted: impl Fn(&[String]) -> bool) {
        let mut lines = self.lines.clone();
        let seen = lines.wait_for(|lines| wanted(lines));
        timeout(SOON, seen).await.expect("no such lines").unwrap();
    }
}

/// The text of a trap.
pub fn trapped(end: TurnEnd) -> String {
    match end {
        TurnEnd::Trapped(text) => text,
        other => panic!("no trap: {other:?}"),
    }
}
