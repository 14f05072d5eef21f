//! The wasmtime engine that the election component and the handlers share.
//!
//! - Guest code yields every few milliseconds, so that no guest holds up another, and at its
//!   deadline.
//! - Compiled code is cached on disk, where nobody else can write: a second start takes milliseconds.
//! - Memory and stacks of the election component's instances are used again: to map new ones takes longer than most steps.

use super::cache;
use super::compiled::{Compiled, ComponentGuard};
use super::error::EngineError;
use super::places::{Permit, PermitPool, Urgency};
use super::ticker::Ticker;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tenure::Lease;
use tenure_core::limits;
use tokio::sync::Semaphore;
use wasmtime::component::Component;
use wasmtime::{Config, Enabled, InstanceAllocationStrategy, PoolingAllocationConfig};

/// Calls of the election component at a time. More of them wait for a [place](Places).
const MAX_CALLS: u16 = 64;

/// The least, however few descriptors there are.
const MIN_CALLS: u16 = 4;

/// A call has a connection, and now and then another one is made in vain. So much more is there for what else needs descriptors.
const DESCRIPTORS_PER_CALL: u64 = 10;

/// Instances that are kept between two calls.
pub(super) const MAX_IDLE_INSTANCES: u16 = 16;

/// Reads of orders in a second, by all leaders on one engine.
const ORDER_READS_PER_SECOND: u32 = 50;

/// That leaders are late is told so often at most.
const LATE_REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// Bytes of an instance that stay mapped when it ends.
const RESIDENT_BYTES: usize = 1024 * 1024;

/// Compiles and runs components. Clones share everything.
#[derive(Clone)]
pub struct Engine {
    /// For handlers, of any size.
    wasmtime: wasmtime::Engine,
    /// For the election component: small, many times a minute.
    brief: wasmtime::Engine,
    handlers: Arc<Compiled>,
    call_permits: Arc<PermitPool>,
    /// For instances between two calls.
    idle_permits: Arc<Semaphore>,
    request_permits: Arc<PermitPool>,
    /// The number of leaders.
    leaders: Arc<AtomicU32>,
    /// When it was told last that leaders are late.
    late_reported_at: Arc<Mutex<Option<Instant>>>,
    /// None: guests are never interrupted.
    ticker: Option<Arc<Ticker>>,
    /// Why compiled code is not cached, where that would not be safe or the directory that was named cannot be used.
    cache_problem: Option<Arc<str>>,
}

impl Engine {
    /// An engine that caches compiled code in the user's cache directory: `TENURE_CACHE_DIR`,
    /// else `tenure` below `XDG_CACHE_HOME` or `~/.cache`. If there is no such directory, nothing is cached.
    ///
    /// # Errors
    ///
    /// When this machine cannot run compiled WebAssembly.
    pub fn new() -> Result<Self, EngineError> {
        let cache_directory = cache::default_directory();
        let cache_directory = cache_directory.as_ref().map(|(directory, named)| (directory.as_path(), *named));
        Self::with_cache_directory(cache_directory).map_err(|error| EngineError::from_wasmtime(&error))
    }

    /// An engine that caches compiled code in `directory`. None: nothing is cached, and components are compiled
    /// at each start. What lies there is run as it is, so a directory that others can write to, itself or one
    /// above it, is not used ([`uncached`](Engine::uncached)).
    ///
    /// # Errors
    ///
    /// As [`new`](Engine::new). A directory that cannot be used is no error.
    pub fn with_cache(directory: Option<&Path>) -> Result<Self, EngineError> {
        let cache_directory = directory.map(|directory| (directory, true));
        Self::with_cache_directory(cache_directory).map_err(|error| EngineError::from_wasmtime(&error))
    }

    fn with_cache_directory(cache_directory: Option<(&Path, bool)>) -> wasmtime::Result<Self> {
        let mut config = Config::new();
        config.epoch_interruption(true);
        let (cache, cache_problem) = match cache_directory.map(|(directory, named)| cache::open(directory, named)).transpose() {
            Ok(cache) => (cache.flatten(), None),
            Err(reason) => (None, Some(reason.into())),
        };
        config.cache(cache);
        let wasmtime = wasmtime::Engine::new(&config)?;
        config.allocation_strategy(pool());
        // Where so much address space is not to be had, memory is mapped anew for each step.
        let brief = wasmtime::Engine::new(&config).unwrap_or_else(|_| wasmtime.clone());
        let ticker = Arc::new(Ticker::start([wasmtime.weak(), brief.weak()])?);
        let calls = usize::from(calls(descriptors()));
        // Connections are few, however many elections there are.
        let (call_permits, request_permits) = (permit_pool(calls), permit_pool(calls / 2));
        let idle_permits = Arc::new(Semaphore::new(MAX_IDLE_INSTANCES.into()));
        let (ticker, late_reported_at, handlers) = (Some(ticker), Arc::default(), Arc::default());
        let leaders = Arc::default();
        Ok(Self {
            wasmtime,
            brief,
            handlers,
            call_permits,
            idle_permits,
            request_permits,
            leaders,
            late_reported_at,
            ticker,
            cache_problem,
        })
    }

    /// Why compiled code is not cached although there is a directory for it: others could write there, or it was named
    /// and cannot be used. It is compiled at each start then.
    #[must_use]
    pub fn cache_problem(&self) -> Option<&str> {
        self.cache_problem.as_deref()
    }

    /// This engine for a simulation: what runs on it from now on is never interrupted, since
    /// that would happen in real time. A handler that does not return is not to be run on it.
    #[must_use]
    pub fn uninterrupted(mut self) -> Self {
        self.ticker = None;
        self
    }

    /// Compiles the component of a handler, unless one that is kept runs it already.
    ///
    /// # Errors
    ///
    /// It cannot be compiled.
    pub(crate) fn compile(&self, binary: &[u8]) -> wasmtime::Result<(Component, ComponentGuard)> {
        self.handlers.get(binary, || Component::from_binary(&self.wasmtime, binary))
    }

    /// The engine for components that run briefly and often.
    pub(crate) fn brief(&self) -> Self {
        Self { wasmtime: self.brief.clone(), ..self.clone() }
    }

    /// Waits until one more call may begin on the [brief](Self::brief) engine. Kept until it is over.
    pub(super) async fn call_permit(&self, urgency: Urgency) -> Permit {
        self.call_permits.get(urgency).await
    }

    /// A leader's step began late: others wait for a while. Whether that is to be told: it was not for a while.
    pub(super) fn on_late_step(&self) -> bool {
        // Nothing is late in a simulation's time.
        if self.ticker.is_none() {
            return false;
        }
        self.call_permits.hold_others();
        let mut reported_at = self.late_reported_at.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let is_due = reported_at.is_none_or(|last| now.saturating_duration_since(last) >= LATE_REPORT_INTERVAL);
        if is_due {
            *reported_at = Some(now);
        }
        is_due
    }

    /// Counts one leader more, as long as the returned value is kept.
    pub(super) fn register_leader(&self) -> LeaderGuard {
        self.leaders.fetch_add(1, Ordering::Relaxed);
        LeaderGuard(self.leaders.clone())
    }

    /// Returns the interval at which each leader may read its orders. None: as it wants to.
    pub(super) fn orders_interval(&self) -> Option<Duration> {
        let interval = Duration::from_secs(1) * self.leaders.load(Ordering::Relaxed) / ORDER_READS_PER_SECOND;
        Some(interval).filter(|interval| *interval > limits::DEFAULT_ORDERS)
    }

    /// Waits until one more request may go out beside the steps. Kept until it is answered.
    pub(super) async fn request_permit(&self, urgency: Urgency) -> Permit {
        self.request_permits.get(urgency).await
    }

    /// Room for the instances of components on the brief engine that wait for a call.
    pub(super) fn idle_permits(&self) -> &Arc<Semaphore> {
        &self.idle_permits
    }

    pub(crate) fn wasmtime(&self) -> &wasmtime::Engine {
        &self.wasmtime
    }

    /// Completes with `guest`, whose code is interrupted regularly while it computes, and at that `deadline` too, also when it
    /// is moved. While it waits nobody wakes up for it.
    pub(crate) async fn run_interruptible<G: Future>(
        &self,
        deadline: Option<&Lease>,
        guest: G,
    ) -> G::Output {
        match &self.ticker {
            Some(ticker) => ticker.run_interruptible(&self.wasmtime, deadline, guest).await,
            None => guest.await,
        }
    }
}

/// A leader on an engine.
pub(super) struct LeaderGuard(Arc<AtomicU32>);

impl Drop for LeaderGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

/// How many calls may be under way at a time with so many descriptors, where they are limited.
fn calls(descriptors: Option<u64>) -> u16 {
    let enough = descriptors.map(|all| u16::try_from(all / DESCRIPTORS_PER_CALL).unwrap_or(MAX_CALLS));
    enough.unwrap_or(MAX_CALLS).clamp(MIN_CALLS, MAX_CALLS)
}

/// So many, of which leaders find some free whatever others do.
fn permit_pool(total: usize) -> Arc<PermitPool> {
    PermitPool::new(total, total * 3 / 4)
}

/// How many descriptors this process may have.
#[cfg(unix)]
fn descriptors() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

#[cfg(not(unix))]
fn descriptors() -> Option<u64> {
    None
}

/// Linux tells which pages were written to, so only these are cleaned.
fn pool() -> InstanceAllocationStrategy {
    let instances = u32::from(MAX_CALLS + MAX_IDLE_INSTANCES);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(instances)
        .total_core_instances(4 * instances)
        .total_memories(instances)
        .total_tables(4 * instances)
        .total_stacks(instances)
        .linear_memory_keep_resident(RESIDENT_BYTES)
        .table_keep_resident(RESIDENT_BYTES)
        .pagemap_scan(Enabled::Auto);
    InstanceAllocationStrategy::Pooling(pool)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[test]
    fn all_leaders_together_read_orders_50_times_a_second() {
        let engine = Engine::with_cache(None).unwrap();
        let mut leaders: Vec<_> = (0..500).map(|_| engine.register_leader()).collect();
        assert_eq!(engine.orders_interval(), None);
        leaders.extend((0..4_500).map(|_| engine.brief().register_leader()));
        assert_eq!(engine.orders_interval(), Some(Duration::from_secs(100)));
        leaders.truncate(1_000);
        assert_eq!(engine.orders_interval(), Some(Duration::from_secs(20)));
    }

    #[test]
    fn few_descriptors_allow_few_concurrent_calls() {
        let limits = [Some(20), Some(40), Some(200), Some(1024), Some(u64::MAX), None];
        assert_eq!(limits.map(calls), [4, 4, 20, 64, 64, 64]);
    }

    #[test]
    fn followers_get_a_permit_however_few_there_are() {
        for all in usize::from(MIN_CALLS) / 2..=MAX_CALLS.into() {
            assert!(permit_pool(all).get(Urgency::Other).now_or_never().is_some(), "{all}");
        }
    }
}
