//! Clock for tests. Time jumps when no task can run, and stands still otherwise.

use super::Clock;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

/// Number of yields to the executor after which all ready tasks have run.
const ROUNDS: usize = 64;

#[derive(Clone, Default)]
/// Clock that jumps from sleeper to sleeper.
pub struct VirtualClock(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    now: Duration,
    sleepers: Vec<(Duration, Waker)>,
}

impl VirtualClock {
    /// Runs `test` on one thread and advances the time from sleeper to sleeper.
    pub fn run<T>(test: impl AsyncFnOnce(Self) -> T) -> T {
        let clock = Self::default();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            tokio::select! {
                biased;
                result = test(clock.clone()) => result,
                () = clock.advance_to_next_sleeper() => unreachable!(),
            }
        })
    }

    /// Advances the time while nothing runs, as on a suspended machine.
    pub fn advance(&self, time: Duration) {
        let mut state = self.0.lock().unwrap();
        state.now += time;
        let now = state.now;
        state.sleepers.extract_if(.., |(at, _)| *at <= now).for_each(|(_, waker)| waker.wake());
    }

    async fn advance_to_next_sleeper(&self) {
        loop {
            for _ in 0..ROUNDS {
                tokio::task::yield_now().await;
            }
            let state = self.0.lock().unwrap();
            let next = state.sleepers.iter().map(|(at, _)| *at).min();
            let time = next.expect("no task sleeps").saturating_sub(state.now);
            drop(state);
            self.advance(time);
        }
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Duration {
        self.0.lock().unwrap().now
    }

    async fn sleep_until(&self, at: Duration) {
        poll_fn(|cx| {
            let mut state = self.0.lock().unwrap();
            if state.now >= at {
                return Poll::Ready(());
            }
            state.sleepers.push((at, cx.waker().clone()));
            Poll::Pending
        })
        .await;
    }
}
