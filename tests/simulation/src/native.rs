//! The pure core, driven as the component drives it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use tenure::clock::Clock;
use tenure_azure::secret::Secret;
use tenure_azure::{Answer, Metadata, Operation};
use tenure_core::{
    Ask, Begins, Beside, Complaint, Environment, Event, Failure, FailureKind, OwnTime, Report,
    Request as Outgoing, Response as Reply, Settings, State, Step, Timestamp, Todo, Told,
    Unreadable,
};
use tenure_store::{Request, Response};
use tokio::select;

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
        let event = event.map(|event| match event {
            // By the clock of this world.
            Event::Answered(Told { reply, .. }) => {
                Event::Answered(Told { reply, at: Timestamp::from_date(self.wall()) })
            }
            event => event,
        });
        let files = self.world.plan.traits.has(Trait::Files);
        if spoilt == Spoilt::default() && !files {
            let step = self.begin(&self.settings, bytes, begins, event);
            return self.told(&self.settings, step, begins).await;
        }
        let given = Given { variables: &self.variables, spoilt };
        let (settings, complaints) = match Settings::read_on(given, bytes) {
            Ok(read) => read,
            Err(complaints) => {
                self.met(spoilt, false);
                return Report::undone(bytes, event, &complaints);
            }
        };
        self.met(spoilt, !complaints.is_empty());
        let mut step = self.begin(&settings, bytes, begins, event);
        step.complain(&complaints, elapsed);
        self.told(&settings, step, begins).await
    }

    async fn told(&self, settings: &Settings, mut step: Step<'_>, begins: Begins) -> Report {
        let mut report = self.drive(settings, &mut step, begins).await;
        let problems = report.problems.iter().map(|problem| problem.detail.as_str());
        heard(&self.world, self.who, problems);
        report.background = step.beside().map(|beside| match beside {
            Beside::Fetch(fetch) => Outgoing::of(fetch.request, fetch.timeout),
            Beside::Send(mut ask) => {
                self.of_version(&mut ask.operation);
                let date = step.date(self.now(), self.wall());
                Outgoing::of(ask.request(settings, date), ask.timeout)
            }
        });
        if self.world.plan.traits.has(Trait::Supervised) {
            let will = step.last_will(self.now(), self.wall());
            report.last_will = will.map(|will| Outgoing::of(will.request, will.valid_for));
        }
        report
    }

    /// Sends a request beside the steps.
    pub(super) async fn send(&self, asked: Outgoing) -> Result<Reply, Failure> {
        let timeout = asked.timeout;
        let failed = |kind| Failure { kind, detail: String::new() };
        if asked.url.starts_with(IDENTITY) {
            let reply = token::fetch(&self.world, self.who, timeout).await;
            let (status, body) = reply.map_err(|_| failed(FailureKind::Timeout))?;
            return Ok(Reply { status, headers: Vec::new(), body });
        }
        let path = asked.url.match_indices('/').nth(2).map_or(0, |(at, _)| at);
        let request = Request {
            method: asked.method.clone(),
            target: asked.url[path..].into(),
            headers: asked.headers.clone(),
            body: Bytes::new(),
        };
        select! {
            biased;
            answer = network::send(&self.world, self.who, request) => match answer {
                Ok(response) => Ok(Reply {
                    status: response.status,
                    headers: self.headers(response),
                    body: Vec::new(),
                }),
                Err(Broken::Refused) => Err(failed(FailureKind::Connect)),
                Err(Broken::Reset) => Err(failed(FailureKind::Reset)),
            },
            () = tokio::time::sleep(timeout) => Err(failed(FailureKind::Timeout)),
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

    /// Does what a step asks for, until it has its report.
    pub(super) async fn drive(
        &self,
        settings: &Settings,
        step: &mut Step<'_>,
        begins: Begins,
    ) -> Report {
        loop {
            let sent = self.within(begins);
            match step.next(sent) {
                Todo::Rest(report) => return *report,
                Todo::Fetch(fetch) => {
                    let reply = token::fetch(&self.world, self.who, fetch.timeout).await;
                    let now = self.within(begins);
                    step.fetched(sent, now, self.wall(), reply, &mut *self.dice());
                }
                Todo::Send(ask) => {
                    let date = step.date(sent, self.wall());
                    let reply = self.ask(settings, ask, date).await;
                    let now = self.within(begins);
                    step.answered(sent, now, self.wall(), reply, &mut *self.dice());
                }
            }
        }
    }

    fn dice(&self) -> std::sync::MutexGuard<'_, Dice> {
        self.dice.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wall(&self) -> DateTime<Utc> {
        let wall = i64::try_from(self.world.wall(self.machine)).unwrap_or(i64::MAX);
        DateTime::from_timestamp_millis(wall).unwrap_or(DateTime::UNIX_EPOCH)
    }

    pub(super) async fn ask(
        &self,
        settings: &Settings,
        ask: Ask,
        date: DateTime<Utc>,
    ) -> Result<Answer, Failure> {
        let timeout = ask.timeout;
        let mut ask = ask;
        self.of_version(&mut ask.operation);
        let signed = ask.request(settings, date);
        let request = Request {
            method: signed.method.as_str().into(),
            target: signed.path_and_query,
            headers: signed.headers,
            body: Bytes::new(),
        };
        let kind = select! {
            biased;
            answer = network::send(&self.world, self.who, request) => match answer {
                Ok(response) => return Ok(self.read(&ask.operation, response)),
                Err(Broken::Refused) => FailureKind::Connect,
                Err(Broken::Reset) => FailureKind::Reset,
            },
            // As in the component: by the executor's clock.
            () = tokio::time::sleep(timeout) => FailureKind::Timeout,
        };
        Err(Failure { kind, detail: String::new() })
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

    fn read(&self, operation: &Operation, response: Response) -> Answer {
        let status = response.status;
        Answer::read(operation, status, &self.headers(response))
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

/// An unknown field goes back as it came.
fn carry(metadata: &mut Metadata, hidden: &str) {
    let value = metadata.get(hidden).unwrap_or_default().to_string();
    metadata.remove(hidden);
    metadata.insert(hidden[HIDDEN.len()..].into(), value);
}
