//! The component: the WIT world `socket` on standard WASI 0.2 and nothing else, or with the feature `webhook` the
//! world `platform`.
//!
//! Everything here only moves bytes and time. What to send and what an answer means is
//! decided in [`tenure_core`] and [`tenure_azure`]; what a platform is answered, in
//! [`crate::entry`].

// Hosts take the first export that they know: a command, then a service. The linker puts them in the order of the
// names of the modules that export them, by length first: `command`, `service`, `bindings`. A test of `tenure compose` holds it.
mod clock;
mod command;
mod convert;
mod cron;
mod host;
mod invocation;
mod service;
#[cfg_attr(feature = "webhook", path = "work/webhook.rs")]
#[cfg_attr(not(feature = "webhook"), path = "work/handler.rs")]
mod work;

use core::pin::pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use chrono::{DateTime, Utc};
use clock::{OwnClock, StepClock};
use convert::Across as _;
use host::Host;
use tenure_azure::request::Request;
use tenure_core::driver::{self, Surroundings, usable_settings};
use tenure_core::{Begins, Beside, CredentialState, Failure, Moment, Problem, Response, Settings};

/// What the macro makes of `wit/`.
mod bindings {
    #![allow(unsafe_code, missing_docs, clippy::all)]
    #[cfg(not(feature = "webhook"))]
    wit_bindgen::generate!({ path: "../wit", world: "socket", generate_all });
    #[cfg(feature = "webhook")]
    wit_bindgen::generate!({ path: "../wit", world: "platform", generate_all });
    export!(Component with_types_in self);
    use super::Component;
}

use bindings::exports::tenure::election::election::Guest;
use bindings::tenure::election::types as wit;
use tenure_base::prelude::*;

struct Component;

/// The host of this component, with a clock that was started for a call.
struct Around<'c>(&'c dyn Fn() -> Moment);

impl Surroundings for Around<'_> {
    fn now(&self) -> Moment {
        (self.0)()
    }

    fn wall(&self) -> DateTime<Utc> {
        clock::wall()
    }

    fn bits(&self) -> u64 {
        wasip2::random::random::get_random_u64()
    }

    fn send(
        &self,
        request: &Request,
        timeout: Duration,
        most: usize,
    ) -> impl Future<Output = Result<Response, Failure>> + Send {
        core::future::ready(tenure_wasi::send(request, timeout, |_| most))
    }
}

/// Runs it to its end. Nothing in it waits but by blocking.
fn run<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("requests block"),
    }
}

impl Guest for Component {
    fn files() -> Vec<String> {
        let host = Host::look();
        Settings::files(|name| host.get(name))
    }

    fn check() -> Result<wit::Needs, Vec<wit::Complaint>> {
        let host = Host::look();
        let judged = Settings::read(&host).and_then(|settings| {
            match Beside::complaint(&settings, host.get(Beside::VARIABLE).as_deref()) {
                Some(complaint) => Err(vec![complaint]),
                None => Ok(settings),
            }
        });
        judged.map(|settings| settings.needs(clock::wall())).across()
    }

    fn step(
        state: Option<wit::State>,
        elapsed: wit::Duration,
        ahead: wit::Duration,
        event: Option<wit::Event>,
    ) -> wit::Report {
        let clock = StepClock::start(Duration::from_nanos(elapsed));
        let event = event.map(convert::event);
        let begins = Begins { at: clock.started(), ahead: Duration::from_nanos(ahead) };
        let (host, now) = (Host::look(), || clock.now());
        run(driver::step(&&host, state.as_deref(), begins, event, &Around(&now))).across()
    }

    fn inspect() -> Result<wit::Snapshot, wit::Problem> {
        let look = outside(async |settings, around| {
            driver::look(settings, &mut CredentialState::default(), around).await
        });
        look.map(|look| look.snapshot).across()
    }

    fn candidates() -> Result<Vec<wit::Listed>, wit::Problem> {
        outside(async |settings, around| driver::candidates(settings, around).await).across()
    }

    fn trigger(id: String, place: bool) -> Result<wit::TriggerState, wit::Problem> {
        let place = async |settings: &Settings, around: &Around<'_>| {
            driver::place_trigger(settings, &id, place, around).await
        };
        outside(place).across()
    }

    fn transfer(
        order: wit::TransferOrder,
        place: bool,
    ) -> Result<wit::TransferState, wit::Problem> {
        let place = async |settings: &Settings, around: &Around<'_>| {
            driver::place_transfer(settings, order.across(), place, around).await
        };
        outside(place).across()
    }

    fn break_lease(period: Option<wit::Duration>) -> Result<wit::Duration, wit::Problem> {
        let ask = async |settings: &Settings, around: &Around<'_>| {
            driver::break_lease(settings, period.across(), around).await
        };
        outside(ask).across()
    }
}

/// Does something outside an election.
fn outside<T>(
    ask: impl AsyncFnOnce(&Settings, &Around<'_>) -> Result<T, Problem>,
) -> Result<T, Problem> {
    let (settings, clock) = (usable_settings(&&Host::look())?, OwnClock::start());
    run(ask(&settings, &Around(&|| clock.now())))
}
