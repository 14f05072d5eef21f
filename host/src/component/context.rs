//! What a guest is given: the data of its store.

use super::engine::{Engine, Running};
use super::holdings::Holdings;
use super::limits::Limits;
use super::output::Output;
use super::surroundings::Surroundings;
use crate::clock::Reading;
use crate::deadline::Deadline;
use crate::egress::{Budget, FIELDS};
use std::path::Path;
use wasmtime::Store;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::{FsPerms, HostMonotonicClock, WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpHooks, WasiHttpView};

/// Handles that a guest may hold at a time: streams, requests, pollables. Each of them takes
/// memory of the host, up to what one call may hand over.
const HANDLES: usize = 4_000;

/// Bytes that one call may hand to the host. What is larger is written in parts.
const CALL: usize = 128 * 1024;

/// Random bytes of one call. The host makes them before the guest can be interrupted again.
const RANDOM: u64 = 1024 * 1024;

/// The capabilities of one guest call. What is not named here is not there: no arguments, no
/// inherited environment or streams, no sockets, no directories.
pub(crate) struct Grant<'a> {
    pub env: &'a [(String, String)],
    /// Read-only, at the same path.
    pub files: &'a [String],
    pub stdout: Option<Output>,
    pub stderr: Output,
    pub clock: Reading,
    /// Decides on each request, and carries it.
    pub gate: Box<dyn WasiHttpHooks>,
    /// Bytes that its memories may have together.
    pub memory: usize,
    /// Bytes that the host may hold for it.
    pub budget: Budget,
    /// When guest code is to be interrupted, beside the regular ticks.
    pub deadline: Option<&'a Deadline>,
    /// In place of this machine's time of day and randomness.
    pub surroundings: Option<&'a Surroundings>,
}

/// The data of a store.
pub(crate) struct Context {
    wasi: WasiCtx,
    http: WasiHttpCtx,
    table: ResourceTable,
    gate: Box<dyn WasiHttpHooks>,
    holdings: Holdings,
    limits: Limits,
    _running: Option<Running>,
}

impl Context {
    /// Why a guest that trapped was ended by the host, if it was.
    pub(crate) fn told(&self) -> Option<String> {
        self.holdings.told()
    }
}

/// A store for one call, in which guest code yields at each tick.
pub(crate) fn store(engine: &Engine, grant: Grant<'_>) -> Store<Context> {
    let mut wasi = WasiCtx::builder();
    wasi.envs(grant.env).monotonic_clock(GuestClock(grant.clock)).stderr(grant.stderr);
    wasi.max_random_size(RANDOM);
    wasi.allow_tcp(false).allow_udp(false).allow_ip_name_lookup(false);
    if let Some(stdout) = grant.stdout {
        wasi.stdout(stdout);
    }
    if let Some(surroundings) = grant.surroundings {
        surroundings.apply(&mut wasi);
    }
    for file in grant.files {
        open(&mut wasi, file);
    }
    let mut table = ResourceTable::new();
    table.set_max_capacity(HANDLES);
    let mut http = WasiHttpCtx::new();
    http.set_field_size_limit(FIELDS);
    let context = Context {
        wasi: wasi.build(),
        http,
        table,
        gate: grant.gate,
        holdings: Holdings::new(grant.budget),
        limits: Limits::new(grant.memory),
        _running: engine.running(grant.deadline),
    };
    let mut store = Store::new(engine.wasmtime(), context);
    store.limiter(|context| &mut context.limits);
    store.set_hostcall_fuel(CALL);
    store.set_epoch_deadline(1);
    store.epoch_deadline_async_yield_and_update(1);
    store
}

/// WASI opens directories only, so a file brings the others beside it; that is why the root is not
/// opened. A directory that cannot be opened is left out too: the guest says what it misses.
fn open(wasi: &mut WasiCtxBuilder, file: &str) {
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
        let table = self.holdings.table(&mut self.table);
        WasiHttpCtxView { ctx: &mut self.http, table, hooks: &mut *self.gate }
    }
}

/// Guest and host measure with one clock.
struct GuestClock(Reading);

impl HostMonotonicClock for GuestClock {
    fn resolution(&self) -> u64 {
        1
    }

    fn now(&self) -> u64 {
        u64::try_from(self.0.now().as_nanos()).unwrap_or(u64::MAX)
    }
}
