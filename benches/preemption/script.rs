//! Turns of the unruly handler under the real runner, with a scripted election.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use tenure::engine::{AllowList, Elector, ElectorError, Runner};
use tenure::handler::{BoxFuture, Handler, TurnEnd};
use tenure::{Event, Lease};
use tenure_clock::{BootClock, Clock};
use tenure_core::{Event as StepInput, Leadership, Report, Role, State, Timestamp};
use tenure_tests::UNRULY_HANDLER;
use tenure_wasmtime::{ComponentHandler, Engine, Options};

use super::sink::Sink;

/// Minimum time to a deadline, in milliseconds. Up to 100 ms are added.
const SHORTEST: u64 = 50;

/// The observations of one turn, relative to its deadline.
pub struct Turn {
    /// The last time the handler read its clock.
    pub last_reading: Duration,
    /// The time when the runner saw that the turn had stopped.
    pub end: Duration,
    /// Arrival of the last request.
    pub last_request: Duration,
    /// Number of requests after the deadline.
    pub requests: usize,
}

/// A handler, and the clocks that observe it.
pub struct Stage<'a> {
    clock: BootClock,
    handler: Arc<ComponentHandler>,
    last_reading: Arc<AtomicU64>,
    sink: &'a Sink,
}

impl<'a> Stage<'a> {
    pub fn new(clock: &BootClock, mode: &str, sink: &'a Sink) -> Result<Self> {
        let mut allow = AllowList::default();
        allow.allow(&sink.host())?;
        let env = [("UNRULY", mode.to_owned()), ("BEAT_URL", format!("http://{}/", sink.host()))];
        let env = env.map(|(name, value)| (name.to_owned(), value)).to_vec();
        let options = Options { env, allow, ..Options::default() };
        let last_reading = Arc::new(AtomicU64::new(0));
        let recording_clock = RecordingClock { clock: clock.clone(), last: last_reading.clone() };
        let engine = Engine::new().map_err(|error| anyhow::anyhow!("{error:#}"))?;
        let handler = ComponentHandler::from_file(
            &engine,
            Path::new(UNRULY_HANDLER),
            options,
            &recording_clock,
        )
        .context("the handler")?;
        Ok(Self { clock: clock.clone(), handler: Arc::new(handler), last_reading, sink })
    }

    pub async fn turns(&self, count: u64) -> Result<Vec<Turn>> {
        let mut turns = Vec::new();
        for number in 0..count {
            // Not in step with any timer.
            let valid_for = Duration::from_micros(SHORTEST * 1000 + number * 7919 % 100_000);
            turns.push(self.turn(valid_for).await?);
        }
        Ok(turns)
    }

    async fn turn(&self, valid_for: Duration) -> Result<Turn> {
        self.sink.clear();
        self.last_reading.store(0, Ordering::Relaxed);
        let deadline = Arc::new(AtomicU64::new(0));
        let end = Arc::new(AtomicU64::new(0));
        let (clock, ended) = (self.clock.clone(), end.clone());
        let script = Script { valid_for, deadline: deadline.clone() };
        let handler = Shared(self.handler.clone());
        let mut runner = Runner::new(script, handler, self.clock.clone()).on_event(move |event| {
            if let Event::TurnEnded { .. } = event {
                ended.store(nanoseconds(clock.now()), Ordering::Relaxed);
            }
        });
        runner.run(std::future::pending()).await;
        // Requests in flight on this machine have arrived by then.
        tokio::time::sleep(Duration::from_millis(5)).await;
        let deadline = Duration::from_nanos(deadline.load(Ordering::Relaxed));
        let lateness = |instant: &AtomicU64| {
            Duration::from_nanos(instant.load(Ordering::Relaxed)).saturating_sub(deadline)
        };
        let arrivals = self.sink.arrivals();
        Ok(Turn {
            last_reading: lateness(&self.last_reading),
            end: lateness(&end),
            last_request: arrivals.last().map_or(Duration::ZERO, |at| at.saturating_sub(deadline)),
            requests: arrivals.iter().filter(|&&at| at > deadline).count(),
        })
    }
}

/// Leads for a while, requests one turn, and leaves when that has ended.
struct Script {
    valid_for: Duration,
    deadline: Arc<AtomicU64>,
}

impl Elector for Script {
    async fn step(
        &self,
        _: Option<State>,
        elapsed: Duration,
        event: Option<StepInput>,
    ) -> Result<Report, ElectorError> {
        let valid_for = self.valid_for;
        let turn = tenure_core::Turn {
            election: String::new(),
            key: String::new(),
            term: 7,
            slot: Timestamp(0),
            trigger: None,
            attempt: 1,
            past_due: false,
            missed: 0,
            valid_for,
            time_limit: None,
            share: None,
        };
        let is_first = event.is_none();
        if is_first {
            self.deadline.store(nanoseconds(elapsed + self.valid_for), Ordering::Relaxed);
        }
        let role = match is_first {
            true => Role::Leading(Leadership { term: turn.term, valid_for }),
            false => Role::Left,
        };
        let report = Report::new(role, Duration::from_secs(3600));
        Ok(Report { run: is_first.then_some(turn), ..report })
    }
}

/// Shares one handler among many runners.
struct Shared(Arc<ComponentHandler>);

impl Handler for Shared {
    fn on_tick(&self, turn: tenure_core::Turn, lease: Lease) -> BoxFuture<'_, TurnEnd> {
        self.0.on_tick(turn, lease)
    }
}

/// The clock of the handler, which records its last reading.
#[derive(Clone)]
struct RecordingClock {
    clock: BootClock,
    last: Arc<AtomicU64>,
}

impl Clock for RecordingClock {
    fn now(&self) -> Duration {
        let now = self.clock.now();
        self.last.store(nanoseconds(now), Ordering::Relaxed);
        now
    }

    async fn sleep_until(&self, at: Duration) {
        self.clock.sleep_until(at).await;
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
