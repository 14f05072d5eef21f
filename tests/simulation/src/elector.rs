//! Who decides: the pure core by itself, or the component that ships.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use tenure::engine::{Elector, ElectorError, Variables};
use tenure::handler::BoxFuture;
use tenure_core::{
    EndingReason, Event, Failure, Report, Request, Response, Role, Settings, State, Timestamp, Told,
};
use tenure_wasmtime::{ElectionComponent, Network, NetworkFailure, Surroundings};
use tokio::select;

use super::clock::SimClock;
use super::dice::Dice;
use super::fate::Broken;
use super::history::{What, Who};
use super::native::Native;
use super::network;
use super::plan::Trait;
use super::variables;
use super::world::{Millis, World};

/// What the candidates are made of.
#[derive(Clone)]
pub enum Fidelity {
    /// The pure core, natively: for volume.
    Native,
    /// The component that ships, in wasmtime.
    Component(Arc<ElectionComponent>),
}

/// One candidate's elector.
pub struct SimElector {
    world: Arc<World>,
    who: Who,
    machine: usize,
    of: Of,
    /// Since when it leads.
    leads: Mutex<Option<Millis>>,
}

enum Of {
    /// The pure core.
    Native(Box<Native>),
    /// The component.
    Component(Box<ElectionComponent>),
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
        let of = match fidelity {
            Fidelity::Native => {
                let native = Native::new(world, who, machine, clock, |f| Settings::read(f));
                Of::Native(Box::new(native))
            }
            Fidelity::Component(component) => {
                let mut settings = Variables::new();
                for (name, value) in variables::of(&world.plan, machine) {
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
                Of::Component(Box::new(component.in_surroundings(surroundings)))
            }
        };
        Self { world: world.clone(), who, machine, of, leads: Mutex::new(None) }
    }

    fn wall(&self) -> Timestamp {
        Timestamp(self.world.wall(self.machine).saturating_mul(1_000_000))
    }

    /// Completes when a step is to fail, and nothing that it learnt is kept.
    async fn fails(&self) {
        std::future::poll_fn(|cx| {
            let process = &mut self.world.state().processes[self.who];
            process.gate(cx.waker());
            match std::mem::take(&mut process.step_fails) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }

    /// Takes note of who begins to lead and whose work failed, by the report of a step that began then, and counts a
    /// leader that resigned because it had led for long enough.
    fn notes_role(&self, report: &Report, began: Millis) {
        let (now, mut leads) =
            (self.world.now(), self.leads.lock().unwrap_or_else(PoisonError::into_inner));
        let ended_by = |reason| report.ending.is_some_and(|ending| ending.reason == reason);
        if ended_by(EndingReason::WorkFailed) {
            self.world.note(What::WorkFailed(self.who, began));
        }
        let resigned = ended_by(EndingReason::Resigned);
        let tenure = self.world.plan.tenure.filter(|_| resigned).zip(*leads);
        if tenure.is_some_and(|(tenure, since)| now > since + tenure * 950) {
            self.world.state().coverage.saw(Trait::Rotation);
        }
        *leads = match report.role {
            Role::Leading(_) => {
                if leads.is_none() || report.ending.is_some() {
                    self.world.note(What::Leads(self.who));
                }
                leads.or(Some(now))
            }
            _ => None,
        };
    }
}

/// Of what a candidate tells its people, the oracle hears whether it hands over.
pub(super) fn heard<'t>(world: &World, who: Who, mut problems: impl Iterator<Item = &'t str>) {
    const SAYS: [&str; 2] = ["cannot hand over", "the leadership was not handed over"];
    if problems.any(|detail| SAYS.iter().any(|says| detail.starts_with(says))) {
        world.note(What::NotHandedOver(who));
    }
}

/// The purpose of the dice of candidates.
pub(super) const OF_CANDIDATES: u64 = 3_000;

impl Elector for SimElector {
    async fn step(
        &self,
        state: Option<State>,
        elapsed: Duration,
        event: Option<Event>,
    ) -> Result<Report, ElectorError> {
        let began = self.world.now();
        let who = self.who;
        let event = event.map(|event| match event {
            // The runner reads the real time of day.
            Event::Answered(answered) => Event::Answered(Told { at: self.wall(), ..answered }),
            event => event,
        });
        self.world.record(format_args!("c{who} steps at {elapsed:?} with {event:?}"));
        let step = async {
            match &self.of {
                Of::Native(native) => Ok(native.step(state, elapsed, event).await),
                Of::Component(component) => {
                    let report = component.step(state.as_ref(), elapsed, event).await?;
                    let problems = report.problems.iter().map(|problem| problem.detail.as_str());
                    heard(&self.world, self.who, problems);
                    Ok(report)
                }
            }
        };
        let step = async {
            let report = step.await;
            self.world.in_turn(who, "reports", 0).await;
            report
        };
        let report = select! {
            biased;
            () = self.fails() => {
                self.world.note(What::Forgot(self.who));
                self.world.state().processes[self.who].leads_until = Duration::ZERO;
                Err(ElectorError::new("as the dice fell"))
            }
            report = step => report,
        }?;
        let state = String::from_utf8_lossy(report.state.as_bytes());
        self.world.record(format_args!("c{who} reports {report:?} and remembers {state}"));
        if let Some(Request { method, url, headers, .. }) = &report.last_will {
            self.world.record(format_args!("c{who} leaves {method} {url} {headers:?}"));
        }
        self.notes_role(&report, began);
        Ok(report)
    }

    async fn send(&self, request: Request) -> Result<Response, Failure> {
        match &self.of {
            Of::Native(native) => native.send(request).await,
            Of::Component(component) => component.send(request).await,
        }
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
        let request = tenure_store::Request::from_http(&head, body);
        Box::pin(async move {
            match network::send(&world, who, request).await {
                Ok(response) => Ok(response.into_http()),
                Err(Broken::Refused) => Err(NetworkFailure::ConnectionRefused),
                Err(Broken::Reset) => Err(NetworkFailure::ConnectionReset),
            }
        })
    }
}
