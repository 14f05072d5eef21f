//! The course of an examination: which request comes next.

mod answers;
mod stage;

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::clock::Offset;
use super::facts::Facts;
use super::scratch::Scratch;
use super::times::{Times, short};
use super::{Finding, credential};
use stage::Stage;
use tenure_azure::answer::{Answer, Class};
use tenure_azure::credential::Pass;
use tenure_azure::operation::{ETag, Operation, Request};
use tenure_azure::{BlobName, LeaseId, Metadata};
use tenure_core::{
    Chance, CredentialState, Failure, Fetch, Fetched, LONGEST_FETCH, Moment, Problem, Settings,
    fresh_lease_id,
};

/// The lease on the doctor's blob, in seconds: the shortest.
const LEASE: u32 = 15;

/// A request that is not answered is sent so often.
const MOST_TRIES: u32 = 2;

/// The name in the metadata by which the doctor knows his own blob.
const MARK: &str = "doctor";

/// A request of the doctor's.
#[derive(Clone, Debug)]
pub struct Question {
    /// What to ask the service.
    pub operation: Operation,
    /// Of which blob: the election's, or the doctor's own.
    pub blob: BlobName,
    /// The longest that it may take, everything included.
    pub timeout: Duration,
    pass: Pass,
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

/// What an examination wants next.
#[derive(Debug)]
pub enum Todo {
    /// Send this, and tell [`Examination::answered`].
    Send(Box<Question>),
    /// Ask for a token with this, and tell [`Examination::fetched`].
    Fetch(Fetch),
    /// That was all: [`Examination::findings`].
    Rest,
}

/// One examination of an account, from the first look to the last finding.
pub struct Examination<'s> {
    settings: &'s Settings,
    stage: Stage,
    tries: u32,
    /// None: there is nothing beside the election's blob that the credential is good for.
    scratch: Option<Scratch>,
    ids: [LeaseId; 2],
    /// Which of them holds the lease, when one does.
    held: LeaseId,
    /// The lease may be held.
    is_leased: bool,
    /// Of the doctor's blob: the newest, and the one before.
    etags: [Option<ETag>; 2],
    credential_state: CredentialState,
    clock: Offset,
    /// The service's time is used for signatures.
    corrected: bool,
    container_asked: bool,
    /// Something went wrong with the doctor's blob: all that is left to do is to remove it.
    cleaning: bool,
    /// Nothing can be asked.
    gave_up: bool,
    times: Times,
    facts: Facts,
    findings: Vec<Finding>,
}

impl<'s> Examination<'s> {
    /// Begins with a look.
    pub fn begin(settings: &'s Settings, chance: &mut dyn Chance) -> Self {
        let ids = [fresh_lease_id(chance), fresh_lease_id(chance)];
        Self {
            settings,
            stage: Stage::Election,
            tries: 0,
            scratch: Scratch::beside(&settings.election, chance.bits()),
            ids,
            held: ids[0],
            is_leased: false,
            etags: [None, None],
            credential_state: CredentialState::default(),
            clock: Offset::default(),
            corrected: false,
            container_asked: false,
            cleaning: false,
            gave_up: false,
            times: Times::default(),
            facts: Facts::default(),
            findings: Vec::new(),
        }
    }

    /// What to do now.
    pub fn next(&mut self, now: Moment) -> Todo {
        if self.stage == Stage::Done {
            return Todo::Rest;
        }
        let credential = self.settings.account.credential();
        match (
            self.credential_state.pass(credential, now),
            CredentialState::fetch(credential, LONGEST_FETCH),
        ) {
            (None, Some(fetch)) => Todo::Fetch(fetch),
            (pass, _) => Todo::Send(Box::new(Question {
                operation: self.operation(),
                blob: self.blob(),
                timeout: self.settings.timings.request_timeout,
                pass: pass.unwrap_or(Pass::Own),
                correction: if self.corrected { self.clock } else { Offset::default() },
            })),
        }
    }

    /// Takes the answer to a request for a token. `wall` is the time of day.
    pub fn fetched(
        &mut self,
        reply: Fetched,
        (sent, now): (Moment, Moment),
        wall: DateTime<Utc>,
        chance: &mut dyn Chance,
    ) {
        const CHECK: &str = "token";
        let credential = self.settings.account.credential();
        match self.credential_state.fetched(credential, reply, (sent, now), wall, chance) {
            Ok(()) => {
                self.tries = 0;
                let took = short(now.saturating_sub(sent));
                self.findings.push(Finding::good(CHECK, format!("one was obtained in {took}")));
            }
            Err(problem) => {
                self.tries += 1;
                if self.tries == MOST_TRIES {
                    self.findings.push(Finding::failed(CHECK, problem.detail));
                    self.give_up("there is no token");
                }
            }
        }
    }

    /// Takes the answer to a question. `sent` was read before it was sent; `now`, and `wall`, the time
    /// of day, after it was answered.
    pub fn answered(
        &mut self,
        sent: Moment,
        now: Moment,
        wall: DateTime<Utc>,
        reply: Result<Reply, Failure>,
    ) {
        let took = now.saturating_sub(sent);
        self.tries += 1;
        let operation = self.operation();
        let Reply { answer, headers } = match reply {
            Ok(reply) => reply,
            Err(failure) => {
                if self.tries < MOST_TRIES {
                    return;
                }
                let origin = self.settings.account.origin();
                return self.unanswered(failure.problem(operation.name(), origin));
            }
        };
        if let Some(date) = answer.date {
            self.clock.learn(date, wall.checked_sub_signed(delta(took)).unwrap_or(wall), wall);
        }
        self.facts.read(&headers);
        self.facts.answered(&operation, &answer);
        if self.asks_again(&answer, now) {
            return;
        }
        if self.stage == Stage::Times {
            self.times.add(took);
        }
        let again = self.tries > 1;
        self.judge(&operation, &answer, again, wall);
    }

    /// All that was found. `wall` is the time of day.
    pub fn findings(self, wall: DateTime<Utc>) -> Vec<Finding> {
        let mut all = vec![credential::finding(self.settings, self.clock.correct(wall))];
        all.extend(self.findings);
        // Of what could not be asked, one line is enough.
        if self.clock.certain().is_some() {
            all.push(self.clock.finding());
        }
        if !self.gave_up {
            all.push(self.times.finding(&self.settings.timings));
            all.push(self.facts.account(self.settings.account.name()));
        }
        if !self.gave_up || self.facts.versions {
            all.push(self.facts.versioning(self.settings.timings.failover));
        }
        all.extend(self.facts.findings(self.settings.account.name()));
        all
    }

    fn blob(&self) -> BlobName {
        let beside = self.stage > Stage::Container && self.stage < Stage::Account;
        let scratch = self.scratch.as_ref().filter(|_| beside);
        scratch.map_or(&self.settings.election, Scratch::name).clone()
    }

    fn operation(&self) -> Operation {
        let [first, second] = self.ids;
        let acquire = |lease, if_match| Operation::Acquire { lease, seconds: LEASE, if_match };
        let write = |etag: &Option<ETag>| Operation::WriteMetadata {
            lease: self.held,
            if_match: etag.clone().unwrap_or_else(|| ETag("*".into())),
            metadata: Metadata::from_iter([(MARK, "examined")]),
        };
        match self.stage {
            Stage::Election | Stage::Times | Stage::Read => Operation::Read { lease: None },
            Stage::Account => Operation::ReadAccount,
            Stage::Container => Operation::CreateContainer,
            Stage::Create => Operation::CreateBlob,
            Stage::Acquire => acquire(first, self.etags[0].clone()),
            Stage::AcquireHeld => acquire(second, None),
            Stage::Write => write(&self.etags[0]),
            Stage::WriteStale => write(&self.etags[1]),
            Stage::Renew => Operation::Renew { lease: self.held },
            Stage::Change => Operation::Change { lease: self.held, to: second },
            Stage::Release => Operation::Release { lease: self.held },
            Stage::AcquireAgain => acquire(first, None),
            Stage::BreakStale => {
                let stale = self.etags[1].clone().unwrap_or_else(|| ETag("\"0x0\"".into()));
                Operation::Break { period: Some(0), if_match: Some(stale) }
            }
            Stage::StillHeld => Operation::Read { lease: Some(self.held) },
            Stage::Break => {
                let seen = self.etags[0].clone().filter(|_| !self.cleaning);
                Operation::Break { period: Some(0), if_match: seen }
            }
            Stage::Removable | Stage::Done => Operation::Delete { lease: None },
            Stage::Delete => Operation::Delete { lease: self.is_leased.then_some(self.held) },
        }
    }

    /// Whether the same question is worth asking again, by another date, another key, or later.
    fn asks_again(&mut self, answer: &Answer, now: Moment) -> bool {
        if answer.status == 403 && !self.corrected && self.clock.is_suspect() {
            self.corrected = true;
            return true;
        }
        let credential = self.settings.account.credential();
        if let Some(problem) = self.credential_state.answered(credential, answer, now) {
            self.findings.push(Finding::warning("credential", problem.detail));
            return true;
        }
        answer.class == Class::Unavailable && self.tries < MOST_TRIES
    }

    /// No answer, and none when it was asked again.
    fn unanswered(&mut self, problem: Problem) {
        let stage = self.stage;
        let operation = self.operation();
        if stage == Stage::Delete {
            let detail = format!(
                "{}. The blob {} may be left: delete it by hand",
                problem.detail,
                self.blob()
            );
            self.findings.push(Finding::warning(operation.name(), detail));
            return self.advance();
        }
        if stage == Stage::Account {
            self.facts.asked(false, problem.detail);
            return self.advance();
        }
        if stage == Stage::Create
            && let Some(scratch) = &mut self.scratch
        {
            // It may have been made all the same.
            scratch.is_made = true;
        }
        self.is_leased |= stage == Stage::Acquire;
        if !(stage == Stage::Break && self.cleaning) {
            self.findings.push(Finding::failed(stage.check(&operation), problem.detail));
        }
        if stage < Stage::Create {
            return self.give_up("the service does not answer");
        }
        self.abandon(stage);
    }

    /// Says what is not tried any more, and removes what was made.
    fn abandon(&mut self, at: Stage) {
        let mut left = Vec::new();
        let mut stage = at.next();
        while stage < Stage::Delete && !self.cleaning {
            self.stage = stage;
            if !stage.is_silent() {
                left.push(stage.check(&self.operation()));
            }
            stage = stage.next();
        }
        if !left.is_empty() {
            let left = left.join(", ");
            self.findings.push(Finding::unknown(
                "not tried",
                format!("{left}: something before them failed"),
            ));
        }
        let made = self.scratch.as_ref().is_some_and(|scratch| scratch.is_made);
        let to = match (made, at) {
            (false, _) => Stage::Account,
            (true, Stage::Break) => Stage::Delete,
            (true, _) => Stage::Break,
        };
        self.cleaning = true;
        self.go(to);
    }

    /// Nothing of the rest can be asked.
    fn give_up(&mut self, why: &str) {
        self.gave_up = true;
        self.findings.push(Finding::unknown("not tried", format!("everything else: {why}")));
        self.go(Stage::Done);
    }

    fn explained(&self, operation: &Operation, answer: &Answer) -> String {
        answer.explain(operation, &self.blob(), self.settings.account.name())
    }

    fn advance(&mut self) {
        self.go(self.stage.next());
    }

    fn go(&mut self, to: Stage) {
        (self.stage, self.tries) = (to, 0);
    }
}

fn delta(span: Duration) -> chrono::TimeDelta {
    chrono::TimeDelta::from_std(span).unwrap_or_default()
}
