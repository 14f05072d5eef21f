//! Electors of the simulation: the pure core, or the shipped component.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use tenure::engine::{Elector, ElectorError, Variables};
use tenure::handler::BoxFuture;
use tenure_core::{
    BackgroundReply, EndingReason, Event, Failure, Report, Request, Response, Role, Settings,
    State, Timestamp,
};
use tenure_wasmtime::{ElectionComponent, Network, NetworkFailure, Surroundings};
use tokio::select;

use super::clock::SimClock;
use super::dice::Dice;
use super::history::{CandidateId, HistoryEvent};
use super::native::Native;
use super::network;
use super::plan::Trait;
use super::request_outcome::ConnectionError;
use super::variables;
use super::world::{Millis, World};

/// Implementation of the candidates.
#[derive(Clone)]
pub enum Fidelity {
    /// The pure core, run natively: for speed.
    Native,
    /// The shipped component, in wasmtime.
    Component(Arc<ElectionComponent>),
}

/// Elector of one candidate.
pub struct SimElector {
    world: Arc<World>,
    candidate: CandidateId,
    machine: usize,
    inner: Inner,
    /// Start of its leadership.
    leading_since: Mutex<Option<Millis>>,
}

enum Inner {
    /// The pure core.
    Native(Box<Native>),
    /// The component.
    Component(Box<ElectionComponent>),
}

impl SimElector {
    /// Creates the elector of a new process.
    #[must_use]
    pub fn new(
        world: &Arc<World>,
        candidate: CandidateId,
        machine: usize,
        clock: &SimClock,
        fidelity: &Fidelity,
    ) -> Self {
        let inner = match fidelity {
            Fidelity::Native => {
                let native = Native::new(world, candidate, machine, clock, |f| Settings::read(f));
                Inner::Native(Box::new(native))
            }
            Fidelity::Component(component) => {
                let mut settings = Variables::new();
                for (name, value) in variables::machine_variables(&world.plan, machine) {
                    settings.set(name, value);
                }
                let dice = Mutex::new(Dice::new(world.seed, OF_CANDIDATES + candidate as u64));
                let wall_world = world.clone();
                let surroundings = Surroundings {
                    wall: Arc::new(move || Duration::from_millis(wall_world.wall(machine))),
                    random: Arc::new(move || {
                        dice.lock().unwrap_or_else(PoisonError::into_inner).bits()
                    }),
                    network: Arc::new(SimNetwork { world: world.clone(), candidate }),
                };
                let component = component.for_candidate(settings, clock);
                Inner::Component(Box::new(component.in_surroundings(surroundings)))
            }
        };
        Self { world: world.clone(), candidate, machine, inner, leading_since: Mutex::new(None) }
    }

    fn wall(&self) -> Timestamp {
        Timestamp(self.world.wall(self.machine).saturating_mul(1_000_000))
    }

    /// Waits until a step must fail; then the candidate loses its state.
    async fn step_failure(&self) {
        std::future::poll_fn(|cx| {
            let process = &mut self.world.state().processes[self.candidate];
            process.gate(cx.waker());
            match std::mem::take(&mut process.step_fails) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }

    /// Records the start of a leadership or the failure of its work, from the report of a step that
    /// began then.
    ///
    /// Also counts leaders that resigned because they had led long enough.
    fn record_role(&self, report: &Report, started_at: Millis) {
        let (now, mut leading_since) =
            (self.world.now(), self.leading_since.lock().unwrap_or_else(PoisonError::into_inner));
        let ended_for = |reason| report.ending.is_some_and(|ending| ending.reason == reason);
        if ended_for(EndingReason::WorkFailed) {
            self.world.note(HistoryEvent::WorkFailed(self.candidate, started_at));
        }
        let resigned = ended_for(EndingReason::Resigned);
        let tenure = self.world.plan.tenure.filter(|_| resigned).zip(*leading_since);
        if tenure.is_some_and(|(tenure, since)| now > since + tenure * 950) {
            self.world.state().coverage.add_trait(Trait::Rotation);
        }
        *leading_since = match report.role {
            Role::Leading(_) => {
                if leading_since.is_none() || report.ending.is_some() {
                    self.world.note(HistoryEvent::BecameLeader(self.candidate));
                }
                leading_since.or(Some(now))
            }
            _ => None,
        };
    }
}

/// Records a handover failure among a candidate's messages; the oracle ignores other messages.
pub(super) fn record_handover_failure<'t>(
    world: &World,
    candidate: CandidateId,
    mut problems: impl Iterator<Item = &'t str>,
) {
    const MESSAGES: [&str; 2] = ["cannot hand over", "the leadership was not handed over"];
    if problems.any(|detail| MESSAGES.iter().any(|message| detail.starts_with(message))) {
        world.note(HistoryEvent::HandoverFailed(candidate));
    }
}

/// Dice purpose of candidates.
pub(super) const OF_CANDIDATES: u64 = 3_000;

impl Elector for SimElector {
    async fn step(
        &self,
        state: Option<State>,
        elapsed: Duration,
        event: Option<Event>,
    ) -> Result<Report, ElectorError> {
        let started_at = self.world.now();
        let candidate = self.candidate;
        let event = event.map(|event| match event {
            // The runner reads the real time of day.
            Event::BackgroundReply(answered) => {
                Event::BackgroundReply(BackgroundReply { received_at: self.wall(), ..answered })
            }
            event => event,
        });
        self.world.record(format_args!("c{candidate} steps at {elapsed:?} with {event:?}"));
        let step = async {
            match &self.inner {
                Inner::Native(native) => Ok(native.step(state, elapsed, event).await),
                Inner::Component(component) => {
                    let report = component.step(state.as_ref(), elapsed, event).await?;
                    let problems = report.problems.iter().map(|problem| problem.detail.as_str());
                    record_handover_failure(&self.world, self.candidate, problems);
                    Ok(report)
                }
            }
        };
        let step = async {
            let report = step.await;
            self.world.wait_for_turn(candidate, "reports", 0).await;
            report
        };
        let report = select! {
            biased;
            () = self.step_failure() => {
                self.world.note(HistoryEvent::StepFailed(self.candidate));
                self.world.state().processes[self.candidate].leads_until = Duration::ZERO;
                Err(ElectorError::new("as the dice fell"))
            }
            report = step => report,
        }?;
        let state = String::from_utf8_lossy(report.state.as_bytes());
        self.world.record(format_args!("c{candidate} reports {report:?} and remembers {state}"));
        if let Some(Request { method, url, headers, .. }) = &report.last_will {
            self.world.record(format_args!("c{candidate} leaves {method} {url} {headers:?}"));
        }
        self.record_role(&report, started_at);
        Ok(report)
    }

    async fn send(&self, request: Request) -> Result<Response, Failure> {
        match &self.inner {
            Inner::Native(native) => native.send(request).await,
            Inner::Component(component) => component.send(request).await,
        }
    }
}

/// Network of one component.
struct SimNetwork {
    world: Arc<World>,
    candidate: CandidateId,
}

impl Network for SimNetwork {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'static, Result<http::Response<Bytes>, NetworkFailure>> {
        let (world, candidate) = (self.world.clone(), self.candidate);
        let (head, body) = request.into_parts();
        let request = tenure_store::Request::from_http(&head, body);
        Box::pin(async move {
            match network::send(&world, candidate, request).await {
                Ok(response) => Ok(response.into_http()),
                Err(ConnectionError::Refused) => Err(NetworkFailure::ConnectionRefused),
                Err(ConnectionError::Reset) => Err(NetworkFailure::ConnectionReset),
            }
        })
    }
}
