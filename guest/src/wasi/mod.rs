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
mod side_blobs;
#[cfg_attr(feature = "webhook", path = "work/webhook.rs")]
#[cfg_attr(not(feature = "webhook"), path = "work/handler.rs")]
mod work;

use core::time::Duration;

use clock::{OwnClock, StepClock};
use convert::Across as _;
use host::Host;
use tenure_azure::answer::{Answer, Class};
use tenure_azure::credential::{Credential, Pass};
use tenure_azure::name::SideBlob;
use tenure_azure::operation::Operation;
use tenure_core::{
    Ask, Begins, Beside, Chance, Complaint, CredentialState, Failure, Fetch, Fetched,
    LONGEST_FETCH, LastWill, Look, Moment, Placing, Problem, ProblemClass, Report, Request,
    Session, Settings, Step, Todo, TransferOrder, TransferState,
};

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
use tenure_wasi::MOST_BODY;

/// The longest break period, in seconds (Lease Blob, REST reference).
const LONGEST_BREAK: u64 = 60;

/// A request outside an election is sent so often: when the first two were refused for the clock and for the
/// first key, a third can be right.
const MOST_TRIES: u32 = 3;

/// Of several commands that write at a time one is done in each round.
const MOST_ROUNDS: u32 = 12;

/// The most bytes of a content, or of a page of a list.
const MOST_CONTENT: usize = 4 * 1024 * 1024;

struct Component;

struct HostChance;

impl Chance for HostChance {
    fn bits(&mut self) -> u64 {
        wasip2::random::random::get_random_u64()
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
        let host = Host::look();
        let (settings, complaints) = match Settings::read_on(&host, state.as_deref()) {
            Ok(read) => read,
            Err(complaints) => {
                return Report::undone(state.as_deref(), event, &complaints).across();
            }
        };
        let mut chance = HostChance;
        let begins = Begins { at: clock.started(), ahead: Duration::from_nanos(ahead) };
        let mut step = Step::begin(&settings, state.as_deref(), begins, event, &mut chance);
        step.complain(&complaints, clock.started());
        let mut report = drive(&mut step, &settings, &|| clock.now());
        report.background = step.beside().map(|beside| match beside {
            Beside::Fetch(Fetch { request, timeout }) => Request::of(request, timeout),
            Beside::Send(ask) => {
                let date = step.date(clock.now(), clock::wall());
                Request::of(ask.request(&settings, date), ask.timeout)
            }
        });
        if host.get(LastWill::VARIABLE).is_some_and(|value| value == "true") {
            let will = step.last_will(clock.now(), clock::wall());
            report.last_will = will.map(|will| Request::of(will.request, will.valid_for));
        }
        report.across()
    }

    fn inspect() -> Result<wit::Snapshot, wit::Problem> {
        let looked = usable_settings().and_then(|settings| {
            let clock = OwnClock::start();
            look(&settings, &mut CredentialState::default(), &|| clock.now())
        });
        looked.map(|look| look.snapshot).across()
    }

    fn candidates() -> Result<Vec<wit::Listed>, wit::Problem> {
        let listed = usable_settings().and_then(|settings| {
            let clock = OwnClock::start();
            let operation = Operation::ReadSideBlob(SideBlob::Candidates);
            let (mut credential, now) = (CredentialState::default(), || clock.now());
            let answer = ask_for_people(&settings, operation, &mut credential, &now)?;
            tenure_core::listed(&answer, &settings)
        });
        listed.across()
    }

    fn trigger(id: String, place: bool) -> Result<wit::TriggerState, wit::Problem> {
        let state = usable_settings().and_then(|settings| {
            let clock = OwnClock::start();
            self::place(&settings, &|| clock.now(), |answers| {
                tenure_core::trigger((&id, place), answers, &settings, clock::wall())
            })
        });
        state.across()
    }

    fn transfer(
        order: wit::TransferOrder,
        place: bool,
    ) -> Result<wit::TransferState, wit::Problem> {
        let mut order: TransferOrder = order.across();
        let state = usable_settings().and_then(|settings| {
            let clock = OwnClock::start();
            self::place(&settings, &|| clock.now(), |answers| {
                let placing =
                    tenure_core::transfer((&order, place), answers, &settings, clock::wall());
                // The order stays one for the leader that was found first.
                if let Ok(Placing::Write(_, TransferState::Waiting(found))) = &placing {
                    order.term = Some(*found);
                }
                placing
            })
        });
        state.across()
    }

    fn break_lease(period: Option<wit::Duration>) -> Result<wit::Duration, wit::Problem> {
        // Rounded up: a fraction of a second must not become "at once".
        let seconds = period.map(|nanos| nanos.div_ceil(1_000_000_000).min(LONGEST_BREAK));
        let period = seconds.map(|seconds| u32::try_from(seconds).unwrap_or(60));
        let operation = || Operation::Break { period, if_match: None };
        let left = usable_settings().and_then(|settings| {
            let clock = OwnClock::start();
            let (mut credential, now) = (CredentialState::default(), || clock.now());
            let answer = ask_for_people(&settings, operation(), &mut credential, &now)?;
            tenure_core::broken(&answer, &operation(), &settings)
        });
        left.across()
    }
}

fn send(
    settings: &Settings,
    ask: &Ask,
    date: chrono::DateTime<chrono::Utc>,
) -> Result<Answer, Failure> {
    let (answer, body) = send_and_read(settings, ask, date)?;
    let lists = matches!(ask.operation, Operation::List { .. });
    Ok(if lists { answer.with_page(&body) } else { answer })
}

/// The same, with the body.
fn send_and_read(
    settings: &Settings,
    ask: &Ask,
    date: chrono::DateTime<chrono::Utc>,
) -> Result<(Answer, Vec<u8>), Failure> {
    let request = ask.request(settings, date);
    let has_content =
        matches!(ask.operation, Operation::ReadContent { .. } | Operation::List { .. });
    let most: fn(u16) -> usize = if has_content { |_| MOST_CONTENT } else { |_| MOST_BODY };
    let answer = tenure_wasi::send(&request, ask.timeout, most)?;
    let read = Answer::read(&ask.operation, answer.status, &answer.headers);
    Ok((read.with_body(&answer.body), answer.body))
}

fn fetch(fetch: &Fetch) -> Fetched {
    let answer = tenure_wasi::send(&fetch.request, fetch.timeout, |_| MOST_BODY)?;
    Ok((answer.status, answer.body))
}

/// Does what a step asks for, until it has its report. `now` is in the time of its `elapsed`.
fn drive(step: &mut Step<'_>, settings: &Settings, now: &dyn Fn() -> Moment) -> Report {
    loop {
        let sent = now();
        match step.next(sent) {
            Todo::Rest(report) => return *report,
            Todo::Fetch(asked) => {
                let reply = fetch(&asked);
                step.fetched(sent, now(), clock::wall(), reply, &mut HostChance);
            }
            Todo::Send(ask) => {
                let date = step.date(sent, clock::wall());
                let reply = send(settings, &ask, date);
                step.answered(sent, now(), clock::wall(), reply, &mut HostChance);
            }
        }
    }
}

fn usable_settings() -> Result<Settings, Problem> {
    Settings::read(&Host::look()).map_err(|complaints| Problem {
        class: ProblemClass::Configuration,
        detail: Complaint::sentences(&complaints),
    })
}

/// One look, without taking part.
fn look(
    settings: &Settings,
    credential_state: &mut CredentialState,
    now: &dyn Fn() -> Moment,
) -> Result<Look, Problem> {
    let answer = ask_for_people(settings, Operation::Read { lease: None }, credential_state, now)?;
    Look::read(&answer, settings, clock::wall())
}

/// Places an order, or finds out what became of it. `decide` takes what the orders and the election show, in this order.
/// Both are read again when another command was faster, or when it is not known whether the order was written.
fn place<S>(
    settings: &Settings,
    now: &dyn Fn() -> Moment,
    mut decide: impl FnMut((&Answer, &Answer)) -> Result<Placing<S>, Problem>,
) -> Result<S, Problem> {
    let mut credential_state = CredentialState::default();
    let mut ask = |operation| ask_for_people(settings, operation, &mut credential_state, now);
    for _ in 0..MOST_ROUNDS {
        let orders = ask(Operation::ReadSideBlob(SideBlob::Orders))?;
        let election = ask(Operation::Read { lease: None })?;
        let (operation, placed) = match decide((&orders, &election))? {
            Placing::Known(state) => return Ok(state),
            Placing::Create(operation) => (operation, None),
            Placing::Write(operation, state) => (operation, Some(state)),
        };
        let answer = ask(operation.clone())?;
        match (answer.class, placed) {
            (Class::Done, Some(state)) => return Ok(state),
            (Class::Refused, _) => return Err(Problem::of_answer(&answer, &operation, settings)),
            // No command holds a lease on it, and it stays leased.
            (Class::LeaseMismatch, _) => {
                let detail = Problem::of_answer(&answer, &operation, settings).detail;
                return Err(Problem { class: ProblemClass::ForeignLease, detail });
            }
            _ => {}
        }
    }
    Err(Problem {
        class: ProblemClass::Unavailable,
        detail: "the order could not be written: other commands were faster, or no answer came. Try again, with the same id"
            .into(),
    })
}

/// One request outside an election. Asked again when a try got no answer: an idle
/// connection of the host may have died.
fn ask_for_people(
    settings: &Settings,
    operation: Operation,
    credential_state: &mut CredentialState,
    now: &dyn Fn() -> Moment,
) -> Result<Answer, Problem> {
    let credential = core::mem::take(credential_state);
    let mut session = Session::of(credential);
    let answer = ask(settings, operation, &mut session, true, now);
    *credential_state = session.credential;
    answer.map(|(answer, _)| answer)
}

/// One request outside an election, and the body of the answer. Sent again when it was refused, for then the clock may be
/// wrong or the token revoked; and, if `again_unanswered`, when it got no answer.
fn ask(
    settings: &Settings,
    operation: Operation,
    session: &mut Session,
    again_unanswered: bool,
    now: &dyn Fn() -> Moment,
) -> Result<(Answer, Vec<u8>), Problem> {
    let credential = settings.account.credential();
    let timeout = settings.timings.request_timeout;
    let mut ask = Ask { operation, timeout, pass: Pass::Own };
    let (mut tries, mut is_corrected) = (0, false);
    loop {
        ask.pass = pass(credential, &mut session.credential, timeout, now)?;
        let reply = send_and_read(settings, &ask, clock::wall() + session.ahead());
        tries += 1;
        let again = match &reply {
            Err(_) => again_unanswered,
            Ok((answer, _)) => {
                let dated = answer.date.filter(|_| answer.status == 403 && !is_corrected);
                if let Some(date) = dated {
                    session.set_ahead(date - clock::wall());
                    is_corrected = true;
                }
                // The clock first: a token is not to blame before it is right.
                dated.is_some() || session.credential.answered(credential, answer, now()).is_some()
            }
        };
        if !again || tries == MOST_TRIES {
            let origin = settings.account.origin();
            return reply.map_err(|failure| failure.problem(ask.operation.name(), origin));
        }
    }
}

/// What to send a request with. A token that is to be renewed is good meanwhile.
fn pass(
    credential: &Credential,
    credential_state: &mut CredentialState,
    patience: Duration,
    now: &dyn Fn() -> Moment,
) -> Result<Pass, Problem> {
    let is_due = credential_state.due(credential).is_some_and(|due| due <= now());
    match credential_state.pass(credential, now()) {
        Some(pass) if !is_due => return Ok(pass),
        Some(_) => {
            let _ = fetch_token(credential, credential_state, patience, now);
        }
        None => hold_token(credential, credential_state, now)?,
    }
    Ok(credential_state.pass(credential, now()).unwrap_or(Pass::Own))
}

/// Has a token, by one request or two.
fn hold_token(
    credential: &Credential,
    credential_state: &mut CredentialState,
    now: &dyn Fn() -> Moment,
) -> Result<(), Problem> {
    let first = fetch_token(credential, credential_state, LONGEST_FETCH, now);
    first.or_else(|_| fetch_token(credential, credential_state, LONGEST_FETCH, now))
}

fn fetch_token(
    credential: &Credential,
    credential_state: &mut CredentialState,
    timeout: Duration,
    now: &dyn Fn() -> Moment,
) -> Result<(), Problem> {
    let sent = now();
    let Some(asked) = CredentialState::fetch(credential, timeout) else { return Ok(()) };
    let (reply, wall) = (fetch(&asked), clock::wall());
    credential_state.fetched(credential, reply, (sent, now()), wall, &mut HostChance)
}
