//! The election component: a candidate that runs as a guest in this process.

use super::bindings::{self, Convert as _, LEADER_HANDLER, types};
use super::context::{Context, Env, Grant, Output};
use super::engine::{Engine, LeaderGuard};
use super::error::{CheckError, ComponentError, StderrTail};
use super::instances::{Functions, Instances};
use super::linker::{GateHooks, linker};
use super::permits::{Permit, Urgency};
use super::surroundings::{NetworkHooks, Surroundings};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tenure::RootCertificates;
use tenure::engine::{
    AllowList, Budget, Clients, Elector, ElectorError, Gate, Variables, exchange,
};
use tenure_clock::{Clock, ClockHandle};
use tenure_core::{
    Event, Failure, FailureKind, Needs, Report, Request, Response, Role, State, nanoseconds,
    variable,
};
use wasmtime::StoreContextMut;
use wasmtime::component::{ComponentExportIndex, ComponentNamedList, Lift, Linker, Lower};
use wasmtime_wasi_http::WasiHttpHooks;

/// The election component embedded in this crate: the WIT world `socket`. It runs on any WASI 0.2
/// host once a handler is plugged into it.
#[cfg(feature = "component")]
pub const ELECTION_COMPONENT: &[u8] = include_bytes!(env!("TENURE_COMPONENT"));

/// Maximum memory of one call, in bytes. The component uses a few hundred KiB.
const MEMORY_LIMIT: usize = 64 * 1024 * 1024;

/// Minimum lateness that counts. A step of a candidate with a lease is late if its delay exceeds
/// this duration, and an eighth of the time left when the step was due.
const MIN_LATENESS: Duration = Duration::from_millis(250);

/// The election component with the settings of one candidate.
///
/// It may send requests only to the origins that its [`check`](ElectionComponent::check) returned,
/// so it sends nothing before that. A [`Runner`](tenure::engine::Runner) checks it if needed.
pub struct ElectionComponent {
    engine: Engine,
    instances: Arc<Instances>,
    functions: Functions,
    /// The settings, as the environment of each call.
    env: Env,
    /// The runner's clock.
    clock: ClockHandle,
    /// The runner's clock as the component reads it.
    guest_clock: ClockHandle,
    /// The value that the component's first clock reading in a step returns, in nanoseconds; 0
    /// outside of steps. The clock continues from there.
    step_start: Arc<AtomicU64>,
    clients: Arc<Clients>,
    surroundings: Option<Surroundings>,
    /// The files that the settings name; unset before the first check.
    files: OnceLock<Vec<String>>,
    /// The gate to the origins that the check returned; unset before the first check.
    granted_gate: OnceLock<Gate>,
    last_step: Mutex<LastStep>,
}

/// Links the handler import to a function that traps. Only the component's entry points for other
/// platforms call a handler. This host runs handlers in their own store, where it can stop them.
fn deny_handler(linker: &mut Linker<Context>) -> wasmtime::Result<()> {
    type TickResult = (Result<(), String>,);
    linker.instance(LEADER_HANDLER)?.func_wrap(
        "on-tick",
        |_: StoreContextMut<'_, Context>, _: (types::Turn,)| -> wasmtime::Result<TickResult> {
            Err(wasmtime::format_err!("the election component may not run a handler here"))
        },
    )
}

impl ElectionComponent {
    /// Creates a candidate with the embedded component. `clock` is the one that the runner uses.
    ///
    /// Compiling the component, unless it is in the engine's cache, may block this thread for a
    /// second. On a busy runtime, use `spawn_blocking`.
    ///
    /// # Errors
    ///
    /// Returns an error if the component cannot be compiled.
    #[cfg(feature = "component")]
    pub fn new(
        engine: &Engine,
        settings: impl Into<Variables>,
        clock: &impl Clock,
    ) -> Result<Self, ComponentError> {
        Self::with_binary(engine, ELECTION_COMPONENT, settings, clock)
    }

    /// Creates a candidate with another build of the component.
    ///
    /// # Errors
    ///
    /// Returns an error if `binary` is not a component, lacks exports of the interface `election`,
    /// or imports anything but standard WASI 0.2.
    pub fn with_binary(
        engine: &Engine,
        binary: &[u8],
        settings: impl Into<Variables>,
        clock: &impl Clock,
    ) -> Result<Self, ComponentError> {
        let (engine, settings) = (&engine.pooled(), with_background(settings.into()));
        let failed = |error: wasmtime::Error| ComponentError::from_wasmtime(&error);
        let component = engine.load(binary).map_err(failed)?;
        let functions = Functions::from_component(&component)?;
        let mut linker = linker(engine).map_err(failed)?;
        deny_handler(&mut linker).map_err(failed)?;
        let instance = linker.instantiate_pre(&component).map_err(failed)?;
        let step_start = Arc::default();
        Ok(Self {
            engine: engine.clone(),
            instances: Arc::new(Instances::new(engine.clone(), instance)),
            functions,
            env: Env::new(settings.entries().to_vec()),
            guest_clock: clock.handle().without_lead().with_first_read(&step_start),
            step_start,
            clock: clock.handle(),
            clients: Arc::new(Clients::with_env_proxies(RootCertificates::default())),
            surroundings: None,
            files: OnceLock::new(),
            granted_gate: OnceLock::new(),
            last_step: Mutex::default(),
        })
    }

    /// Creates another candidate on the same compiled component, with its own settings and clock.
    /// Both trust the same servers, and share connections.
    #[must_use]
    pub fn for_candidate(&self, settings: impl Into<Variables>, clock: &impl Clock) -> Self {
        let (settings, step_start) = (with_background(settings.into()), Arc::default());
        Self {
            engine: self.engine.clone(),
            instances: self.instances.clone(),
            functions: self.functions.clone(),
            env: Env::new(settings.entries().to_vec()),
            guest_clock: clock.handle().without_lead().with_first_read(&step_start),
            step_start,
            clock: clock.handle(),
            clients: self.clients.clone(),
            surroundings: None,
            files: OnceLock::new(),
            granted_gate: OnceLock::new(),
            last_step: Mutex::default(),
        }
    }

    /// Trusts these root certificates, in addition to those of the platform. Afterwards a
    /// [`check`](ElectionComponent::check) is needed, as for a new component.
    #[must_use]
    pub fn trusting(mut self, authorities: RootCertificates) -> Self {
        self.clients = self.clients.clone().with_root_certificates(authorities);
        // An earlier grant does not include these root certificates.
        self.granted_gate = OnceLock::new();
        self
    }

    /// Replaces the time of day, randomness and network of this machine, for a simulation.
    #[must_use]
    pub fn in_surroundings(mut self, surroundings: Surroundings) -> Self {
        self.surroundings = Some(surroundings);
        self
    }

    /// Checks the settings and grants the component the access that they need. Sends nothing.
    ///
    /// # Errors
    ///
    /// Returns all complaints at once, or the failure of the component itself.
    pub async fn check(&self) -> Result<Needs, CheckError> {
        if self.files.get().is_none() {
            let (files,): (Vec<String>,) = self.call(&self.functions.files, ()).await?;
            let _ = self.files.set(files);
        }
        let (answer,): (Result<types::Needs, Vec<types::Complaint>>,) =
            self.call(&self.functions.check, ()).await?;
        let sentence = |types::Complaint { setting, problem, advice }: &types::Complaint| {
            format!("{setting}: {problem}; {advice}")
        };
        let check_error = |complaints: Vec<types::Complaint>| {
            CheckError::Settings(complaints.iter().map(sentence).collect())
        };
        let needs: Needs = answer.map_err(check_error)?.convert();
        let allow = AllowList::from_needs(&needs)
            .map_err(|invalid| CheckError::Settings(vec![invalid.to_string()]))?;
        // A second check of the same settings returns the same needs, so the first gate is kept.
        let _ = self.granted_gate.set(self.gate(allow));
        Ok(needs)
    }

    /// Ensures that the component may send requests: [checks](Self::check) the settings unless they
    /// have been checked.
    ///
    /// # Errors
    ///
    /// Returns all complaints, or the failure of the component itself.
    pub(crate) async fn ensure_granted(&self) -> Result<(), ComponentError> {
        if self.granted_gate.get().is_some() || self.surroundings.is_some() {
            return Ok(());
        }
        match self.check().await {
            Ok(_) => Ok(()),
            Err(CheckError::Component(error)) => Err(error),
            Err(error) => Err(ComponentError::new(error.to_string())),
        }
    }

    /// Decides and performs the actions that are due. The WIT describes the arguments.
    ///
    /// `elapsed` is a reading of this candidate's clock. The times in the report count from it. The
    /// component may start later, after a wait for a permit or a freeze of the process. It gets the
    /// time of its start, and the report is corrected by the difference.
    ///
    /// In a process with many elections, a step first waits for a permit. Leaders come before other
    /// candidates, ordered by the end of their leadership.
    ///
    /// # Errors
    ///
    /// Returns an error if the component trapped or broke its contract. The candidate's state is
    /// then unusable.
    pub async fn step(
        &self,
        state: Option<&State>,
        elapsed: Duration,
        event: Option<Event>,
    ) -> Result<Report, ComponentError> {
        let state = state.map(State::as_bytes);
        let requested_at = self.clock.now();
        if state.is_none() {
            // The previous candidate may have ended in the middle of a step.
            self.last_step().on_failure();
        }
        let urgency = self.urgency(requested_at);
        self.last_step().on_request();
        let is_leaving = matches!(event, Some(Event::Leave(_)));
        let permit = self.engine.call_permit(urgency).await;
        self.on_start(requested_at, is_leaving);
        let (mut started_at, mut delay) = (elapsed, Duration::ZERO);
        let arguments = || {
            // The component uses `elapsed` as the present, so the clock is read again at the last
            // moment. An older reading would end a leader's validity too early, which is harmless.
            // But it would also give the observations of this step too early a time. In a later
            // step, the component would then cut short a wait that the protocol requires.
            // `lead`: the time by which the clock may have run ahead of real time.
            let (now, lead) = self.clock.read();
            delay = now.saturating_sub(elapsed);
            started_at = elapsed.saturating_add(delay);
            // The component's clock continues from here. It is without the lead (`guest_clock`), so
            // its first reading is too. If the component read the clock itself, a freeze in between
            // would make its present too early for the whole step. A follower would then take a
            // beat for older than it is.
            self.step_start.store(nanoseconds(now.saturating_sub(lead)), Ordering::Relaxed);
            (state, nanoseconds(started_at), nanoseconds(lead), event.map(bindings::convert_event))
        };
        let result = self.call_with_permit(permit, &self.functions.step, arguments).await;
        self.step_start.store(0, Ordering::Relaxed);
        let result: Result<(types::Report,), _> = result;
        let mut report: Report = match result {
            Ok((report,)) => report.convert(),
            Err(error) => {
                self.last_step().on_failure();
                return Err(error);
            }
        };
        self.last_step().on_report(&report, started_at, self.clock.now());
        self.last_step().count_leader(&report, &self.engine);
        report.shift_to_earlier(delay);
        Ok(report)
    }

    /// Records the start of a step that was requested at `requested_at`.
    ///
    /// A late step also holds other candidates back ([`Engine::on_late_step`]). A late step in
    /// which the candidate leaves is harmless: it is not recorded, and holds no candidate back.
    fn on_start(&self, requested_at: Duration, is_leaving: bool) {
        let late = self.last_step().on_start(requested_at, self.clock.now());
        let is_reported = late.is_some() && !is_leaving && self.engine.on_late_step();
        self.last_step().late = if is_reported { late } else { None };
    }

    /// Returns the urgency of a step requested at `now`.
    fn urgency(&self, now: Duration) -> Urgency {
        let left = self.last_step().holds_until.map(|end| end.saturating_sub(now));
        // The clock of this machine makes all candidates comparable, whatever the origins of their
        // clocks.
        let end = left.and_then(|left| Instant::now().checked_add(left));
        end.map_or(Urgency::Other, Urgency::Leader)
    }

    fn last_step(&self) -> MutexGuard<'_, LastStep> {
        self.last_step.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of idle instances.
    #[cfg(test)]
    pub(super) fn idle_instances(&self) -> usize {
        self.instances.count()
    }

    async fn call<P, R>(
        &self,
        function: &ComponentExportIndex,
        arguments: P,
    ) -> Result<R, ComponentError>
    where
        P: ComponentNamedList + Lower + Send + Sync,
        R: ComponentNamedList + Lift + Send + Sync + 'static,
    {
        let permit = self.engine.call_permit(Urgency::Other).await;
        self.call_with_permit(permit, function, || arguments).await
    }

    /// Calls a function. Evaluates the arguments at the last moment, when the instance is ready.
    async fn call_with_permit<P, R>(
        &self,
        permit: Permit,
        function: &ComponentExportIndex,
        arguments: impl FnOnce() -> P + Send,
    ) -> Result<R, ComponentError>
    where
        P: ComponentNamedList + Lower + Send + Sync,
        R: ComponentNamedList + Lift + Send + Sync + 'static,
    {
        let stderr_tail = StderrTail::default();
        let grant = self.grant(&stderr_tail);
        // A failed instance has been dropped, so all of its output is in the tail.
        let result = self.instances.call(grant, function, arguments).await;
        // Allows another call to start.
        drop(permit);
        result.map_err(|error| stderr_tail.explain(&error))
    }

    /// Returns the settings, with a longer interval of order reads if many candidates lead.
    fn environment(&self) -> Env {
        match self.engine.orders_interval() {
            Some(interval) if self.env.get(variable::ORDERS).is_none() => {
                self.env.with(variable::ORDERS, format!("{}ms", interval.as_millis()))
            }
            _ => self.env.clone(),
        }
    }

    /// Returns the capabilities of a call. Before a [check](Self::check), the gate denies all
    /// requests.
    fn grant(&self, stderr_tail: &StderrTail) -> Grant<'_> {
        let granted = self.granted_gate.get();
        let gate: Box<dyn WasiHttpHooks> = match (&self.surroundings, granted) {
            (Some(surroundings), _) => Box::new(NetworkHooks(surroundings.network.clone())),
            (None, Some(gate)) => Box::new(GateHooks(gate.clone())),
            (None, None) => Box::new(GateHooks(self.gate(AllowList::default()))),
        };
        let tail = stderr_tail.clone();
        Grant {
            env: self.environment(),
            files: self.files.get().map_or(&[], Vec::as_slice),
            stdout: None,
            stderr: Output::new(move |line| tail.add(&line)),
            clock: self.guest_clock.clone(),
            gate,
            memory: MEMORY_LIMIT,
            budget: Budget::unlimited(),
            surroundings: self.surroundings.as_ref(),
        }
    }

    fn gate(&self, allow: AllowList) -> Gate {
        Gate::for_election(allow, self.clients.clone())
    }
}

/// Adds the setting with which the component leaves background requests to this host.
fn with_background(settings: Variables) -> Variables {
    settings.with(variable::BACKGROUND, "true")
}

impl Elector for ElectionComponent {
    async fn step(
        &self,
        state: Option<State>,
        elapsed: Duration,
        event: Option<Event>,
    ) -> Result<Report, ElectorError> {
        self.ensure_granted().await?;
        Ok(ElectionComponent::step(self, state.as_ref(), elapsed, event).await?)
    }

    async fn send(&self, request: Request) -> Result<Response, Failure> {
        let _permit = self.engine.request_permit(self.urgency(self.clock.now())).await;
        match (&self.surroundings, self.granted_gate.get()) {
            (Some(surroundings), _) => {
                let send = async |request| Ok(surroundings.network.send(request).await?);
                exchange(&request, send).await
            }
            (None, Some(gate)) => gate.fetch(&request).await,
            (None, None) => Err(Failure { kind: FailureKind::Denied, detail: String::new() }),
        }
    }

    /// Returns `None` if the step has not started.
    fn queue_time(&self) -> Option<Duration> {
        self.last_step().waited
    }

    /// Returns `None` also if a late step of this engine was reported recently, because lateness
    /// concerns all of its steps.
    fn lateness(&self) -> Option<Duration> {
        self.last_step().late
    }

    fn kind(&self) -> &'static str {
        "component"
    }

    fn names(&self) -> (&str, &str) {
        let setting = |name| self.env.get(name).unwrap_or_default();
        (setting(variable::ELECTION), setting(variable::NAME))
    }
}

impl fmt::Debug for ElectionComponent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings: Vec<_> = self.env.entries().iter().map(|(name, _)| name).collect();
        f.debug_struct("ElectionComponent").field("settings", &settings).finish_non_exhaustive()
    }
}

/// The host's record of a candidate's last step. All times are readings of the candidate's clock.
#[derive(Default)]
struct LastStep {
    /// Time for which the step waited for a permit; `None` before it starts.
    waited: Option<Duration>,
    /// The end of the leadership, by the step's report. For a candidate that has acquired the
    /// lease: the end of the time in which it can win.
    holds_until: Option<Duration>,
    /// The due time of the next step, by the step's report.
    due_at: Duration,
    /// Lateness of the step's start, if it should be reported.
    late: Option<Duration>,
    /// Counts the candidate among the leaders; set while it leads.
    leader: Option<LeaderGuard>,
}

impl LastStep {
    /// Records the request of a new step.
    fn on_request(&mut self) {
        (self.waited, self.late) = (None, None);
    }

    /// Records that the step started at `now`. Returns its lateness; `None` if it is in time or the
    /// candidate has no lease.
    fn on_start(&mut self, requested_at: Duration, now: Duration) -> Option<Duration> {
        self.waited = Some(now.saturating_sub(requested_at));
        // If the time with the lease ended before the step was due, lateness costs nothing.
        let left = self.holds_until?.checked_sub(self.due_at).filter(|left| !left.is_zero())?;
        let late = now.saturating_sub(self.due_at);
        (late > MIN_LATENESS.max(left / 8)).then_some(late)
    }

    /// Records the report of a step that started at `started_at` and ended at `ended_at`.
    fn on_report(&mut self, report: &Report, started_at: Duration, ended_at: Duration) {
        let from_start = |span| started_at.saturating_add(span);
        let holds_for = match &report.role {
            Role::Leading(leadership) => Some(leadership.valid_for),
            _ => report.wins_within,
        };
        self.holds_until = holds_for.map(from_start);
        // The next step is not late only because this one took long.
        self.due_at = from_start(report.again_in).max(ended_at);
    }

    /// Counts the candidate among the leaders on `engine` if it leads by this report.
    fn count_leader(&mut self, report: &Report, engine: &Engine) {
        self.leader = match report.role {
            Role::Leading(_) => self.leader.take().or_else(|| Some(engine.register_leader())),
            _ => None,
        };
    }

    /// Records that the step failed, which ends the candidate.
    fn on_failure(&mut self) {
        (self.holds_until, self.leader) = (None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_core::Leadership;

    const MS: Duration = Duration::from_millis(1);
    const ZERO: Duration = Duration::ZERO;

    fn after(role: Role, started_at: Duration, ended_at: Duration) -> LastStep {
        let mut step = LastStep::default();
        step.on_report(&Report::new(role, 4_000 * MS), started_at, ended_at);
        step
    }

    fn leading() -> Role {
        Role::Leading(Leadership { term: 7, valid_for: 12_000 * MS })
    }

    #[test]
    fn a_leader_is_late_when_an_eighth_of_its_time_is_gone() {
        let mut step = after(leading(), ZERO, 10 * MS);
        assert_eq!(step.holds_until, Some(12_000 * MS));
        assert_eq!(step.on_start(4_900 * MS, 5_000 * MS), None);
        assert_eq!(step.waited, Some(100 * MS));
        assert_eq!(step.on_start(4_000 * MS, 5_001 * MS), Some(1_001 * MS));
        // Requested before it was due, for an event.
        assert_eq!(step.on_start(2_000 * MS, 2_001 * MS), None);
    }

    #[test]
    fn a_long_step_does_not_make_the_next_one_late() {
        let mut step = after(leading(), ZERO, 7_000 * MS);
        assert_eq!(step.on_start(7_000 * MS, 7_600 * MS), None);
        assert_eq!(step.on_start(7_000 * MS, 7_700 * MS), Some(700 * MS));
    }

    #[test]
    fn a_candidate_that_acquired_the_lease_is_as_urgent_as_a_leader() {
        let mut step = LastStep::default();
        let report = Report::new(Role::Undecided, 1_000 * MS);
        let report = Report { wins_within: Some(12_000 * MS), ..report };
        step.on_report(&report, 100 * MS, 200 * MS);
        assert_eq!(step.holds_until, Some(12_100 * MS));
        assert_eq!(step.on_start(1_100 * MS, 2_400 * MS), None);
        assert_eq!(step.on_start(1_100 * MS, 2_500 * MS), Some(1_400 * MS));
    }

    #[test]
    fn a_step_without_the_lease_is_never_late() {
        assert_eq!(after(Role::Undecided, ZERO, ZERO).on_start(ZERO, 60_000 * MS), None);
        let mut step = after(leading(), ZERO, ZERO);
        step.on_failure();
        assert_eq!(step.on_start(ZERO, 60_000 * MS), None);
    }
}
