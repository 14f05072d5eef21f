//! Who decides: the pure core by itself, or the component that ships.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use chrono::DateTime;
use tenure::clock::Clock;
use tenure::component::{ComponentError, ElectionComponent, Network, NetworkFailure, Surroundings};
use tenure::contract::{Event, Memory, Report};
use tenure::handler::BoxFuture;
use tenure::runner::Elector;
use tenure::settings::Settings as HostSettings;
use tenure::store::Request;
use tenure_guest::azure::{Answer, Operation};
use tenure_guest::election::{
    Ask, Complaint, Delivery, Failure, FailureKind, Missed, Settings, Step, Todo,
};
use tokio::select;

use super::clock::SimClock;
use super::convert;
use super::dice::Dice;
use super::fate::Broken;
use super::history::{What, Who};
use super::network;
use super::plan::COOL_DOWN;
use super::service::{ELECTION, LATER};
use super::world::World;

/// What the candidates are made of.
#[derive(Clone)]
pub enum Fidelity {
    /// The pure core, natively: for volume.
    Native,
    /// The component that ships, in wasmtime.
    Component(Arc<ElectionComponent>),
}

/// One candidate's elector.
pub enum SimElector {
    /// The pure core.
    Native(Box<Native>),
    /// The component.
    Component(Box<ElectionComponent>, Arc<World>, Who),
}

impl SimElector {
    /// The elector of a new process.
    #[must_use]
    pub fn new(
        world: &Arc<World>,
        who: Who,
        machine: usize,
        clock: &SimClock,
        fidelity: &Fidelity,
    ) -> Self {
        match fidelity {
            Fidelity::Native => {
                let native = Native::new(world, who, machine, clock, |f| Settings::read(f));
                Self::Native(Box::new(native))
            }
            Fidelity::Component(component) => {
                let mut settings = HostSettings::new();
                for (name, value) in variables(world, machine) {
                    settings.set(name, value);
                }
                let dice = Mutex::new(Dice::new(world.seed, OF_CANDIDATES + who as u64));
                let of_wall = world.clone();
                let surroundings = Surroundings {
                    wall: Arc::new(move || Duration::from_millis(of_wall.wall(machine))),
                    random: Arc::new(move || {
                        dice.lock().unwrap_or_else(PoisonError::into_inner).bits()
                    }),
                    network: Arc::new(Wireless { world: world.clone(), who }),
                };
                let component = component.for_candidate(settings, clock);
                let component = Box::new(component.in_surroundings(surroundings));
                Self::Component(component, world.clone(), who)
            }
        }
    }
}

fn variables(world: &World, machine: usize) -> [(&'static str, String); 12] {
    let odd = world.plan.rules.mixed && machine % 2 == 1;
    let value = if odd { "v1" } else { "v2" };
    let on_start = world.plan.rules.on_start.then_some(value);
    let (delivery, attempts) = match world.plan.rules.delivery {
        _ if odd => ("at-most-once", String::new()),
        Delivery::AtMostOnce => ("at-most-once", String::new()),
        Delivery::AtLeastOnce { max_attempts } => ("at-least-once", max_attempts.to_string()),
    };
    let missed = match world.plan.rules.missed {
        Missed::Skip => "skip".into(),
        Missed::Once => "once".into(),
        Missed::All(most) => format!("all {most}"),
    };
    let limit = world.plan.turn_timeout.map(|seconds| format!("{seconds}s"));
    [
        ("TENURE_TURN_TIMEOUT", limit.unwrap_or_default()),
        ("TENURE_POLL", format!("{}ms", world.plan.machines[machine].poll)),
        ("TENURE_COOL_DOWN", format!("{COOL_DOWN}s")),
        ("TENURE_ELECTION", ELECTION.into()),
        ("TENURE_NAME", format!("m{machine}")),
        ("TENURE_LEASE", format!("{}s", world.plan.machines[machine].lease)),
        ("TENURE_EVERY", format!("{}s", world.plan.every)),
        ("TENURE_DELIVERY", delivery.into()),
        ("TENURE_MAX_ATTEMPTS", attempts),
        ("TENURE_MISSED", missed),
        ("TENURE_ON_START", on_start.unwrap_or_default().into()),
        ("AZURE_STORAGE_CONNECTION_STRING", "UseDevelopmentStorage=true".into()),
    ]
}

/// Of what a candidate tells its people, the oracle hears whether it hands over.
fn heard<'t>(world: &World, who: Who, mut troubles: impl Iterator<Item = &'t str>) {
    const SAYS: [&str; 2] = ["cannot hand over", "not handed over"];
    if troubles.any(|detail| SAYS.iter().any(|says| detail.starts_with(says))) {
        world.note(What::NotHandedOver(who));
    }
}

/// The purpose of the dice of candidates.
const OF_CANDIDATES: u64 = 3_000;

/// Reads settings by the names of variables.
type Read = fn(&dyn Fn(&str) -> Option<String>) -> Result<Settings, Vec<Complaint>>;

impl Elector for SimElector {
    async fn step(
        &self,
        memory: Option<Memory>,
        elapsed: Duration,
        event: Option<Event>,
    ) -> Result<Report, ComponentError> {
        match self {
            Self::Native(native) => Ok(native.step(memory, elapsed, event).await),
            Self::Component(component, world, who) => {
                let report = component.step(memory.as_ref(), elapsed, event).await?;
                heard(world, *who, report.trouble.iter().map(|trouble| trouble.detail.as_str()));
                Ok(report)
            }
        }
    }
}

/// Drives the pure core as the component's own loop does.
pub struct Native {
    pub(super) settings: Settings,
    world: Arc<World>,
    who: Who,
    machine: usize,
    clock: SimClock,
    dice: Mutex<Dice>,
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
        let variables = variables(world, machine);
        let find = |wanted: &str| {
            variables.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.clone())
        };
        Self {
            settings: read(&find).expect("good settings"),
            world: world.clone(),
            who,
            machine,
            clock: clock.clone(),
            dice: Mutex::new(Dice::new(world.seed, OF_CANDIDATES + who as u64)),
        }
    }

    async fn step(
        &self,
        memory: Option<Memory>,
        elapsed: Duration,
        event: Option<Event>,
    ) -> Report {
        let memory = memory.as_ref().map(Memory::as_bytes);
        let mut step = self.begin(memory, elapsed, event.map(convert::event));
        let report = self.drive(&mut step).await;
        let troubles = report.trouble.iter().map(|trouble| trouble.detail.as_str());
        heard(&self.world, self.who, troubles);
        convert::report(report)
    }

    pub(super) fn begin(
        &self,
        memory: Option<&[u8]>,
        elapsed: Duration,
        event: Option<tenure_guest::election::Event>,
    ) -> Step<'_> {
        Step::begin(&self.settings, memory, elapsed, event, &mut *self.dice())
    }

    /// Does what a step asks for, until it has its report.
    pub(super) async fn drive(&self, step: &mut Step<'_>) -> tenure_guest::election::Report {
        loop {
            let sent = self.clock.now();
            match step.next(sent) {
                Todo::Rest(report) => return *report,
                Todo::Fetch(_) => unreachable!("the accounts of the simulation have keys"),
                Todo::Send(ask) => {
                    let date = step.date(sent, self.wall());
                    let reply = self.ask(ask, date).await;
                    let now = self.clock.now();
                    step.answered(sent, now, self.wall(), reply, &mut *self.dice());
                }
            }
        }
    }

    fn dice(&self) -> std::sync::MutexGuard<'_, Dice> {
        self.dice.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wall(&self) -> DateTime<chrono::Utc> {
        let wall = i64::try_from(self.world.wall(self.machine)).unwrap_or(i64::MAX);
        DateTime::from_timestamp_millis(wall).unwrap_or(DateTime::UNIX_EPOCH)
    }

    pub(super) async fn ask(
        &self,
        ask: Ask,
        date: DateTime<chrono::Utc>,
    ) -> Result<Answer, Failure> {
        let (settings, timeout) = (&self.settings, ask.timeout);
        let mut ask = ask;
        if let Operation::WriteMetadata { metadata, .. } = &mut ask.operation
            && self.world.plan.machines[self.machine].newer
        {
            metadata.insert(LATER.0.into(), LATER.1.into());
        }
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
                Ok(response) => {
                    let headers = response.headers.into_iter();
                    let headers: Vec<_> =
                        headers.map(|(name, value)| (name, value.into_bytes())).collect();
                    return Ok(Answer::read(&ask.operation, response.status, &headers));
                }
                Err(Broken::Refused) => FailureKind::Connect,
                Err(Broken::Reset) => FailureKind::Reset,
            },
            // As in the component: by the executor's clock.
            () = tokio::time::sleep(timeout) => FailureKind::Timeout,
        };
        Err(Failure { kind, detail: String::new() })
    }
}

/// The network of one component.
struct Wireless {
    world: Arc<World>,
    who: Who,
}

impl Network for Wireless {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'static, Result<http::Response<Bytes>, NetworkFailure>> {
        let (world, who) = (self.world.clone(), self.who);
        let (head, body) = request.into_parts();
        let request = Request::from_http(&head, body);
        Box::pin(async move {
            match network::send(&world, who, request).await {
                Ok(response) => Ok(response.into_http()),
                Err(Broken::Refused) => Err(NetworkFailure::ConnectionRefused),
                Err(Broken::Reset) => Err(NetworkFailure::ConnectionReset),
            }
        })
    }
}
