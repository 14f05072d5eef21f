//! The wasmtime engine that the election component and the handlers share.
//!
//! - Guest code yields every few milliseconds and at its deadline, so that guests do not block each
//!   other.
//! - Compiled code is cached on disk, where only this user can write. A second start takes
//!   milliseconds.
//! - Memory and stacks of the election component's instances are reused, because mapping new ones
//!   takes longer than most steps.

use super::cache::{self, CodeCache};
use super::error::EngineError;
use super::permits::{Permit, PermitPool, Urgency};
use super::ticker::Ticker;
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use tenure::Lease;
use tenure_core::limits;
use tokio::sync::Semaphore;
use wasmtime::component::Component;
use wasmtime::{Config, Enabled, InstanceAllocationStrategy, PoolingAllocationConfig};

/// Maximum number of concurrent calls of the election component. Further calls wait for a
/// [permit](PermitPool).
const MAX_CALLS: u16 = 64;

/// Number of concurrent calls that are allowed however few descriptors there are.
const MIN_CALLS: u16 = 4;

/// Number of file descriptors for each concurrent call. A call uses one or two of them for its
/// connections; the others are for the rest of the process.
const DESCRIPTORS_PER_CALL: u64 = 10;

/// Maximum number of instances that are kept between two calls.
pub(super) const MAX_IDLE_INSTANCES: u16 = 16;

/// Maximum number of reads of orders per second, by all leaders on one engine.
const ORDER_READS_PER_SECOND: u32 = 50;

/// Minimum time between two reports that leaders are late.
const LATE_REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// Maximum number of bytes of an instance that stay mapped after its end, for the next instance.
const RESIDENT_BYTES: usize = 1024 * 1024;

/// Compiles and runs components. Clones share everything.
#[derive(Clone)]
pub struct Engine {
    /// For handlers, of any size.
    wasmtime: wasmtime::Engine,
    /// For the election component: small and called many times a minute. Reuses the memory of its
    /// instances.
    pooled: wasmtime::Engine,
    handlers: Arc<Compiled>,
    /// Permits for calls of the election component.
    call_permits: Arc<PermitPool>,
    /// Permits for idle instances.
    idle_permits: Arc<Semaphore>,
    /// Permits for background requests.
    request_permits: Arc<PermitPool>,
    /// The number of leaders.
    leaders: Arc<AtomicU32>,
    /// The time of the last report that leaders are late.
    late_reported_at: Arc<Mutex<Option<Instant>>>,
    /// `None` if guests are never interrupted.
    ticker: Option<Arc<Ticker>>,
    cache: CodeCache,
}

impl Engine {
    /// Creates an engine that caches compiled code in the user's cache directory:
    /// `TENURE_CACHE_DIR`, else `tenure` below `XDG_CACHE_HOME` or `~/.cache`. Without such a
    /// directory, nothing is cached.
    ///
    /// # Errors
    ///
    /// Returns an error if this machine cannot run compiled WebAssembly.
    pub fn new() -> Result<Self, EngineError> {
        let cache_directory = cache::default_directory();
        let cache_directory = cache_directory
            .as_ref()
            .map(|(directory, is_explicit)| (directory.as_path(), *is_explicit));
        Self::with_cache_directory(cache_directory)
            .map_err(|error| EngineError::from_wasmtime(&error))
    }

    /// Creates an engine that caches compiled code in `directory`. With `None`, nothing is cached,
    /// and components are compiled at each start. Cached code runs unchecked. So a directory is not
    /// used if other users can write to it or to one above it
    /// ([`cache_problem`](Engine::cache_problem)).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`new`](Engine::new). An unusable directory is no error.
    pub fn with_cache(directory: Option<&Path>) -> Result<Self, EngineError> {
        let cache_directory = directory.map(|directory| (directory, true));
        Self::with_cache_directory(cache_directory)
            .map_err(|error| EngineError::from_wasmtime(&error))
    }

    fn with_cache_directory(cache_directory: Option<(&Path, bool)>) -> wasmtime::Result<Self> {
        let mut config = Config::new();
        config.epoch_interruption(true);
        // A target that is named has no extensions of this machine's processor. So the code in the
        // cache of an image fits every machine of its architecture.
        config.target(env!("TENURE_TARGET"))?;
        let cache = CodeCache::open(cache_directory);
        config.cache(cache.wasmtime());
        let wasmtime = wasmtime::Engine::new(&config)?;
        config.allocation_strategy(instance_pool());
        // Without enough address space for a pool, each instance maps its own memory.
        let pooled = wasmtime::Engine::new(&config).unwrap_or_else(|_| wasmtime.clone());
        let ticker = Arc::new(Ticker::start([wasmtime.weak(), pooled.weak()])?);
        let calls = usize::from(max_calls(max_descriptors()));
        // Few connections suffice for the background requests of many elections.
        let (call_permits, request_permits) = (permit_pool(calls), permit_pool(calls / 2));
        Ok(Self {
            wasmtime,
            pooled,
            handlers: Arc::default(),
            call_permits,
            idle_permits: Arc::new(Semaphore::new(MAX_IDLE_INSTANCES.into())),
            request_permits,
            leaders: Arc::default(),
            late_reported_at: Arc::default(),
            ticker: Some(ticker),
            cache,
        })
    }

    /// Returns the reason why components are compiled at each start, for a warning after they were
    /// loaded: other users could write to the cache directory, an explicit directory cannot be
    /// used, or one that cannot be written lacks their code. Returns `None` if there is no usable
    /// default directory.
    #[must_use]
    pub fn cache_problem(&self) -> Option<String> {
        self.cache.problem()
    }

    /// Disables interruption for a simulation, because interruption happens in real time. A handler
    /// that never returns must not run on this engine.
    #[must_use]
    pub fn uninterrupted(mut self) -> Self {
        self.ticker = None;
        self
    }

    /// Compiles the component of a handler, unless another handler has compiled it already.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be compiled.
    pub(crate) fn compile(&self, binary: &[u8]) -> wasmtime::Result<(Component, ComponentGuard)> {
        self.handlers.get(binary, || self.load(binary))
    }

    /// Takes the code of a component from the cache, or compiles the component.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be compiled.
    pub(super) fn load(&self, binary: &[u8]) -> wasmtime::Result<Component> {
        self.cache.load(&self.wasmtime, binary)
    }

    /// Returns the engine for the election component.
    pub(crate) fn pooled(&self) -> Self {
        Self { wasmtime: self.pooled.clone(), ..self.clone() }
    }

    /// Waits until one more call may start on the [pooled](Self::pooled) engine. The caller drops
    /// the permit when the call has ended.
    pub(super) async fn call_permit(&self, urgency: Urgency) -> Permit {
        self.call_permits.get(urgency).await
    }

    /// Holds other candidates back after a leader's step started late. Returns true if the lateness
    /// should be reported: the last report is old enough.
    pub(super) fn on_late_step(&self) -> bool {
        // Steps cannot be late in simulated time.
        if self.ticker.is_none() {
            return false;
        }
        self.call_permits.hold_others();
        let mut reported_at = self.late_reported_at.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let is_due = reported_at
            .is_none_or(|last| now.saturating_duration_since(last) >= LATE_REPORT_INTERVAL);
        if is_due {
            *reported_at = Some(now);
        }
        is_due
    }

    /// Counts one more leader while the returned value exists.
    pub(super) fn register_leader(&self) -> LeaderGuard {
        self.leaders.fetch_add(1, Ordering::Relaxed);
        LeaderGuard(self.leaders.clone())
    }

    /// Returns the interval at which each leader may read its orders. Returns `None` if there are
    /// few leaders, and the default interval is long enough.
    pub(super) fn orders_interval(&self) -> Option<Duration> {
        let interval =
            Duration::from_secs(1) * self.leaders.load(Ordering::Relaxed) / ORDER_READS_PER_SECOND;
        Some(interval).filter(|interval| *interval > limits::DEFAULT_ORDERS)
    }

    /// Waits until one more background request may be sent. The caller drops the permit after the
    /// response.
    pub(super) async fn request_permit(&self, urgency: Urgency) -> Permit {
        self.request_permits.get(urgency).await
    }

    /// Returns the permits for idle instances on the pooled engine.
    pub(super) fn idle_permits(&self) -> &Arc<Semaphore> {
        &self.idle_permits
    }

    pub(crate) fn wasmtime(&self) -> &wasmtime::Engine {
        &self.wasmtime
    }

    /// Runs `guest` to its end, and interrupts its code regularly while it computes. It is also
    /// interrupted at `deadline`, which may move. A waiting guest causes no wake-ups.
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

/// Returns the number of concurrent calls for a limit of descriptors. With `None`, they are not
/// limited.
fn max_calls(descriptors: Option<u64>) -> u16 {
    let calls =
        descriptors.map(|all| u16::try_from(all / DESCRIPTORS_PER_CALL).unwrap_or(MAX_CALLS));
    calls.unwrap_or(MAX_CALLS).clamp(MIN_CALLS, MAX_CALLS)
}

/// Returns a pool of `total` permits. A quarter of them is reserved for leaders.
fn permit_pool(total: usize) -> Arc<PermitPool> {
    PermitPool::new(total, total * 3 / 4)
}

/// Returns the maximum number of descriptors of this process; `None` if there is no limit.
#[cfg(unix)]
fn max_descriptors() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

#[cfg(not(unix))]
fn max_descriptors() -> Option<u64> {
    None
}

/// Returns the pool of the memory of instances. If the kernel reports which pages an instance
/// wrote, only these are cleared.
fn instance_pool() -> InstanceAllocationStrategy {
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

/// The slot of one component; `None` while it is being compiled or if that failed.
type CompiledSlot = Mutex<Option<Component>>;

/// Keeps a component available to other handlers.
pub(crate) type ComponentGuard = Arc<CompiledSlot>;

/// The compiled components of handlers in use, by the hash of their bytes. Each is compiled once
/// for all elections with that handler.
#[derive(Default)]
struct Compiled(Mutex<HashMap<[u8; 32], Weak<CompiledSlot>>>);

impl Compiled {
    /// Returns the component, and compiles it if no handler has it. A concurrent caller waits for
    /// the result.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be compiled.
    fn get(
        &self,
        binary: &[u8],
        compile: impl FnOnce() -> wasmtime::Result<Component>,
    ) -> wasmtime::Result<(Component, ComponentGuard)> {
        let guard = {
            let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            entries.retain(|_, entry| entry.strong_count() > 0);
            let slot = entries.entry(Sha256::digest(binary).into()).or_default();
            slot.upgrade().unwrap_or_else(|| {
                let guard = ComponentGuard::default();
                *slot = Arc::downgrade(&guard);
                guard
            })
        };
        let mut slot = guard.lock().unwrap_or_else(PoisonError::into_inner);
        let component = match &*slot {
            Some(component) => component.clone(),
            None => slot.insert(compile()?).clone(),
        };
        drop(slot);
        Ok((component, guard))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;
    use std::cell::Cell;

    /// An empty component.
    const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";

    #[test]
    fn a_component_in_use_is_compiled_once() {
        let (engine, all, count) = (wasmtime::Engine::default(), Compiled::default(), Cell::new(0));
        let get = || {
            let compile = || {
                count.set(count.get() + 1);
                Component::from_binary(&engine, EMPTY)
            };
            all.get(EMPTY, compile).unwrap()
        };
        let both = (get(), get());
        assert_eq!(count.get(), 1);
        drop(both);
        let _again = get();
        assert_eq!(count.get(), 2, "no handler used the component any more");
    }

    #[test]
    fn a_failed_compilation_is_not_kept() {
        let (engine, all) = (wasmtime::Engine::default(), Compiled::default());
        assert!(all.get(b"x", || Component::from_binary(&engine, b"x")).is_err());
        assert!(all.get(b"x", || Component::from_binary(&engine, EMPTY)).is_ok());
    }

    #[test]
    fn all_leaders_together_read_orders_50_times_a_second() {
        let engine = Engine::with_cache(None).unwrap();
        let mut leaders: Vec<_> = (0..500).map(|_| engine.register_leader()).collect();
        assert_eq!(engine.orders_interval(), None);
        leaders.extend((0..4_500).map(|_| engine.pooled().register_leader()));
        assert_eq!(engine.orders_interval(), Some(Duration::from_secs(100)));
        leaders.truncate(1_000);
        assert_eq!(engine.orders_interval(), Some(Duration::from_secs(20)));
    }

    #[test]
    fn few_descriptors_allow_few_concurrent_calls() {
        let limits = [Some(20), Some(40), Some(200), Some(1024), Some(u64::MAX), None];
        assert_eq!(limits.map(max_calls), [4, 4, 20, 64, 64, 64]);
    }

    #[test]
    fn followers_get_a_permit_however_few_there_are() {
        for all in usize::from(MIN_CALLS) / 2..=MAX_CALLS.into() {
            assert!(permit_pool(all).get(Urgency::Other).now_or_never().is_some(), "{all}");
        }
    }
}
