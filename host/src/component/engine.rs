//! The wasmtime engine that the election component and the handlers share.
//!
//! - Guest code yields every few milliseconds, so that no guest holds up another, and at its
//!   deadline.
//! - Compiled code is cached on disk, where nobody else can write: a second start takes milliseconds.
//! - The election component, which gets a new instance for each step, has memory and stacks
//!   that are used again: to map new ones takes longer than most steps.

use super::cache;
use super::places::{Place, Places, Urgency};
use crate::deadline::Deadline;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;
use wasmtime::{Config, Enabled, EngineWeak, InstanceAllocationStrategy, PoolingAllocationConfig};

/// How often running guest code is interrupted. Half of the slack that the protocol's A2 gives
/// to preemption.
const TICK: Duration = Duration::from_millis(10);

/// The same for a guest that is still there after its deadline.
const OVERDUE: Duration = Duration::from_millis(1);

/// Calls of the election component at a time. More of them wait for a [place](Places).
const PLACES: u16 = 64;

/// So many of them at most are of others than leaders.
const OF_OTHERS: u16 = 48;

/// Bytes of an instance that stay mapped when it ends.
const RESIDENT: usize = 1024 * 1024;

/// Compiles and runs components. Clones share everything.
#[derive(Clone)]
pub struct Engine {
    /// For handlers, of any size.
    wasmtime: wasmtime::Engine,
    /// For the election component: small, many times a minute.
    brief: wasmtime::Engine,
    places: Arc<Places>,
    /// None: guests are never interrupted.
    ticker: Option<Arc<Ticker>>,
    /// Why compiled code is not cached, where that would not be safe.
    uncached: Option<Arc<str>>,
}

impl Engine {
    /// An engine that caches compiled code in the user's cache directory: `TENURE_CACHE_DIR`,
    /// else `tenure` below `XDG_CACHE_HOME` or `~/.cache`. Goes without where there is none.
    ///
    /// # Errors
    ///
    /// When this machine cannot run compiled WebAssembly.
    pub fn new() -> wasmtime::Result<Self> {
        Self::with_cache(cache::usual().as_deref())
    }

    /// An engine that caches compiled code in `directory`. What lies there is run as it is, so a
    /// directory that others can write to, itself or one above it, is not used
    /// ([`uncached`](Engine::uncached)).
    ///
    /// # Errors
    ///
    /// As [`new`](Engine::new). A directory that cannot be used is no error.
    pub fn with_cache(directory: Option<&Path>) -> wasmtime::Result<Self> {
        let mut config = Config::new();
        config.epoch_interruption(true);
        let (cache, uncached) = match directory.map(cache::open).transpose() {
            Ok(cache) => (cache.flatten(), None),
            Err(why) => (None, Some(why.into())),
        };
        config.cache(cache);
        let wasmtime = wasmtime::Engine::new(&config)?;
        config.allocation_strategy(pool());
        // Where so much address space is not to be had, memory is mapped anew for each step.
        let brief = wasmtime::Engine::new(&config).unwrap_or_else(|_| wasmtime.clone());
        let ticker = Arc::new(Ticker::start([wasmtime.weak(), brief.weak()])?);
        let places = Places::new(PLACES.into(), OF_OTHERS.into());
        Ok(Self { wasmtime, brief, places, ticker: Some(ticker), uncached })
    }

    /// Why compiled code is not cached although there is a directory for it: others could write there.
    /// It is compiled at each start then.
    #[must_use]
    pub fn uncached(&self) -> Option<&str> {
        self.uncached.as_deref()
    }

    /// This engine for a simulation: what runs on it from now on is never interrupted, since
    /// that would happen in real time. A handler that does not return is not to be run on it.
    #[must_use]
    pub fn uninterrupted(mut self) -> Self {
        self.ticker = None;
        self
    }

    /// The engine for components that run briefly and often.
    pub(crate) fn brief(&self) -> Self {
        Self { wasmtime: self.brief.clone(), ..self.clone() }
    }

    /// Waits until one more call may begin on the [brief](Self::brief) engine. Kept until it is over.
    pub(super) async fn place(&self, urgency: Urgency) -> Place {
        self.places.get(urgency).await
    }

    pub(crate) fn wasmtime(&self) -> &wasmtime::Engine {
        &self.wasmtime
    }

    /// Guest code is interrupted regularly as long as the returned value lives.
    ///
    /// With a `deadline` they are interrupted at that instant too, also when it is moved.
    pub(crate) fn running(&self, deadline: Option<&Deadline>) -> Option<Running> {
        Some(Running::start(self.ticker.clone()?, deadline.cloned()))
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

/// Linux tells which pages were written to, so only these are cleaned.
fn pool() -> InstanceAllocationStrategy {
    let places = u32::from(PLACES);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(places)
        .total_core_instances(4 * places)
        .total_memories(places)
        .total_tables(4 * places)
        .total_stacks(places)
        .linear_memory_keep_resident(RESIDENT)
        .table_keep_resident(RESIDENT)
        .pagemap_scan(Enabled::Auto);
    InstanceAllocationStrategy::Pooling(pool)
}

/// Advances the engine's epoch while guests run, and costs nothing while none does.
struct Ticker {
    shared: Arc<Shared>,
    thread: Thread,
}

#[derive(Default)]
struct Shared {
    running: Mutex<Guests>,
    closed: AtomicBool,
}

/// The guests that run, and the deadlines that they have.
#[derive(Default)]
struct Guests {
    count: usize,
    deadlines: Vec<Deadline>,
}

impl Guests {
    /// How long until the next tick. None: nobody runs.
    fn next_tick(&self) -> Option<Duration> {
        if self.count == 0 {
            return None;
        }
        // A guest whose time is over may have missed the tick for it while it was in the host.
        let until = |deadline: &Deadline| deadline.remaining().max(OVERDUE);
        Some(self.deadlines.iter().map(until).min().unwrap_or(TICK).min(TICK))
    }
}

impl Shared {
    fn guests(&self) -> MutexGuard<'_, Guests> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticker {
    fn start(engines: [EngineWeak; 2]) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let seen = shared.clone();
        let tick = move || {
            while !seen.closed.load(Ordering::SeqCst) {
                let next = seen.guests().next_tick();
                match next {
                    // Woken by the first guest, and by the end.
                    None => thread::park(),
                    // Woken early by a guest with a deadline, whose tick may be the next.
                    Some(next) => {
                        thread::park_timeout(next);
                        for engine in &engines {
                            let Some(engine) = engine.upgrade() else { return };
                            engine.increment_epoch();
                        }
                    }
                }
            }
        };
        let handle = thread::Builder::new().name("tenure-epoch".to_owned()).spawn(tick)?;
        Ok(Self { shared, thread: handle.thread().clone() })
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

/// Keeps the ticker going. See [`Engine::running`].
pub(crate) struct Running {
    ticker: Arc<Ticker>,
    deadline: Option<Deadline>,
}

impl Running {
    fn start(ticker: Arc<Ticker>, deadline: Option<Deadline>) -> Self {
        let mut guests = ticker.shared.guests();
        guests.count += 1;
        guests.deadlines.extend(deadline.clone());
        let wake = guests.count == 1 || deadline.is_some();
        drop(guests);
        if wake {
            ticker.thread.unpark();
        }
        Self { ticker, deadline }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut guests = self.ticker.shared.guests();
        guests.count -= 1;
        if let Some(deadline) = &self.deadline
            && let Some(place) = guests.deadlines.iter().position(|known| known.is(deadline))
        {
            guests.deadlines.swap_remove(place);
        }
    }
}
