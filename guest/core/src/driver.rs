//! Drives decisions: sends what they ask for, and tells them what was answered. The component, its native counterpart and
//! the simulation have this driver, each with [`Surroundings`] of its own.

use core::time::Duration;

use chrono::{DateTime, Utc};

use super::Moment;
use super::candidate::{Begins, Step};
use super::chance::Chance;
use super::complaint::Complaint;
use super::context::{Ask, Beside, Todo};
use super::credential_state::{CredentialState, Fetch, Fetched, LONGEST_FETCH};
use super::environment::Environment;
use super::failure::Failure;
use super::last_will::LastWill;
use super::limits;
use super::listing::{Listed, listed};
use super::orders::{Placing, TransferOrder, TransferState, transfer, trigger};
use super::problem::{Problem, ProblemClass};
use super::record::TriggerState;
use super::report::{Event, Report, Request, Response};
use super::settings::Settings;
use super::side_blobs::{
    ListedBlob, Session, SideAnswer, SideRequest, SideWrite, beside, beside_prefix, judged, page,
};
use super::snapshot::{Look, broken};
use tenure_azure::answer::{Answer, Class};
use tenure_azure::credential::{Credential, Pass};
use tenure_azure::metadata::Metadata;
use tenure_azure::name::SideBlob;
use tenure_azure::operation::{ETag, Operation};
use tenure_azure::request;
use tenure_base::prelude::*;

/// The most bytes of a body, but for contents and lists. Every answer is shorter, so it is read to its end, and the
/// connection can be used again.
pub const MOST_BODY: usize = 64 * 1024;

/// The most bytes of a content, or of a page of a list.
const MOST_CONTENT: usize = 4 * 1024 * 1024;

/// The most tries of a request outside an election: when the first two were refused for the clock and for the
/// first key, a third can be right.
const MOST_TRIES: u32 = 3;

/// The most pages of a list: they hold more blobs than a plan can name.
const MOST_PAGES: u32 = 100;

/// The most rounds of a command: of several that write at a time, one succeeds in each.
const MOST_ROUNDS: u32 = 12;

/// A transport, clocks and random numbers, for the driver.
pub trait Surroundings {
    /// The time, by a clock that never goes back. In a step it counts on from `elapsed`.
    fn now(&self) -> Moment;

    /// This machine's time of day.
    fn wall(&self) -> DateTime<Utc>;

    /// Random bits.
    fn bits(&self) -> u64;

    /// Sends a request, which takes no longer than `timeout`, and reads at most so many bytes of the answer's body.
    fn send(
        &self,
        request: &request::Request,
        timeout: Duration,
        most: usize,
    ) -> impl Future<Output = Result<Response, Failure>> + Send;

    /// Takes notice of a request before it is signed. A simulation writes as another version here.
    fn prepare(&self, _: &mut Operation) {}
}

/// Draws from the random numbers of surroundings.
pub struct Dice<'a, S>(pub &'a S);

impl<S: Surroundings> Chance for Dice<'_, S> {
    fn bits(&mut self) -> u64 {
        self.0.bits()
    }
}

/// One step of a candidate with the settings of an environment.
pub fn step<S: Surroundings>(
    environment: &dyn Environment,
    state: Option<&[u8]>,
    begins: Begins,
    event: Option<Event>,
    around: &S,
) -> impl Future<Output = Report> {
    let read = Settings::read_on_from(environment, state);
    async move {
        let (settings, complaints) = match read {
            Ok(read) => read,
            Err(complaints) => return Report::undone(state, event, &complaints),
        };
        let mut step = Step::begin(&settings, state, begins, event, &mut Dice(around));
        step.complain(&complaints, begins.at);
        take(step, &settings, settings.last_will, around).await
    }
}

/// Does what a step asks for, and reports. `wants_will`: with the last will, if there is one.
pub async fn take<S: Surroundings>(
    mut step: Step<'_>,
    settings: &Settings,
    wants_will: bool,
    around: &S,
) -> Report {
    let mut report = drive(&mut step, settings, around).await;
    report.background = step.beside().map(|beside| match beside {
        Beside::Fetch(Fetch { request, timeout }) => Request::of(request, timeout),
        Beside::Send(mut ask) => {
            around.prepare(&mut ask.operation);
            let date = step.date(around.now(), around.wall());
            Request::of(ask.request(settings, date), ask.timeout)
        }
    });
    if wants_will {
        let will = step.last_will(around.now(), around.wall());
        report.last_will = will.map(|will| Request::of(will.request, will.valid_for));
    }
    report
}

/// Does what a step asks for, until it has its report.
pub async fn drive<S: Surroundings>(
    step: &mut Step<'_>,
    settings: &Settings,
    around: &S,
) -> Report {
    loop {
        let sent = around.now();
        match step.next(sent) {
            Todo::Rest(report) => return *report,
            Todo::Fetch(asked) => {
                let reply = fetch(&asked, around).await;
                step.fetched(sent, around.now(), around.wall(), reply, &mut Dice(around));
            }
            Todo::Send(mut ask) => {
                around.prepare(&mut ask.operation);
                let date = step.date(sent, around.wall());
                let reply = send(settings, &ask, date, around).await.map(|(answer, _)| answer);
                step.answered(sent, around.now(), around.wall(), reply, &mut Dice(around));
            }
        }
    }
}

/// Looks at the election without taking part.
///
/// # Errors
/// It could not be read, or is none.
pub async fn look<S: Surroundings>(
    settings: &Settings,
    credential_state: &mut CredentialState,
    around: &S,
) -> Result<Look, Problem> {
    let operation = Operation::Read { lease: None };
    let answer = ask_for_people(settings, operation, credential_state, around).await?;
    Look::read(&answer, settings, around.wall())
}

/// The candidates that were seen lately, those seen last first.
///
/// # Errors
/// The list could not be read.
pub async fn candidates<S: Surroundings>(
    settings: &Settings,
    around: &S,
) -> Result<Vec<Listed>, Problem> {
    let operation = Operation::ReadSideBlob(SideBlob::Candidates);
    let mut credential_state = CredentialState::default();
    let answer = ask_for_people(settings, operation, &mut credential_state, around).await?;
    listed(&answer, settings)
}

/// Places a trigger of that id if `place`, or tells what became of it.
///
/// # Errors
/// It was not placed, or it is not known whether it was (classes `Unreachable`, `Unavailable` and `Nonsense`).
pub async fn place_trigger<S: Surroundings>(
    settings: &Settings,
    id: &str,
    place: bool,
    around: &S,
) -> Result<TriggerState, Problem> {
    let decide =
        |answers: (&Answer, &Answer)| trigger((id, place), answers, settings, around.wall());
    self::place(settings, around, decide).await
}

/// Places a transfer if `place`, or tells what became of it.
///
/// # Errors
/// As [`place_trigger`].
pub async fn place_transfer<S: Surroundings>(
    settings: &Settings,
    mut order: TransferOrder,
    place: bool,
    around: &S,
) -> Result<TransferState, Problem> {
    let decide = |answers: (&Answer, &Answer)| {
        let placing = transfer((&order, place), answers, settings, around.wall());
        // The order stays one for the leader that was found first.
        if let Ok(Placing::Write(_, TransferState::Waiting(found))) = &placing {
            order.term = Some(*found);
        }
        placing
    };
    self::place(settings, around, decide).await
}

/// Breaks the lease, whoever holds it, after at most `period`, or when it runs out. Returns how long it is still held.
///
/// # Errors
/// As [`place_trigger`].
pub async fn break_lease<S: Surroundings>(
    settings: &Settings,
    period: Option<Duration>,
    around: &S,
) -> Result<Duration, Problem> {
    // Rounded up: a fraction of a second must not become "at once".
    let seconds = period.map(|period| period.as_secs() + u64::from(period.subsec_nanos() > 0));
    let most = limits::BREAK_PERIOD.end().as_secs();
    let period = seconds.map(|seconds| u32::try_from(seconds.min(most)).unwrap_or(u32::MAX));
    let operation = Operation::Break { period, if_match: None };
    let mut credential_state = CredentialState::default();
    let answer = ask_for_people(settings, operation.clone(), &mut credential_state, around).await?;
    broken(&answer, &operation, settings)
}

/// Does what a request about blobs beside an election asks for, once (of a list: for each thousand blobs); again only where
/// it was refused, with another date, key or token, and the service did nothing.
///
/// # Errors
/// With class `Unreachable`, `Unavailable` or `Nonsense` it may have been done all the same; else it was not.
pub async fn side_blob<S: Surroundings>(
    settings: Settings,
    request: SideRequest,
    session: &mut Session,
    around: &S,
) -> Result<SideAnswer, Problem> {
    let (suffix, operation) = match request {
        SideRequest::Read { suffix, unless } => (suffix, Operation::ReadContent { unless }),
        SideRequest::Write(SideWrite { suffix, content, metadata, over }) => {
            let metadata = Metadata::from_iter(metadata);
            (suffix, Operation::WriteContent { over, content, metadata })
        }
        SideRequest::Delete { suffix, tag } => {
            (suffix, Operation::Delete { lease: None, if_match: tag })
        }
        SideRequest::List(prefix) => return list(&settings, &prefix, session, around).await,
    };
    let settings = beside(settings, &suffix)?;
    let (answer, body) = ask(&settings, operation.clone(), session, false, around).await?;
    judged(&operation, &answer, body, &settings)
}

/// All blobs beside an election whose suffix begins so.
async fn list<S: Surroundings>(
    settings: &Settings,
    prefix: &str,
    session: &mut Session,
    around: &S,
) -> Result<SideAnswer, Problem> {
    let own = beside_prefix(&settings.election);
    let (mut found, mut marker) = (Vec::new(), None);
    for _ in 0..MOST_PAGES {
        let operation = Operation::List { prefix: own.clone() + prefix, marker };
        let (answer, _) = ask(settings, operation.clone(), session, false, around).await?;
        let Some(page) = page(&operation, &answer, settings)? else {
            return Ok(SideAnswer::Missing);
        };
        found.extend(page.blobs.into_iter().filter_map(|blob| {
            let suffix = blob.name.strip_prefix(&own)?.into();
            let metadata = blob.metadata.into_pairs();
            Some(ListedBlob { suffix, tag: blob.etag, age: blob.age, metadata })
        }));
        let Some(next) = page.next else { return Ok(SideAnswer::Listed(found)) };
        marker = Some(next);
    }
    Err(Problem {
        class: ProblemClass::Configuration,
        detail: format!(
            "more than {MOST_PAGES} pages of blobs begin with {own}{prefix}; find out who writes them"
        ),
    })
}

/// The request that deletes the blob with that suffix, if it is still that version: for a process that outlives this one. None:
/// nothing authorises it now.
pub fn deletion<S: Surroundings>(
    settings: Settings,
    suffix: &str,
    tag: ETag,
    session: &Session,
    around: &S,
) -> Option<Request> {
    let settings = beside(settings, suffix).ok()?;
    let will = LastWill::deletion(&settings, session, tag, around.wall(), around.now())?;
    Some(Request::of(will.request, will.valid_for))
}

/// Places an order, or finds out what became of it. `decide` takes what the orders and the election show, in this order.
/// Both are read again when another command was faster, or when it is not known whether the order was written.
async fn place<T, S: Surroundings>(
    settings: &Settings,
    around: &S,
    mut decide: impl FnMut((&Answer, &Answer)) -> Result<Placing<T>, Problem>,
) -> Result<T, Problem> {
    let mut credential_state = CredentialState::default();
    for _ in 0..MOST_ROUNDS {
        let operation = Operation::ReadSideBlob(SideBlob::Orders);
        let orders = ask_for_people(settings, operation, &mut credential_state, around).await?;
        let operation = Operation::Read { lease: None };
        let election = ask_for_people(settings, operation, &mut credential_state, around).await?;
        let (operation, placed) = match decide((&orders, &election))? {
            Placing::Known(state) => return Ok(state),
            Placing::Create(operation) => (operation, None),
            Placing::Write(operation, state) => (operation, Some(state)),
        };
        let answer =
            ask_for_people(settings, operation.clone(), &mut credential_state, around).await?;
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
async fn ask_for_people<S: Surroundings>(
    settings: &Settings,
    operation: Operation,
    credential_state: &mut CredentialState,
    around: &S,
) -> Result<Answer, Problem> {
    let mut session = Session::of(core::mem::take(credential_state));
    let answer = ask(settings, operation, &mut session, true, around).await;
    *credential_state = session.credential;
    answer.map(|(answer, _)| answer)
}

/// One request outside an election, and the body of the answer. Sent again when it was refused, for then the clock may be
/// wrong or the token revoked; and, if `again_unanswered`, when it got no answer.
///
/// # Errors
/// There is no token, or no answer.
pub async fn ask<S: Surroundings>(
    settings: &Settings,
    operation: Operation,
    session: &mut Session,
    again_unanswered: bool,
    around: &S,
) -> Result<(Answer, Vec<u8>), Problem> {
    let credential = settings.account.credential();
    let timeout = settings.timings.request_timeout;
    let mut ask = Ask { operation, timeout, pass: Pass::Own };
    let (mut tries, mut is_corrected) = (0, false);
    loop {
        ask.pass = pass(credential, &mut session.credential, timeout, around).await?;
        let reply = send(settings, &ask, around.wall() + session.ahead(), around).await;
        tries += 1;
        let again = match &reply {
            Err(_) => again_unanswered,
            Ok((answer, _)) => {
                let dated = answer.date.filter(|_| answer.status == 403 && !is_corrected);
                if let Some(date) = dated {
                    session.set_ahead(date - around.wall());
                    is_corrected = true;
                }
                // The clock first: a token is not to blame before it is right.
                dated.is_some()
                    || session.credential.answered(credential, answer, around.now()).is_some()
            }
        };
        if !again || tries == MOST_TRIES {
            let origin = settings.account.origin();
            return reply.map_err(|failure| failure.problem(ask.operation.name(), origin));
        }
    }
}

/// What to send a request with. A token that is to be renewed is good meanwhile.
async fn pass<S: Surroundings>(
    credential: &Credential,
    credential_state: &mut CredentialState,
    patience: Duration,
    around: &S,
) -> Result<Pass, Problem> {
    let is_due = credential_state.due(credential).is_some_and(|due| due <= around.now());
    match credential_state.pass(credential, around.now()) {
        Some(pass) if !is_due => return Ok(pass),
        Some(_) => {
            let _ = fetch_token(credential, credential_state, patience, around).await;
        }
        None => {
            let first = fetch_token(credential, credential_state, LONGEST_FETCH, around).await;
            if first.is_err() {
                fetch_token(credential, credential_state, LONGEST_FETCH, around).await?;
            }
        }
    }
    Ok(credential_state.pass(credential, around.now()).unwrap_or(Pass::Own))
}

async fn fetch_token<S: Surroundings>(
    credential: &Credential,
    credential_state: &mut CredentialState,
    timeout: Duration,
    around: &S,
) -> Result<(), Problem> {
    let sent = around.now();
    let Some(asked) = CredentialState::fetch(credential, timeout) else { return Ok(()) };
    let reply = fetch(&asked, around).await;
    let (times, wall) = ((sent, around.now()), around.wall());
    credential_state.fetched(credential, reply, times, wall, &mut Dice(around))
}

async fn fetch<S: Surroundings>(fetch: &Fetch, around: &S) -> Fetched {
    let answer = around.send(&fetch.request, fetch.timeout, MOST_BODY).await?;
    Ok((answer.status, answer.body))
}

/// Sends a request to the service; the answer, and its body.
async fn send<S: Surroundings>(
    settings: &Settings,
    ask: &Ask,
    date: DateTime<Utc>,
    around: &S,
) -> Result<(Answer, Vec<u8>), Failure> {
    let is_list = matches!(ask.operation, Operation::List { .. });
    let most = match ask.operation {
        Operation::ReadContent { .. } | Operation::List { .. } => MOST_CONTENT,
        _ => MOST_BODY,
    };
    let response = around.send(&ask.request(settings, date), ask.timeout, most).await?;
    let answer = Answer::read(&ask.operation, response.status, &response.headers);
    let answer = answer.with_body(&response.body);
    let answer = if is_list { answer.with_page(&response.body) } else { answer };
    Ok((answer, response.body))
}

/// Reads the settings of an environment, for a request outside an election.
///
/// # Errors
/// All complaints in one.
pub fn usable_settings(environment: &dyn Environment) -> Result<Settings, Problem> {
    Settings::read_from(environment).map_err(|complaints| Problem {
        class: ProblemClass::Configuration,
        detail: Complaint::sentences(&complaints),
    })
}
