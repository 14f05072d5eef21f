//! The wasmtime engine that the election component and the handlers share.
//!
//! - Guest code yields every few milliseconds, so that no guest holds up another.
//! - Compiled code is cached on disk: a second start takes milliseconds.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;
use wasmtime::{Cache, CacheConfig, Config, EngineWeak};

/// How often running guest code is interrupted. Half of the slack that the protocol's A2 gives
/// to preemption.
const TICK: Duration = Duration::from_millis(10);

/// Compiles and runs components. Clones share everything.
#[derive(Clone)]
pub struct Engine {
    wasmtime: wasmtime::Engine,
    ticker: Arc<Ticker>,
}

impl Engine {
    /// An engine that caches compiled code in the user's cache directory: `TENURE_CACHE_DIR`,
    /// else `tenure` below `XDG_CACHE_HOME` or `~/.cache`. Goes without where there is none.
    ///
    /// # Errors
    ///
    /// When this machine cannot run compiled WebAssembly.
    pub fn new() -> wasmtime::Result<Self> {
        Self::with_cache(cache_directory().as_deref())
    }

    /// An engine that caches compiled code in `directory`, which only its owner may write to: what
    /// lies there is run as it is.
    ///
    /// # Errors
    ///
    /// As [`new`](Engine::new). A directory that cannot be used is no error.
    pub fn with_cache(directory: Option<&Path>) -> wasmtime::Result<Self> {
        let mut config = Config::new();
        config.epoch_interruption(true);
        config.cache(directory.and_then(open_cache));
        let wasmtime = wasmtime::Engine::new(&config)?;
        let ticker = Arc::new(Ticker::start(wasmtime.weak())?);
        Ok(Self { wasmtime, ticker })
    }

    pub(crate) fn wasmtime(&self) -> &wasmtime::Engine {
        &self.wasmtime
    }

    /// Guest code is interrupted regularly as long as the returned value lives.
    pub(crate) fn running(&self) -> Running {
        self.ticker.shared.running.fetch_add(1, Ordering::SeqCst);
        self.ticker.thread.unpark();
        Running(self.ticker.clone())
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

fn cache_directory() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(directory) = variable("TENURE_CACHE_DIR") {
        return Some(directory.into());
    }
    let user = variable("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(Path::new(&variable("HOME")?).join(".cache")))?;
    Some(user.join("tenure"))
}

fn open_cache(directory: &Path) -> Option<Cache> {
    std::fs::create_dir_all(directory).ok()?;
    let mut config = CacheConfig::new();
    config.with_directory(directory);
    Cache::new(config).ok()
}

/// Advances the engine's epoch while guests run, and costs nothing while none does.
struct Ticker {
    shared: Arc<Shared>,
    thread: Thread,
}

#[derive(Default)]
struct Shared {
    running: AtomicUsize,
    closed: AtomicBool,
}

impl Ticker {
    fn start(engine: EngineWeak) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let seen = shared.clone();
        let tick = move || {
            while !seen.closed.load(Ordering::SeqCst) {
                if seen.running.load(Ordering::SeqCst) == 0 {
                    thread::park();
                    continue;
                }
                thread::sleep(TICK);
                let Some(engine) = engine.upgrade() else { return };
                engine.increment_epoch();
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
pub(crate) struct Running(Arc<Ticker>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.shared.running.fetch_sub(1, Ordering::SeqCst);
    }
}
