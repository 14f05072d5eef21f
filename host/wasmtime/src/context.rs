//! The data of a guest's store: its capabilities and its output.

use super::engine::Engine;
use super::limits::{HostMemory, Limits};
use super::surroundings::Surroundings;
use bytes::Bytes;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tenure::engine::{Budget, Lines};
use tenure_clock::ClockHandle;
use tenure_core::nanoseconds;
use tokio::io::AsyncWrite;
use wasmtime::Store;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};
use wasmtime_wasi::{FsPerms, HostMonotonicClock, WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpHooks, WasiHttpView};
use zeroize::Zeroize as _;

/// Maximum number of handles that a guest holds at a time: streams, requests, pollables. Each takes
/// memory of the host, up to [`MAX_CALL_BYTES`].
const MAX_HANDLES: usize = 4_000;

/// Maximum number of bytes that a guest passes in one call of a host function. Guests write larger
/// data in parts.
const MAX_CALL_BYTES: usize = 128 * 1024;

/// Maximum number of random bytes that a guest gets in one call. The guest cannot be interrupted
/// while the host generates them.
const MAX_RANDOM_BYTES: u64 = 1024 * 1024;

/// Maximum size of one write, in bytes. A larger one traps, because the host holds it in memory.
const MAX_WRITE: usize = 64 * 1024;

/// The capabilities of a guest in one call. It has no others: no arguments, no inherited
/// environment or streams, no sockets, no other directories.
pub(crate) struct Grant<'a> {
    pub env: Env,
    /// Files that the guest may read, at the same path as on this machine.
    pub files: &'a [String],
    pub stdout: Option<Output>,
    pub stderr: Output,
    pub clock: ClockHandle,
    /// Checks and sends each HTTP request.
    pub gate: Box<dyn WasiHttpHooks>,
    /// Maximum total size of the guest's memories, in bytes.
    pub memory: usize,
    /// Limit of the memory that the host holds for the guest.
    pub budget: Budget,
    /// Replaces this machine's time of day and randomness.
    pub surroundings: Option<&'a Surroundings>,
}

/// Environment of a guest. It contains secrets: the last clone overwrites the values on drop.
#[derive(Clone, Default)]
pub(crate) struct Env(Arc<Vec<(String, String)>>);

impl Env {
    pub(crate) fn new(entries: Vec<(String, String)>) -> Self {
        Self(Arc::new(entries))
    }

    pub(crate) fn entries(&self) -> &[(String, String)] {
        &self.0
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns a copy in which `name` has this value.
    pub(crate) fn with(&self, name: &str, value: String) -> Self {
        let others = self.0.iter().filter(|(known, _)| known != name).cloned();
        Self::new(others.chain([(name.to_owned(), value)]).collect())
    }
}

impl Drop for Env {
    fn drop(&mut self) {
        let last = Arc::into_inner(std::mem::take(&mut self.0));
        for (_, mut value) in last.into_iter().flatten() {
            value.zeroize();
        }
    }
}

/// The data of a store.
pub(crate) struct Context {
    wasi: WasiCtx,
    env: Env,
    clock: GuestClock,
    stderr: Output,
    /// True if the grant [is plain](Grant::is_plain). The next call can then keep `wasi` if its
    /// grant is plain too.
    is_plain: bool,
    http: WasiHttpCtx,
    table: ResourceTable,
    gate: Box<dyn WasiHttpHooks>,
    host_memory: HostMemory,
    limits: Limits,
}

impl Context {
    /// Returns the reason why the host made the guest trap; `None` if the guest trapped by itself.
    pub(crate) fn termination_reason(&self) -> Option<String> {
        self.host_memory.termination_reason()
    }

    /// Ends the guest's call. Returns the size of the guest's memory, in bytes.
    pub(super) fn end_call(&mut self) -> usize {
        // The environment contains secrets.
        self.env = Env::default();
        self.limits.used()
    }

    /// Returns true if the guest holds no handle.
    pub(super) fn has_no_handles(&self) -> bool {
        self.table.is_empty()
    }

    /// Prepares the guest for another call with other capabilities.
    pub(super) fn resume(&mut self, grant: Grant<'_>) {
        let is_plain = grant.is_plain();
        if is_plain && self.is_plain {
            self.clock.set(grant.clock);
            self.stderr.redirect(grant.stderr);
        } else {
            self.clock = GuestClock::new(grant.clock.clone());
            self.wasi = wasi(&grant, &self.clock);
            self.stderr = grant.stderr;
        }
        self.is_plain = is_plain;
        self.env = grant.env;
        self.gate = grant.gate;
        self.host_memory = HostMemory::new(grant.budget);
    }

    /// Returns the environment of the guest. The caller drops it before the context: if this `Arc`
    /// is dropped last, the values are not overwritten.
    pub(super) fn env(&self) -> Arc<Vec<(String, String)>> {
        self.env.0.clone()
    }
}

impl Grant<'_> {
    /// Returns true if there are no files, no standard output, and no surroundings. Such grants
    /// have the same [`WasiCtx`] except for clock and standard error, which can be replaced.
    fn is_plain(&self) -> bool {
        self.files.is_empty() && self.stdout.is_none() && self.surroundings.is_none()
    }
}

/// Creates a store with these capabilities. Guest code in it yields at each tick.
pub(crate) fn store(engine: &Engine, grant: Grant<'_>) -> Store<Context> {
    let mut table = ResourceTable::new();
    table.set_max_capacity(MAX_HANDLES);
    let mut http = WasiHttpCtx::new();
    http.set_field_size_limit(Budget::FIELDS);
    let (clock, is_plain) = (GuestClock::new(grant.clock.clone()), grant.is_plain());
    let context = Context {
        wasi: wasi(&grant, &clock),
        env: grant.env,
        clock,
        stderr: grant.stderr,
        is_plain,
        http,
        table,
        gate: grant.gate,
        host_memory: HostMemory::new(grant.budget),
        limits: Limits::new(grant.memory),
    };
    let mut store = Store::new(engine.wasmtime(), context);
    store.limiter(|context| &mut context.limits);
    store.set_hostcall_fuel(MAX_CALL_BYTES);
    store.set_epoch_deadline(1);
    store.epoch_deadline_async_yield_and_update(1);
    store
}

/// Builds streams, clock and files. The linker provides the environment.
fn wasi(grant: &Grant<'_>, clock: &GuestClock) -> WasiCtx {
    let mut wasi = WasiCtx::builder();
    wasi.monotonic_clock(clock.clone());
    wasi.stderr(grant.stderr.clone()).max_random_size(MAX_RANDOM_BYTES);
    wasi.allow_tcp(false).allow_udp(false).allow_ip_name_lookup(false);
    if let Some(stdout) = &grant.stdout {
        wasi.stdout(stdout.clone());
    }
    if let Some(surroundings) = grant.surroundings {
        surroundings.apply(&mut wasi);
    }
    for file in grant.files {
        open_directory(&mut wasi, file);
    }
    wasi.build()
}

/// Opens the directory of a file, because WASI opens directories only. The guest can read all files
/// in it, so the root directory is not opened. A directory that cannot be opened is left out; the
/// guest then reports the missing file.
fn open_directory(wasi: &mut WasiCtxBuilder, file: &str) {
    if let Some(directory) = Path::new(file).parent().and_then(Path::to_str) {
        let directory = if directory.is_empty() { "." } else { directory };
        if directory != "." && Path::new(directory).parent().is_none() {
            return;
        }
        let _ = wasi.preopened_dir(directory, directory, FsPerms::ReadOnly);
    }
}

impl WasiView for Context {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl WasiHttpView for Context {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        let table = self.host_memory.table(&mut self.table);
        WasiHttpCtxView { ctx: &mut self.http, table, hooks: &mut *self.gate }
    }
}

/// The guest's clock, which the host can replace between two calls.
#[derive(Clone)]
struct GuestClock(Arc<Mutex<ClockHandle>>);

impl GuestClock {
    fn new(clock: ClockHandle) -> Self {
        Self(Arc::new(Mutex::new(clock)))
    }

    fn set(&self, clock: ClockHandle) {
        *self.clock() = clock;
    }

    fn clock(&self) -> MutexGuard<'_, ClockHandle> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HostMonotonicClock for GuestClock {
    fn resolution(&self) -> u64 {
        1
    }

    fn now(&self) -> u64 {
        nanoseconds(self.clock().now())
    }
}

/// Standard output or standard error of a guest: a stream that splits text into [`Lines`] and
/// passes each to a function.
#[derive(Clone)]
pub(crate) struct Output(Arc<Mutex<Lines>>);

impl Output {
    pub(crate) fn new(on_line: impl FnMut(String) + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Lines::new(on_line))))
    }

    /// Redirects further output to the destination of `replacement`, which must not have a clone.
    fn redirect(&self, replacement: Self) {
        if let Ok(lines) = Arc::try_unwrap(replacement.0) {
            *self.lines() = lines.into_inner().unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IsTerminal for Output {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Output {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        // Only WASI 0.3 uses this stream, and the linker does not link it.
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

impl OutputStream for Output {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        if bytes.len() > MAX_WRITE {
            return Err(StreamError::trap("it wrote more at once than the stream takes"));
        }
        self.lines().write(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(MAX_WRITE)
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for Output {
    async fn ready(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn the_last_clone_of_an_environment_overwrites_its_values() {
        use std::os::unix::fs::FileExt as _;
        let memory = std::fs::File::open("/proc/self/mem").unwrap();
        let env =
            Env::new(vec![("KEY".to_owned(), "secret".repeat(20))]).with("ORDERS", "1s".into());
        let address = env.get("KEY").unwrap().as_ptr().addr() as u64;
        let mut bytes = [0; 120];
        let mut is_in_memory = || {
            memory.read_exact_at(&mut bytes, address).unwrap();
            bytes.windows(6).any(|part| part == b"secret")
        };
        let clone = env.clone();
        drop(env);
        assert!(is_in_memory());
        // A mere deallocation overwrites only the first bytes.
        drop(clone);
        assert!(!is_in_memory());
    }

    #[test]
    fn a_larger_write_than_permitted_is_a_trap() {
        let mut output = Output::new(|_| {});
        assert_eq!(output.check_write().unwrap(), MAX_WRITE);
        output.write(vec![b'x'; MAX_WRITE].into()).unwrap();
        let refused = output.write(vec![b'x'; MAX_WRITE + 1].into());
        assert!(matches!(refused, Err(StreamError::Trap(_))), "{refused:?}");
    }
}
