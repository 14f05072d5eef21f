//! One whole turn: the I/O of [`OneTurn`].

use wasip2::clocks::monotonic_clock::subscribe_duration;

use super::clock::OwnClock;
use super::host::Host;
use super::work::Work;
use super::{Around, run};
use tenure_base::prelude::*;
use tenure_core::driver::{self, Dice};
use tenure_core::{Complaint, CredentialState, Next, OneTurn, Settings, Step, Turned};
use tenure_wasi::nanos;

/// The validated settings and the work of an invocation.
pub struct Invocation {
    pub settings: Settings,
    work: Work,
}

impl Invocation {
    /// Validates all settings, including those of the work, and sends nothing. So no slot is
    /// claimed for work that cannot be done. Returns all complaints at once.
    pub fn read(host: &Host) -> Result<Self, Vec<Complaint>> {
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
    pub fn one_turn(&self) -> Turned {
        let settings = &self.settings;
        let clock = OwnClock::start();
        let mut credential_state = CredentialState::default();
        let mut turn = OneTurn::begin(settings, clock.now());
        loop {
            let now = clock.now();
            match turn.next(now) {
                Next::Read => {
                    let now = || clock.now();
                    let around = Around(&now);
                    let look = run(driver::look(settings, &mut credential_state, &around));
                    turn.read(look, clock.now());
                }
                Next::Step(event) => {
                    let first = turn.state().is_none();
                    let begins = clock.step();
                    let now = || clock.within(begins);
                    let around = Around(&now);
                    let mut step =
                        Step::begin(settings, turn.state(), begins, event, &mut Dice(&around));
                    if first {
                        step = step.with_credential_state(credential_state.clone());
                    }
                    let report = run(driver::drive(&mut step, settings, &around));
                    let prospect = step.prospect();
                    turn.stepped(report, prospect, begins.at, clock.now());
                }
                Next::Wait(until) => subscribe_duration(nanos(until.saturating_sub(now))).block(),
                Next::Run(run) => {
                    let result = self.work.run(run);
                    turn.ran(result, clock.now());
                }
                Next::Done(turned) => return *turned,
            }
        }
    }
}
