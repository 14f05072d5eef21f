//! The user's own component as a handler: the world `leader`.

#[cfg(test)]
mod tests;

use super::trap::explain;
use super::wasi_http::Guarded;
use crate::bindings::{Across as _, LeaderPre};
use crate::{Context, Engine, Grant, ComponentGuard, Output};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tenure::Lease;
use tenure::engine::{
    AllowList, Budget, Gate, HandlerLines, LEADER_HANDLER, Outlet, Policy, TraceParent, TurnLines,
};
use tenure::handler::{BoxFuture, Handler, LineSink, Stream, TurnEnd};
use tenure_clock::{Clock, ClockHandle};
use tenure_core::Turn;
use wasmtime::component::Component;
use wasmtime::{Store, UpdateDeadline};

/// Bytes of memory for a turn, unless told otherwise. Languages with a runtime of their own start
/// at some 30 MiB.
pub const MEMORY_LIMIT: usize = 256 * 1024 * 1024;

/// The least that the host holds for a turn, in bytes: two of the largest requests. Where the memory
/// limit is higher, it is half of that.
const MIN_BUDGET: usize = 16 * 1024 * 1024;

/// The longest that a handler may wait for an answer, or for its next part.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(300);

/// The largest answer, in bytes. It is not held in memory by the host.
const MAX_RESPONSE: u64 = 1024 * 1024 * 1024;

/// What a handler is given, beside its turns.
pub struct Options {
    /// Its environment, all of it.
    pub env: Vec<(String, String)>,
    /// Where it may send requests to. Names that resolve to an address of this machine or of its link, or to Azure's
    /// wire server, are refused all the same: these are allowed by address only.
    pub allow: AllowList,
    /// Called with each line that it writes to standard output and standard error, and with what
    /// the host has to say about its requests (`tenure: …`).
    ///
    /// At most 10,000 lines and 8 MiB of each turn, or of each hour of one that lasts longer, and 16 MiB a minute, as a
    /// log writes them: what comes after that is left out, and counted.
    pub output: Option<LineSink>,
    /// Bytes that all memories of a turn may have together. A handler that needs more traps. The host
    /// holds at most half as much for a turn beside that, or 16 MiB where this is more: headers, and
    /// bodies on their way. A request beyond that fails, and a handler that only collects headers
    /// traps.
    pub memory_limit: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            env: Vec::new(),
            allow: AllowList::default(),
            output: None,
            memory_limit: MEMORY_LIMIT,
        }
    }
}

/// A component that exports `leader-handler`. Each turn runs on a fresh instance, in a store of
/// its own, without any credential of the election.
///
/// It is compiled when it is loaded, unless it is in the engine's cache, or another handler on this engine has the same
/// component. That can take seconds: on a runtime that has other things to do, load it in `spawn_blocking`.
///
/// ```no_run
/// use std::sync::Arc;
/// use tenure_clock::BootClock;
/// use tenure::engine::AllowList;
/// use tenure_wasmtime::{ComponentHandler, Engine, Options};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (engine, clock) = (Engine::new()?, BootClock::new());
/// // It reaches only what it is allowed to.
/// let mut allow = AllowList::default();
/// allow.allow("https://example.com")?;
/// let options = Options {
///     env: vec![("REPORT_URL".into(), "https://example.com/report".into())],
///     allow,
///     output: Some(Arc::new(|_, line| println!("{line}"))),
///     ..Options::default()
/// };
/// let work = ComponentHandler::from_file(&engine, "report.wasm".as_ref(), options, &clock)?;
/// # let _ = work;
/// # Ok(())
/// # }
/// ```
pub struct ComponentHandler {
    engine: Engine,
    /// Others with the same component find it here.
    _component_guard: ComponentGuard,
    world: LeaderPre<Context>,
    env: Vec<(String, String)>,
    policy: Arc<Policy>,
    outlet: Outlet,
    lines: HandlerLines,
    memory_limit: usize,
    clock: ClockHandle,
    imports: Vec<String>,
}

impl ComponentHandler {
    /// Loads the component in the file at `path`.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, and as [`from_binary`](ComponentHandler::from_binary).
    pub fn from_file(
        engine: &Engine,
        path: &Path,
        options: Options,
        clock: &impl Clock,
    ) -> Result<Self, InvalidHandler> {
        let bytes =
            std::fs::read(path).map_err(|e| InvalidHandler::new(format!("cannot be read: {e}")))?;
        Self::from_binary(engine, &bytes, options, clock)
    }

    /// Loads a component. `clock` is the one that the runner uses.
    ///
    /// # Errors
    ///
    /// When `binary` is no component, does not export the interface `leader-handler`, or imports
    /// what a handler is not given.
    pub fn from_binary(
        engine: &Engine,
        binary: &[u8],
        options: Options,
        clock: &impl Clock,
    ) -> Result<Self, InvalidHandler> {
        reject_other_files(binary)?;
        let (component, guard) = engine
            .compile(binary)
            .map_err(|error| InvalidHandler::new(format!("is not a valid component: {error:#}")))?;
        require_export(engine, &component)?;
        let kind = component.component_type();
        let imports = kind.imports(engine.wasmtime()).map(|(name, _)| name.to_owned()).collect();
        let linked = crate::linker(engine).and_then(|linker| linker.instantiate_pre(&component));
        let linked = linked.map_err(|error| {
            InvalidHandler::new(format!("imports what a handler is not given: {error:#}"))
        })?;
        let world = LeaderPre::new(linked).map_err(|error| {
            InvalidHandler::new(format!("exports {LEADER_HANDLER} wrongly: {error:#}"))
        })?;
        let policy = Policy::streamed(options.allow, RESPONSE_TIMEOUT, MAX_RESPONSE);
        Ok(Self {
            engine: engine.clone(),
            _component_guard: guard,
            world,
            env: options.env,
            policy: Arc::new(policy),
            outlet: Outlet::for_component(),
            lines: HandlerLines::new(options.output, clock.handle()),
            memory_limit: options.memory_limit,
            clock: clock.handle(),
            imports,
        })
    }

    /// The interfaces that it imports, like `wasi:http/outgoing-handler@0.2.4`: what it can ask its host for.
    pub fn imports(&self) -> &[String] {
        &self.imports
    }

    fn store(
        &self,
        lease: &Lease,
        gate: Gate,
        budget: Budget,
        lines: &TurnLines,
    ) -> Store<Context> {
        let mut env = self.env.clone();
        if let Some(parent) = TraceParent::current() {
            env.retain(|(name, _)| name != "TRACEPARENT");
            env.push(("TRACEPARENT".to_owned(), parent.to_string()));
        }
        let grant = Grant {
            env: env.into(),
            files: &[],
            stdout: Some(Output::new(lines.writer(Stream::Stdout))),
            stderr: Output::new(lines.writer(Stream::Stderr)),
            clock: self.clock.clone(),
            gate: Box::new(Guarded(gate)),
            memory: self.memory_limit,
            budget,
            surroundings: None,
        };
        let mut store = crate::store(&self.engine, grant);
        // Code that never waits is ended here; the runner ends what waits.
        let lease = lease.clone();
        store.epoch_deadline_callback(move |_| {
            Ok(match lease.is_lost() {
                true => UpdateDeadline::Interrupt,
                false => UpdateDeadline::Yield(1),
            })
        });
        store
    }

    async fn run(&self, turn: Turn, lease: &Lease) -> wasmtime::Result<Result<(), String>> {
        let connections = self.outlet.open(turn.term, &turn.election, lease.clone());
        let turn = turn.across();
        let lines = self.lines.turn();
        let log_line = Arc::new(lines.host_writer());
        let budget = Budget::new((self.memory_limit / 2).max(MIN_BUDGET));
        let gate = Gate::for_turn(self.policy.clone(), &connections, log_line, budget.clone());
        let mut store = self.store(lease, gate, budget, &lines);
        // Dropped when the turn ends, however it ends, and before the store: with that go the
        // bodies that the handler left half written, which look as if they were finished then.
        let _connections = connections;
        let run_turn = async {
            let leader = self.world.instantiate_async(&mut store).await?;
            let handler = leader.tenure_election_leader_handler();
            handler.call_on_tick(&mut store, &turn).await
        };
        let result = self.engine.run_interruptible(Some(lease), run_turn).await;
        // The trap itself says less.
        result.map_err(|trap| store.data().termination_reason().map_or(trap, wasmtime::Error::msg))
    }
}

impl Handler for ComponentHandler {
    fn on_tick(&self, turn: Turn, lease: Lease) -> BoxFuture<'_, TurnEnd> {
        Box::pin(async move {
            match self.run(turn, &lease).await {
                Ok(Ok(())) => TurnEnd::Succeeded,
                Ok(Err(text)) => TurnEnd::failed(text),
                Err(_) if lease.is_lost() => TurnEnd::CutOff,
                Err(error) => TurnEnd::Trapped(explain(&error)),
            }
        })
    }

    fn stopped(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.outlet.closed())
    }
}

impl fmt::Debug for ComponentHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ComponentHandler").finish_non_exhaustive()
    }
}

/// Files that are often taken for a component get an answer of their own.
fn reject_other_files(binary: &[u8]) -> Result<(), InvalidHandler> {
    match binary {
        [b'\0', b'a', b's', b'm', 0x0d, 0, 1, 0, ..] => Ok(()),
        [b'\0', b'a', b's', b'm', 1, 0, 0, 0, ..] => Err(InvalidHandler::new(
            "is a core WebAssembly module, not a component; build it for wasm32-wasip2, or make it \
             one with `wasm-tools component new`",
        )),
        _ => Err(InvalidHandler::new("is not a WebAssembly component")),
    }
}

fn require_export(engine: &Engine, component: &Component) -> Result<(), InvalidHandler> {
    if component.get_export_index(None, LEADER_HANDLER).is_some() {
        return Ok(());
    }
    let kind = component.component_type();
    let exports: Vec<_> = kind.exports(engine.wasmtime()).map(|(name, _)| name).collect();
    let exports = match exports.as_slice() {
        [] => "nothing".to_owned(),
        names => names.join(", "),
    };
    Err(InvalidHandler::new(format!("does not export {LEADER_HANDLER}; it exports {exports}")))
}

/// Why a file cannot be a handler.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidHandler(String);

impl InvalidHandler {
    fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}
