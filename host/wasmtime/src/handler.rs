//! Component handlers: components of the user with the world `leader`.

#[cfg(test)]
mod tests;

use super::context::Env;
use super::error::explain_trap;
use super::linker::GateHooks;
use crate::bindings::{Convert as _, LEADER_HANDLER, LeaderPre};
use crate::{ComponentGuard, Context, Engine, Grant, Output};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tenure::Lease;
use tenure::engine::{AllowList, Budget, Gate, HandlerLines, Outlet, Policy, TurnLines};
use tenure::handler::{BoxFuture, Handler, LineSink, Stream, TraceParent, TurnEnd};
use tenure_clock::{Clock, ClockHandle};
use tenure_core::Turn;
use wasmtime::component::Component;
use wasmtime::{Store, UpdateDeadline};

/// Default maximum memory of a turn, in bytes. Languages with their own runtime start at some 30
/// MiB.
pub const MEMORY_LIMIT: usize = 256 * 1024 * 1024;

/// Smallest budget of host memory for a turn, in bytes: enough for two of the largest requests. The
/// budget is half of the turn's memory limit if that is more.
const MIN_BUDGET: usize = 16 * 1024 * 1024;

/// Maximum time that a handler may wait for a response, or for its next part.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(300);

/// Maximum size of a response, in bytes. The host does not hold it in memory.
const MAX_RESPONSE: u64 = 1024 * 1024 * 1024;

/// The options of a handler.
pub struct Options {
    /// The handler's whole environment.
    pub env: Vec<(String, String)>,
    /// The hosts to which the handler may send requests. Names that resolve to an address of this
    /// machine or its link, or to Azure's wire server, are still refused. Such targets are allowed
    /// by address only.
    pub allow: AllowList,
    /// Called with each line of the handler's standard output and standard error, and with the
    /// host's remarks about its requests (`tenure: …`).
    ///
    /// Output is limited to 10,000 lines and 8 MiB per turn, or per hour of a longer turn. All
    /// turns together are limited to 16 MiB a minute. Sizes are measured as a log writes the lines.
    /// Further lines are dropped and counted.
    pub output: Option<LineSink>,
    /// Maximum total size of a turn's memories, in bytes. A handler that needs more traps.
    ///
    /// In addition, a turn may use host memory for headers, and for bodies in transit: half as
    /// much, or 16 MiB if that is more. A request beyond it fails, and a handler that only collects
    /// headers traps.
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

/// A component that exports `leader-handler`. Each turn runs on a new instance in its own store,
/// without any credential of the election.
///
/// Loading compiles the component, unless it is in the engine's cache, or another handler on this
/// engine has the same component. That can take seconds: on a busy runtime, load it in
/// `spawn_blocking`.
///
/// ```no_run
/// use std::sync::Arc;
/// use tenure_clock::BootClock;
/// use tenure::engine::AllowList;
/// use tenure_wasmtime::{ComponentHandler, Engine, Options};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (engine, clock) = (Engine::new()?, BootClock::new());
/// // The handler can reach only allowed hosts.
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
    /// Lets other handlers with the same component find it.
    _component_guard: ComponentGuard,
    world: LeaderPre<Context>,
    env: Env,
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
    /// Returns an error if the file cannot be read, and the errors of
    /// [`from_binary`](ComponentHandler::from_binary).
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
    /// Returns an error if `binary` is not a component, does not export the interface
    /// `leader-handler`, or imports an interface that handlers do not get.
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
        let component_type = component.component_type();
        let imports =
            component_type.imports(engine.wasmtime()).map(|(name, _)| name.to_owned()).collect();
        let linked = crate::linker(engine).and_then(|linker| linker.instantiate_pre(&component));
        let linked = linked.map_err(|error| {
            InvalidHandler::new(format!("imports an interface that handlers do not get: {error:#}"))
        })?;
        let world = LeaderPre::new(linked).map_err(|error| {
            InvalidHandler::new(format!("exports {LEADER_HANDLER} wrongly: {error:#}"))
        })?;
        let policy = Policy::streamed(options.allow, RESPONSE_TIMEOUT, MAX_RESPONSE);
        Ok(Self {
            engine: engine.clone(),
            _component_guard: guard,
            world,
            env: Env::new(options.env),
            policy: Arc::new(policy),
            outlet: Outlet::for_component(),
            lines: HandlerLines::new(options.output, clock.handle()),
            memory_limit: options.memory_limit,
            clock: clock.handle(),
            imports,
        })
    }

    /// Returns the interfaces that the handler imports, like `wasi:http/outgoing-handler@0.2.4`.
    /// They show the access that it can have to the host.
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
        let env = match TraceParent::current() {
            Some(trace_parent) => self.env.with("TRACEPARENT", trace_parent.to_string()),
            None => self.env.clone(),
        };
        let grant = Grant {
            env,
            files: &[],
            stdout: Some(Output::new(lines.writer(Stream::Stdout))),
            stderr: Output::new(lines.writer(Stream::Stderr)),
            clock: self.clock.clone(),
            gate: Box::new(GateHooks(gate)),
            memory: self.memory_limit,
            budget,
            surroundings: None,
        };
        let mut store = crate::store(&self.engine, grant);
        // Interrupts code that never waits. The runner ends code that waits.
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
        let turn = turn.convert();
        let lines = self.lines.turn();
        let log_line = Arc::new(lines.host_writer());
        let budget = Budget::new((self.memory_limit / 2).max(MIN_BUDGET));
        let gate = Gate::for_turn(self.policy.clone(), &connections, log_line, budget.clone());
        let mut store = self.store(lease, gate, budget, &lines);
        // The connections are dropped at the end of the turn in any case, and before the store.
        // Half-written request bodies would look complete when the store drops them, so their
        // connections must close first.
        let _connections = connections;
        let run_turn = async {
            let leader = self.world.instantiate_async(&mut store).await?;
            let handler = leader.tenure_election_leader_handler();
            handler.call_on_tick(&mut store, &turn).await
        };
        let result = self.engine.run_interruptible(Some(lease), run_turn).await;
        // If the host made the guest trap, its reason says more than the trap.
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
                Err(error) => TurnEnd::Trapped(explain_trap(&error)),
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

/// Rejects files that are not components. A core module has its own error, because it is often
/// mistaken for a component.
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
    let component_type = component.component_type();
    let exports: Vec<_> = component_type.exports(engine.wasmtime()).map(|(name, _)| name).collect();
    let exports = match exports.as_slice() {
        [] => "nothing".to_owned(),
        names => names.join(", "),
    };
    Err(InvalidHandler::new(format!("does not export {LEADER_HANDLER}; it exports {exports}")))
}

/// The reason why a file cannot be a handler.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidHandler(String);

impl InvalidHandler {
    fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}
