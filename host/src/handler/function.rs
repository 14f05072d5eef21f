//! Handlers made of Rust functions, async or blocking.

use super::{BoxError, BoxFuture, Handler, TurnEnd};
use crate::lease::Lease;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tenure_core::{Turn, error_chain};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// Time for which a function is still polled after its deadline. A function that sleeps until the
/// deadline can then end by itself.
const LATE_LIMIT: Duration = Duration::from_millis(100);

/// Handler made of an async function. See [`from_fn`].
#[derive(Clone, Debug)]
struct FunctionHandler<F>(F);

/// Creates a handler from an async function, which is called for each turn.
///
/// An error is a failed turn, and is logged with its causes. Any error type works: use `?`, or
/// `Err("reason".into())` for a text. Several failed turns in a row end leadership
/// ([`max_failures`](crate::settings::Settings::max_failures)). A panic ends it at once.
///
/// When leadership ends, the future is dropped at its next `.await`. A function that computes for
/// long should check [`Lease::is_lost`] regularly.
///
/// All work of the turn must end with this future, because the lease is then released. Tasks that
/// the function passes to `tokio::spawn` or `spawn_blocking` would go on while the next leader
/// works. Use [`from_blocking_fn`] for blocking code. For tasks of your own, implement [`Handler`]
/// with [`stopped`](Handler::stopped).
pub fn from_fn<F, T>(function: F) -> impl Handler
where
    F: Fn(Turn, Lease) -> T + Send + Sync + 'static,
    T: Future<Output = Result<(), BoxError>> + Send,
{
    FunctionHandler(function)
}

impl<F, T> Handler for FunctionHandler<F>
where
    F: Fn(Turn, Lease) -> T + Send + Sync + 'static,
    T: Future<Output = Result<(), BoxError>> + Send,
{
    fn on_tick(&self, turn: Turn, lease: Lease) -> BoxFuture<'_, TurnEnd> {
        Box::pin(async move {
            let mut future = pin!((self.0)(turn, lease.clone()));
            poll_fn(|context| {
                // The task that would drop this future may be delayed: its thread serves all
                // elections.
                if lease.is_lost() && lease.overdue() > LATE_LIMIT {
                    return Poll::Ready(TurnEnd::CutOff);
                }
                future.as_mut().poll(context).map(|result| match result {
                    Ok(()) => TurnEnd::Succeeded,
                    Err(error) => TurnEnd::failed(error_chain(&*error)),
                })
            })
            .await
        })
    }
}

/// Handler made of a blocking function. See [`from_blocking_fn`].
#[derive(Debug)]
struct BlockingHandler<F> {
    function: Arc<F>,
    /// Held by the running function.
    running: Arc<Semaphore>,
}

/// Creates a handler from a blocking function, for example with a synchronous database client.
///
/// The function runs on a blocking thread of the runtime. An error is a failed turn, as with
/// [`from_fn`].
///
/// The function cannot be stopped. It must check [`Lease::is_lost`] before each action, and return
/// when leadership has ended. The lease is not released before it returns. Only the term protects
/// against writes after the deadline.
///
/// A function that never returns also prevents its runtime, and so `main`, from ending.
/// [`Runtime::shutdown_timeout`](tokio::runtime::Runtime::shutdown_timeout) limits that wait.
///
/// ```
/// # use std::time::Duration;
/// # fn next() -> Option<u32> { None }
/// # fn write(_: u32, _: u64) -> std::io::Result<()> { Ok(()) }
/// let work = tenure::handler::from_blocking_fn(|turn, lease| {
///     while let Some(row) = next() {
///         if lease.is_lost() {
///             return Err("the leadership ended".into());
///         }
///         write(row, turn.term)?;
///     }
///     Ok(())
/// });
/// # let _ = work;
/// ```
pub fn from_blocking_fn<F>(function: F) -> impl Handler
where
    F: Fn(Turn, Lease) -> Result<(), BoxError> + Send + Sync + 'static,
{
    BlockingHandler { function: Arc::new(function), running: Arc::new(Semaphore::new(1)) }
}

impl<F> Handler for BlockingHandler<F>
where
    F: Fn(Turn, Lease) -> Result<(), BoxError> + Send + Sync + 'static,
{
    fn on_tick(&self, turn: Turn, lease: Lease) -> BoxFuture<'_, TurnEnd> {
        Box::pin(async move {
            // The semaphore is never closed.
            let permit = self.running.clone().acquire_owned().await;
            let function = self.function.clone();
            let ended = spawn_blocking(move || {
                let _runs = permit;
                // The closure may have waited for a blocking thread until now.
                if lease.is_lost() {
                    return Err("the leadership ended before the function began".into());
                }
                function(turn, lease)
            });
            match ended.await {
                Ok(Ok(())) => TurnEnd::Succeeded,
                Ok(Err(error)) => TurnEnd::failed(error_chain(&*error)),
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(_) => {
                        let problem = "the runtime ended before the function began";
                        TurnEnd::Trapped(problem.to_owned())
                    }
                },
            }
        })
    }

    fn stopped(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move { drop(self.running.acquire().await) })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{lease, turn};
    use super::*;
    use futures_util::FutureExt as _;
    use tenure_clock::{BootClock, Clock as _, ClockHandle};

    #[tokio::test]
    async fn an_error_is_reported_with_its_causes() {
        #[derive(Debug)]
        struct Unsaved(std::num::ParseIntError);
        impl std::fmt::Display for Unsaved {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("nothing was saved")
            }
        }
        impl std::error::Error for Unsaved {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                Some(&self.0)
            }
        }
        let work = from_fn(|_, _| async {
            "x".parse::<u8>().map_err(Unsaved)?;
            Ok(())
        });
        let expected = "nothing was saved: invalid digit found in string".to_owned();
        assert_eq!(work.on_tick(turn(), lease()).await, TurnEnd::Failed(expected));
        let work = from_fn(|_, _| async { Err("in words".into()) });
        assert_eq!(work.on_tick(turn(), lease()).await, TurnEnd::Failed("in words".to_owned()));
    }

    #[tokio::test]
    async fn the_text_of_an_error_is_bounded() {
        let text = || "x".repeat(5_000);
        let asynchronous = from_fn(move |_, _| async move { Err(text().into()) });
        let blocking = from_blocking_fn(move |_, _| Err(text().into()));
        let cut = TurnEnd::failed(text());
        assert_ne!(cut, TurnEnd::Failed(text()));
        assert_eq!(asynchronous.on_tick(turn(), lease()).await, cut);
        assert_eq!(blocking.on_tick(turn(), lease()).await, cut);
    }

    #[tokio::test]
    async fn a_late_function_is_cut_off_without_being_dropped() {
        let now = Duration::from_secs(60);
        let lease = Lease::new(1, ClockHandle::from_fn(move || now), 2 * now);
        let work = from_fn(|_, _| async {
            tokio::task::yield_now().await;
            panic!("it goes on")
        });
        let mut turn = work.on_tick(turn(), lease.clone());
        assert!((&mut turn).now_or_never().is_none());
        lease.set_valid_until(Duration::ZERO);
        assert_eq!(turn.await, TurnEnd::CutOff);
    }

    /// All blocking threads of the runtime may have been busy until after the deadline.
    #[tokio::test]
    async fn an_expired_function_does_not_start() {
        let work = from_blocking_fn(|_, _| panic!("it begins"));
        let expired = Lease::new(1, BootClock::new().handle(), Duration::ZERO);
        let expected = "the leadership ended before the function began".to_owned();
        assert_eq!(work.on_tick(turn(), expired).await, TurnEnd::Failed(expected));
    }

    /// The turn's future is dropped, but the turn has stopped only when the function has returned.
    #[tokio::test]
    async fn stopped_waits_for_a_blocking_function() {
        let (may_end, ends) = std::sync::mpsc::channel::<()>();
        let (on_start, mut started) = tokio::sync::mpsc::unbounded_channel();
        let ends = std::sync::Mutex::new(ends);
        let work = from_blocking_fn(move |_, _| {
            on_start.send(())?;
            ends.lock().unwrap().recv()?;
            Ok(())
        });
        let mut running = work.on_tick(turn(), lease());
        tokio::select! {
            _ = &mut running => panic!("it waits"),
            begun = started.recv() => assert_eq!(begun, Some(())),
        }
        drop(running);
        let mut stopped = work.stopped();
        let at_once = tokio::time::timeout(std::time::Duration::ZERO, &mut stopped).await;
        assert!(at_once.is_err(), "it runs");
        may_end.send(()).unwrap();
        stopped.await;
        may_end.send(()).unwrap();
        assert_eq!(work.on_tick(turn(), lease()).await, TurnEnd::Succeeded);
        drop(may_end);
        let expected = TurnEnd::Failed("receiving on a closed channel".to_owned());
        assert_eq!(work.on_tick(turn(), lease()).await, expected);
    }
}
