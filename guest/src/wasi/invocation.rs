//! One whole turn: the I/O of [`OneTurn`].

use wasip2::clocks::monotonic_clock::subscribe_duration;

use super::bindings::tenure::election::leader_handler::on_tick;
use super::clock::OwnClock;
use super::convert::nanos;
use super::{HostChance, drive, look};
use crate::election::{Keyring, Next, OneTurn, Settings, Step, Turned};
use crate::prelude::*;

/// Does the whole turn, the handler's work included.
pub fn one_turn(settings: &Settings) -> Turned {
    let clock = OwnClock::start();
    let mut keyring = Keyring::default();
    let mut turn = OneTurn::begin(settings, clock.now());
    loop {
        let now = clock.now();
        match turn.next(now) {
            Next::Look => {
                let looked = look(settings, &mut keyring, &|| clock.now());
                turn.looked(looked, clock.now());
            }
            Next::Step(event) => {
                let first = turn.memory().is_none();
                let mut step = Step::begin(settings, turn.memory(), now, event, &mut HostChance);
                if first {
                    step = step.with_keyring(keyring.clone());
                }
                let report = drive(&mut step, settings, &|| clock.now());
                let after = clock.now();
                let prospect = step.prospect(after);
                turn.stepped(report, prospect, now, after);
            }
            Next::Wait(until) => subscribe_duration(nanos(until.saturating_sub(now))).block(),
            Next::Run(run) => {
                let result: Result<(), String> = on_tick(&run.into());
                turn.ran(result, clock.now());
            }
            Next::Done(turned) => return *turned,
        }
    }
}
