//! Examination of a storage account: tries each request that an election needs on a scratch blob
//! next to the election's blob, and explains each response.
//!
//! An [`Examination`] decides which requests to send and how to interpret the responses, and
//! returns [`Finding`]s. A [`Transport`] sends its requests to the account. The election's own blob
//! and its lease are only read.

mod account_properties;
#[cfg(test)]
mod tests;
mod times;
mod trial;

use super::findings::Finding;
use account_properties::{Facts, credential_finding};
use chrono::{DateTime, Utc};
use std::time::Duration;
use tenure_azure::BlobName;
use tenure_azure::answer::{Answer, Class};
use tenure_azure::blob::SideBlob;
use tenure_azure::credential::{AuthSource, Credential};
use tenure_azure::operation::Operation;
use tenure_azure::request::Request;
use tenure_core::{
    Chance, CredentialState, Failure, Inspection, MAX_FETCH, Moment, Problem, Settings, Snapshot,
    TokenReply, TokenRequest,
};
use times::{Offset, Times, short_duration};

/// Maximum number of tries of a request without a response.
const MAX_TRIES: u32 = 2;

/// Pause before the retry of a request that the service could not handle. A longer `Retry-After` is
/// respected.
const BACK_OFF: Duration = Duration::from_millis(500);

/// Maximum pause before a retry. With the default time-out, the lease on the scratch blob outlasts
/// the pause and both tries. Otherwise the check of exclusion could find the blob free.
const MAX_BACK_OFF: Duration = Duration::from_secs(5);

/// A request of an examination.
#[derive(Clone, Debug)]
pub struct Question {
    /// The operation to request.
    pub operation: Operation,
    /// The blob: the election's, or the scratch blob.
    pub blob: BlobName,
    /// Time limit for the whole request.
    pub timeout: Duration,
    auth_source: AuthSource,
    correction: Offset,
}

impl Question {
    /// Returns the HTTP request to send. `wall` is the time of day.
    pub fn request(&self, settings: &Settings, wall: DateTime<Utc>) -> Request {
        let seconds = u32::try_from(self.timeout.as_secs()).unwrap_or(u32::MAX);
        let account = &settings.account;
        let authorization = account.credential().authorization(&self.auth_source);
        let date = self.correction.correct(wall);
        self.operation.request(account, &self.blob, date, seconds, authorization)
    }
}

/// A response with all its headers.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The response as an election reads it.
    pub answer: Answer,
    /// Names and values of the headers. The names may have any case.
    pub headers: Vec<(String, Vec<u8>)>,
}

/// Connection to the account, and this machine's clocks.
pub trait Transport: Chance {
    /// Returns the time of a monotonic clock.
    fn now(&self) -> Moment;

    /// Returns the time of day.
    fn wall(&self) -> DateTime<Utc>;

    /// Sends a request.
    async fn ask(&mut self, question: Question) -> Result<Reply, Failure>;

    /// Requests a token.
    async fn fetch(&mut self, fetch: TokenRequest) -> TokenReply;

    /// Waits before a retry.
    async fn pause(&mut self, time: Duration);
}

/// A request and its response.
struct Exchange {
    operation: Operation,
    answer: Answer,
    /// True if an earlier try may have been carried out.
    is_retry: bool,
    /// Duration of the last try.
    elapsed: Duration,
}

/// The reason why the remaining requests cannot be sent.
struct Aborted(&'static str);

/// An examination of one account.
pub struct Examination<'s, W> {
    settings: &'s Settings,
    transport: W,
    credential_state: CredentialState,
    clock: Offset,
    /// True if signatures use the service's time.
    corrected: bool,
    times: Times,
    facts: Facts,
    findings: Vec<Finding>,
}

impl<'s, W: Transport> Examination<'s, W> {
    /// Creates an examination of the account that `settings` name.
    pub fn new(settings: &'s Settings, transport: W) -> Self {
        Self {
            settings,
            transport,
            credential_state: CredentialState::default(),
            clock: Offset::default(),
            corrected: false,
            times: Times::default(),
            facts: Facts::default(),
            findings: Vec::new(),
        }
    }

    /// Tries everything, and returns all findings.
    pub async fn findings(mut self) -> Vec<Finding> {
        let result = self.try_all().await;
        let aborted = result.err();
        let is_complete = aborted.is_none();
        let mut all = self.summarize(aborted);
        if is_complete {
            all.push(self.times.finding(&self.settings.timings));
            all.push(self.facts.account(self.settings.account.name()));
        }
        if is_complete || self.facts.versions {
            all.push(self.facts.versioning(self.settings.timings.failover));
        }
        all.extend(self.facts.findings(self.settings.account.name()));
        all
    }

    /// Only reads the election. Use it if the same credential was already tested for another
    /// election of the container.
    pub async fn check_election_only(mut self) -> Vec<Finding> {
        let aborted = self.check_election().await.err();
        self.summarize(aborted)
    }

    /// Returns the findings about the credential, the requests so far and the clock.
    fn summarize(&mut self, aborted: Option<Aborted>) -> Vec<Finding> {
        let wall = self.transport.wall();
        let mut all = vec![credential_finding(self.settings, self.clock.correct(wall))];
        all.append(&mut self.findings);
        let aborted = aborted.map(|Aborted(why)| format!("everything else: {why}"));
        all.extend(aborted.map(|why| Finding::unknown("not tried", why)));
        // Without any response, the clock has no finding.
        if self.clock.known_ms().is_some() {
            all.push(self.clock.finding());
        }
        all
    }

    async fn try_all(&mut self) -> Result<(), Aborted> {
        self.check_election().await?;
        self.measure_latency().await?;
        if let Some(scratch) = self.scratch_blob() {
            self.try_on_scratch(scratch).await?;
        }
        self.read_orders().await?;
        let election = &self.settings.election;
        match self.ask(Operation::ReadAccount, election).await? {
            Ok(exchange) => {
                let reason = self.explain(&exchange, election);
                self.facts.record_account(exchange.answer.class == Class::Done, reason);
            }
            Err(problem) => self.facts.record_account(false, problem.detail),
        }
        Ok(())
    }

    /// Reads the election's own blob.
    async fn check_election(&mut self) -> Result<(), Aborted> {
        let (read, election) = (Operation::Read { lease: None }, &self.settings.election);
        let Exchange { answer, .. } = self.require_answer(read.clone(), election).await?;
        match Inspection::from_answer(&answer, self.settings, self.transport.wall()) {
            Ok(inspection) => {
                self.findings.extend(election_findings(&inspection.snapshot, self.settings))
            }
            Err(problem) if answer.class == Class::Done => {
                self.findings.push(Finding::failed("election", problem.detail));
            }
            Err(problem) => {
                self.findings.push(Finding::failed(read.name(), problem.detail));
                // A credential without read permission may still allow other requests.
                if !lacks_permission(&answer) {
                    return Err(Aborted("the first request got an unexpected answer"));
                }
            }
        }
        Ok(())
    }

    /// Measures the latency by more reads of the election's own blob.
    async fn measure_latency(&mut self) -> Result<(), Aborted> {
        let (read, election) = (Operation::Read { lease: None }, &self.settings.election);
        while !self.times.is_complete() {
            let elapsed = self.require_answer(read.clone(), election).await?.elapsed;
            self.times.add(elapsed);
        }
        Ok(())
    }

    /// Reads the orders, as a leader does. Missing permission, or no response, is only a warning,
    /// since it does not prevent leading.
    async fn read_orders(&mut self) -> Result<(), Aborted> {
        const ORDERS: &str = "orders (tenure trigger, tenure transfer)";
        let (read, election) = (Operation::ReadSideBlob(SideBlob::Orders), &self.settings.election);
        let check = read.name();
        if !election.may_have_side_blobs() {
            return Ok(());
        }
        let detail = match self.ask(read, election).await? {
            Ok(exchange) if exchange.answer.class == Class::Refused => {
                let problem = self.explain(&exchange, election);
                format!("{problem}. So a leader here takes no {ORDERS}")
            }
            Ok(_) => return Ok(()),
            Err(Problem { detail, .. }) => {
                format!("{detail}. So it is unknown whether a leader here can take {ORDERS}")
            }
        };
        self.findings.push(Finding::warning(check, detail));
        Ok(())
    }

    /// Returns the scratch blob for the remaining requests, unless the credential is limited to the
    /// election's blob.
    fn scratch_blob(&mut self) -> Option<Scratch> {
        let one_blob = match self.settings.account.credential() {
            Credential::Sas(sas) => sas.is_for_one_blob(),
            _ => false,
        };
        let scratch = Scratch::new(&self.settings.election, self.transport.bits());
        let why = match &scratch {
            _ if one_blob => {
                "the SAS is valid for the election's blob only, so no other blob can be tested"
            }
            None => "no name for a scratch blob can be made from the blob's name",
            Some(_) => return scratch,
        };
        self.findings.push(Finding::unknown("permissions", why));
        None
    }

    /// Returns the response to a request that all others depend on.
    async fn require_answer(
        &mut self,
        operation: Operation,
        blob: &BlobName,
    ) -> Result<Exchange, Aborted> {
        let check = operation.name();
        self.ask(operation, blob).await?.map_err(|problem| {
            self.findings.push(Finding::failed(check, problem.detail));
            Aborted("the service does not answer")
        })
    }

    /// Sends a request until there is a final response. Retries it with a corrected date or another
    /// token. If the service is unavailable, it tries once more after a pause. If there is no
    /// response, it does so at once, because an idle pooled connection often fails on its next
    /// request. The inner error means that all tries remained unanswered.
    async fn ask(
        &mut self,
        operation: Operation,
        blob: &BlobName,
    ) -> Result<Result<Exchange, Problem>, Aborted> {
        let mut tries = 0;
        loop {
            tries += 1;
            let question = Question {
                operation: operation.clone(),
                blob: blob.clone(),
                timeout: self.settings.timings.request_timeout,
                auth_source: self.auth_source().await?,
                correction: if self.corrected { self.clock } else { Offset::default() },
            };
            let sent = self.transport.now();
            let reply = self.transport.ask(question).await;
            let (now, wall) = (self.transport.now(), self.transport.wall());
            let elapsed = now.saturating_sub(sent);
            let Reply { answer, headers } = match reply {
                Ok(reply) => reply,
                Err(_) if tries < MAX_TRIES => continue,
                Err(failure) => {
                    let origin = self.settings.account.origin();
                    return Ok(Err(failure.to_problem(operation.name(), origin)));
                }
            };
            if let Some(date) = answer.date {
                self.clock.update(
                    date,
                    wall.checked_sub_signed(to_time_delta(elapsed)).unwrap_or(wall),
                    wall,
                );
            }
            self.facts.read(&headers);
            self.facts.record_answer(&operation, &answer);
            let retry_unavailable = answer.class == Class::Unavailable && tries < MAX_TRIES;
            if !self.needs_reauthorization(&answer, now) && !retry_unavailable {
                return Ok(Ok(Exchange { operation, answer, is_retry: tries > 1, elapsed }));
            }
            if retry_unavailable {
                self.transport.pause(back_off(&headers)).await;
            }
        }
    }

    /// Returns the source of the next request's authorization. Requests a token if needed.
    async fn auth_source(&mut self) -> Result<AuthSource, Aborted> {
        const CHECK: &str = "token";
        let credential = self.settings.account.credential();
        let mut failures = 0;
        loop {
            let sent = self.transport.now();
            let auth_source = self.credential_state.auth_source(credential, sent);
            let fetch = CredentialState::token_request(credential, MAX_FETCH);
            let (None, Some(fetch)) = (&auth_source, fetch) else {
                return Ok(auth_source.unwrap_or(AuthSource::Credential));
            };
            let reply = self.transport.fetch(fetch).await;
            let (times, wall) = ((sent, self.transport.now()), self.transport.wall());
            let state = &mut self.credential_state;
            match state.on_token_reply(credential, reply, times, wall, &mut self.transport) {
                Ok(()) => {
                    let elapsed = short_duration(times.1.saturating_sub(sent));
                    self.findings.push(Finding::good(CHECK, format!("obtained in {elapsed}")));
                }
                Err(_) if failures + 1 < MAX_TRIES => {
                    failures += 1;
                    self.transport.pause(BACK_OFF).await;
                }
                Err(problem) => {
                    self.findings.push(Finding::failed(CHECK, problem.detail));
                    return Err(Aborted("there is no token"));
                }
            }
        }
    }

    /// Returns true if the same request must be repeated at once, with a corrected date or another
    /// token.
    fn needs_reauthorization(&mut self, answer: &Answer, now: Moment) -> bool {
        if answer.status == 403 && !self.corrected && self.clock.is_suspect() {
            self.corrected = true;
            return true;
        }
        let credential = self.settings.account.credential();
        let problem = self.credential_state.on_answer(credential, answer, now);
        let needs_retry = problem.is_some();
        self.findings.extend(problem.map(|p| Finding::warning("credential", p.detail)));
        needs_retry
    }

    fn explain(&self, exchange: &Exchange, blob: &BlobName) -> String {
        exchange.answer.explain(&exchange.operation, blob, &self.settings.account)
    }
}

/// Returns the pause before a retry: as long as `Retry-After` asks for, within limits. Only the
/// form in seconds counts, which the service sends.
fn back_off(headers: &[(String, Vec<u8>)]) -> Duration {
    let header = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("retry-after"));
    let seconds = header.and_then(|(_, text)| str::from_utf8(text).ok()?.trim().parse().ok());
    seconds.map_or(BACK_OFF, Duration::from_secs).clamp(BACK_OFF, MAX_BACK_OFF)
}

/// Returns the findings about the election's state.
fn election_findings(snapshot: &Snapshot, settings: &Settings) -> Vec<Finding> {
    const CHECK: &str = "election";
    let name = &settings.election;
    let is_held = matches!(
        snapshot.lease,
        tenure_core::LeaseState::Leased | tenure_core::LeaseState::Breaking
    );
    if let Some(problem) = &snapshot.problem {
        return vec![Finding::failed(CHECK, problem.detail.clone())];
    }
    let mut findings = vec![Finding::good(
        CHECK,
        match (&snapshot.incumbent, is_held) {
            (Some(leader), true) => format!("{name}: {} leads, term {}", leader.name, leader.term),
            (Some(leader), false) => {
                format!("{name}: there is no leader; the last one was {}", leader.name)
            }
            (None, true) => format!("{name}: a candidate holds the lease, and is about to lead"),
            (None, false) => format!(
                "{name}: there is no leader yet; the first candidate creates what is missing"
            ),
        },
    )];
    let schedules = Problem::schedule_mismatch(snapshot.turns.schedule.as_deref(), settings);
    let ahead =
        snapshot.ahead.and(snapshot.turns.last_slot).map(|last| Problem::slot_ahead(last.slot));
    let problems = schedules.into_iter().chain(ahead);
    findings.extend(problems.map(|problem| Finding::warning("schedule", problem.detail)));
    findings
}

/// Returns true if the service accepted the credential but denied this one operation.
fn lacks_permission(answer: &Answer) -> bool {
    let code = answer.code.as_deref().unwrap_or("");
    answer.class == Class::Refused
        && matches!(
            code,
            "AuthorizationPermissionMismatch"
                | "InsufficientAccountPermissions"
                | "AuthorizationResourceTypeMismatch"
                | "UnauthorizedBlobOverwrite"
        )
}

fn to_time_delta(span: Duration) -> chrono::TimeDelta {
    chrono::TimeDelta::from_std(span).unwrap_or_default()
}

/// Maximum length of a blob name, in characters.
const MAX_NAME_LENGTH: usize = 1024;

/// Suffix of a scratch blob that cannot be deleted. Later examinations use it again.
const PERMANENT_SUFFIX: &str = ".check";

/// Names of the examination's scratch blob, which is next to the election's.
struct Scratch {
    temporary: BlobName,
    permanent: BlobName,
    /// True if the blob can be deleted. Assumed until a delete request was refused.
    removable: bool,
}

impl Scratch {
    /// Returns the names for the blob of an election. `None` if a name is not valid, or is the
    /// election's own, which can happen for a name near the maximum length. `random` keeps
    /// concurrent examinations apart.
    fn new(election: &BlobName, random: u64) -> Option<Self> {
        Some(Self {
            temporary: with_suffix(election, &format!("{PERMANENT_SUFFIX}-{random:016x}"))?,
            permanent: with_suffix(election, PERMANENT_SUFFIX)?,
            removable: true,
        })
    }

    fn name(&self) -> &BlobName {
        if self.removable { &self.temporary } else { &self.permanent }
    }
}

/// Appends the suffix, and truncates a name that is too long. Never returns the election's own
/// name.
fn with_suffix(election: &BlobName, suffix: &str) -> Option<BlobName> {
    let max_length = MAX_NAME_LENGTH - suffix.len();
    let blob: String = election.blob().chars().take(max_length).collect();
    let name = BlobName::parse(&format!("{}/{blob}{suffix}", election.container())).ok()?;
    (name != *election).then_some(name)
}
