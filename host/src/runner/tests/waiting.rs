//! Steps that wait for others before they begin.

use super::{Log, VirtualClock, leading, left, seconds};
use crate::handler::from_fn;
use crate::runner::{Elector, ElectorError, Runner};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tenure_clock::Clock;
use tenure_core::{Event as Word, Report, State};

/// Begins each step after 200 s.
struct Late {
    waited: Mutex<Option<Duration>>,
    takes: Duration,
    log: Log,
}

impl Elector for Late {
    async fn step(
        &self,
        _: Option<State>,
        elapsed: Duration,
        word: Option<Word>,
    ) -> Result<Report, ElectorError> {
        *self.waited.lock().unwrap() = None;
        self.log.add("asked");
        self.log.clock.sleep_until(elapsed + seconds(200)).await;
        *self.waited.lock().unwrap() = Some(seconds(200));
        self.log.add("begun");
        self.log.clock.sleep_until(elapsed + seconds(200) + self.takes).await;
        let leaves = matches!(word, Some(Word::Leave(_)));
        if leaves { left(7).report } else { leading(7).report }
    }

    fn waited(&self) -> Option<Duration> {
        *self.waited.lock().unwrap()
    }
}

/// What happens in 325 s with steps that take so long once they have begun.
fn play(takes: u64) -> Vec<String> {
    play_until(325, takes, u64::MAX)
}

/// The same until then, with a candidate that is told to leave at that second.
fn play_until(end: u64, takes: u64, leave: u64) -> Vec<String> {
    VirtualClock::run(async |clock| {
        let log = Log { clock: clock.clone(), lines: Arc::default() };
        let elector = Late { waited: Mutex::default(), takes: seconds(takes), log: log.clone() };
        let told = log.clone();
        let mut runner = Runner::new(elector, from_fn(|_, _| async { Ok(()) }), clock.clone())
            .on_event(move |event| told.event(&event));
        tokio::select! {
            () = runner.run(clock.sleep_until(seconds(leave))) => {}
            () = clock.sleep_until(seconds(end)) => {}
        }
        log.read()
    })
}

#[test]
fn one_of_thousands_that_leave_is_not_given_up_while_it_waits() {
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
fn to_wait_is_told_and_no_failure() {
    assert_eq!(
        play(119),
        ["0 asked", "120 problem overload", "200 begun", "319 elected 7", "319 asked"]
    );
}

#[test]
fn a_step_that_waited_has_its_whole_time_and_no_more() {
    assert_eq!(
        play(1000),
        ["0 asked", "120 problem overload", "200 begun", "320 problem component", "321 asked"]
    );
}

/// Its machine sleeps in the middle of its first step, whose request goes on afterwards.
struct Sleepy(Log);

impl Elector for Sleepy {
    async fn step(
        &self,
        _: Option<State>,
        elapsed: Duration,
        _: Option<Word>,
    ) -> Result<Report, ElectorError> {
        let Self(log) = self;
        log.add("asked");
        if elapsed == Duration::ZERO {
            log.clock.pass(seconds(300));
        }
        log.clock.sleep_until(log.clock.now() + seconds(3)).await;
        leading(7).report
    }
}

#[test]
fn a_step_goes_on_when_its_machine_has_slept() {
    let told = VirtualClock::run(async |clock| {
        let log = Log { clock: clock.clone(), lines: Arc::default() };
        let told = log.clone();
        let handler = from_fn(|_, _| async { Ok(()) });
        let mut runner = Runner::new(Sleepy(log.clone()), handler, clock.clone())
            .on_event(move |event| told.event(&event));
        tokio::select! {
            () = runner.run(std::future::pending()) => unreachable!(),
            () = clock.sleep_until(seconds(304)) => {}
        }
        log.read()
    });
    assert_eq!(told, ["0 asked", "303 elected 7", "303 asked"]);
}

/// Leads, and begins its second step too late.
#[derive(Default)]
struct Behind(AtomicUsize);

impl Elector for Behind {
    async fn step(
        &self,
        _: Option<State>,
        _: Duration,
        _: Option<Word>,
    ) -> Result<Report, ElectorError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        leading(7).report
    }

    fn late(&self) -> Option<Duration> {
        (self.0.load(Ordering::SeqCst) == 2).then_some(seconds(2))
    }
}

#[test]
fn a_step_that_begins_too_late_is_told() {
    let told = VirtualClock::run(async |clock| {
        let log = Log { clock: clock.clone(), lines: Arc::default() };
        let told = log.clone();
        let mut runner =
            Runner::new(Behind::default(), from_fn(|_, _| async { Ok(()) }), clock.clone())
                .on_event(move |event| told.event(&event));
        tokio::select! {
            () = runner.run(std::future::pending()) => unreachable!(),
            () = clock.sleep_until(seconds(15)) => {}
        }
        log.read()
    });
    assert_eq!(told, ["0 elected 7", "4 problem overload"]);
}
