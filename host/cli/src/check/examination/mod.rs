//! An examination of a storage account: tries all that an election needs of it, on a blob of its own beside the election's,
//! and says what each response means.
//!
//! An [`Examination`] decides what to ask and what the responses mean, and ends with [`Finding`]s. A [`Transport`] carries its
//! questions to the account. The election's own blob and its lease are only read.

mod clock;
mod credential;
mod facts;
mod scratch;
mod times;
mod trial;

use super::findings::Finding;
use chrono::{DateTime, Utc};
use clock::Offset;
use facts::Facts;
use scratch::Scratch;
use std::time::Duration;
use tenure_azure::BlobName;
use tenure_azure::answer::{Answer, Class};
use tenure_azure::credential::{Credential, AuthSource};
use tenure_azure::name::SideBlob;
use tenure_azure::operation::Operation;
use tenure_azure::request::Request;
use tenure_core::{
    Chance, CredentialState, Failure, TokenRequest, TokenReply, LONGEST_FETCH, Inspection, Moment, Problem,
    Settings, Snapshot,
};
use times::{Times, short_duration};

/// A request that is not answered is sent so often.
const MAX_TRIES: u32 = 2;

/// A request of an examination.
#[derive(Clone, Debug)]
pub struct Question {
    /// What to ask the service.
    pub operation: Operation,
    /// Of which blob: the election's, or the examination's own.
    pub blob: BlobName,
    /// The longest that it may take, everything included.
    pub timeout: Duration,
    pass: AuthSource,
    correction: Offset,
}

impl Question {
    /// As it goes to the service. `wall` is the time of day.
    pub fn request(&self, settings: &Settings, wall: DateTime<Utc>) -> Request {
        let seconds = u32::try_from(self.timeout.as_secs()).unwrap_or(u32::MAX);
        let account = &settings.account;
        let authorization = account.credential().authorization(&self.pass);
        let date = self.correction.correct(wall);
        self.operation.request(account, &self.blob, date, seconds, authorization)
    }
}

/// An answer with all its headers.
#[derive(Clone, Debug)]
pub struct Reply {
    /// As an election reads it.
    pub answer: Answer,
    /// Names in any case.
    pub headers: Vec<(String, Vec<u8>)>,
}

/// Carries requests to the account, and has this machine's clocks.
pub trait Transport: Chance {
    /// By a clock that nobody sets.
    fn now(&self) -> Moment;

    /// The time of day.
    fn wall(&self) -> DateTime<Utc>;

    /// Sends a question.
    async fn ask(&mut self, question: Question) -> Result<Reply, Failure>;

    /// Asks for a token.
    async fn fetch(&mut self, fetch: TokenRequest) -> TokenReply;
}

/// What came of a question.
struct Exchange {
    operation: Operation,
    answer: Answer,
    /// An earlier try of it may have been carried out.
    is_retry: bool,
    /// How long the last try took.
    elapsed: Duration,
}

/// Nothing of the rest can be asked, for this reason.
struct Aborted(&'static str);

/// One examination of an account, from the first look to the last finding.
pub struct Examination<'s, W> {
    settings: &'s Settings,
    transport: W,
    credential_state: CredentialState,
    clock: Offset,
    /// The service's time is used for signatures.
    corrected: bool,
    times: Times,
    facts: Facts,
    findings: Vec<Finding>,
}

impl<'s, W: Transport> Examination<'s, W> {
    /// Of the account that these settings name.
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

    /// Tries everything, and returns all that was found.
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

    /// Only reads the election: the rest was tried with the same credential for another one of its container.
    pub async fn check_election_only(mut self) -> Vec<Finding> {
        let aborted = self.check_election().await.err();
        self.summarize(aborted)
    }

    /// Returns what the credential, the requests so far and the clock came to.
    fn summarize(&mut self, aborted: Option<Aborted>) -> Vec<Finding> {
        let wall = self.transport.wall();
        let mut all = vec![credential::finding(self.settings, self.clock.correct(wall))];
        all.append(&mut self.findings);
        let aborted = aborted.map(|Aborted(why)| format!("everything else: {why}"));
        all.extend(aborted.map(|why| Finding::unknown("not tried", why)));
        // Without a response, one line is enough.
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
            Ok(look) => self.findings.extend(election_findings(&look.snapshot, self.settings)),
            Err(problem) if answer.class == Class::Done => {
                self.findings.push(Finding::failed("election", problem.detail));
            }
            Err(problem) => {
                self.findings.push(Finding::failed(read.name(), problem.detail));
                // Who may not read may still be allowed other requests.
                if !lacks_permission(&answer) {
                    return Err(Aborted("the first request got an unexpected answer"));
                }
            }
        }
        Ok(())
    }

    /// Reads the election's own blob some more times, for the time that it takes.
    async fn measure_latency(&mut self) -> Result<(), Aborted> {
        let (read, election) = (Operation::Read { lease: None }, &self.settings.election);
        while !self.times.is_complete() {
            let elapsed = self.require_answer(read.clone(), election).await?.elapsed;
            self.times.add(elapsed);
        }
        Ok(())
    }

    /// Reads the orders, as a leader does. A leader that may not read them leads all the same.
    async fn read_orders(&mut self) -> Result<(), Aborted> {
        let (read, election) = (Operation::ReadSideBlob(SideBlob::Orders), &self.settings.election);
        let check = read.name();
        if !election.may_have_side_blobs() {
            return Ok(());
        }
        let problem = match self.ask(read, election).await? {
            Ok(exchange) if exchange.answer.class == Class::Refused => self.explain(&exchange, election),
            Ok(_) => return Ok(()),
            Err(problem) => problem.detail,
        };
        let detail = format!(
            "{problem}. So a leader here takes no orders (tenure trigger, tenure transfer)"
        );
        self.findings.push(Finding::warning(check, detail));
        Ok(())
    }

    /// The blob beside the election's on which the rest is tried, if the credential is good for one.
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
            None => "the blob's name is too long for a second blob beside it",
            Some(_) => return scratch,
        };
        self.findings.push(Finding::unknown("permissions", why));
        None
    }

    /// The answer to a question without which there is no use in others.
    async fn require_answer(&mut self, operation: Operation, blob: &BlobName) -> Result<Exchange, Aborted> {
        let check = operation.name();
        self.ask(operation, blob).await?.map_err(|problem| {
            self.findings.push(Finding::failed(check, problem.detail));
            Aborted("the service does not answer")
        })
    }

    /// Asks until there is an answer to be judged: by another date or with another token, or later. The inner error: there
    /// was none, also when it was asked again.
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
                pass: self.pass().await?,
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
                self.clock.update(date, wall.checked_sub_signed(to_time_delta(elapsed)).unwrap_or(wall), wall);
            }
            self.facts.read(&headers);
            self.facts.record_answer(&operation, &answer);
            let retry_later = answer.class == Class::Unavailable && tries < MAX_TRIES;
            if !self.needs_reauthorization(&answer, now) && !retry_later {
                return Ok(Ok(Exchange { operation, answer, is_retry: tries > 1, elapsed }));
            }
        }
    }

    /// With what the next question is authorised.
    async fn pass(&mut self) -> Result<AuthSource, Aborted> {
        const CHECK: &str = "token";
        let credential = self.settings.account.credential();
        let mut failures = 0;
        loop {
            let sent = self.transport.now();
            let pass = self.credential_state.auth_source(credential, sent);
            let fetch = CredentialState::token_request(credential, LONGEST_FETCH);
            let (None, Some(fetch)) = (&pass, fetch) else { return Ok(pass.unwrap_or(AuthSource::Credential)) };
            let reply = self.transport.fetch(fetch).await;
            let (times, wall) = ((sent, self.transport.now()), self.transport.wall());
            let state = &mut self.credential_state;
            match state.on_token_reply(credential, reply, times, wall, &mut self.transport) {
                Ok(()) => {
                    let elapsed = short_duration(times.1.saturating_sub(sent));
                    self.findings.push(Finding::good(CHECK, format!("obtained in {elapsed}")));
                }
                Err(_) if failures + 1 < MAX_TRIES => failures += 1,
                Err(problem) => {
                    self.findings.push(Finding::failed(CHECK, problem.detail));
                    return Err(Aborted("there is no token"));
                }
            }
        }
    }

    /// Whether the same question is to be asked again at once, by another date or with another token.
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

/// What a look at the election showed.
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
                format!("{name}: nobody leads; the last one was {}", leader.name)
            }
            (None, true) => format!("{name}: somebody holds the lease, and is about to lead"),
            (None, false) => {
                format!("{name}: nobody has led yet; the first candidate creates what is missing")
            }
        },
    )];
    let schedules = Problem::schedule_mismatch(snapshot.turns.schedule.as_deref(), settings);
    let ahead =
        snapshot.ahead.and(snapshot.turns.last_slot).map(|last| Problem::slot_ahead(last.slot));
    let problems = schedules.into_iter().chain(ahead);
    findings.extend(problems.map(|problem| Finding::warning("schedule", problem.detail)));
    findings
}

/// Whether the service knows who asks, and denies just this.
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

#[cfg(test)]
mod tests;
