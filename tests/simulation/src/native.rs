//! The pure core, driven like the component.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use tenure_azure::secret::Secret;
use tenure_azure::{Metadata, Operation, request as azure};
use tenure_clock::Clock;
use tenure_core::driver::{self, DriverIo};
use tenure_core::{
    Complaint, ElapsedClock, Environment, Event, Failure, FailureKind, FileError, Report,
    Request as Outgoing, Response as Reply, Settings, State, Step, StepStart,
};
use tenure_store::{Request, Response};
use tokio::select;
use tokio::time::{Instant, sleep_until, timeout};

use super::clock::SimClock;
use super::condition::{BadSecret, BrokenSettings};
use super::dice::Dice;
use super::elector::{OF_CANDIDATES, record_handover_failure};
use super::fault::Fault;
use super::history::CandidateId;
use super::network;
use super::plan::{Trait, Version};
use super::request_outcome::ConnectionError;
use super::service::LATER_FIELD;
use super::token;
use super::variables::{self, IDENTITY_URL, SECRET_PATH, Variables};
use super::world::World;

/// Function that reads settings from the inputs of a machine.
type ReadSettings = fn(MachineInputs<'_>) -> Result<Settings, Vec<Complaint>>;

/// Driver of the pure core, equivalent to the component's own loop.
pub struct Native {
    variables: Variables,
    pub(super) settings: Settings,
    world: Arc<World>,
    candidate: CandidateId,
    machine: usize,
    clock: SimClock,
    /// Clock advance at the start of the newest step, in milliseconds.
    clock_ahead_ms: AtomicU64,
    /// Time measured by the candidate itself, if no host measures it.
    own_time: Option<Mutex<ElapsedClock>>,
    dice: Mutex<Dice>,
}

/// Inputs of a machine: variables, and the contents of its files.
#[derive(Clone, Copy)]
pub(super) struct MachineInputs<'n> {
    variables: &'n Variables,
    broken_settings: BrokenSettings,
}

impl Environment for MachineInputs<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        if self.broken_settings.variable && name == "TENURE_POLL" {
            return Some("now and then".into());
        }
        self.variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone())
    }

    fn file(&self, path: &str) -> Result<Secret, FileError> {
        const OTHER_ACCOUNT: &str = "DefaultEndpointsProtocol=https;AccountName=another;\
                             AccountKey=a2V5;EndpointSuffix=core.windows.net";
        match (path == SECRET_PATH, self.broken_settings.secret) {
            (false, _) | (_, Some(BadSecret::Missing)) => Err(FileError::Missing),
            (_, Some(BadSecret::NotText)) => Err(FileError::NotText),
            (_, Some(BadSecret::Empty)) => Ok(Secret::from(" ")),
            (_, Some(BadSecret::Invalid)) => Ok(Secret::from("AccountKey=")),
            (_, Some(BadSecret::OtherAccount)) => Ok(Secret::from(OTHER_ACCOUNT)),
            (_, None) => Ok(Secret::from("UseDevelopmentStorage=true")),
        }
    }
}

impl Native {
    /// Creates the driver for a new process.
    pub(super) fn new(
        world: &Arc<World>,
        candidate: CandidateId,
        machine: usize,
        clock: &SimClock,
        read_settings: ReadSettings,
    ) -> Self {
        let variables = variables::machine_variables(&world.plan, machine);
        let inputs =
            MachineInputs { variables: &variables, broken_settings: BrokenSettings::default() };
        Self {
            settings: read_settings(inputs).expect("good settings"),
            variables,
            world: world.clone(),
            candidate,
            machine,
            clock: clock.clone(),
            clock_ahead_ms: AtomicU64::default(),
            own_time: None,
            dice: Mutex::new(Dice::new(world.seed, OF_CANDIDATES + candidate as u64)),
        }
    }

    /// Converts the driver for an invocation without a host.
    pub(super) fn without_host(mut self) -> Self {
        self.own_time = Some(Mutex::new(ElapsedClock::new(self.clock.now(), self.wall())));
        self
    }

    /// Returns the time, as reported by the host or as measured by the candidate.
    pub(super) fn now(&self) -> Duration {
        // The time does not jump ahead within a step: see `ClockHandle::without_lead`.
        let ahead = Duration::from_millis(self.clock_ahead_ms.load(Ordering::Relaxed));
        let (now, total_ahead) = self.clock.read();
        let now = now + ahead - total_ahead;
        let Some(own_time) = &self.own_time else { return now };
        own_time.lock().unwrap_or_else(PoisonError::into_inner).read(now, self.wall())
    }

    /// Returns the start time of a step, as an invocation without a host measures it.
    pub(super) fn step_start(&self) -> StepStart {
        let at = self.now();
        self.own_time_now().map_or(at.into(), |own_time| own_time.step_start())
    }

    /// Returns the current time within a step with this start.
    fn now_in_step(&self, step_start: StepStart) -> Duration {
        let now = self.now();
        self.own_time_now().map_or(now, |own_time| own_time.elapsed_in_step(step_start))
    }

    fn own_time_now(&self) -> Option<ElapsedClock> {
        self.own_time
            .as_ref()
            .map(|own_time| *own_time.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) async fn step(
        &self,
        state: Option<State>,
        elapsed: Duration,
        event: Option<Event>,
    ) -> Report {
        let broken_settings = self.world.state().broken_settings[self.machine];
        let (_, ahead) = self.clock.read();
        self.clock_ahead_ms.store(u64::try_from(ahead.as_millis()).unwrap_or(0), Ordering::Relaxed);
        let step_start = StepStart { at: elapsed, clock_lead: ahead };
        let bytes = state.as_ref().map(State::as_bytes);
        let files = self.world.plan.traits.has(Trait::Files);
        if broken_settings == BrokenSettings::default() && !files {
            // The settings of most worlds never change, and need not be read in each step.
            let mut step = self.begin(&self.settings, bytes, step_start, event);
            let needs_last_will = self.world.plan.traits.has(Trait::Supervised);
            let surroundings = self.surroundings(step_start);
            let report =
                driver::run_step(&mut step, &self.settings, needs_last_will, &surroundings).await;
            self.record_problems(&report);
            return report;
        }
        let inputs = MachineInputs { variables: &self.variables, broken_settings };
        let read = Settings::reread(inputs, bytes);
        self.count_faults_met(
            broken_settings,
            read.is_ok_and(|(_, complaints)| !complaints.is_empty()),
        );
        let report =
            driver::step(&inputs, bytes, step_start, event, &self.surroundings(step_start)).await;
        self.record_problems(&report);
        report
    }

    /// Returns the surroundings of a step with this start.
    pub(super) fn surroundings(&self, step_start: StepStart) -> StepSurroundings<'_> {
        StepSurroundings { native: self, step_start: Some(step_start) }
    }

    /// Records the report's problems for the oracle.
    fn record_problems(&self, report: &Report) {
        let problems = report.problems.iter().map(|problem| problem.detail.as_str());
        record_handover_failure(&self.world, self.candidate, problems);
    }

    /// Waits until a request times out.
    ///
    /// Timers may stop while the machine is suspended. The candidate's clock does not, so that an
    /// answer in time may come after the end of its leadership.
    async fn time_out(&self, timeout: Duration) {
        let suspended_for =
            || Duration::from_millis(self.world.state().processes[self.candidate].suspended_for);
        let (mut counted, mut deadline) = (suspended_for(), Instant::now() + timeout);
        loop {
            sleep_until(deadline).await;
            let suspended = suspended_for() - counted;
            if suspended.is_zero() || !self.world.plan.traits.has(Trait::StoppedTimers) {
                return;
            }
            (counted, deadline) = (counted + suspended, deadline + suspended);
            self.world.state().coverage.add_trait(Trait::StoppedTimers);
        }
    }

    /// Sends a background request.
    pub(super) async fn send(&self, background_request: Outgoing) -> Result<Reply, Failure> {
        let path = background_request.url.match_indices('/').nth(2).map_or(0, |(at, _)| at);
        let (origin, target) = background_request.url.split_at(path);
        let request = Request {
            method: background_request.method.clone(),
            target: target.into(),
            headers: background_request.headers.clone(),
            body: Bytes::new(),
        };
        let exchange = self.exchange(origin, request, background_request.timeout);
        // A host times out the component's requests in the same way.
        timeout(background_request.timeout, exchange)
            .await
            .unwrap_or_else(|_| Err(timeout_failure()))
    }

    /// Sends a request to the service, or to the identity endpoint.
    async fn exchange(
        &self,
        origin: &str,
        mut request: Request,
        timeout: Duration,
    ) -> Result<Reply, Failure> {
        // HTTP clients add this header.
        let host = origin.split_once("://").map_or(origin, |(_, host)| host);
        request.headers.push(("host".into(), host.into()));
        if IDENTITY_URL.strip_prefix(origin).is_some_and(|path| path.starts_with('/')) {
            let (status, body) = token::fetch(&self.world, self.candidate, timeout).await?;
            return Ok(Reply { status, headers: Vec::new(), body });
        }
        match network::send(&self.world, self.candidate, request).await {
            Ok(response) => {
                let (status, body) = (response.status, response.body.to_vec());
                Ok(Reply { status, headers: self.visible_headers(response), body })
            }
            Err(error) => {
                let kind = match error {
                    ConnectionError::Refused => FailureKind::Connect,
                    ConnectionError::Reset => FailureKind::Reset,
                };
                Err(Failure { kind, detail: String::new() })
            }
        }
    }

    /// Counts the faults that a step met. `used_cached_settings` is true if the step used earlier
    /// contents of the file.
    fn count_faults_met(&self, broken_settings: BrokenSettings, used_cached_settings: bool) {
        let mut state = self.world.state();
        let step = state.processes[self.candidate].step;
        if broken_settings.secret.is_some() {
            state.coverage.add(Fault::SecretSpoilt, step);
        }
        if broken_settings.variable {
            state.coverage.add(Fault::SettingsSpoilt, step);
        }
        if used_cached_settings {
            state.coverage.add_trait(Trait::Files);
        }
    }

    pub(super) fn begin<'s>(
        &self,
        settings: &'s Settings,
        state: Option<&[u8]>,
        step_start: impl Into<StepStart>,
        event: Option<Event>,
    ) -> Step<'s> {
        Step::new(settings, state, step_start, event, &mut *self.dice())
    }

    fn dice(&self) -> std::sync::MutexGuard<'_, Dice> {
        self.dice.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wall(&self) -> DateTime<Utc> {
        let wall = i64::try_from(self.world.wall(self.machine)).unwrap_or(i64::MAX);
        DateTime::from_timestamp_millis(wall).unwrap_or(DateTime::UNIX_EPOCH)
    }

    fn version(&self) -> Version {
        self.world.plan.machines[self.machine].version
    }

    /// Adapts a write to the version of this machine.
    fn apply_version_to_write(&self, operation: &mut Operation) {
        let Operation::WriteMetadata { metadata, .. } = operation else { return };
        match self.version() {
            Version::Current => {}
            Version::Newer => {
                metadata.insert(LATER_FIELD.0.into(), LATER_FIELD.1.into());
                self.world.state().coverage.add_trait(Trait::Newer);
            }
            Version::Older => {
                let names = metadata.iter().map(|(name, _)| name.to_string());
                let hidden_fields: Vec<_> =
                    names.filter(|name| name.starts_with(HIDDEN_PREFIX)).collect();
                for name in hidden_fields {
                    restore_hidden_field(metadata, &name);
                    self.world.state().coverage.add_trait(Trait::Older);
                }
            }
        }
    }

    /// Returns the headers as the version of this machine sees them.
    fn visible_headers(&self, response: Response) -> Vec<(String, Vec<u8>)> {
        let older = self.version() == Version::Older;
        let headers = response.headers.into_iter().map(|(name, value)| {
            let field = name.strip_prefix("x-ms-meta-").filter(|_| older);
            let unknown = field
                .filter(|field| UNKNOWN_TO_OLDER.iter().any(|prefix| field.starts_with(prefix)));
            let hidden = unknown.map(|field| format!("x-ms-meta-{HIDDEN_PREFIX}{field}"));
            (hidden.unwrap_or(name), value.into_bytes())
        });
        headers.collect()
    }
}

/// Surroundings of a step, or of a request outside an election.
pub(super) struct StepSurroundings<'n> {
    native: &'n Native,
    /// Start of the step.
    step_start: Option<StepStart>,
}

impl<'n> StepSurroundings<'n> {
    pub(super) fn without_step(native: &'n Native) -> Self {
        Self { native, step_start: None }
    }
}

impl DriverIo for StepSurroundings<'_> {
    fn now(&self) -> Duration {
        self.step_start
            .map_or_else(|| self.native.now(), |step_start| self.native.now_in_step(step_start))
    }

    fn wall_clock(&self) -> DateTime<Utc> {
        self.native.wall()
    }

    fn bits(&self) -> u64 {
        self.native.dice().bits()
    }

    async fn send(
        &self,
        request: azure::Request,
        timeout: Duration,
        _: usize,
    ) -> Result<Reply, Failure> {
        let origin = &request.origin;
        let request = Request {
            method: request.method.as_str().into(),
            target: request.path_and_query,
            headers: request.headers,
            body: Bytes::new(),
        };
        let exchange = self.native.exchange(origin, request, timeout);
        select! {
            biased;
            // The timeout wins a tie, as in the component.
            () = self.native.time_out(timeout) => Err(timeout_failure()),
            answer = exchange => answer,
        }
    }

    fn prepare(&self, operation: &mut Operation) {
        self.native.apply_version_to_write(operation);
    }
}

/// Prefixes of fields that an older version does not know. It sees them under other names.
const UNKNOWN_TO_OLDER: [&str; 7] = [
    "tenuresuccess",
    "tenurefailure",
    "tenuredelay",
    "tenureheartbeat",
    "tenurefailoverwindow",
    "tenuretransfer",
    "tenureordersterm",
];
const HIDDEN_PREFIX: &str = "zz";

fn timeout_failure() -> Failure {
    Failure { kind: FailureKind::Timeout, detail: String::new() }
}

/// Restores an unknown field with its original value.
fn restore_hidden_field(metadata: &mut Metadata, hidden_name: &str) {
    let value = metadata.get(hidden_name).unwrap_or_default().to_string();
    metadata.remove(hidden_name);
    metadata.insert(hidden_name[HIDDEN_PREFIX.len()..].into(), value);
}
