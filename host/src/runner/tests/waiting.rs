//! Steps that wait in the queue before they start.

use super::{Log, VirtualClock, leading, left, seconds};
use crate::handler::from_fn;
use crate::runner::{Elector, ElectorError, Runner};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tenure_clock::Clock;
use tenure_core::{Event as StepInput, Report, State};

/// Starts each step after 200 s in the queue.
struct QueuedElector {
    queue_time: Mutex<Option<Duration>>,
    duration: Duration,
    log: Log,
}

impl Elector for QueuedElector {
    async fn step(
        &self,
        _: Option<State>,
        elapsed: Duration,
        input: Option<StepInput>,
    ) -> Result<Report, ElectorError> {
        *self.queue_time.lock().unwrap() = None;
        self.log.add("asked");
        self.log.clock.sleep_until(elapsed + seconds(200)).await;
        *self.queue_time.lock().unwrap() = Some(seconds(200));
        self.log.add("begun");
        self.log.clock.sleep_until(elapsed + seconds(200) + self.duration).await;
        let is_leave = matches!(input, Some(StepInput::Leave(_)));
        if is_leave { left(7).report } else { leading(7).report }
    }

    fn queue_time(&self) -> Option<Duration> {
        *self.queue_time.lock().unwrap()
    }
}

/// Returns the log of 325 s with steps that take this time once they have started.
fn play(duration: u64) -> Vec<String> {
    play_until(325, duration, u64::MAX)
}

/// Returns the log until `end`, with a candidate that is asked to leave at second `leave`.
fn play_until(end: u64, duration: u64, leave: u64) -> Vec<String> {
    VirtualClock::run(async |clock| {
        let log = Log { clock: clock.clone(), lines: Arc::default() };
        let elector = QueuedElector {
            queue_time: Mutex::default(),
            duration: seconds(duration),
            log: log.clone(),
        };
        let event_log = log.clone();
        let mut runner = Runner::new(elector, from_fn(|_, _| async { Ok(()) }), clock.clone())
            .on_event(move |event| event_log.event(&event));
        tokio::select! {
            () = runner.run(clock.sleep_until(seconds(leave))) => {}
            () = clock.sleep_until(seconds(end)) => {}
        }
        log.read()
    })
}

#[test]
fn a_queued_leave_is_not_given_up() {
    assert_eq!(
        play_until(1000, 2, 300)[4..],
        [
            "202 asked",
            "322 problem overload",
            "402 begun",
            "404 asked",
            "524 problem overload",
            "604 begun",
            "606 stood down 7 left",
            "606 stopped",
        ]
    );
}

#[test]
fn queue_time_is_reported_and_not_a_failure() {
    assert_eq!(
        play(119),
        ["0 asked", "120 problem overload", "200 begun", "319 elected 7", "319 asked"]
    );
}

#[test]
fn queue_time_does_not_count_towards_the_step_limit() {
    assert_eq!(
        play(1000),
        ["0 asked", "120 problem overload", "200 begun", "320 problem component", "321 asked"]
    );
}

/// Its machine is suspended during its first step, whose request continues afterwards.
struct SleepingElector(Log);

impl Elector for SleepingElector {
    async fn step(
        &self,
        _: Option<State>,
        elapsed: Duration,
        _: Option<StepInput>,
    ) -> Result<Report, ElectorError> {
        let Self(log) = self;
        log.add("asked");
        if elapsed == Duration::ZERO {
            log.clock.advance(seconds(300));
        }
        log.clock.sleep_until(log.clock.now() + seconds(3)).await;
        leading(7).report
    }
}

#[test]
fn a_step_survives_a_suspended_machine() {
    let lines = VirtualClock::run(async |clock| {
        let log = Log { clock: clock.clone(), lines: Arc::default() };
        let event_log = log.clone();
        let handler = from_fn(|_, _| async { Ok(()) });
        let mut runner = Runner::new(SleepingElector(log.clone()), handler, clock.clone())
            .on_event(move |event| event_log.event(&event));
        tokio::select! {
            () = runner.run(std::future::pending()) => unreachable!(),
            () = clock.sleep_until(seconds(304)) => {}
        }
        log.read()
    });
    assert_eq!(lines, ["0 asked", "303 elected 7", "303 asked"]);
}

/// Leads, and starts its second step too late.
#[derive(Default)]
struct LateElector(AtomicUsize);

impl Elector for LateElector {
    async fn step(
        &self,
        _: Option<State>,
        _: Duration,
        _: Option<StepInput>,
    ) -> Result<Report, ElectorError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        leading(7).report
    }

    fn lateness(&self) -> Option<Duration> {
        (self.0.load(Ordering::SeqCst) == 2).then_some(seconds(2))
    }
}

#[test]
fn a_late_step_is_reported() {
    let lines = VirtualClock::run(async |clock| {
        let log = Log { clock: clock.clone(), lines: Arc::default() };
        let event_log = log.clone();
        let mut runner =
            Runner::new(LateElector::default(), from_fn(|_, _| async { Ok(()) }), clock.clone())
                .on_event(move |event| event_log.event(&event));
        tokio::select! {
            () = runner.run(std::future::pending()) => unreachable!(),
            () = clock.sleep_until(seconds(15)) => {}
        }
        log.read()
    });
    assert_eq!(lines, ["0 elected 7", "4 problem overload"]);
}
