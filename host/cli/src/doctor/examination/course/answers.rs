//! What each answer means: a finding, and what is tried next.

use chrono::{DateTime, Utc};

use super::super::{Finding, Verdict};
use super::stage::{CONDITIONAL_BREAK, Stage};
use super::{Examination, LEASE, MARK};
use tenure_azure::answer::{Answer, Class, LeaseState};
use tenure_azure::credential::Credential;
use tenure_azure::operation::Operation;
use tenure_core::{Problem, Settings, Snapshot};

impl Examination<'_> {
    pub(super) fn judge(
        &mut self,
        operation: &Operation,
        answer: &Answer,
        again: bool,
        wall: DateTime<Utc>,
    ) {
        let stage = self.stage;
        match stage {
            Stage::Election => self.election_read(answer, wall),
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
            Stage::AcquireAgain => match answer.class {
                Class::Done => {
                    self.held = self.ids[0];
                    self.advance();
                }
                // It was not released.
                Class::Conflict => self.advance(),
                _ => {
                    let why = "there is no lease to break";
                    self.findings.push(Finding::unknown(CONDITIONAL_BREAK, why));
                    self.go(Stage::Break);
                }
            },
            Stage::BreakStale => self.broke_stale(operation, answer),
            Stage::StillHeld => self.looked_after_it(operation, answer),
            Stage::Delete => self.deleted(operation, answer, again),
            _ => self.tried(operation, answer, again),
        }
    }

    /// The election's own blob.
    fn election_read(&mut self, answer: &Answer, wall: DateTime<Utc>) {
        let read = Operation::Read { lease: None };
        match Snapshot::read(answer, self.settings, wall) {
            Ok(snapshot) => self.findings.extend(election(&snapshot, self.settings)),
            Err(problem) if answer.class == Class::Done => {
                self.findings.push(Finding::failed("election", problem.detail));
            }
            Err(problem) => {
                self.findings.push(Finding::failed(read.name(), problem.detail));
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
                "the container was missing; it was created, as a candidate would create it, and stays",
            ));
            return self.go(Stage::Create);
        }
        let container = self.settings.election.container();
        let detail = format!(
            "{}; the container {container} is missing: create it, or use a credential that may",
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
        if stage == Stage::Break {
            match answer.class {
                Class::ConditionNotMet => {
                    return self.no_conditional_break("a break of what is there was refused (412)");
                }
                Class::Done if !self.is_found(CONDITIONAL_BREAK) => self.findings.push(Finding::good(
                    CONDITIONAL_BREAK,
                    "over something newer it is refused, and leaves the lease (If-Match): fail-over before the \
                     lease ends needs that",
                )),
                _ => {}
            }
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
                "a write over something newer was accepted: If-Match does not reach the service, \
                 or the service ignores it; look for a proxy in between",
            ),
            // The answer to the first try was lost.
            (Stage::Release, Class::Conflict) | (Stage::Write, Class::ConditionNotMet) if again => {
                Finding::good(check, "permitted")
            }
            (_, Class::Done) if !wanted => Finding::failed(
                check,
                "the answer names a different lease: this service does not keep leases apart as \
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

    /// A break of something older than what is there.
    fn broke_stale(&mut self, operation: &Operation, answer: &Answer) {
        match answer.class {
            _ if answer.status == 412 => self.advance(),
            Class::Done => self.no_conditional_break(
                "a break over something newer was accepted: If-Match does not reach the service, or the \
                 service ignores it; look for a proxy in between",
            ),
            _ if lacks_permission(answer) => {
                // The next one tells which permission it is.
                self.findings.push(Finding::unknown(CONDITIONAL_BREAK, "no break is permitted"));
                self.go(Stage::Break);
            }
            _ => self.no_conditional_break(&self.explained(operation, answer)),
        }
    }

    fn looked_after_it(&mut self, operation: &Operation, answer: &Answer) {
        let lease = answer.properties.as_ref().map(|properties| properties.lease);
        match (lease, answer.class) {
            (Some(LeaseState::Leased), Class::Done) => self.advance(),
            // Told by the first look.
            _ if lacks_permission(answer) => self.advance(),
            (Some(_), Class::Done) | (_, Class::LeaseMismatch) => self.no_conditional_break(
                "a break over something newer was refused, and ended the lease all the same",
            ),
            _ => self.no_conditional_break(&self.explained(operation, answer)),
        }
    }

    /// Nothing goes wrong without fail-over.
    fn no_conditional_break(&mut self, why: &str) {
        let detail = format!(
            "{why}. Fail-over before the lease ends (--failover) is not safe here: a follower may end the lease of \
             a leader that works"
        );
        let finding = match self.settings.timings.failover {
            Some(_) => Finding::failed(CONDITIONAL_BREAK, detail),
            None => Finding::warning(CONDITIONAL_BREAK, detail),
        };
        self.findings.push(finding);
        self.abandon(self.stage);
    }

    fn is_found(&self, check: &str) -> bool {
        self.findings.iter().any(|finding| finding.check == check)
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
}

/// What a look at the election showed.
fn election(snapshot: &Snapshot, settings: &Settings) -> Vec<Finding> {
    const CHECK: &str = "election";
    let name = &settings.election;
    let is_held = matches!(
        snapshot.lease,
        tenure_core::LeaseState::Leased | tenure_core::LeaseState::Breaking
    );
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
    let schedules = Problem::of_schedules(snapshot.turns.schedule.as_deref(), settings);
    let ahead =
        snapshot.ahead.and(snapshot.turns.last_slot).map(|last| Problem::of_slot_ahead(last.slot));
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

/// Which permission it is.
fn lacking(operation: &Operation, answer: &Answer) -> String {
    let permission = operation.permission();
    let code = answer.code.as_deref().unwrap_or("");
    format!(
        "not permitted ({} {code}): it needs a SAS with {}, or a role with the data action {} \
         (Storage Blob Data Contributor has it)",
        answer.status, permission.letters, permission.action
    )
}
