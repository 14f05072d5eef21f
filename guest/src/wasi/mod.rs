//! The component: the WIT world `socket` on standard WASI 0.2 only, or with the feature `webhook`
//! the world `platform`.
//!
//! This module only moves bytes and time. [`tenure_core`] and [`tenure_azure`] decide about
//! requests and answers, and [`crate::entry`] about the answers to platforms.

// Some hosts call the first export that they know. runwasi provides `wasi:http` to a component only
// if it calls it by HTTP, so that export must come first. The compiler sorts exports by symbol, so
// modules with shorter names come first: `http`, `command`, `bindings`. A test of
// `tenure compose` checks the order.
mod host;
mod http;
mod invocation;

use core::pin::pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use chrono::{DateTime, Utc};
use convert::Convert as _;
use host::{Host, StepClock};
use tenure_azure::request::Request;
use tenure_core::driver::{self, DriverIo};
use tenure_core::{
    BackgroundReply, BackgroundRequest, Event, Failure, Moment, Outcome, Response, Settings,
    StepStart, Timestamp, TurnResult,
};

/// Conversions between the values of the core and those of the WIT.
mod convert {
    use super::bindings::tenure::election::types;
    tenure_core::convert_contract!(types);
}

/// The bindings that the macro generates from `wit/`.
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
struct WasiIo<'c>(&'c dyn Fn() -> Moment);

impl DriverIo for WasiIo<'_> {
    fn now(&self) -> Moment {
        (self.0)()
    }

    fn wall_clock(&self) -> DateTime<Utc> {
        host::wall_clock()
    }

    fn bits(&self) -> u64 {
        wasip2::random::random::get_random_u64()
    }

    fn send(
        &self,
        request: Request,
        timeout: Duration,
        max_bytes: usize,
    ) -> impl Future<Output = Result<Response, Failure>> + Send {
        core::future::ready(tenure_wasi::send(&request, timeout, |_| max_bytes))
    }
}

/// Runs a future to its end. One poll is enough, because its requests block.
fn run<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("requests block"),
    }
}

impl Guest for Component {
    fn files() -> Vec<String> {
        let host = Host::from_environment();
        Settings::files(|name| host.get(name))
    }

    fn check() -> Result<wit::Needs, Vec<wit::Complaint>> {
        let host = Host::from_environment();
        let checked_settings = Settings::read(&host).and_then(|settings| {
            match BackgroundRequest::complaint(&settings) {
                Some(complaint) => Err(vec![complaint]),
                None => Ok(settings),
            }
        });
        let complaint = |tenure_core::Complaint { setting, problem, advice }| wit::Complaint {
            setting: setting.variable().into(),
            problem,
            advice,
        };
        match checked_settings {
            Ok(settings) => Ok(settings.needs(host::wall_clock()).convert()),
            Err(complaints) => Err(complaints.into_iter().map(complaint).collect()),
        }
    }

    fn step(
        state: Option<wit::State>,
        elapsed: wit::Duration,
        ahead: wit::Duration,
        event: Option<wit::Event>,
    ) -> wit::Report {
        let clock = StepClock::start(Duration::from_nanos(elapsed));
        let event = event.map(convert_event);
        let start = StepStart { at: clock.started(), clock_lead: Duration::from_nanos(ahead) };
        let (host, now) = (Host::from_environment(), || clock.now());
        run(driver::step(&&host, state.as_deref(), start, event, &WasiIo(&now))).convert()
    }
}

/// Converts an event of the host. Its response, if any, has just been received.
fn convert_event(event: wit::Event) -> Event {
    match event {
        wit::Event::TurnEnded(result) => Event::TurnEnded(turn_result(result)),
        wit::Event::Leave(result) => Event::Leave(result.map(turn_result)),
        wit::Event::ResetSlot => Event::ResetSlot,
        wit::Event::Resign => Event::Resign,
        wit::Event::HandOver(to) => Event::HandOver(to),
        wit::Event::Ready(ready) => Event::Ready(ready),
        wit::Event::Answered(reply) => {
            let received_at = Timestamp::from_date(host::wall_clock());
            Event::BackgroundReply(BackgroundReply { result: reply.convert(), received_at })
        }
        wit::Event::Hint => Event::Hint,
    }
}

fn turn_result(result: wit::TurnResult) -> TurnResult {
    let result: TurnResult = result.convert();
    match result.outcome {
        // Only the election marks a slot as abandoned, never a host.
        Outcome::Abandoned => TurnResult { outcome: Outcome::Failed, ..result },
        _ => result,
    }
}

/// The entry points for one turn without an HTTP request: `wasi:cli/run` and `handle-cron-event`.
mod command {
    use wasip2::cli::stdout::get_stdout;

    use super::Component;
    use super::bindings::{Error, Guest, Metadata};
    use super::host::Host;
    use super::invocation::Invocation;
    use crate::entry::{Answer, invalid_settings_answer, turn_answer};

    /// Runs one turn with the settings of the environment.
    fn turn() -> Answer {
        match Invocation::from_environment(&Host::from_environment()) {
            Ok(invocation) => turn_answer(&invocation.one_turn()),
            Err(complaints) => invalid_settings_answer(&complaints),
        }
    }

    wasip2::cli::command::export!(Component);

    /// Prints the answer of the turn to standard output, for `wasmtime run` and Kubernetes jobs.
    impl wasip2::exports::cli::run::Guest for Component {
        fn run() -> Result<(), ()> {
            let mut answer = turn();
            answer.body.push('\n');
            let stdout = get_stdout();
            for piece in answer.body.as_bytes().chunks(4096) {
                // A closed output does not fail the turn.
                let _ = stdout.blocking_write_and_flush(piece);
            }
            if answer.status == 200 { Ok(()) } else { Err(()) }
        }
    }

    /// Runs one turn for Spin's cron trigger, which fires in every replica. The time of the event
    /// is not used: slots are counted in the service's time.
    impl Guest for Component {
        fn handle_cron_event(_: Metadata) -> Result<(), Error> {
            let answer = turn();
            if answer.status == 200 { Ok(()) } else { Err(Error::Other(answer.body)) }
        }
    }
}
