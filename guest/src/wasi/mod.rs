//! The component: the WIT world `socket`, on standard WASI 0.2 and nothing else.
//!
//! Everything here only moves bytes and time. What to send and what an answer means is
//! decided in [`crate::election`] and [`crate::azure`]; what a platform is answered, in
//! [`crate::entry`].

mod clock;
mod command;
mod convert;
mod cron;
mod http;
mod invocation;
mod transport;

use core::time::Duration;

use crate::azure::answer::Answer;
use crate::azure::operation::Operation;
use crate::election::{
    Ask, Chance, Complaint, Failure, Moment, Report, Settings, Snapshot, Step, Todo, Trouble,
    TroubleClass,
};
use clock::StepClock;
use tenure_base as _;

/// What the macro makes of `wit/`.
mod bindings {
    #![allow(unsafe_code, missing_docs, clippy::all)]
    wit_bindgen::generate!({ path: "../wit", world: "socket", generate_all });
    export!(Component with_types_in self);
    use super::Component;
}

use crate::prelude::*;
use bindings::exports::tenure::election::election::Guest;
use bindings::tenure::election::types as wit;

/// The longest break period, in seconds (Lease Blob, REST reference).
const LONGEST_BREAK: u64 = 60;

/// How long until a candidate with settings that cannot be used is to be asked again.
const SETTINGS_PAUSE: Duration = Duration::from_secs(60);

struct Component;

// The order of the exports is made when a handler is plugged in: here it is the linker's.
wasip2::cli::command::export!(Component);
wasip2::http::proxy::export!(Component);

struct HostChance;

impl Chance for HostChance {
    fn bits(&mut self) -> u64 {
        wasip2::random::random::get_random_u64()
    }
}

/// The variables of the environment, as one call finds them.
struct Variables(Vec<(String, String)>);

impl Variables {
    fn of_host() -> Self {
        Self(wasip2::cli::environment::get_environment())
    }

    fn get(&self, name: &str) -> Option<String> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    }
}

fn settings() -> Result<Settings, Vec<Complaint>> {
    let variables = Variables::of_host();
    Settings::read(|name| variables.get(name))
}

impl Guest for Component {
    fn check() -> Result<wit::Needs, Vec<wit::Complaint>> {
        match settings() {
            Ok(settings) => Ok(settings.needs().into()),
            Err(complaints) => Err(complaints.into_iter().map(Into::into).collect()),
        }
    }

    fn step(
        memory: Option<wit::Memory>,
        elapsed: wit::Duration,
        event: Option<wit::Event>,
    ) -> wit::Report {
        let clock = StepClock::start(Duration::from_nanos(elapsed));
        let settings = match settings() {
            Ok(settings) => settings,
            Err(complaints) => return unusable(memory, complaints),
        };
        let mut chance = HostChance;
        let event = event.map(Into::into);
        let mut step =
            Step::begin(&settings, memory.as_deref(), clock.started(), event, &mut chance);
        drive(&mut step, &settings, &|| clock.now()).into()
    }

    fn inspect() -> Result<wit::Snapshot, wit::Trouble> {
        let settings = usable_settings().map_err(wit::Trouble::from)?;
        look(&settings).map(Into::into).map_err(Into::into)
    }

    fn break_lease(period: Option<wit::Duration>) -> Result<wit::Duration, wit::Trouble> {
        // Rounded up: a fraction of a second must not become "at once".
        let seconds = period.map(|nanos| nanos.div_ceil(1_000_000_000).min(LONGEST_BREAK));
        let period = seconds.map(|seconds| u32::try_from(seconds).unwrap_or(60));
        let operation = Operation::Break { period };
        let settings = usable_settings().map_err(wit::Trouble::from)?;
        let answer = ask_for_people(&settings, operation.clone()).map_err(wit::Trouble::from)?;
        let left = crate::election::broken(&answer, &operation, &settings);
        left.map(convert::nanos).map_err(Into::into)
    }
}

fn send(
    settings: &Settings,
    ask: &Ask,
    date: chrono::DateTime<chrono::Utc>,
) -> Result<Answer, Failure> {
    // The service stops working on a request after as many whole seconds.
    let seconds = u32::try_from(ask.timeout.as_secs()).unwrap_or(u32::MAX).max(1);
    let request = ask.operation.request(&settings.account, &settings.election, date, seconds);
    let (status, headers) = transport::send(&request, ask.timeout)?;
    Ok(Answer::read(&ask.operation, status, &headers))
}

/// Does what a step asks for, until it has its report. `now` is in the time of its `elapsed`.
fn drive(step: &mut Step<'_>, settings: &Settings, now: &dyn Fn() -> Moment) -> Report {
    loop {
        let sent = now();
        match step.next(sent) {
            Todo::Rest(report) => return *report,
            Todo::Send(ask) => {
                let date = step.date(sent, clock::wall());
                let reply = send(settings, &ask, date);
                step.answered(sent, now(), clock::wall(), reply, &mut HostChance);
            }
        }
    }
}

fn usable_settings() -> Result<Settings, Trouble> {
    settings().map_err(|complaints| Trouble {
        class: TroubleClass::Configuration,
        detail: convert::sentences(&complaints),
    })
}

/// One look, without taking part.
fn look(settings: &Settings) -> Result<Snapshot, Trouble> {
    let answer = ask_for_people(settings, Operation::Look { lease: None })?;
    Snapshot::read(&answer, settings, clock::wall())
}

/// One request outside an election. Asked twice when the first try got no answer: an idle
/// connection of the host may have died.
fn ask_for_people(settings: &Settings, operation: Operation) -> Result<Answer, Trouble> {
    let ask = Ask { operation, timeout: settings.timings.request_timeout };
    let mut reply = send(settings, &ask, clock::wall());
    let date = match &reply {
        Ok(Answer { status: 403, date: Some(date), .. }) => Some(*date),
        Err(_) => Some(clock::wall()),
        Ok(_) => None,
    };
    if let Some(date) = date {
        reply = send(settings, &ask, date);
    }
    reply.map_err(|failure| failure.trouble(&ask.operation, settings.account.origin()))
}

fn unusable(memory: Option<wit::Memory>, complaints: Vec<Complaint>) -> wit::Report {
    let detail = convert::sentences(&complaints);
    let trouble = Trouble { class: TroubleClass::Configuration, detail };
    wit::Report {
        memory: memory.unwrap_or_default(),
        standing: wit::Standing::Undecided,
        ending: None,
        renewed: false,
        run: None,
        trouble: vec![trouble.into()],
        again_in: convert::nanos(SETTINGS_PAUSE),
    }
}
