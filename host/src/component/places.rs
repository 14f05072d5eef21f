//! Who may have an instance of the election component next, when there are more elections than
//! instances.
//!
//! A leader holds something that ends at a known instant, so its steps come first: the leader whose
//! time ends first before the others. Everybody else comes in the order of arrival. To wait is no
//! error, however many there are.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::oneshot;

/// How soon a call must begin. The smaller one comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Urgency {
    /// A step of a leader, whose leadership ends at this instant unless it is renewed.
    Leader(Instant),
    /// Anything else.
    Other,
}

/// Those who wait.
struct Queue<T> {
    /// By urgency, and then by arrival.
    waiting: BTreeMap<(Urgency, u64), T>,
    arrivals: u64,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), arrivals: 0 }
    }
}

impl<T> Queue<T> {
    fn join(&mut self, urgency: Urgency, who: T) {
        self.waiting.insert((urgency, self.arrivals), who);
        self.arrivals += 1;
    }

    /// Takes out whoever is next at `now`.
    fn next(&mut self, now: Instant) -> Option<T> {
        loop {
            let ((urgency, arrival), who) = self.waiting.pop_first()?;
            match urgency {
                // Too late for this one; those who come after it may still be in time.
                Urgency::Leader(end) if end <= now => {
                    self.waiting.insert((Urgency::Other, arrival), who);
                }
                _ => return Some(who),
            }
        }
    }
}

/// A number of places, and those who wait for one.
pub(super) struct Places(Mutex<State>);

struct State {
    /// Nobody waits while there are any.
    free: usize,
    queue: Queue<oneshot::Sender<Place>>,
}

/// A place, which goes to the next one when this is dropped.
pub(super) struct Place(Option<Arc<Places>>);

impl Places {
    pub(super) fn new(free: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State { free, queue: Queue::default() })))
    }

    /// Waits for a place.
    pub(super) async fn get(self: &Arc<Self>, urgency: Urgency) -> Place {
        let place = {
            let mut state = self.state();
            match state.free.checked_sub(1) {
                Some(free) => {
                    state.free = free;
                    return Place(Some(self.clone()));
                }
                None => {
                    let (sender, place) = oneshot::channel();
                    state.queue.join(urgency, sender);
                    place
                }
            }
        };
        // Its sender is dropped only after it was used.
        place.await.unwrap_or(Place(None))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(places) = self.0.take() else { return };
        let mut state = places.state();
        while let Some(next) = state.queue.next(Instant::now()) {
            match next.send(Place(Some(places.clone()))) {
                Ok(()) => return,
                // It does not wait any more. Its place must not be given back from in here.
                Err(mut place) => place.0 = None,
            }
        }
        state.free += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    #[test]
    fn leaders_come_first_and_the_earliest_end_before_the_others() {
        let now = Instant::now();
        let leader = |seconds| Urgency::Leader(now + Duration::from_secs(seconds));
        let mut queue = Queue::default();
        for (urgency, who) in [
            (Urgency::Other, "first follower"),
            (leader(9), "leader with time"),
            (Urgency::Other, "second follower"),
            (leader(3), "leader in a hurry"),
            (leader(9), "another with time"),
        ] {
            queue.join(urgency, who);
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.next(now)).collect();
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
    fn a_leader_whose_time_is_over_comes_like_anybody_else() {
        let now = Instant::now();
        let leader = |seconds| Urgency::Leader(now + Duration::from_secs(seconds));
        let mut queue = Queue::default();
        for (urgency, who) in [
            (Urgency::Other, "before it"),
            (leader(3), "over"),
            (Urgency::Other, "after it"),
            (leader(9), "in time"),
        ] {
            queue.join(urgency, who);
        }
        let later = now + Duration::from_secs(3);
        let order: Vec<_> = std::iter::from_fn(|| queue.next(later)).collect();
        assert_eq!(order, ["in time", "before it", "over", "after it"]);
    }

    #[test]
    fn a_place_goes_to_the_next_who_still_waits() {
        let mut context = Context::from_waker(Waker::noop());
        let places = Places::new(1);
        let Poll::Ready(first) = pin!(places.get(Urgency::Other)).poll(&mut context) else {
            panic!("a place is free");
        };
        let mut follower = Box::pin(places.get(Urgency::Other));
        let end = Instant::now() + Duration::from_secs(3600);
        let mut gone = Box::pin(places.get(Urgency::Leader(end)));
        assert!(follower.as_mut().poll(&mut context).is_pending());
        assert!(gone.as_mut().poll(&mut context).is_pending());
        drop(gone);
        drop(first);
        assert!(follower.as_mut().poll(&mut context).is_ready());
        // All places that were given are free again.
        assert_eq!(places.state().free, 1);
    }

    #[test]
    fn a_place_that_was_given_and_never_taken_is_free_again() {
        let mut context = Context::from_waker(Waker::noop());
        let places = Places::new(1);
        let Poll::Ready(first) = pin!(places.get(Urgency::Other)).poll(&mut context) else {
            panic!("a place is free");
        };
        let mut gone = Box::pin(places.get(Urgency::Other));
        assert!(gone.as_mut().poll(&mut context).is_pending());
        drop(first);
        drop(gone);
        assert_eq!(places.state().free, 1);
    }
}
