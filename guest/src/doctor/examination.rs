//! The course of an examination: which request comes next, and what its answer means.

use core::time::Duration;

use chrono::{DateTime, Utc};

use super::clock::Offset;
use super::facts::Facts;
use super::scratch::Scratch;
use super::times::{Times, short};
use super::{Finding, Verdict, credential};
use crate::azure::answer::{Answer, Class, LeaseState};
use crate::azure::credential::{Credential, Pass};
use crate::azure::operation::{ETag, Operation, Request};
use crate::azure::{BlobName, LeaseId, Metadata};
use crate::election::{
    self, Chance, Failure, Fetch, Fetched, Keyring, LONGEST_FETCH, Moment, Settings, Snapshot,
    Trouble, fresh_lease_id,
};
use crate::prelude::*;

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

/// What is tried, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// A look at the election's blob.
    Look,
    /// Some looks more, for their times.
    Times,
    Container,
    /// Whether the doctor's blob, which is not there yet, could be removed.
    Removable,
    Create,
    Read,
    Acquire,
    /// By another, which has to be refused.
    AcquireHeld,
    Write,
    /// Over what was written since, which has to be refused.
    WriteStale,
    Renew,
    Change,
    Release,
    /// Once more, so that there is a lease to break.
    AcquireAgain,
    Break,
    Delete,
    /// What the account says of itself.
    Account,
    Done,
}

impl Stage {
    /// What it is called in findings.
    fn check(self, operation: &Operation) -> &'static str {
        match self {
            Self::AcquireHeld => "exclusion",
            Self::WriteStale => "conditions",
            _ => operation.name(),
        }
    }

    fn next(self) -> Self {
        use Stage::*;
        match self {
            Look => Times,
            Times => Removable,
            Container | Removable => Create,
            Create => Read,
            Read => Acquire,
            Acquire => AcquireHeld,
            AcquireHeld => Write,
            Write => WriteStale,
            WriteStale => Renew,
            Renew => Change,
            Change => Release,
            Release => AcquireAgain,
            AcquireAgain => Break,
            Break => Delete,
            Delete => Account,
            Account | Done => Done,
        }
    }
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
    keyring: Keyring,
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
            stage: Stage::Look,
            tries: 0,
            scratch: Scratch::beside(&settings.election, chance.bits()),
            ids,
            held: ids[0],
            is_leased: false,
            etags: [None, None],
            keyring: Keyring::default(),
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
        match (self.keyring.pass(credential, now), Keyring::fetch(credential, LONGEST_FETCH)) {
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
        match self.keyring.fetched(credential, reply, (sent, now), wall, chance) {
            Ok(()) => {
                self.tries = 0;
                let took = short(now.saturating_sub(sent));
                self.findings.push(Finding::good(CHECK, format!("one was obtained in {took}")));
            }
            Err(trouble) => {
                self.tries += 1;
                if self.tries == MOST_TRIES {
                    self.findings.push(Finding::failed(CHECK, trouble.detail));
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
                return self.unanswered(failure.trouble(operation.name(), origin));
            }
        };
        if let Some(date) = answer.date {
            self.clock.learn(date, wall.checked_sub_signed(delta(took)).unwrap_or(wall), wall);
        }
        self.facts.read(&headers);
        self.facts.refused(&answer);
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
            all.push(self.facts.account());
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
            Stage::Look | Stage::Times | Stage::Read => Operation::Look { lease: None },
            Stage::Account => Operation::LookAtAccount,
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
            Stage::Break => Operation::Break { period: Some(0) },
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
        if let Some(trouble) = self.keyring.answered(credential, answer, now) {
            self.findings.push(Finding::warning("credential", trouble.detail));
            return true;
        }
        answer.class == Class::Unavailable && self.tries < MOST_TRIES
    }

    fn judge(&mut self, operation: &Operation, answer: &Answer, again: bool, wall: DateTime<Utc>) {
        let stage = self.stage;
        match stage {
            Stage::Look => self.looked(answer, wall),
            Stage::Account => {
                let explained = self.explained(operation, answer);
                self.facts.asked(answer.class == Class::Done, explained);
                self.advance();
            }
            Stage::Times if !self.times.are_enough() => self.tries = 0,
            Stage::Times => self.try_beside(),
            Stage::Container => self.made_container(operation, answer),
            Stage::Removable => {
                if let Some(scratch) = &mut self.scratch {
                    scratch.removable = answer.class != Class::Refused;
                }
                self.advance();
            }
            Stage::Create => self.created(operation, answer),
            Stage::Read => self.read(operation, answer),
            Stage::AcquireAgain => {
                self.held = self.ids[0];
                self.advance();
            }
            Stage::Delete => self.deleted(operation, answer, again),
            _ => self.tried(operation, answer, again),
        }
    }

    /// The election's own blob.
    fn looked(&mut self, answer: &Answer, wall: DateTime<Utc>) {
        let look = Operation::Look { lease: None };
        match Snapshot::read(answer, self.settings, wall) {
            Ok(snapshot) => self.findings.extend(election(&snapshot, self.settings)),
            Err(trouble) if answer.class == Class::Done => {
                self.findings.push(Finding::failed("election", trouble.detail));
            }
            Err(trouble) => {
                self.findings.push(Finding::failed(look.name(), trouble.detail));
                // Somebody who may not look may still be allowed other things; who is not known or
                // not answered, nothing.
                if !lacks_permission(answer) {
                    return self.give_up("the first request was not answered as it should be");
                }
            }
        }
        self.advance();
    }

    /// From here on it is about the doctor's own blob.
    fn try_beside(&mut self) {
        let one_blob = match self.settings.account.credential() {
            Credential::Sas(sas) => sas.is_for_one_blob(),
            _ => false,
        };
        if one_blob || self.scratch.is_none() {
            let why = match one_blob {
                true => {
                    "the SAS is good for the election's blob alone, so nothing can be tried beside it"
                }
                false => {
                    "the blob's name is so long that there is no room for another one beside it"
                }
            };
            self.findings.push(Finding::unknown("permissions", why));
            return self.go(Stage::Account);
        }
        self.advance();
    }

    fn made_container(&mut self, operation: &Operation, answer: &Answer) {
        self.container_asked = true;
        let exists = answer.code.as_deref() == Some("ContainerAlreadyExists");
        if answer.class == Class::Done || exists {
            self.findings.push(Finding::good(
                operation.name(),
                "the container was missing; it was made, as a candidate would make it, and stays",
            ));
            return self.go(Stage::Create);
        }
        let container = self.settings.election.container();
        let detail = format!(
            "{}; the container {container} is missing: make it, or use a credential that may",
            self.explained(operation, answer)
        );
        self.findings.push(Finding::failed(operation.name(), detail));
        self.give_up("there is no container");
    }

    fn created(&mut self, operation: &Operation, answer: &Answer) {
        // 412: a lasting one that another doctor is at.
        let exists = matches!(answer.class, Class::Conflict | Class::LeaseMismatch)
            && matches!(answer.code.as_deref(), Some("BlobAlreadyExists" | "LeaseIdMissing"));
        match answer.class {
            Class::MissingContainer if !self.container_asked => return self.go(Stage::Container),
            Class::Done => self.etags[0].clone_from(&answer.etag),
            _ if exists => {}
            _ => return self.refuse(operation, answer),
        }
        if let Some(scratch) = &mut self.scratch {
            scratch.is_made = true;
        }
        self.findings.push(Finding::good(operation.name(), "permitted"));
        self.advance();
    }

    fn read(&mut self, operation: &Operation, answer: &Answer) {
        let Some(properties) = answer.properties.as_ref().filter(|_| answer.class == Class::Done)
        else {
            if lacks_permission(answer) {
                // Told by the first look.
                return self.advance();
            }
            return self.refuse(operation, answer);
        };
        let ours = properties.metadata.is_empty() || properties.metadata.get(MARK).is_some();
        let blob = self.blob();
        if !ours || properties.content_length > 0 {
            if let Some(scratch) = &mut self.scratch {
                scratch.is_made = false;
            }
            let detail = format!(
                "{blob} is somebody else's blob, so it was left alone and nothing was tried on it"
            );
            self.findings.push(Finding::unknown("permissions", detail));
            return self.go(Stage::Account);
        }
        if matches!(properties.lease, LeaseState::Leased | LeaseState::Breaking) {
            let detail = format!("another doctor is at work on {blob}; try again in {LEASE}s");
            self.findings.push(Finding::unknown("permissions", detail));
            return self.go(Stage::Account);
        }
        self.etags[0].clone_from(&answer.etag);
        self.advance();
    }

    /// One request on the doctor's blob.
    fn tried(&mut self, operation: &Operation, answer: &Answer, again: bool) {
        let stage = self.stage;
        if stage == Stage::Break && matches!(answer.class, Class::Done | Class::Conflict) {
            self.is_leased = false;
        }
        if self.cleaning {
            return self.advance();
        }
        let check = stage.check(operation);
        let wanted = match stage {
            Stage::Acquire => answer.lease == Some(self.ids[0]),
            Stage::Renew => answer.lease == Some(self.held),
            Stage::Change => answer.lease == Some(self.ids[1]),
            _ => true,
        };
        let finding = match (stage, answer.class) {
            (Stage::AcquireHeld, Class::Conflict) => {
                Finding::good(check, "a second lease is refused while the first is held")
            }
            (Stage::AcquireHeld, Class::Done) => Finding::failed(
                check,
                "the lease was granted a second time while it was held: no election can be held on \
                 this service",
            ),
            (Stage::WriteStale, Class::ConditionNotMet) => {
                Finding::good(check, "a write over something newer is refused (If-Match)")
            }
            (Stage::WriteStale, Class::Done) => Finding::failed(
                check,
                "a write over something newer was taken: If-Match does not reach the service, or it does \
                 not heed it; look for a proxy in between",
            ),
            // The answer to the first try was lost.
            (Stage::Release, Class::Conflict) | (Stage::Write, Class::ConditionNotMet) if again => {
                Finding::good(check, "permitted")
            }
            (_, Class::Done) if !wanted => Finding::failed(
                check,
                "the answer names another lease than ours: this service does not keep leases apart as \
                 the Blob service does",
            ),
            (_, Class::Done) => Finding::good(check, "permitted"),
            _ => return self.refuse(operation, answer),
        };
        match stage {
            Stage::Write => {
                let old = self.etags[0].take();
                self.etags = [answer.etag.clone(), old];
            }
            Stage::Acquire => self.is_leased = true,
            Stage::Change if wanted => self.held = self.ids[1],
            _ => {}
        }
        let failed = finding.verdict == Verdict::Failed;
        self.findings.push(finding);
        if failed { self.abandon(stage) } else { self.advance() }
    }

    fn deleted(&mut self, operation: &Operation, answer: &Answer, again: bool) {
        let gone = answer.class == Class::Done || (again && answer.class == Class::MissingBlob);
        let blob = self.blob();
        let finding = if gone {
            Finding::good(operation.name(), "permitted; nothing is left of this examination")
        } else if self.scratch.as_ref().is_some_and(|scratch| !scratch.removable)
            && lacks_permission(answer)
        {
            Finding::good(
                operation.name(),
                format!(
                    "not permitted, and elections do not need it: the empty blob {blob} stays, and is \
                     used again by the next examination"
                ),
            )
        } else {
            let why = self.explained(operation, answer);
            Finding::warning(operation.name(), format!("{why}. Delete the blob {blob} by hand"))
        };
        self.findings.push(finding);
        self.advance();
    }

    /// A request was refused, or answered otherwise than it should be.
    fn refuse(&mut self, operation: &Operation, answer: &Answer) {
        let stage = self.stage;
        let detail = match lacks_permission(answer) {
            true => lacking(operation, answer),
            false => self.explained(operation, answer),
        };
        self.findings.push(Finding::failed(stage.check(operation), detail));
        let goes_on = lacks_permission(answer) && !matches!(stage, Stage::Create | Stage::Acquire);
        match goes_on {
            // There is nothing newer that it could be written over.
            true if stage == Stage::Write => self.go(Stage::Renew),
            true => self.advance(),
            false => self.abandon(stage),
        }
    }

    /// No answer, and none when it was asked again.
    fn unanswered(&mut self, trouble: Trouble) {
        let stage = self.stage;
        let operation = self.operation();
        if stage == Stage::Delete {
            let detail = format!(
                "{}. The blob {} may be left: delete it by hand",
                trouble.detail,
                self.blob()
            );
            self.findings.push(Finding::warning(operation.name(), detail));
            return self.advance();
        }
        if stage == Stage::Account {
            self.facts.asked(false, trouble.detail);
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
            self.findings.push(Finding::failed(stage.check(&operation), trouble.detail));
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
            if !matches!(stage, Stage::Read | Stage::AcquireAgain) {
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

/// What a look at the election showed.
fn election(snapshot: &Snapshot, settings: &Settings) -> Vec<Finding> {
    const CHECK: &str = "election";
    let name = &settings.election;
    let is_held =
        matches!(snapshot.lease, election::LeaseState::Leased | election::LeaseState::Breaking);
    let mut findings = vec![Finding::good(
        CHECK,
        match (&snapshot.incumbent, is_held) {
            (Some(leader), true) => format!("{name}: {} leads, term {}", leader.name, leader.term),
            (Some(leader), false) => {
                format!("{name}: nobody leads; the last one was {}", leader.name)
            }
            (None, true) => format!("{name}: somebody holds the lease, and is about to lead"),
            (None, false) => {
                format!("{name}: nobody ever led; the first candidate makes what is missing")
            }
        },
    )];
    let schedules = Trouble::of_schedules(snapshot.schedule.as_deref(), settings);
    let ahead =
        snapshot.ahead.and(snapshot.last_slot).map(|last| Trouble::of_slot_ahead(last.slot));
    let troubles = schedules.into_iter().chain(ahead);
    findings.extend(troubles.map(|trouble| Finding::warning("schedule", trouble.detail)));
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

/// Which permission it is.
fn lacking(operation: &Operation, answer: &Answer) -> String {
    let permission = operation.permission();
    let code = answer.code.as_deref().unwrap_or("");
    format!(
        "not permitted ({} {code}): it needs {} of a SAS, or a role with the data action {} \
         (Storage Blob Data Contributor has it)",
        answer.status, permission.letters, permission.action
    )
}

fn delta(span: Duration) -> chrono::TimeDelta {
    chrono::TimeDelta::from_std(span).unwrap_or_default()
}
