//! One whole turn: the I/O of [`OneTurn`], and the work.

use wasip2::clocks::monotonic_clock::subscribe_duration;

use super::host::{ElapsedClockCell, Host};
use super::{WasiIo, run};
use tenure_base::prelude::*;
use tenure_core::driver::{self, IoChance};
use tenure_core::{
    Complaint, CredentialState, OneTurn, OneTurnAction, OneTurnResult, Settings, Step,
};
use tenure_wasi::nanos;
use work::Work;

/// The validated settings and the work of an invocation.
pub struct Invocation {
    pub settings: Settings,
    work: Work,
}

impl Invocation {
    /// Validates all settings, including those of the work, and sends nothing. So no slot is
    /// claimed for work that cannot be done. Returns all complaints at once.
    pub fn from_environment(host: &Host) -> Result<Self, Vec<Complaint>> {
        match (Settings::one_shot(host), Work::read(host)) {
            (Ok(settings), Ok(work)) => Ok(Self { settings, work }),
            (settings, work) => {
                let mut complaints = settings.err().unwrap_or_default();
                complaints.extend(work.err().unwrap_or_default());
                Err(complaints)
            }
        }
    }

    /// Runs the whole turn, including the work.
    pub fn one_turn(&self) -> OneTurnResult {
        let settings = &self.settings;
        let clock = ElapsedClockCell::start();
        let mut credential_state = CredentialState::default();
        let mut turn = OneTurn::new(settings, clock.now());
        loop {
            let now = clock.now();
            match turn.next(now) {
                OneTurnAction::Read => {
                    let now = || clock.now();
                    let io = WasiIo(&now);
                    let inspection = run(driver::inspect(settings, &mut credential_state, &io));
                    turn.on_read(inspection, clock.now());
                }
                OneTurnAction::Step(event) => {
                    let first = turn.state().is_none();
                    let start = clock.step_start();
                    let now = || clock.elapsed_in_step(start);
                    let io = WasiIo(&now);
                    let mut step =
                        Step::new(settings, turn.state(), start, event, &mut IoChance(&io));
                    if first {
                        step = step.with_credential_state(credential_state.clone());
                    }
                    let report = run(driver::drive(&mut step, settings, &io));
                    let progress = step.progress();
                    turn.on_step(report, progress, start.at, clock.now());
                }
                OneTurnAction::Wait(until) => {
                    subscribe_duration(nanos(until.saturating_sub(now))).block()
                }
                OneTurnAction::Run(due_turn) => {
                    let result = self.work.run(due_turn);
                    turn.on_handler_done(result, clock.now());
                }
                OneTurnAction::Done(result) => return *result,
            }
        }
    }
}

/// The work of a turn: one POST to a URL.
#[cfg(feature = "webhook")]
mod work {
    use super::super::host::{self, Host};
    use tenure_base::prelude::*;
    use tenure_core::{Complaint, Turn};
    use tenure_webhook::{Call, Credentials, Target, body_limit};

    /// The target of the calls, and their credentials.
    pub struct Work(Target, Credentials);

    impl Work {
        /// Reads the target and the credentials. Returns all complaints before there is a turn.
        pub fn read(host: &Host) -> Result<Self, Vec<Complaint>> {
            let (target, credentials) = Target::read(&host)?;
            Ok(Self(target, credentials))
        }

        /// Posts a turn.
        pub fn run(&self, turn: Turn) -> Result<(), String> {
            let (Self(target, credentials), now) = (self, host::wall_clock().timestamp());
            let call = Call::new(&turn, target, credentials, now);
            match tenure_wasi::send(&call.request, call.timeout, body_limit) {
                Ok(answer) => call.check_response(answer.status, &answer.body),
                Err(failure) => Err(call.failure_text(&failure)),
            }
        }
    }
}

/// The work of a turn: the leader handler that is plugged in.
#[cfg(not(feature = "webhook"))]
mod work {
    use super::super::bindings::tenure::election::leader_handler::on_tick;
    use super::super::convert::Convert as _;
    use super::super::host::Host;
    use tenure_base::prelude::*;
    use tenure_core::{Complaint, Turn};

    /// The handler. It validates its settings itself, in its turns.
    pub struct Work;

    impl Work {
        pub fn read(_: &Host) -> Result<Self, Vec<Complaint>> {
            Ok(Self)
        }

        /// Runs a turn.
        pub fn run(&self, turn: Turn) -> Result<(), String> {
            on_tick(&turn.convert())
        }
    }
}
