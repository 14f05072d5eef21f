//! The pure core, with the driver that the component has.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use tenure_azure::secret::Secret;
use tenure_azure::{Metadata, Operation, request as azure};
use tenure_clock::Clock;
use tenure_core::driver::{self, Surroundings};
use tenure_core::{
    Begins, Complaint, Environment, Event, Failure, FailureKind, OwnTime, Report,
    Request as Outgoing, Response as Reply, Settings, State, Step, Unreadable,
};
use tenure_store::{Request, Response};
use tokio::select;
use tokio::time::{sleep, timeout};

use super::clock::SimClock;
use super::condition::{BadSecret, Spoilt};
use super::dice::Dice;
use super::elector::{OF_CANDIDATES, heard};
use super::fate::Broken;
use super::fault::Fault;
use super::history::Who;
use super::network;
use super::plan::{Trait, Version};
use super::service::LATER;
use super::token;
use super::variables::{self, IDENTITY, SECRET, Variables};
use super::world::World;

/// Reads settings from what a machine has.
type Read = fn(Given<'_>) -> Result<Settings, Vec<Complaint>>;

/// Drives the pure core as the component's own loop does.
pub struct Native {
    variables: Variables,
    pub(super) settings: Settings,
    world: Arc<World>,
    who: Who,
    machine: usize,
    clock: SimClock,
    /// By how much the clock had run ahead when the newest step began, in milliseconds.
    ahead: AtomicU64,
    /// Its own time, where no host measures time for it.
    own: Option<Mutex<OwnTime>>,
    dice: Mutex<Dice>,
}

/// What a machine has: variables, and what its files say.
#[derive(Clone, Copy)]
pub(super) struct Given<'n> {
    variables: &'n Variables,
    spoilt: Spoilt,
}

impl Environment for Given<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        if self.spoilt.variable && name == "TENURE_POLL" {
            return Some("now and then".into());
        }
        self.variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
    }

    fn file(&self, path: &str) -> Result<Secret, Unreadable> {
        const OTHER: &str = "DefaultEndpointsProtocol=https;AccountName=another;\
                             AccountKey=a2V5;EndpointSuffix=core.windows.net";
        match (path == SECRET, self.spoilt.secret) {
            (false, _) | (_, Some(BadSecret::Missing)) => Err(Unreadable::Missing),
            (_, Some(BadSecret::NoText)) => Err(Unreadable::NoText),
            (_, Some(BadSecret::Empty)) => Ok(Secret::from(" ")),
            (_, Some(BadSecret::Nonsense)) => Ok(Secret::from("AccountKey=")),
            (_, Some(BadSecret::OtherAccount)) => Ok(Secret::from(OTHER)),
            (_, None) => Ok(Secret::from("UseDevelopmentStorage=true")),
        }
    }
}

impl Native {
    /// For a new process.
    pub(super) fn new(
        world: &Arc<World>,
        who: Who,
        machine: usize,
        clock: &SimClock,
        read: Read,
    ) -> Self {
        let variables = variables::of(&world.plan, machine);
        let given = Given { variables: &variables, spoilt: Spoilt::default() };
        Self {
            settings: read(given).expect("good settings"),
            variables,
            world: world.clone(),
            who,
            machine,
            clock: clock.clone(),
            ahead: AtomicU64::default(),
            own: None,
            dice: Mutex::new(Dice::new(world.seed, OF_CANDIDATES + who as u64)),
        }
    }

    /// For an invocation without a host.
    pub(super) fn on_its_own(mut self) -> Self {
        self.own = Some(Mutex::new(OwnTime::begin(self.clock.now(), self.wall())));
        self
    }

    /// The time, as its host tells it, or as it measures it itself.
    pub(super) fn now(&self) -> Duration {
        // Within a step it does not run ahead: see `Reading::steady`.
        let ahead = Duration::from_millis(self.ahead.load(Ordering::Relaxed));
        let (now, all_ahead) = self.clock.read();
        let now = now + ahead - all_ahead;
        let Some(own) = &self.own else { return now };
        own.lock().unwrap_or_else(PoisonError::into_inner).read(now, self.wall())
    }

    /// As an invocation without a host begins a step.
    pub(super) fn begins(&self) -> Begins {
        let at = self.now();
        self.own().map_or(at.into(), |own| own.step())
    }

    /// The time within a step that `begins` then.
    fn within(&self, begins: Begins) -> Duration {
        let now = self.now();
        self.own().map_or(now, |own| own.within(begins))
    }

    fn own(&self) -> Option<OwnTime> {
        self.own.as_ref().map(|own| *own.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) async fn step(
        &self,
        state: Option<State>,
        elapsed: Duration,
        event: Option<Event>,
    ) -> Report {
        let spoilt = self.world.state().spoilt[self.machine];
        let (_, ahead) = self.clock.read();
        self.ahead.store(u64::try_from(ahead.as_millis()).unwrap_or(0), Ordering::Relaxed);
        let begins = Begins { at: elapsed, ahead };
        let bytes = state.as_ref().map(State::as_bytes);
        let files = self.world.plan.traits.has(Trait::Files);
        if spoilt == Spoilt::default() && !files {
            // The settings of most worlds stay as they are, and need not be read in each step.
            let step = self.begin(&self.settings, bytes, begins, event);
            let wants_will = self.world.plan.traits.has(Trait::Supervised);
            let around = self.around(begins);
            let report = driver::take(step, &self.settings, wants_will, &around).await;
            self.heard(&report);
            return report;
        }
        let given = Given { variables: &self.variables, spoilt };
        let read = Settings::read_on(given, bytes);
        self.met(spoilt, read.is_ok_and(|(_, complaints)| !complaints.is_empty()));
        let report = driver::step(&given, bytes, begins, event, &self.around(begins)).await;
        self.heard(&report);
        report
    }

    /// What a step has that begins then.
    pub(super) fn around(&self, begins: Begins) -> Around<'_> {
        Around { native: self, begins: Some(begins) }
    }

    /// The oracle hears of problems.
    fn heard(&self, report: &Report) {
        let problems = report.problems.iter().map(|problem| problem.detail.as_str());
        heard(&self.world, self.who, problems);
    }

    /// Sends a request beside the steps.
    pub(super) async fn send(&self, asked: Outgoing) -> Result<Reply, Failure> {
        let path = asked.url.match_indices('/').nth(2).map_or(0, |(at, _)| at);
        let (origin, target) = asked.url.split_at(path);
        let request = Request {
            method: asked.method.clone(),
            target: target.into(),
            headers: asked.headers.clone(),
            body: Bytes::new(),
        };
        let exchange = self.exchange(origin, request, asked.timeout);
        // A host times out the component's requests in the same way.
        timeout(asked.timeout, exchange).await.unwrap_or_else(|_| Err(timed_out()))
    }

    /// Sends a request to the service, or to what gives out tokens.
    async fn exchange(
        &self,
        origin: &str,
        mut request: Request,
        timeout: Duration,
    ) -> Result<Reply, Failure> {
        // HTTP clients add it.
        let host = origin.split_once("://").map_or(origin, |(_, host)| host);
        request.headers.push(("host".into(), host.into()));
        if IDENTITY.strip_prefix(origin).is_some_and(|path| path.starts_with('/')) {
            let (status, body) = token::fetch(&self.world, self.who, timeout).await?;
            return Ok(Reply { status, headers: Vec::new(), body });
        }
        match network::send(&self.world, self.who, request).await {
            Ok(response) => {
                let (status, body) = (response.status, response.body.to_vec());
                Ok(Reply { status, headers: self.headers(response), body })
            }
            Err(broken) => {
                let kind = match broken {
                    Broken::Refused => FailureKind::Connect,
                    Broken::Reset => FailureKind::Reset,
                };
                Err(Failure { kind, detail: String::new() })
            }
        }
    }

    /// Counts what a step met; `remembered`: it went on by what the file had said before.
    fn met(&self, spoilt: Spoilt, remembered: bool) {
        let mut state = self.world.state();
        let step = state.processes[self.who].step;
        if spoilt.secret.is_some() {
            state.coverage.add(Fault::SecretSpoilt, step);
        }
        if spoilt.variable {
            state.coverage.add(Fault::SettingsSpoilt, step);
        }
        if remembered {
            state.coverage.saw(Trait::Files);
        }
    }

    pub(super) fn begin<'s>(
        &self,
        settings: &'s Settings,
        state: Option<&[u8]>,
        begins: impl Into<Begins>,
        event: Option<Event>,
    ) -> Step<'s> {
        Step::begin(settings, state, begins, event, &mut *self.dice())
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

    /// What the version of this machine writes.
    fn of_version(&self, operation: &mut Operation) {
        let Operation::WriteMetadata { metadata, .. } = operation else { return };
        match self.version() {
            Version::Own => {}
            Version::Newer => {
                metadata.insert(LATER.0.into(), LATER.1.into());
                self.world.state().coverage.saw(Trait::Newer);
            }
            Version::Older => {
                let names = metadata.iter().map(|(name, _)| name.to_string());
                let carried: Vec<_> = names.filter(|name| name.starts_with(HIDDEN)).collect();
                for name in carried {
                    carry(metadata, &name);
                    self.world.state().coverage.saw(Trait::Older);
                }
            }
        }
    }

    /// The headers as the version of this machine knows them.
    fn headers(&self, response: Response) -> Vec<(String, Vec<u8>)> {
        let older = self.version() == Version::Older;
        let headers = response.headers.into_iter().map(|(name, value)| {
            let field = name.strip_prefix("x-ms-meta-").filter(|_| older);
            let unknown = field.filter(|field| UNKNOWN.iter().any(|of| field.starts_with(of)));
            let hidden = unknown.map(|field| format!("x-ms-meta-{HIDDEN}{field}"));
            (hidden.unwrap_or(name), value.into_bytes())
        });
        headers.collect()
    }
}

/// The surroundings of a step, or of a request outside an election.
pub(super) struct Around<'n> {
    native: &'n Native,
    /// When the step began.
    begins: Option<Begins>,
}

impl<'n> Around<'n> {
    pub(super) fn outside(native: &'n Native) -> Self {
        Self { native, begins: None }
    }
}

impl Surroundings for Around<'_> {
    fn now(&self) -> Duration {
        self.begins.map_or_else(|| self.native.now(), |begins| self.native.within(begins))
    }

    fn wall(&self) -> DateTime<Utc> {
        self.native.wall()
    }

    fn bits(&self) -> u64 {
        self.native.dice().bits()
    }

    async fn send(
        &self,
        request: &azure::Request,
        timeout: Duration,
        _: usize,
    ) -> Result<Reply, Failure> {
        let origin = &request.origin;
        let request = Request {
            method: request.method.as_str().into(),
            target: request.path_and_query.clone(),
            headers: request.headers.clone(),
            body: Bytes::new(),
        };
        let exchange = self.native.exchange(origin, request, timeout);
        select! {
            biased;
            // The time-out wins a tie, as in the component.
            () = sleep(timeout) => Err(timed_out()),
            answer = exchange => answer,
        }
    }

    fn prepare(&self, operation: &mut Operation) {
        self.native.of_version(operation);
    }
}

/// Fields that an older version does not know, by how their names begin. It has them under other names.
const UNKNOWN: [&str; 7] = [
    "tenuresuccess",
    "tenurefailure",
    "tenuredelay",
    "tenureheartbeat",
    "tenurefailoverwindow",
    "tenuretransfer",
    "tenureordersterm",
];
const HIDDEN: &str = "zz";

fn timed_out() -> Failure {
    Failure { kind: FailureKind::Timeout, detail: String::new() }
}

/// An unknown field goes back as it came.
fn carry(metadata: &mut Metadata, hidden: &str) {
    let value = metadata.get(hidden).unwrap_or_default().to_string();
    metadata.remove(hidden);
    metadata.insert(hidden[HIDDEN.len()..].into(), value);
}
