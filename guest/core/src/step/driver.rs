//! Drives steps: sends their requests and passes the answers back. The component, its native
//! counterpart and the simulation share this driver, each with its own [`DriverIo`].

use core::time::Duration;

use super::clocks::StepStart;
use super::credential_state::{CredentialState, MAX_FETCH, TokenReply, TokenRequest};
use super::limits;
use super::options::{Complaint, Environment};
use super::pace::Chance;
use super::problem::{Failure, Problem, ProblemClass};
use super::report::{Event, Report, Request, Response};
use super::settings::Settings;
use crate::Moment;
use crate::protocol::candidate::Step;
use crate::protocol::context::{BackgroundRequest, SignedRequest, StepAction};
use crate::protocol::releasing::LastWill;
use crate::record::metadata::{Record, RecordError, TriggerState};
use crate::record::snapshot::{Inspection, break_remaining};
use crate::side::listing::{Listed, listed};
use crate::side::orders::{OrderStep, TransferOrder, TransferState, transfer, trigger};
use crate::side::side_blobs::{
    ListedBlob, Session, SideAnswer, SideRequest, SideWrite, page, side_answer, side_blob_prefix,
    side_blob_settings,
};
use chrono::{DateTime, Utc};
use tenure_azure::answer::{Answer, Class, Entry};
use tenure_azure::blob::{BlobName, Metadata, SideBlob};
use tenure_azure::credential::{AuthSource, Credential};
use tenure_azure::operation::{ETag, Operation};
use tenure_azure::request;
use tenure_base::prelude::*;

/// Maximum bytes of a response body, except for contents and lists. Every answer is shorter, so it
/// is read to its end and the connection can be reused.
pub const MAX_BODY: usize = 64 * 1024;

/// Maximum bytes of a blob's content, or of one page of a list.
const MAX_CONTENT: usize = 4 * 1024 * 1024;

/// Maximum tries of a request outside an election. If the clock and then the first token were
/// refused, a third try can succeed.
const MAX_TRIES: u32 = 3;

/// Maximum pages of a list: they hold more blobs than a plan can name.
const MAX_PAGES: u32 = 100;

/// Maximum rounds in which a command tries to place its order. Among concurrent commands, one
/// succeeds in each round.
const MAX_ROUNDS: u32 = 12;

/// Transport, clocks and random numbers for the driver.
pub trait DriverIo {
    /// Returns the time by a clock that never goes back. Within a step it continues from `elapsed`.
    fn now(&self) -> Moment;

    /// Returns this machine's time of day.
    fn wall_clock(&self) -> DateTime<Utc>;

    /// Returns random bits.
    fn bits(&self) -> u64;

    /// Sends a request that takes at most `timeout`, and reads at most `max_bytes` of the response
    /// body.
    fn send(
        &self,
        request: request::Request,
        timeout: Duration,
        max_bytes: usize,
    ) -> impl Future<Output = Result<Response, Failure>> + Send;

    /// Adjusts a request before it is signed. The simulation uses it to write records of another
    /// version of Tenure.
    fn prepare(&self, _: &mut Operation) {}
}

/// Randomness from a [`DriverIo`].
pub struct IoChance<'a, S>(pub &'a S);

impl<S: DriverIo> Chance for IoChance<'_, S> {
    fn bits(&mut self) -> u64 {
        self.0.bits()
    }
}

/// Starts a step of a candidate with the settings of an environment.
pub fn step<S: DriverIo>(
    environment: &dyn Environment,
    state: Option<&[u8]>,
    start: StepStart,
    event: Option<Event>,
    io: &S,
) -> impl Future<Output = Report> {
    let read = Settings::reread_from(environment, state);
    async move {
        let (settings, complaints) = match read {
            Ok(read) => read,
            Err(complaints) => return Report::invalid_settings(state, event, &complaints),
        };
        let mut step = Step::new(&settings, state, start, event, &mut IoChance(io));
        step.report_complaints(&complaints, start.at);
        run_step(&mut step, &settings, settings.last_will, io).await
    }
}

/// Runs a step until it reports. The report includes the last will, if there is one and
/// `wants_will` is true.
pub async fn run_step<S: DriverIo>(
    step: &mut Step<'_>,
    settings: &Settings,
    wants_will: bool,
    io: &S,
) -> Report {
    let mut report = drive(step, settings, io).await;
    report.background = step.take_background().map(|background| match background {
        BackgroundRequest::Fetch(TokenRequest { request, timeout }) => {
            Request::new(request, timeout)
        }
        BackgroundRequest::Send(mut request) => {
            io.prepare(&mut request.operation);
            let date = step.date(io.now(), io.wall_clock());
            Request::new(request.to_http(settings, date), request.timeout)
        }
    });
    if wants_will {
        let will = step.last_will(io.now(), io.wall_clock());
        report.last_will = will.map(|will| Request::new(will.request, will.valid_for));
    }
    report
}

/// Performs the actions of a step until it returns its report.
pub async fn drive<S: DriverIo>(step: &mut Step<'_>, settings: &Settings, io: &S) -> Report {
    loop {
        let sent = io.now();
        match step.next(sent) {
            StepAction::Done(report) => return *report,
            StepAction::Fetch(token_request) => {
                let reply = send_token_request(token_request, io).await;
                step.on_token_reply(sent, io.now(), io.wall_clock(), reply, &mut IoChance(io));
            }
            StepAction::Send(mut request) => {
                io.prepare(&mut request.operation);
                let date = step.date(sent, io.wall_clock());
                let reply = send(settings, &request, date, io).await.map(|(answer, _)| answer);
                step.on_answer(sent, io.now(), io.wall_clock(), reply, &mut IoChance(io));
            }
        }
    }
}

/// Reads the election without taking part.
///
/// # Errors
/// The election could not be read, or the blob is not an election.
pub async fn inspect<S: DriverIo>(
    settings: &Settings,
    credential_state: &mut CredentialState,
    io: &S,
) -> Result<Inspection, Problem> {
    let operation = Operation::Read { lease: None };
    let answer = request_outside_election(settings, operation, credential_state, io).await?;
    Inspection::from_answer(&answer, settings, io.wall_clock())
}

/// Returns the recently seen candidates, the most recent first.
///
/// # Errors
/// The list could not be read.
pub async fn candidates<S: DriverIo>(settings: &Settings, io: &S) -> Result<Vec<Listed>, Problem> {
    let operation = Operation::ReadSideBlob(SideBlob::Candidates);
    let mut credential_state = CredentialState::default();
    let answer = request_outside_election(settings, operation, &mut credential_state, io).await?;
    listed(&answer, settings)
}

/// Returns the state of the trigger with that id. Places the trigger first if `place` is true and
/// it does not exist.
///
/// # Errors
/// The trigger was not placed. With class `Unreachable`, `Unavailable` or `Nonsense` it may have
/// been placed.
pub async fn place_trigger<S: DriverIo>(
    settings: &Settings,
    id: &str,
    place: bool,
    io: &S,
) -> Result<TriggerState, Problem> {
    let decide =
        |answers: (&Answer, &Answer)| trigger((id, place), answers, settings, io.wall_clock());
    self::place(settings, io, decide).await
}

/// Returns the state of a transfer. Places the transfer first if `place` is true and it does not
/// exist.
///
/// # Errors
/// Same as [`place_trigger`].
pub async fn place_transfer<S: DriverIo>(
    settings: &Settings,
    mut order: TransferOrder,
    place: bool,
    io: &S,
) -> Result<TransferState, Problem> {
    let decide = |answers: (&Answer, &Answer)| {
        let placing = transfer((&order, place), answers, settings, io.wall_clock());
        // Retries keep the term of the leader that was found first.
        if let Ok(OrderStep::Write(_, TransferState::Waiting(found))) = &placing {
            order.term = Some(*found);
        }
        placing
    };
    self::place(settings, io, decide).await
}

/// Breaks the lease of any holder. The lease ends after `period` or when it runs out, whichever
/// comes first. Returns the remaining time of the lease.
///
/// # Errors
/// Same as [`place_trigger`].
pub async fn break_lease<S: DriverIo>(
    settings: &Settings,
    period: Option<Duration>,
    io: &S,
) -> Result<Duration, Problem> {
    // Rounded up: a fraction of a second must not become "at once".
    let seconds = period.map(|period| period.as_secs() + u64::from(period.subsec_nanos() > 0));
    let longest = limits::BREAK_PERIOD.end().as_secs();
    let period = seconds.map(|seconds| u32::try_from(seconds.min(longest)).unwrap_or(u32::MAX));
    let operation = Operation::Break { period, if_match: None };
    let mut credential_state = CredentialState::default();
    let answer =
        request_outside_election(settings, operation.clone(), &mut credential_state, io).await?;
    break_remaining(&answer, &operation, settings)
}

/// Sends a request about blobs next to an election, once (a list: once per thousand blobs). Only a
/// refused request is repeated, with another date or token: the service did nothing then.
///
/// # Errors
/// With class `Unreachable`, `Unavailable` or `Nonsense` the request may have been applied;
/// otherwise it was not.
pub async fn side_blob<S: DriverIo>(
    settings: Settings,
    request: SideRequest,
    session: &mut Session,
    io: &S,
) -> Result<SideAnswer, Problem> {
    let (suffix, operation) = match request {
        SideRequest::Read { suffix, if_none_match } => {
            (suffix, Operation::ReadContent { if_none_match })
        }
        SideRequest::Write(SideWrite { suffix, content, metadata, condition }) => {
            let metadata = Metadata::from_iter(metadata);
            (suffix, Operation::WriteContent { condition, content, metadata })
        }
        SideRequest::Delete { suffix, tag } => {
            (suffix, Operation::Delete { lease: None, if_match: tag })
        }
        SideRequest::List(prefix) => return list(&settings, &prefix, session, io).await,
    };
    let settings = side_blob_settings(settings, &suffix)?;
    let (answer, body) =
        request_with_retry(&settings, operation.clone(), session, false, io).await?;
    side_answer(&operation, &answer, body, &settings)
}

/// Returns all blobs next to an election whose suffix starts with `prefix`.
async fn list<S: DriverIo>(
    settings: &Settings,
    prefix: &str,
    session: &mut Session,
    io: &S,
) -> Result<SideAnswer, Problem> {
    let name_prefix = side_blob_prefix(&settings.election);
    let Some(blobs) = list_blobs(settings, &(name_prefix.clone() + prefix), session, io).await?
    else {
        return Ok(SideAnswer::Missing);
    };
    let listed = blobs.into_iter().filter_map(|blob| {
        let suffix = blob.name.strip_prefix(&name_prefix)?.into();
        let metadata = blob.metadata.into_pairs();
        Some(ListedBlob { suffix, tag: blob.etag, age: blob.age, metadata })
    });
    Ok(SideAnswer::Listed(listed.collect()))
}

/// Returns the names of the elections in the container that have a record, readable or not. The
/// elections of shares are among them, closed ones are not.
///
/// # Errors
/// The blobs could not be listed.
pub async fn elections<S: DriverIo>(settings: &Settings, io: &S) -> Result<Vec<String>, Problem> {
    let blobs = list_blobs(settings, "", &mut Session::default(), io).await?.unwrap_or_default();
    let has_record = |blob: &&Entry| {
        use RecordError::{Closed, Foreign};
        !matches!(Record::from_metadata(&blob.metadata), Ok(None) | Err(Foreign(_) | Closed))
    };
    let container = settings.election.container();
    let names = blobs.iter().filter(has_record).map(|blob| format!("{container}/{}", blob.name));
    // An outsider can write a record to a blob whose name no settings allow.
    Ok(names.filter(|name| BlobName::parse(name).is_ok()).collect())
}

/// Returns all blobs of the container whose names start with `prefix`. None if there is no
/// container.
async fn list_blobs<S: DriverIo>(
    settings: &Settings,
    prefix: &str,
    session: &mut Session,
    io: &S,
) -> Result<Option<Vec<Entry>>, Problem> {
    let (mut found, mut marker) = (Vec::new(), None);
    for _ in 0..MAX_PAGES {
        let operation = Operation::List { prefix: prefix.into(), marker };
        let (answer, _) =
            request_with_retry(settings, operation.clone(), session, false, io).await?;
        let Some(page) = page(&operation, &answer, settings)? else { return Ok(None) };
        found.extend(page.blobs);
        let Some(next) = page.next else { return Ok(Some(found)) };
        marker = Some(next);
    }
    let container = settings.election.container();
    Err(Problem {
        class: ProblemClass::Configuration,
        detail: format!(
            "{container}/{prefix}… has more than {MAX_PAGES} pages of blobs; find out who writes them"
        ),
    })
}

/// Returns the request that deletes the blob with that suffix if it still has that tag. Another
/// process sends the request after the death of this one. None if nothing authorises it now.
pub fn deletion<S: DriverIo>(
    settings: Settings,
    suffix: &str,
    tag: ETag,
    session: &Session,
    io: &S,
) -> Option<Request> {
    let settings = side_blob_settings(settings, suffix).ok()?;
    let will = LastWill::deletion(&settings, session, tag, io.wall_clock(), io.now())?;
    Some(Request::new(will.request, will.valid_for))
}

/// Places an order, or returns the state of an order that exists. `decide` takes the answers to the
/// reads of the orders' blob and of the election's blob, in this order. Both are read again if
/// another command was faster, or if the write may have failed.
async fn place<T, S: DriverIo>(
    settings: &Settings,
    io: &S,
    mut decide: impl FnMut((&Answer, &Answer)) -> Result<OrderStep<T>, Problem>,
) -> Result<T, Problem> {
    let mut credential_state = CredentialState::default();
    for _ in 0..MAX_ROUNDS {
        let operation = Operation::ReadSideBlob(SideBlob::Orders);
        let orders =
            request_outside_election(settings, operation, &mut credential_state, io).await?;
        let operation = Operation::Read { lease: None };
        let election =
            request_outside_election(settings, operation, &mut credential_state, io).await?;
        let (operation, planned_state) = match decide((&orders, &election))? {
            OrderStep::Known(state) => return Ok(state),
            OrderStep::Create(operation) => (operation, None),
            OrderStep::Write(operation, state) => (operation, Some(state)),
        };
        let answer =
            request_outside_election(settings, operation.clone(), &mut credential_state, io)
                .await?;
        match (answer.class, planned_state) {
            (Class::Done, Some(state)) => return Ok(state),
            (Class::Refused, _) => return Err(Problem::from_answer(&answer, &operation, settings)),
            // An outsider leased the orders' blob: no command leases it. A retry meets the same
            // lease.
            (Class::LeaseMismatch, _) => {
                let detail = Problem::from_answer(&answer, &operation, settings).detail;
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

/// Sends one request outside an election. Retries a request that gets no answer: an idle connection
/// of the host may have died.
async fn request_outside_election<S: DriverIo>(
    settings: &Settings,
    operation: Operation,
    credential_state: &mut CredentialState,
    io: &S,
) -> Result<Answer, Problem> {
    let mut session = Session::new(core::mem::take(credential_state));
    let answer = request_with_retry(settings, operation, &mut session, true, io).await;
    *credential_state = session.credential;
    answer.map(|(answer, _)| answer)
}

/// Sends one request outside an election. Returns the answer and its body. Retries a refused
/// request, because the clock may be wrong or the token revoked. Retries a request without an
/// answer if `retry_unanswered` is true.
///
/// # Errors
/// There is no token, or no answer.
pub async fn request_with_retry<S: DriverIo>(
    settings: &Settings,
    operation: Operation,
    session: &mut Session,
    retry_unanswered: bool,
    io: &S,
) -> Result<(Answer, Vec<u8>), Problem> {
    let credential = settings.account.credential();
    let timeout = settings.timings.request_timeout;
    let mut request = SignedRequest { operation, timeout, auth: AuthSource::Credential };
    let (mut tries, mut is_corrected) = (0, false);
    loop {
        request.auth = authorize(credential, &mut session.credential, timeout, io).await?;
        let reply = send(settings, &request, io.wall_clock() + session.clock_skew(), io).await;
        tries += 1;
        let is_retryable = match &reply {
            Err(_) => retry_unanswered,
            Ok((answer, _)) => {
                let corrected_date = answer.date.filter(|_| answer.status == 403 && !is_corrected);
                if let Some(date) = corrected_date {
                    session.set_clock_skew(date - io.wall_clock());
                    is_corrected = true;
                }
                // The clock comes first: only with the right time can a refusal be due to the
                // token.
                corrected_date.is_some()
                    || session.credential.on_answer(credential, answer, io.now()).is_some()
            }
        };
        if !is_retryable || tries == MAX_TRIES {
            let origin = settings.account.origin();
            return reply.map_err(|failure| failure.to_problem(request.operation.name(), origin));
        }
    }
}

/// Returns the means of authorisation for a request. A token that is due for renewal is still
/// valid: if it cannot be renewed within `renewal_timeout`, it is used until it expires.
async fn authorize<S: DriverIo>(
    credential: &Credential,
    credential_state: &mut CredentialState,
    renewal_timeout: Duration,
    io: &S,
) -> Result<AuthSource, Problem> {
    let is_due = credential_state.due_at(credential).is_some_and(|due| due <= io.now());
    let refreshed = match credential_state.auth_source(credential, io.now()) {
        Some(auth) if !is_due => return Ok(auth),
        Some(_) => refresh_token(credential, credential_state, renewal_timeout, io).await,
        None => match refresh_token(credential, credential_state, MAX_FETCH, io).await {
            Ok(()) => Ok(()),
            Err(_) => refresh_token(credential, credential_state, MAX_FETCH, io).await,
        },
    };
    match credential_state.auth_source(credential, io.now()) {
        Some(auth) => Ok(auth),
        // The service refuses a request whose new token has expired already.
        None => refreshed.map(|()| AuthSource::Credential),
    }
}

async fn refresh_token<S: DriverIo>(
    credential: &Credential,
    credential_state: &mut CredentialState,
    timeout: Duration,
    io: &S,
) -> Result<(), Problem> {
    let sent = io.now();
    let Some(token_request) = CredentialState::token_request(credential, timeout) else {
        return Ok(());
    };
    let reply = send_token_request(token_request, io).await;
    let (times, wall) = ((sent, io.now()), io.wall_clock());
    credential_state.on_token_reply(credential, reply, times, wall, &mut IoChance(io))
}

async fn send_token_request<S: DriverIo>(token_request: TokenRequest, io: &S) -> TokenReply {
    let answer = io.send(token_request.request, token_request.timeout, MAX_BODY).await?;
    Ok((answer.status, answer.body))
}

/// Sends a request to the service, once. Returns the answer and its body.
async fn send<S: DriverIo>(
    settings: &Settings,
    request: &SignedRequest,
    date: DateTime<Utc>,
    io: &S,
) -> Result<(Answer, Vec<u8>), Failure> {
    let is_list = matches!(request.operation, Operation::List { .. });
    let max_bytes = match request.operation {
        Operation::ReadContent { .. } | Operation::List { .. } => MAX_CONTENT,
        _ => MAX_BODY,
    };
    let response = io.send(request.to_http(settings, date), request.timeout, max_bytes).await?;
    let answer = Answer::from_parts(&request.operation, response.status, &response.headers);
    let answer = answer.with_body(&response.body);
    let answer = if is_list { answer.with_page(&response.body) } else { answer };
    Ok((answer, response.body))
}

/// Reads the settings of an environment, for a request outside an election.
///
/// # Errors
/// The settings are invalid. The problem lists all complaints.
pub fn read_settings(environment: &dyn Environment) -> Result<Settings, Problem> {
    Settings::read_from(environment).map_err(|complaints| Problem {
        class: ProblemClass::Configuration,
        detail: Complaint::join_all(&complaints),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::problem::FailureKind;
    use core::pin::pin;
    use core::sync::atomic::{AtomicU64, Ordering};
    use core::task::{Context, Poll, Waker};
    use tenure_azure::endpoint::Endpoint;
    use tenure_azure::identity::Identity;

    /// Machine on which every token request takes some seconds and then fails.
    struct NoTokens {
        now_s: AtomicU64,
        request_s: u64,
    }

    impl DriverIo for NoTokens {
        fn now(&self) -> Moment {
            Duration::from_secs(self.now_s.load(Ordering::Relaxed))
        }

        fn wall_clock(&self) -> DateTime<Utc> {
            DateTime::UNIX_EPOCH
        }

        fn bits(&self) -> u64 {
            0
        }

        async fn send(
            &self,
            _: request::Request,
            _: Duration,
            _: usize,
        ) -> Result<Response, Failure> {
            self.now_s.fetch_add(self.request_s, Ordering::Relaxed);
            Err(Failure { kind: FailureKind::Timeout, detail: String::new() })
        }
    }

    /// Authorises a request ten seconds before the token expires.
    fn authorize_shortly_before_expiry(request_s: u64) -> Result<AuthSource, Problem> {
        let endpoint = Endpoint::parse("http://169.254.169.254").unwrap();
        let credential = Credential::Identity(Identity::Imds { endpoint, client: None });
        let token = Ok((200, br#"{"access_token":"ey","expires_in":3600}"#.to_vec()));
        let io = NoTokens { now_s: AtomicU64::new(3_590), request_s };
        let (times, wall) = ((Moment::ZERO, Moment::ZERO), io.wall_clock());
        let mut state = CredentialState::default();
        state.on_token_reply(&credential, token, times, wall, &mut IoChance(&io)).unwrap();
        let authorized = authorize(&credential, &mut state, Duration::from_secs(3), &io);
        match pin!(authorized).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(authorized) => authorized,
            Poll::Pending => panic!("every request is answered at once"),
        }
    }

    #[test]
    fn token_that_expires_during_a_failed_renewal_is_reported() {
        let authorized = authorize_shortly_before_expiry(3);
        assert!(matches!(authorized, Ok(AuthSource::Token(_))), "{authorized:?}");
        let problem = authorize_shortly_before_expiry(10).unwrap_err();
        assert_eq!(problem.class, ProblemClass::Unreachable, "{problem:?}");
    }
}
