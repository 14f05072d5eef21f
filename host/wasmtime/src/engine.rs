//! The wasmtime engine that the election component and the handlers share.
//!
//! - Guest code yields every few milliseconds, so that no guest holds up another, and at its
//!   deadline.
//! - Compiled code is cached on disk, where nobody else can write: a second start takes milliseconds.
//! - Memory and stacks of the election component's instances are used again: to map new ones takes longer than most steps.

use super::cache;
use super::compiled::{Compiled, Kept};
use super::error::EngineError;
use super::places::{Place, Places, Urgency};
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
const PLACES: u16 = 64;

/// The least, however few descriptors there are.
const FEWEST: u16 = 4;

/// A call has a connection, and now and then another one is made in vain. So much more is there for what else needs descriptors.
const DESCRIPTORS_OF_ONE: u64 = 10;

/// Instances that are kept between two calls.
pub(super) const RESTING: u16 = 16;

/// Reads of orders in a second, by all leaders on one engine.
const ORDER_READS: u32 = 50;

/// That leaders are late is told so often at most.
const SILENCE: Duration = Duration::from_secs(60);

/// Bytes of an instance that stay mapped when it ends.
const RESIDENT: usize = 1024 * 1024;

/// Compiles and runs components. Clones share everything.
#[derive(Clone)]
pub struct Engine {
    /// For handlers, of any size.
    wasmtime: wasmtime::Engine,
    /// For the election component: small, many times a minute.
    brief: wasmtime::Engine,
    handlers: Arc<Compiled>,
    places: Arc<Places>,
    /// For instances between two calls.
    room: Arc<Semaphore>,
    beside: Arc<Places>,
    /// The number of leaders.
    leaders: Arc<AtomicU32>,
    /// When it was told last that leaders are late.
    told: Arc<Mutex<Option<Instant>>>,
    /// None: guests are never interrupted.
    ticker: Option<Arc<Ticker>>,
    /// Why compiled code is not cached, where that would not be safe or the directory that was named cannot be used.
    uncached: Option<Arc<str>>,
}

impl Engine {
    /// An engine that caches compiled code in the user's cache directory: `TENURE_CACHE_DIR`,
    /// else `tenure` below `XDG_CACHE_HOME` or `~/.cache`. If there is no such directory, nothing is cached.
    ///
    /// # Errors
    ///
    /// When this machine cannot run compiled WebAssembly.
    pub fn new() -> Result<Self, EngineError> {
        let place = cache::usual();
        let place = place.as_ref().map(|(directory, named)| (directory.as_path(), *named));
        Self::caching(place).map_err(|error| EngineError::of(&error))
    }

    /// An engine that caches compiled code in `directory`. None: nothing is cached, and components are compiled
    /// at each start. What lies there is run as it is, so a directory that others can write to, itself or one
    /// above it, is not used ([`uncached`](Engine::uncached)).
    ///
    /// # Errors
    ///
    /// As [`new`](Engine::new). A directory that cannot be used is no error.
    pub fn with_cache(directory: Option<&Path>) -> Result<Self, EngineError> {
        let place = directory.map(|directory| (directory, true));
        Self::caching(place).map_err(|error| EngineError::of(&error))
    }

    fn caching(place: Option<(&Path, bool)>) -> wasmtime::Result<Self> {
        let mut config = Config::new();
        config.epoch_interruption(true);
        let (cache, uncached) = match place.map(|(at, named)| cache::open(at, named)).transpose() {
            Ok(cache) => (cache.flatten(), None),
            Err(why) => (None, Some(why.into())),
        };
        config.cache(cache);
        let wasmtime = wasmtime::Engine::new(&config)?;
        config.allocation_strategy(pool());
        // Where so much address space is not to be had, memory is mapped anew for each step.
        let brief = wasmtime::Engine::new(&config).unwrap_or_else(|_| wasmtime.clone());
        let ticker = Arc::new(Ticker::start([wasmtime.weak(), brief.weak()])?);
        let calls = usize::from(calls(descriptors()));
        // Connections are few, however many elections there are.
        let (places, beside) = (places(calls), places(calls / 2));
        let room = Arc::new(Semaphore::new(RESTING.into()));
        let (ticker, told, handlers) = (Some(ticker), Arc::default(), Arc::default());
        let leaders = Arc::default();
        Ok(Self {
            wasmtime,
            brief,
            handlers,
            places,
            room,
            beside,
            leaders,
            told,
            ticker,
            uncached,
        })
    }

    /// Why compiled code is not cached although there is a directory for it: others could write there, or it was named
    /// and cannot be used. It is compiled at each start then.
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

    /// Compiles the component of a handler, unless one that is kept runs it already.
    ///
    /// # Errors
    ///
    /// It cannot be compiled.
    pub(crate) fn compile(&self, binary: &[u8]) -> wasmtime::Result<(Component, Kept)> {
        self.handlers.get(binary, || Component::from_binary(&self.wasmtime, binary))
    }

    /// The engine for components that run briefly and often.
    pub(crate) fn brief(&self) -> Self {
        Self { wasmtime: self.brief.clone(), ..self.clone() }
    }

    /// Waits until one more call may begin on the [brief](Self::brief) engine. Kept until it is over.
    pub(super) async fn place(&self, urgency: Urgency) -> Place {
        self.places.get(urgency).await
    }

    /// A leader's step began late: others wait for a while. Whether that is to be told: it was not for a while.
    pub(super) fn is_late(&self) -> bool {
        // Nothing is late in a simulation's time.
        if self.ticker.is_none() {
            return false;
        }
        self.places.hold_back();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let news = told.is_none_or(|told| now.saturating_duration_since(told) >= SILENCE);
        if news {
            *told = Some(now);
        }
        news
    }

    /// Counts one leader more, as long as the returned value is kept.
    pub(super) fn leads(&self) -> Leads {
        self.leaders.fetch_add(1, Ordering::Relaxed);
        Leads(self.leaders.clone())
    }

    /// Returns the interval at which each leader may read its orders. None: as it wants to.
    pub(super) fn orders_interval(&self) -> Option<Duration> {
        let interval = Duration::from_secs(1) * self.leaders.load(Ordering::Relaxed) / ORDER_READS;
        Some(interval).filter(|interval| *interval > limits::DEFAULT_ORDERS)
    }

    /// Waits until one more request may go out beside the steps. Kept until it is answered.
    pub(super) async fn beside(&self, urgency: Urgency) -> Place {
        self.beside.get(urgency).await
    }

    /// Room for the instances of components on the brief engine that wait for a call.
    pub(super) fn room(&self) -> &Arc<Semaphore> {
        &self.room
    }

    pub(crate) fn wasmtime(&self) -> &wasmtime::Engine {
        &self.wasmtime
    }

    /// Completes with `guest`, whose code is interrupted regularly while it computes, and at that `deadline` too, also when it
    /// is moved. While it waits nobody wakes up for it.
    pub(crate) async fn interrupting<G: Future>(
        &self,
        deadline: Option<&Lease>,
        guest: G,
    ) -> G::Output {
        match &self.ticker {
            Some(ticker) => ticker.interrupting(&self.wasmtime, deadline, guest).await,
            None => guest.await,
        }
    }
}

/// A leader on an engine.
pub(super) struct Leads(Arc<AtomicU32>);

impl Drop for Leads {
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
    let enough = descriptors.map(|all| u16::try_from(all / DESCRIPTORS_OF_ONE).unwrap_or(PLACES));
    enough.unwrap_or(PLACES).clamp(FEWEST, PLACES)
}

/// So many, of which leaders find some free whatever others do.
fn places(all: usize) -> Arc<Places> {
    Places::new(all, all * 3 / 4)
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
    let places = u32::from(PLACES + RESTING);
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

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[test]
    fn all_leaders_together_read_orders_50_times_a_second() {
        let engine = Engine::with_cache(None).unwrap();
        let mut leaders: Vec<_> = (0..500).map(|_| engine.leads()).collect();
        assert_eq!(engine.orders_interval(), None);
        leaders.extend((0..4_500).map(|_| engine.brief().leads()));
        assert_eq!(engine.orders_interval(), Some(Duration::from_secs(100)));
        leaders.truncate(1_000);
        assert_eq!(engine.orders_interval(), Some(Duration::from_secs(20)));
    }

    #[test]
    fn with_few_descriptors_there_are_few_calls_at_a_time() {
        let limits = [Some(20), Some(40), Some(200), Some(1024), Some(u64::MAX), None];
        assert_eq!(limits.map(calls), [4, 4, 20, 64, 64, 64]);
    }

    #[test]
    fn others_than_leaders_find_a_place_however_few_there_are() {
        for all in usize::from(FEWEST) / 2..=PLACES.into() {
            assert!(places(all).get(Urgency::Other).now_or_never().is_some(), "{all}");
        }
    }
}
