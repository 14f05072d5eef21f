//! Who sleeps on a clock that counts while the machine is suspended: one timer of the kernel for all of them.
//!
//! Tokio's timers stand still while the machine is suspended, and a timer of the kernel for each sleep is five calls of the
//! system. A task of the runtime in which somebody sleeps waits for the kernel's timer, and wakes whoever is due.

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Poll, Waker};
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

/// Those who sleep, and what wakes them.
#[derive(Default)]
pub(super) struct Timer(Mutex<State>);

#[derive(Default)]
struct State {
    /// By when they are due, and then by arrival.
    sleepers: BTreeMap<Key, Waker>,
    arrivals: u64,
    /// None: nobody would be woken.
    alarm: Option<Alarm>,
}

type Key = (Duration, u64);

/// The kernel's timer, and the task that waits for it.
struct Alarm {
    timer: Arc<AsyncFd<OwnedFd>>,
    /// When it goes off. It may be earlier than need be.
    set_for: Option<Duration>,
    task: AbortHandle,
}

impl Timer {
    /// Completes when the alarm went off for `at`, on `CLOCK_BOOTTIME`, or a little earlier.
    ///
    /// # Errors
    ///
    /// The system has no timer left.
    pub(super) async fn sleep(self: &Arc<Self>, at: Duration) -> io::Result<()> {
        let mut sleep = Sleep { timer: self, key: None };
        poll_fn(|context| sleep.poll(at, context.waker())).await
    }

    /// Puts somebody into the queue who is to be woken at `at`.
    fn enter(self: &Arc<Self>, at: Duration, waker: &Waker) -> io::Result<Key> {
        let mut state = self.state();
        if !state.is_watched() {
            drop(state);
            let alarm = Alarm::start(self)?;
            state = self.state();
            // Another one may have been as quick.
            if !state.is_watched() {
                state.alarm = Some(alarm);
            }
            if !state.is_watched() {
                return Err(io::Error::other("the runtime ends"));
            }
        }
        state.set(at)?;
        let key = (at, state.arrivals);
        state.arrivals += 1;
        state.sleepers.insert(key, waker.clone());
        Ok(key)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes all who are due, and sets the alarm for the next one.
    fn wake(&self, now: Duration) {
        let mut state = self.state();
        if let Some(alarm) = &mut state.alarm {
            alarm.set_for = None;
        }
        let later = state.sleepers.split_off(&(now, u64::MAX));
        let mut due = std::mem::replace(&mut state.sleepers, later);
        let next = state.sleepers.keys().next().map(|(at, _)| *at);
        if next.is_some_and(|next| state.set(next).is_err()) {
            // They find out by themselves that there is none.
            due.append(&mut state.sleepers);
        }
        drop(state);
        due.into_values().for_each(Waker::wake);
    }

    /// Nobody waits for this alarm any more: who still sleeps has another one set.
    fn forsake(&self, timer: &Arc<AsyncFd<OwnedFd>>) {
        let mut state = self.state();
        if !state.alarm.as_ref().is_some_and(|alarm| Arc::ptr_eq(&alarm.timer, timer)) {
            return;
        }
        state.alarm = None;
        let all = std::mem::take(&mut state.sleepers);
        drop(state);
        all.into_values().for_each(Waker::wake);
    }
}

impl State {
    /// Whether a task waits for the alarm.
    fn is_watched(&self) -> bool {
        self.alarm.as_ref().is_some_and(|alarm| !alarm.task.is_finished())
    }

    /// Has the alarm go off at `at`, if it would later.
    fn set(&mut self, at: Duration) -> io::Result<()> {
        let Some(alarm) = self.alarm.as_mut() else { return Ok(()) };
        if alarm.set_for.is_some_and(|set_for| set_for <= at) {
            return Ok(());
        }
        let once = Itimerspec {
            it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: Timespec {
                tv_sec: i64::try_from(at.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: at.subsec_nanos().into(),
            },
        };
        timerfd_settime(alarm.timer.get_ref(), TimerfdTimerFlags::ABSTIME, &once)?;
        alarm.set_for = Some(at);
        Ok(())
    }
}

impl Alarm {
    fn start(of: &Arc<Timer>) -> io::Result<Self> {
        let runtime = Handle::try_current().map_err(io::Error::other)?;
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Boottime, flags)?;
        // SAFETY: the timer is owned by the `AsyncFd` and closed with it.
        #[allow(unsafe_code, reason = "tokio has no safe constructor for an owned descriptor")]
        let timer = Arc::new(unsafe { AsyncFd::register(timer) }?);
        let waits = Waits { of: Arc::downgrade(of), timer: timer.clone() };
        Ok(Self { timer, set_for: None, task: runtime.spawn(waits.run()).abort_handle() })
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What the task of an alarm is made of. It is dropped with its runtime, too.
struct Waits {
    of: Weak<Timer>,
    timer: Arc<AsyncFd<OwnedFd>>,
}

impl Waits {
    async fn run(self) {
        while let Ok(mut ready) = self.timer.readable().await {
            // Before anybody sets it again, so that nothing is missed.
            ready.clear_ready();
            let Some(timer) = self.of.upgrade() else { return };
            timer.wake(super::system::boottime());
        }
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        if let Some(timer) = self.of.upgrade() {
            timer.forsake(&self.timer);
        }
    }
}

/// One who sleeps.
struct Sleep<'a> {
    timer: &'a Arc<Timer>,
    /// None: it is not in the queue yet.
    key: Option<Key>,
}

impl Sleep<'_> {
    fn poll(&mut self, at: Duration, waker: &Waker) -> Poll<io::Result<()>> {
        match self.key {
            Some(key) => self.still(key, waker),
            None => {
                self.key = Some(self.timer.enter(at, waker)?);
                Poll::Pending
            }
        }
    }

    fn still(&self, key: Key, waker: &Waker) -> Poll<io::Result<()>> {
        let mut state = self.timer.state();
        let Some(known) = state.sleepers.get_mut(&key) else { return Poll::Ready(Ok(())) };
        if !known.will_wake(waker) {
            let old = std::mem::replace(known, waker.clone());
            // With it a task may go, and others who sleep.
            drop(state);
            drop(old);
        }
        Poll::Pending
    }
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let waker = self.timer.state().sleepers.remove(&key);
            drop(waker);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::system::boottime;
    use tokio::runtime::Builder;

    fn runtime() -> tokio::runtime::Runtime {
        Builder::new_current_thread().enable_all().build().unwrap()
    }

    const SHORT: Duration = Duration::from_millis(5);
    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn all_are_woken_when_they_are_due_and_in_that_order() {
        runtime().block_on(async {
            let timer = Arc::new(Timer::default());
            let (order, began) = (Arc::new(Mutex::new(Vec::new())), boottime());
            // Each of them a task, so that they go on in the order in which they are woken.
            let sleepers = [3, 1, 2, 1].map(|number| {
                let (timer, order) = (timer.clone(), order.clone());
                tokio::spawn(async move {
                    timer.sleep(began + number * SHORT).await.unwrap();
                    assert!(boottime() >= began + number * SHORT);
                    order.lock().unwrap().push(number);
                })
            });
            for sleeper in sleepers {
                sleeper.await.unwrap();
            }
            assert_eq!(*order.lock().unwrap(), [1, 1, 2, 3]);
            assert!(timer.state().sleepers.is_empty());
        });
    }

    #[test]
    fn who_comes_later_and_is_due_earlier_is_woken_earlier() {
        runtime().block_on(async {
            let timer = Arc::new(Timer::default());
            let soon = boottime() + SHORT;
            tokio::select! {
                biased;
                _ = timer.sleep(soon + LONG) => unreachable!("an hour has passed"),
                slept = timer.sleep(soon) => slept.unwrap(),
            }
            // Nobody is left behind.
            assert!(timer.state().sleepers.is_empty());
        });
    }

    #[test]
    fn who_sleeps_is_woken_although_the_runtime_of_the_first_one_is_gone() {
        let timer = Arc::new(Timer::default());
        let (first, second) = (runtime(), runtime());
        let early = boottime() + SHORT;
        first.block_on(timer.sleep(early)).unwrap();
        let of = timer.clone();
        let sleeps = second.spawn(async move {
            let at = boottime() + 2 * SHORT;
            // One that is told that there is no alarm any more looks for itself.
            while boottime() < at {
                of.sleep(at).await.unwrap();
            }
        });
        // It is in the queue, and the alarm is that of the first runtime.
        second.block_on(async {
            while timer.state().sleepers.is_empty() {
                tokio::task::yield_now().await;
            }
        });
        drop(first);
        second.block_on(sleeps).unwrap();
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
