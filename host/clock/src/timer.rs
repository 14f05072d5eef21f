//! Suspend-aware timer: one timerfd per runtime, shared by all its sleepers.
//!
//! Tokio's timers stop while the machine is suspended, and a timerfd for each sleep would cost five
//! system calls. Each runtime with sleepers has a task that waits for its timerfd and wakes the
//! sleepers that are due.
//!
//! Runtimes do not share a task, because a handler may block the threads of its own runtime.

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::collections::{BTreeMap, HashMap};
use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::runtime::{Handle, Id};
use tokio::task::AbortHandle;

/// Alarms of all runtimes that have sleepers.
#[derive(Default)]
pub(super) struct Timer(Mutex<HashMap<Id, TimerEntry>>);

/// An alarm and the task that waits for it.
struct TimerEntry {
    alarm: Arc<Alarm>,
    task: AbortHandle,
}

/// A timerfd and its sleepers.
struct Alarm {
    timer: AsyncFd<OwnedFd>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Sleepers by due time, then by arrival.
    sleepers: BTreeMap<Key, Waker>,
    arrivals: u64,
    /// Instant at which the timerfd expires. `None` if it is not armed. It may be earlier than
    /// needed.
    armed_for: Option<Duration>,
    /// True if the runtime is ending and can no longer wake sleepers.
    is_closed: bool,
}

type Key = (Duration, u64);

impl Timer {
    /// Waits until the alarm expires at `at` on `CLOCK_BOOTTIME`, or a little earlier.
    ///
    /// # Errors
    ///
    /// Fails if the system has no timer left.
    pub(super) async fn sleep(&self, at: Duration) -> io::Result<()> {
        let alarm = self.alarm()?;
        let mut sleep = Sleep { alarm: &alarm, key: None };
        poll_fn(|context| sleep.poll(at, context.waker())).await
    }

    /// Returns the alarm of the current runtime, and creates it if needed.
    fn alarm(&self) -> io::Result<Arc<Alarm>> {
        let runtime = Handle::try_current().map_err(io::Error::other)?;
        let mut alarms = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A new runtime may reuse the id of one that has ended.
        alarms.retain(|_, entry| !entry.task.is_finished());
        if let Some(existing) = alarms.get(&runtime.id()) {
            return Ok(existing.alarm.clone());
        }
        let alarm = Arc::new(Alarm::new()?);
        let task = runtime.spawn(AlarmTask(alarm.clone()).run()).abort_handle();
        alarms.insert(runtime.id(), TimerEntry { alarm: alarm.clone(), task });
        Ok(alarm)
    }
}

impl Drop for TimerEntry {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Alarm {
    fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Boottime, flags)?;
        // SAFETY: the timer is owned by the `AsyncFd` and closed with it.
        #[allow(unsafe_code, reason = "tokio has no safe constructor for an owned descriptor")]
        let timer = unsafe { AsyncFd::register(timer) }?;
        Ok(Self { timer, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a sleeper that is due at `at`.
    fn register(&self, at: Duration, waker: &Waker) -> io::Result<Key> {
        let mut state = self.state();
        if state.is_closed {
            return Err(io::Error::other("the runtime ends"));
        }
        self.arm(&mut state, at)?;
        let key = (at, state.arrivals);
        state.arrivals += 1;
        state.sleepers.insert(key, waker.clone());
        Ok(key)
    }

    /// Sets the timerfd to expire at `at`, unless it expires earlier.
    fn arm(&self, state: &mut State, at: Duration) -> io::Result<()> {
        if state.armed_for.is_some_and(|armed_for| armed_for <= at) {
            return Ok(());
        }
        let expiry = Itimerspec {
            it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: Timespec {
                tv_sec: i64::try_from(at.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: at.subsec_nanos().into(),
            },
        };
        timerfd_settime(self.timer.get_ref(), TimerfdTimerFlags::ABSTIME, &expiry)?;
        state.armed_for = Some(at);
        Ok(())
    }

    /// Wakes all sleepers that are due, and arms the timerfd for the next one.
    fn wake(&self, now: Duration) {
        let mut state = self.state();
        state.armed_for = None;
        let later = state.sleepers.split_off(&(now, u64::MAX));
        let mut due = std::mem::replace(&mut state.sleepers, later);
        let next = state.sleepers.keys().next().map(|(at, _)| *at);
        if next.is_some_and(|next| self.arm(&mut state, next).is_err()) {
            // There is no timer. The other sleepers are woken too, and get the error when they
            // sleep again.
            due.append(&mut state.sleepers);
        }
        drop(state);
        due.into_values().for_each(Waker::wake);
    }

    /// Closes the alarm: its task has ended. Wakes all sleepers, so that they use another alarm.
    fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        let sleepers = std::mem::take(&mut state.sleepers);
        drop(state);
        sleepers.into_values().for_each(Waker::wake);
    }
}

/// Task of an alarm. It is dropped with its runtime.
struct AlarmTask(Arc<Alarm>);

impl AlarmTask {
    async fn run(self) {
        while let Ok(mut ready) = self.0.timer.readable().await {
            // Cleared before a sleeper can arm the timer again, so that no expiry is missed.
            ready.clear_ready();
            self.0.wake(super::shared::now());
        }
    }
}

impl Drop for AlarmTask {
    fn drop(&mut self) {
        self.0.close();
    }
}

struct Sleep<'a> {
    alarm: &'a Alarm,
    /// `None` until the sleeper is registered.
    key: Option<Key>,
}

impl Sleep<'_> {
    fn poll(&mut self, at: Duration, waker: &Waker) -> Poll<io::Result<()>> {
        match self.key {
            Some(key) => self.poll_registered(key, waker),
            None => {
                self.key = Some(self.alarm.register(at, waker)?);
                Poll::Pending
            }
        }
    }

    fn poll_registered(&self, key: Key, waker: &Waker) -> Poll<io::Result<()>> {
        let mut state = self.alarm.state();
        let Some(registered) = state.sleepers.get_mut(&key) else { return Poll::Ready(Ok(())) };
        if !registered.will_wake(waker) {
            let old = std::mem::replace(registered, waker.clone());
            // Dropping the old waker may drop a task with other sleepers, which would lock the
            // state again.
            drop(state);
            drop(old);
        }
        Poll::Pending
    }
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let waker = self.alarm.state().sleepers.remove(&key);
            drop(waker);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::now as boottime;
    use futures_util::FutureExt as _;
    use tokio::runtime::Builder;
    use tokio::time::timeout;

    fn runtime() -> tokio::runtime::Runtime {
        Builder::new_current_thread().enable_all().build().unwrap()
    }

    const SHORT: Duration = Duration::from_millis(5);
    const LONG: Duration = Duration::from_secs(3600);

    /// Limit for a test that would otherwise hang.
    const LONG_ENOUGH: Duration = Duration::from_secs(60);

    fn has_no_sleepers(timer: &Timer) -> bool {
        timer.alarm().unwrap().state().sleepers.is_empty()
    }

    #[test]
    fn sleepers_wake_in_order_of_their_deadlines() {
        runtime().block_on(async {
            let timer = Arc::new(Timer::default());
            let (order, started_at) = (Arc::new(Mutex::new(Vec::new())), boottime());
            // One task each, so that they continue in the order in which they are woken.
            let sleepers = [3, 1, 2, 1].map(|number| {
                let (timer, order) = (timer.clone(), order.clone());
                tokio::spawn(async move {
                    timer.sleep(started_at + number * SHORT).await.unwrap();
                    assert!(boottime() >= started_at + number * SHORT);
                    order.lock().unwrap().push(number);
                })
            });
            for sleeper in sleepers {
                sleeper.await.unwrap();
            }
            assert_eq!(*order.lock().unwrap(), [1, 1, 2, 3]);
            assert!(has_no_sleepers(&timer));
        });
    }

    #[test]
    fn a_later_sleeper_with_an_earlier_deadline_wakes_first() {
        runtime().block_on(async {
            let timer = Arc::new(Timer::default());
            let soon = boottime() + SHORT;
            tokio::select! {
                biased;
                _ = timer.sleep(soon + LONG) => unreachable!("an hour has passed"),
                slept = timer.sleep(soon) => slept.unwrap(),
            }
            assert!(has_no_sleepers(&timer));
        });
    }

    #[test]
    fn a_blocked_runtime_does_not_delay_other_runtimes() {
        let timer = Arc::new(Timer::default());
        let (blocked, running) = (runtime(), runtime());
        blocked.block_on(timer.sleep(boottime() + SHORT)).unwrap();
        // The blocked runtime runs nothing from here on.
        running.block_on(async {
            let sleep = timer.sleep(boottime() + SHORT);
            timeout(LONG_ENOUGH, sleep).await.expect("it is woken").unwrap();
        });
    }

    #[test]
    fn sleepers_are_woken_when_the_runtime_ends() {
        let timer = Timer::default();
        let (ending, running) = (runtime(), runtime());
        let mut sleep = Box::pin(timer.sleep(boottime() + LONG));
        assert!(ending.block_on(async { (&mut sleep).now_or_never() }).is_none());
        drop(ending);
        let woken = running.block_on(async { timeout(LONG_ENOUGH, sleep).await });
        woken.expect("it is woken").unwrap();
    }

    #[test]
    fn the_task_ends_with_the_clock() {
        let runtime = runtime();
        runtime.block_on(async {
            let timer = Arc::new(Timer::default());
            tokio::select! {
                biased;
                _ = timer.sleep(boottime() + LONG) => {}
                () = tokio::task::yield_now() => {}
            }
            assert_eq!(Handle::current().metrics().num_alive_tasks(), 1);
            drop(timer);
            while Handle::current().metrics().num_alive_tasks() > 0 {
                tokio::task::yield_now().await;
            }
        });
    }
}
