//! Permits for instances of the election component, for processes with more elections than
//! instances.
//!
//! A leader's validity ends at a known instant. So leaders' steps come first, and among them the
//! one with the earliest end. Candidates that have acquired a lease and are about to lead rank with
//! them. Behind thousands of starting candidates, they would wait until their lease has expired or
//! is too short for a renewal.
//!
//! Other candidates come in the order of arrival, and never get all instances. Followers of an
//! unavailable account occupy instances for long, and a leader of another account needs a free one.
//! The number of waiting steps is unlimited.
//!
//! When leaders are late, the machine has no time for more of them. The other candidates then wait
//! until leaders have been in time for a while. So no candidate wins a leadership that it cannot
//! hold, and present leaders do not lose theirs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

/// Time for which other candidates wait after a leader was late.
const HOLD_TIME: Duration = Duration::from_secs(1);

/// The urgency of a call. Smaller values come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Urgency {
    /// A step of a leader, whose leadership ends at this instant unless it is renewed. Or a step of
    /// a candidate that has acquired the lease, and must record its term by this instant.
    Leader(Instant),
    /// Any other step: that of a non-leader.
    Other,
}

impl Urgency {
    /// Returns the urgency at `now`. A leader whose leadership has ended ranks with the others.
    fn at(self, now: Instant) -> Self {
        match self {
            Self::Leader(end) if end <= now => Self::Other,
            _ => self,
        }
    }

    fn is_leader(self) -> bool {
        matches!(self, Self::Leader(_))
    }
}

/// The waiting steps.
struct Queue<T> {
    /// Ordered by urgency, then by arrival.
    waiting: BTreeMap<(Urgency, u64), T>,
    /// The number of steps that have arrived so far.
    arrivals: u64,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), arrivals: 0 }
    }
}

impl<T> Queue<T> {
    fn join(&mut self, urgency: Urgency, waiter: T) {
        self.waiting.insert((urgency, self.arrivals), waiter);
        self.arrivals += 1;
    }

    /// Removes the next step at `now` if it is admitted.
    fn next(&mut self, now: Instant, admitted: impl Fn(Urgency) -> bool) -> Option<(Urgency, T)> {
        loop {
            let first = self.waiting.first_entry()?;
            let (urgency, arrival) = *first.key();
            if urgency.at(now) != urgency {
                // This leadership has ended; the steps behind it may still be in time.
                let waiter = first.remove();
                self.waiting.insert((urgency.at(now), arrival), waiter);
            } else if admitted(urgency) {
                return Some((urgency, first.remove()));
            } else {
                return None;
            }
        }
    }
}

/// A pool of permits, and the steps that wait for one.
pub(super) struct PermitPool(Mutex<State>);

struct State {
    free: Free,
    /// Contains no step that would be admitted now.
    queue: Queue<oneshot::Sender<Permit>>,
}

/// The free permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Free {
    /// Number of free permits.
    total: usize,
    /// Number of these permits that non-leaders may take.
    for_others: usize,
    /// Non-leaders get no permit until then; `None` if they are not held back.
    held_until: Option<Instant>,
}

impl State {
    /// Grants permits to all waiting steps that are admitted.
    fn grant_waiting(&mut self, pool: &Arc<PermitPool>) {
        loop {
            let free = self.free;
            let next = self.queue.next(Instant::now(), |urgency| free.admits(urgency));
            let Some((urgency, next)) = next else { return };
            match next.send(Permit { pool: Some(pool.clone()), urgency }) {
                Ok(()) => self.free.take(urgency),
                // The receiver no longer waits. Without its pool, the permit is dropped without
                // another lock.
                Err(mut permit) => permit.pool = None,
            }
        }
    }

    /// Ends the hold on non-leaders.
    fn end_hold(&mut self, pool: &Arc<PermitPool>) {
        self.free.held_until = None;
        self.grant_waiting(pool);
    }
}

impl Free {
    fn admits(self, urgency: Urgency) -> bool {
        let is_held = urgency == Urgency::Other && self.held_until.is_some();
        self.total > 0 && !is_held && (urgency.is_leader() || self.for_others > 0)
    }

    fn take(&mut self, urgency: Urgency) {
        self.total -= 1;
        self.for_others -= usize::from(!urgency.is_leader());
    }

    fn give_back(&mut self, urgency: Urgency) {
        self.total += 1;
        self.for_others += usize::from(!urgency.is_leader());
    }
}

/// A permit for one call. When it is dropped, the next waiting step gets it.
pub(super) struct Permit {
    pool: Option<Arc<PermitPool>>,
    /// The urgency at the time of the grant.
    urgency: Urgency,
}

impl PermitPool {
    /// Creates a pool of `total` permits. Non-leaders get at most `for_others` of them.
    pub(super) fn new(total: usize, for_others: usize) -> Arc<Self> {
        let free = Free { total, for_others, held_until: None };
        Arc::new(Self(Mutex::new(State { free, queue: Queue::default() })))
    }

    /// Waits for a permit.
    pub(super) async fn get(self: &Arc<Self>, urgency: Urgency) -> Permit {
        let urgency = urgency.at(Instant::now());
        let mut receiver = {
            let mut state = self.state();
            if state.free.admits(urgency) {
                state.free.take(urgency);
                return Permit { pool: Some(self.clone()), urgency };
            }
            let (sender, receiver) = oneshot::channel();
            state.queue.join(urgency, sender);
            receiver
        };
        // Waits with a timeout during a hold: the task that ends the hold may be on a stalled
        // runtime.
        while let Some(remaining) = self.hold_remaining().filter(|_| Handle::try_current().is_ok())
        {
            if let Ok(granted) = timeout(remaining, &mut receiver).await {
                return granted.unwrap_or(Permit { pool: None, urgency });
            }
        }
        // The sender is not dropped before it has sent a permit.
        receiver.await.unwrap_or(Permit { pool: None, urgency })
    }

    /// Holds non-leaders back for a while after a leader was late.
    pub(super) fn hold_others(self: &Arc<Self>) {
        // Without a runtime no task could end the hold.
        let Ok(runtime) = Handle::try_current() else { return };
        let hold_until = Instant::now() + HOLD_TIME;
        let earlier_hold = self.state().free.held_until.replace(hold_until);
        if earlier_hold.is_none() {
            let guard = HoldGuard { pool: self.clone(), has_ended: false };
            runtime.spawn(guard.end());
        }
    }

    /// Returns the remaining hold on non-leaders. Ends the hold and returns `None` once it has
    /// expired.
    fn hold_remaining(self: &Arc<Self>) -> Option<Duration> {
        let mut state = self.state();
        let remaining = state.free.held_until?.saturating_duration_since(Instant::now());
        if remaining.is_zero() {
            state.end_hold(self);
            return None;
        }
        Some(remaining)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the hold on non-leaders when its time is over, or when the runtime drops this guard.
struct HoldGuard {
    pool: Arc<PermitPool>,
    has_ended: bool,
}

impl HoldGuard {
    async fn end(mut self) {
        while let Some(remaining) = self.pool.hold_remaining() {
            sleep(remaining).await;
        }
        self.has_ended = true;
    }
}

impl Drop for HoldGuard {
    fn drop(&mut self) {
        if !self.has_ended {
            self.pool.state().end_hold(&self.pool);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Some(pool) = self.pool.take() else { return };
        let mut state = pool.state();
        state.free.give_back(self.urgency);
        state.grant_waiting(&pool);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn free(total: usize, for_others: usize) -> Free {
        Free { total, for_others, held_until: None }
    }

    #[test]
    fn leaders_come_first_and_the_earliest_end_before_the_others() {
        let now = Instant::now();
        let leader = |seconds| Urgency::Leader(now + Duration::from_secs(seconds));
        let mut queue = Queue::default();
        for (urgency, name) in [
            (Urgency::Other, "first follower"),
            (leader(9), "leader with time"),
            (Urgency::Other, "second follower"),
            (leader(3), "leader in a hurry"),
            (leader(9), "another with time"),
        ] {
            queue.join(urgency, name);
        }
        let order: Vec<_> =
            std::iter::from_fn(|| queue.next(now, |_| true)).map(|(_, name)| name).collect();
        assert_eq!(
            order,
            [
                "leader in a hurry",
                "leader with time",
                "another with time",
                "first follower",
                "second follower",
            ]
        );
    }

    #[test]
    fn an_expired_leader_has_no_priority() {
        let now = Instant::now();
        let leader = |seconds| Urgency::Leader(now + Duration::from_secs(seconds));
        let mut queue = Queue::default();
        for (urgency, name) in [
            (Urgency::Other, "before it"),
            (leader(3), "over"),
            (Urgency::Other, "after it"),
            (leader(9), "in time"),
        ] {
            queue.join(urgency, name);
        }
        let later = now + Duration::from_secs(3);
        let order: Vec<_> =
            std::iter::from_fn(|| queue.next(later, |_| true)).map(|(_, name)| name).collect();
        assert_eq!(order, ["in time", "before it", "over", "after it"]);
    }

    #[test]
    fn a_permit_goes_to_the_next_waiter() {
        let mut context = Context::from_waker(Waker::noop());
        let pool = PermitPool::new(1, 1);
        let Poll::Ready(first) = pin!(pool.get(Urgency::Other)).poll(&mut context) else {
            panic!("a permit is free");
        };
        let mut follower = Box::pin(pool.get(Urgency::Other));
        let end = Instant::now() + Duration::from_secs(3600);
        let mut gone = Box::pin(pool.get(Urgency::Leader(end)));
        assert!(follower.as_mut().poll(&mut context).is_pending());
        assert!(gone.as_mut().poll(&mut context).is_pending());
        drop(gone);
        drop(first);
        assert!(follower.as_mut().poll(&mut context).is_ready());
        // All granted permits are free again.
        assert_eq!(pool.state().free, free(1, 1));
    }

    #[test]
    fn a_permit_that_was_granted_and_never_taken_is_free_again() {
        let mut context = Context::from_waker(Waker::noop());
        let pool = PermitPool::new(1, 1);
        let Poll::Ready(first) = pin!(pool.get(Urgency::Other)).poll(&mut context) else {
            panic!("a permit is free");
        };
        let mut gone = Box::pin(pool.get(Urgency::Other));
        assert!(gone.as_mut().poll(&mut context).is_pending());
        drop(first);
        drop(gone);
        assert_eq!(pool.state().free, free(1, 1));
    }

    #[test]
    fn others_leave_room_for_leaders_and_no_permit_is_lost() {
        let mut context = Context::from_waker(Waker::noop());
        let mut get = |urgency, pool: &Arc<PermitPool>| {
            let pool = pool.clone();
            let mut get = Box::pin(async move { pool.get(urgency).await });
            match get.as_mut().poll(&mut context) {
                Poll::Ready(permit) => Ok(permit),
                Poll::Pending => Err(get),
            }
        };
        let pool = PermitPool::new(3, 2);
        let leader = Urgency::Leader(Instant::now() + Duration::from_secs(3600));
        let late = Urgency::Leader(Instant::now());
        let first = get(Urgency::Other, &pool).ok().unwrap();
        let second = get(late, &pool).ok().unwrap();
        let mut third = get(Urgency::Other, &pool).err().unwrap();
        let leads = get(leader, &pool).ok().unwrap();
        let mut waits = get(leader, &pool).err().unwrap();
        assert_eq!(pool.state().free, free(0, 0));
        let mut context = Context::from_waker(Waker::noop());
        // A leader's permit goes to a leader first, and to no other step while non-leaders have
        // their share.
        drop(leads);
        let Poll::Ready(leads) = waits.as_mut().poll(&mut context) else {
            panic!("a leader first")
        };
        drop(leads);
        assert!(third.as_mut().poll(&mut context).is_pending());
        assert_eq!(pool.state().free, free(1, 0));
        drop(first);
        let Poll::Ready(third) = third.as_mut().poll(&mut context) else { panic!("room for it") };
        assert_eq!(pool.state().free, free(1, 0));
        drop((second, third));
        assert_eq!(pool.state().free, free(3, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn others_wait_while_leaders_are_late_and_no_longer() {
        let pool = PermitPool::new(3, 2);
        let leader = Urgency::Leader(Instant::now() + Duration::from_secs(3600));
        let first = pool.get(Urgency::Other).await;
        pool.hold_others();
        let mut waits = [(); 2].map(|()| Box::pin(pool.get(Urgency::Other)));
        for wait in &mut waits {
            assert!(wait.as_mut().now_or_never().is_none());
        }
        // Neither a returned nor a free permit is for non-leaders.
        drop(first);
        drop(pool.get(leader).now_or_never().expect("for leaders there is no hold"));
        for wait in &mut waits {
            assert!(wait.as_mut().now_or_never().is_none());
        }
        // Only the clock releases them.
        let got = futures_util::future::join_all(waits).await;
        assert_eq!(pool.state().free, free(1, 0));
        drop(got);
        assert_eq!(pool.state().free, free(3, 2));
    }

    #[test]
    fn the_hold_ends_with_the_runtime() {
        let pool = PermitPool::new(1, 1);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { pool.hold_others() });
        let mut waits = Box::pin(pool.get(Urgency::Other));
        assert!(waits.as_mut().now_or_never().is_none());
        drop(runtime);
        assert!(waits.now_or_never().is_some());
    }
}
