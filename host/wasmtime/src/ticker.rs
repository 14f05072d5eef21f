//! Interrupts guest code: advances the epoch of the engines while guests compute.
//!
//! A thread waits for an alarm. Guests that start or stop computing set and clear it. Most calls of
//! the election component end before the alarm goes off, so the thread does not wake up for them.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use system::Alarm;
use tenure::Lease;
use wasmtime::EngineWeak;

/// Interval of interruptions of guest code: half of the slack for preemption in assumption A2 of
/// protocol.md §2.
const TICK: Duration = Duration::from_millis(10);

/// Interval of interruptions of a guest that is past its deadline.
const OVERDUE_TICK: Duration = Duration::from_millis(1);

/// Advances the epoch while guests compute.
pub(super) struct Ticker(Arc<Shared>);

struct Shared {
    alarm: Alarm,
    guests: Mutex<Guests>,
}

/// The computing guests and their deadlines.
#[derive(Default)]
struct Guests {
    count: usize,
    deadlines: Vec<Lease>,
    /// The time of the alarm, past or future; `None` if it is not set.
    alarm_at: Option<Instant>,
    /// True if the ticker was dropped, so no guest will run again.
    is_closed: bool,
}

impl Guests {
    /// Returns the time until the next tick; `None` if no guest computes.
    fn next_tick(&self) -> Option<Duration> {
        if self.count == 0 {
            return None;
        }
        // A guest in a host function does not notice the tick at its deadline, so more ticks
        // follow.
        let until_tick = |deadline: &Lease| deadline.remaining().max(OVERDUE_TICK);
        Some(self.deadlines.iter().map(until_tick).min().unwrap_or(TICK).min(TICK))
    }

    /// Sets the alarm to the next tick, unless it goes off sooner. Otherwise each guest that starts
    /// would postpone the tick.
    fn arm(&mut self, alarm: &Alarm) {
        let Some(delay) = self.next_tick() else { return };
        let tick_at = Instant::now() + delay;
        if self.alarm_at.is_none_or(|alarm_at| tick_at < alarm_at) {
            alarm.set(Some(delay));
            self.alarm_at = Some(tick_at);
        }
    }
}

impl Shared {
    fn guests(&self) -> MutexGuard<'_, Guests> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticker {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// Returns an error if the system cannot provide a thread or a timer.
    pub(super) fn start(engines: [EngineWeak; 2]) -> io::Result<Self> {
        let shared = Arc::new(Shared { alarm: Alarm::new()?, guests: Mutex::default() });
        let thread_shared = shared.clone();
        let tick = move || {
            loop {
                thread_shared.alarm.wait();
                // The engine of the handlers may be dropped while elections continue.
                let alive: Vec<_> = engines.iter().filter_map(EngineWeak::upgrade).collect();
                if alive.is_empty() {
                    return;
                }
                alive.iter().for_each(wasmtime::Engine::increment_epoch);
                let mut guests = thread_shared.guests();
                if guests.is_closed {
                    return;
                }
                guests.alarm_at = None;
                guests.arm(&thread_shared.alarm);
            }
        };
        thread::Builder::new().name("tenure-epoch".to_owned()).spawn(tick)?;
        Ok(Self(shared))
    }

    /// Runs `guest` to its end. The epoch advances for it only while it computes, not while it
    /// waits.
    pub(super) async fn run_interruptible<G: Future>(
        self: &Arc<Self>,
        engine: &wasmtime::Engine,
        deadline: Option<&Lease>,
        guest: G,
    ) -> G::Output {
        let mut guest = pin!(guest);
        poll_fn(|context| {
            // If the deadline passed while the guest waited, its computations may be too short for
            // a tick to fall into one.
            if deadline.is_some_and(Lease::is_lost) {
                engine.increment_epoch();
            }
            let _running = self.clone().enter(deadline.cloned());
            guest.as_mut().poll(context)
        })
        .await
    }

    /// Registers a computing guest until the returned value is dropped.
    fn enter(self: Arc<Self>, deadline: Option<Lease>) -> RunningGuard {
        let mut guests = self.0.guests();
        guests.count += 1;
        let is_first = guests.count == 1;
        // The deadline may be the earliest of all.
        if is_first || deadline.is_some() {
            guests.deadlines.extend(deadline.clone());
            guests.arm(&self.0.alarm);
        }
        drop(guests);
        RunningGuard { ticker: self, deadline }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        let mut guests = self.0.guests();
        guests.is_closed = true;
        self.0.alarm.set(Some(Duration::ZERO));
    }
}

/// A computing guest, which keeps the ticker running.
struct RunningGuard {
    ticker: Arc<Ticker>,
    deadline: Option<Lease>,
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        let shared = &self.ticker.0;
        let mut guests = shared.guests();
        guests.count -= 1;
        if let Some(deadline) = &self.deadline
            && let Some(index) = guests.deadlines.iter().position(|known| known.is_same(deadline))
        {
            guests.deadlines.swap_remove(index);
        }
        if guests.count == 0 {
            shared.alarm.set(None);
            guests.alarm_at = None;
        }
    }
}

/// An alarm that one thread waits for and other threads set. On Linux, setting it wakes no thread.
#[cfg(target_os = "linux")]
mod system {
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use std::io;
    use std::os::fd::OwnedFd;
    use std::thread;
    use std::time::Duration;

    /// An alarm on a timer of the kernel.
    pub(super) struct Alarm(OwnedFd);

    impl Alarm {
        pub(super) fn new() -> io::Result<Self> {
            Ok(Self(timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?))
        }

        /// Sets the alarm to go off once after `delay`; with `None`, it does not go off. Replaces
        /// the earlier setting.
        pub(super) fn set(&self, delay: Option<Duration>) {
            // Zero would disarm the timer.
            let delay = delay.map(|delay| delay.max(Duration::from_nanos(1))).unwrap_or_default();
            let setting = Itimerspec {
                it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
                it_value: Timespec {
                    tv_sec: i64::try_from(delay.as_secs()).unwrap_or(i64::MAX),
                    tv_nsec: delay.subsec_nanos().into(),
                },
            };
            // This cannot fail: the descriptor and the arguments are valid.
            let _ = timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &setting);
        }

        /// Waits until the alarm goes off.
        pub(super) fn wait(&self) {
            while let Err(error) = rustix::io::read(&self.0, &mut [0; 8]) {
                if error != rustix::io::Errno::INTR {
                    thread::sleep(Duration::from_millis(10));
                    return;
                }
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::io;
    use std::sync::{Condvar, Mutex, PoisonError};
    use std::time::{Duration, Instant};

    /// The instant at which the alarm goes off. Setting it wakes the waiting thread.
    pub(super) struct Alarm(Mutex<Option<Instant>>, Condvar);

    impl Alarm {
        pub(super) fn new() -> io::Result<Self> {
            Ok(Self(Mutex::default(), Condvar::new()))
        }

        /// Sets the alarm to go off once after `delay`; with `None`, it does not go off. Replaces
        /// the earlier setting.
        pub(super) fn set(&self, delay: Option<Duration>) {
            let at = delay.map(|delay| Instant::now() + delay);
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = at;
            if at.is_some() {
                self.1.notify_one();
            }
        }

        /// Waits until the alarm goes off.
        pub(super) fn wait(&self) {
            let mut at = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            loop {
                let remaining = at.map(|at| at.saturating_duration_since(Instant::now()));
                at = match remaining {
                    Some(Duration::ZERO) => {
                        *at = None;
                        return;
                    }
                    Some(remaining) => {
                        let waited = self.1.wait_timeout(at, remaining);
                        waited.unwrap_or_else(PoisonError::into_inner).0
                    }
                    None => self.1.wait(at).unwrap_or_else(PoisonError::into_inner),
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Poll;
    use tenure_clock::{BootClock, Clock as _};
    use wasmtime::{Config, Engine, Instance, Module, Store, Trap, UpdateDeadline};

    /// `(module (func (export "f") (loop br 0)))`
    const ENDLESS: &[u8] =
        b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x07\x05\x01\x01f\0\0\
        \x0a\x09\x01\x07\0\x03\x40\x0c\0\x0b\x0b";

    /// `(module (func (export "f")))`
    const BRIEF: &[u8] = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x07\x05\x01\x01f\0\0\
        \x0a\x04\x01\x02\0\x0b";

    fn engine() -> (Engine, Arc<Ticker>) {
        let engine = Engine::new(Config::new().epoch_interruption(true)).unwrap();
        let ticker = Ticker::start([engine.weak(), engine.weak()]).unwrap();
        (engine, Arc::new(ticker))
    }

    #[test]
    fn a_guest_that_never_returns_is_interrupted_and_so_is_the_next_one() {
        let (engine, ticker) = engine();
        let module = Module::new(&engine, ENDLESS).unwrap();
        for _ in 0..3 {
            let mut store = Store::new(&engine, ());
            store.set_epoch_deadline(1);
            let instance = Instance::new(&mut store, &module, &[]).unwrap();
            let function = instance.get_typed_func::<(), ()>(&mut store, "f").unwrap();
            let _running = ticker.clone().enter(None);
            let error = function.call(&mut store, ()).unwrap_err();
            assert_eq!(error.downcast_ref::<Trap>(), Some(&Trap::Interrupt));
        }
    }

    #[tokio::test]
    async fn a_waiting_guest_causes_no_ticks() {
        let (engine, ticker) = engine();
        let expired = Lease::new(1, BootClock::new().handle(), Duration::ZERO);
        let mut polls = 0;
        let guest = poll_fn(|_| {
            polls += 1;
            assert_eq!(ticker.0.guests().next_tick(), Some(OVERDUE_TICK), "it computes");
            if polls == 2 { Poll::Ready("done") } else { Poll::Pending }
        });
        let mut interrupted = pin!(ticker.run_interruptible(&engine, Some(&expired), guest));
        let first = poll_fn(|context| Poll::Ready(interrupted.as_mut().poll(context).is_ready()));
        assert!(!first.await);
        let is_idle = |guests: &Guests| guests.next_tick().is_none() && guests.alarm_at.is_none();
        assert!(is_idle(&ticker.0.guests()), "it waits");
        assert_eq!(interrupted.await, "done");
        assert!(is_idle(&ticker.0.guests()));
    }

    #[tokio::test]
    async fn a_guest_that_computes_for_moments_only_is_interrupted_at_its_deadline() {
        let (engine, ticker) = engine();
        let module = Module::new(&engine, BRIEF).unwrap();
        let mut store = Store::new(&engine, ());
        let deadline = Lease::new(1, BootClock::new().handle(), Duration::from_millis(20));
        let lease = deadline.clone();
        store.epoch_deadline_callback(move |_| {
            Ok(match lease.is_lost() {
                true => UpdateDeadline::Interrupt,
                false => UpdateDeadline::Continue(1),
            })
        });
        store.set_epoch_deadline(1);
        let instance = Instance::new(&mut store, &module, &[]).unwrap();
        let function = instance.get_typed_func::<(), ()>(&mut store, "f").unwrap();
        let guest = async {
            let mut calls_after = 0;
            loop {
                tokio::task::yield_now().await;
                let is_over = deadline.is_lost();
                match function.call(&mut store, ()) {
                    Ok(()) => calls_after += usize::from(is_over),
                    Err(error) => return (error, calls_after),
                }
            }
        };
        let (error, calls_after) = ticker.run_interruptible(&engine, Some(&deadline), guest).await;
        assert_eq!(error.downcast_ref::<Trap>(), Some(&Trap::Interrupt));
        // The deadline may pass between the two readings.
        assert!(calls_after <= 1, "{calls_after}");
    }

    #[test]
    fn the_thread_ends_with_its_ticker() {
        let (_engine, ticker) = engine();
        let shared = Arc::downgrade(&ticker.0);
        // The thread was awake and may still be.
        drop(ticker.clone().enter(None));
        drop(ticker);
        while shared.strong_count() > 0 {
            thread::yield_now();
        }
        assert!(shared.upgrade().is_none());
    }

    #[test]
    fn the_next_tick_is_that_of_the_earliest_deadline() {
        let (_engine, ticker) = engine();
        let next = || ticker.0.guests().next_tick();
        assert_eq!(next(), None);
        let endless = ticker.clone().enter(None);
        assert_eq!(next(), Some(TICK));
        let expired = Lease::new(1, BootClock::new().handle(), Duration::ZERO);
        let late = ticker.clone().enter(Some(expired));
        assert_eq!(next(), Some(OVERDUE_TICK));
        drop(late);
        assert_eq!(next(), Some(TICK));
        drop(endless);
        assert_eq!(next(), None);
    }

    #[test]
    fn guests_that_begin_do_not_put_the_tick_off() {
        let alarm = Alarm::new().unwrap();
        let mut guests = Guests { count: 1, ..Guests::default() };
        guests.arm(&alarm);
        let alarm_at = guests.alarm_at.unwrap();
        let deadline = |left| Lease::new(1, BootClock::new().handle(), left);
        guests.deadlines.push(deadline(Duration::from_secs(3600)));
        guests.arm(&alarm);
        assert_eq!(guests.alarm_at, Some(alarm_at));
        guests.deadlines.push(deadline(Duration::ZERO));
        let far = Instant::now() + Duration::from_secs(3600);
        guests.alarm_at = Some(far);
        guests.arm(&alarm);
        assert!(guests.alarm_at < Some(far));
    }
}
