//! The requests that are tried on the examination's own blob, one after the other, and what each response means.

use super::scratch::Scratch;
use super::{Answered, Examination, Finding, GaveUp, Transport, lacks_permission};
use tenure_azure::answer::{Answer, Class, LeaseState};
use tenure_azure::credential::Credential;
use tenure_azure::operation::{ETag, Operation};
use tenure_azure::{BlobName, LeaseId, Metadata};
use tenure_core::fresh_lease_id;

/// The lease on the examination's blob, in seconds: the shortest.
const LEASE: u32 = 15;

/// The metadata field by which an examination recognises its own blob.
const MARK: &str = "check";

/// By which a follower ends the lease of a leader whose promise is over, and of no other.
const CONDITIONAL_BREAK: &str = "conditional break";

/// What is tried once there is a blob, in this order. What only leads to the next one has no name.
const TRIED: [&str; 9] = [
    "acquire lease",
    "exclusion",
    "write record",
    "conditions",
    "renew lease",
    "change lease",
    "release lease",
    CONDITIONAL_BREAK,
    "break lease",
];

/// Why the rest is not tried.
enum Stop {
    /// Something before it failed.
    Failed,
    /// The blob is not to be touched.
    Untouchable,
    GaveUp(GaveUp),
}

impl From<GaveUp> for Stop {
    fn from(why: GaveUp) -> Self {
        Self::GaveUp(why)
    }
}

/// The examination's blob, and the state that the requests so far left it in.
struct Trial<'e, 's, W> {
    examination: &'e mut Examination<'s, W>,
    blob: BlobName,
    removable: bool,
    /// It may be there, and is to be removed.
    is_made: bool,
    ids: [LeaseId; 2],
    /// Which of them holds the lease, when one does.
    held: LeaseId,
    /// The lease may be held.
    is_leased: bool,
    /// It was tried to break the lease.
    is_broken: bool,
    /// Of the blob: the newest, and the one before.
    etags: [Option<ETag>; 2],
    /// What of [`TRIED`] is to come.
    left: &'static [&'static str],
}

impl<W: Transport> Examination<'_, W> {
    /// Tries all that an election does on a blob of its own, and removes that.
    pub(super) async fn try_beside(&mut self, mut scratch: Scratch) -> Result<(), GaveUp> {
        let delete = Operation::Delete { lease: None, if_match: None };
        // It is not there yet.
        let asked = self.answer(delete, scratch.name()).await?;
        scratch.removable = asked.answer.class != Class::Refused;
        let ids = [fresh_lease_id(&mut self.transport), fresh_lease_id(&mut self.transport)];
        let mut trial = Trial {
            examination: self,
            blob: scratch.name().clone(),
            removable: scratch.removable,
            is_made: false,
            ids,
            held: ids[0],
            is_leased: false,
            is_broken: false,
            etags: [None, None],
            left: &TRIED,
        };
        match trial.run().await {
            Ok(()) => {}
            Err(Stop::Failed) => {
                let left = trial.left.join(", ");
                if !left.is_empty() {
                    let why = format!("{left}: an earlier check failed");
                    trial.find(Finding::unknown("not tried", why));
                }
            }
            Err(Stop::Untouchable) => return Ok(()),
            Err(Stop::GaveUp(why)) => return Err(why),
        }
        if trial.is_made { trial.clean().await } else { Ok(()) }
    }
}

impl<W: Transport> Trial<'_, '_, W> {
    async fn run(&mut self) -> Result<(), Stop> {
        self.make().await?;
        self.look().await?;
        self.lead().await?;
        self.take_over().await
    }

    /// Creates the blob, and the container if that is missing.
    async fn make(&mut self) -> Result<(), Stop> {
        let mut asked = self.create().await?;
        if asked.answer.class == Class::MissingContainer {
            self.make_container().await?;
            asked = self.create().await?;
        }
        let Answered { answer, .. } = &asked;
        // 412: a lasting one that another examination uses.
        let exists = matches!(answer.class, Class::Conflict | Class::LeaseMismatch)
            && matches!(answer.code.as_deref(), Some("BlobAlreadyExists" | "LeaseIdMissing"));
        if answer.class != Class::Done && !exists {
            self.refuse("create blob", &asked);
            return Err(Stop::Failed);
        }
        if answer.class == Class::Done {
            self.etags[0].clone_from(&answer.etag);
        }
        self.is_made = true;
        self.find(Finding::good("create blob", "permitted"));
        Ok(())
    }

    async fn create(&mut self) -> Result<Answered, Stop> {
        // Not answered, it may have been made all the same.
        self.is_made = true;
        let asked = self.ask("create blob", Operation::CreateBlob).await?;
        self.is_made = false;
        Ok(asked)
    }

    async fn make_container(&mut self) -> Result<(), Stop> {
        const CHECK: &str = "create container";
        let election = &self.examination.settings.election;
        let asked = self.examination.answer(Operation::CreateContainer, election).await?;
        let exists = asked.answer.code.as_deref() == Some("ContainerAlreadyExists");
        if asked.answer.class == Class::Done || exists {
            self.find(Finding::good(
                CHECK,
                "the container was missing; it was created, as a candidate would do, and is kept",
            ));
            return Ok(());
        }
        let detail = format!(
            "{}; the container {} is missing: create it, or use a credential that may",
            self.examination.explained(&asked, election),
            election.container()
        );
        self.find(Finding::failed(CHECK, detail));
        Err(GaveUp("there is no container").into())
    }

    /// Tests whether the blob is an examination's, and no other one uses it.
    async fn look(&mut self) -> Result<(), Stop> {
        const CHECK: &str = "permissions";
        let asked = self.ask("read blob", Operation::Read { lease: None }).await?;
        let Answered { answer, .. } = &asked;
        let Some(properties) = answer.properties.as_ref().filter(|_| answer.class == Class::Done)
        else {
            if lacks_permission(answer) {
                // Told by the first look.
                return Ok(());
            }
            self.refuse("read blob", &asked);
            return Err(Stop::Failed);
        };
        let ours = properties.metadata.is_empty() || properties.metadata.get(MARK).is_some();
        let blob = &self.blob;
        if !ours || properties.content_length > 0 {
            let detail = format!(
                "{blob} was not made by Tenure, so it was left untouched, and nothing was tested on it"
            );
            self.find(Finding::unknown(CHECK, detail));
            return Err(Stop::Untouchable);
        }
        if matches!(
            properties.lease,
            LeaseState::Leased | LeaseState::Infinite | LeaseState::Breaking
        ) {
            return Err(self.at_work());
        }
        self.etags[0].clone_from(&answer.etag);
        Ok(())
    }

    /// All examinations share a blob that is never removed.
    fn at_work(&mut self) -> Stop {
        let detail = format!("another tenure check uses {}; try again in {LEASE}s", self.blob);
        self.find(Finding::unknown("permissions", detail));
        Stop::Untouchable
    }

    /// What a leader does.
    async fn lead(&mut self) -> Result<(), Stop> {
        let [first, second] = self.ids;
        let acquire = |lease, if_match| Operation::Acquire { lease, seconds: LEASE, if_match };

        // Not answered, or of another lease, it may be held all the same.
        self.is_leased = true;
        let asked = self.ask("acquire lease", acquire(first, self.etags[0].clone())).await?;
        self.is_leased = asked.answer.class == Class::Done;
        let is_taken = matches!(asked.answer.class, Class::Conflict | Class::ConditionNotMet);
        if !self.removable && is_taken {
            return Err(self.at_work());
        }
        if !self.permitted(&asked, Some(first))? {
            return Err(Stop::Failed);
        }

        let asked = self.ask("exclusion", acquire(second, None)).await?;
        self.refused(
            "exclusion",
            &asked,
            Class::Conflict,
            "a second lease is refused while the first one is held",
            "the lease was granted a second time while it was held: no election can be held on \
             this service",
        )?;

        let asked = self.ask("write record", self.write(&self.etags[0])).await?;
        // The answer to the first try was lost.
        let lost = asked.again && asked.answer.class == Class::ConditionNotMet;
        if self.permitted_or(lost, &asked, None)? {
            self.etags = [asked.answer.etag, self.etags[0].take()];
            let asked = self.ask("conditions", self.write(&self.etags[1])).await?;
            self.refused(
                "conditions",
                &asked,
                Class::ConditionNotMet,
                "a write over a newer version is refused (If-Match)",
                "a write over a newer version was accepted: If-Match does not reach the service, or the service \
                 ignores it; look for a proxy in between",
            )?;
        }

        let asked = self.ask("renew lease", Operation::Renew { lease: self.held }).await?;
        self.permitted(&asked, Some(self.held))?;

        let change = Operation::Change { lease: self.held, to: second };
        let asked = self.ask("change lease", change).await?;
        if self.permitted(&asked, Some(second))? {
            self.held = second;
        }

        let asked = self.ask("release lease", Operation::Release { lease: self.held }).await?;
        let lost = asked.again && asked.answer.class == Class::Conflict;
        self.permitted_or(lost, &asked, None)?;
        Ok(())
    }

    /// What a follower does to a leader whose promise is over. Each thing that is not so is a reason against
    /// failover, and for nothing else.
    async fn take_over(&mut self) -> Result<(), Stop> {
        let first = self.ids[0];
        let acquire = Operation::Acquire { lease: first, seconds: LEASE, if_match: None };
        let asked = self.ask("acquire lease", acquire).await?;
        match asked.answer.class {
            Class::Done => self.held = first,
            // It was not released.
            Class::Conflict => {}
            _ => {
                let why = "there is no lease to break";
                self.find(Finding::unknown(CONDITIONAL_BREAK, why));
                return self.break_seen(true).await;
            }
        }
        let stale = self.etags[1].clone().unwrap_or_else(|| ETag("\"0x0\"".into()));
        let stale = Operation::Break { period: Some(0), if_match: Some(stale) };
        let asked = self.ask(CONDITIONAL_BREAK, stale).await?;
        match asked.answer.class {
            _ if asked.answer.status == 412 => {}
            Class::Done => {
                return self.no_conditional_break(
                    "the lease was broken although the blob had changed since: If-Match does not reach the service, or the service \
                     ignores it; look for a proxy in between",
                );
            }
            _ if lacks_permission(&asked.answer) => {
                // The next one tells which permission it is.
                self.find(Finding::unknown(
                    CONDITIONAL_BREAK,
                    "this credential may not break leases",
                ));
                return self.break_seen(true).await;
            }
            _ => return self.no_conditional_break(&self.explained(&asked)),
        }
        let read = Operation::Read { lease: Some(self.held) };
        let asked = self.ask(CONDITIONAL_BREAK, read).await?;
        let lease = asked.answer.properties.as_ref().map(|properties| properties.lease);
        match (lease, asked.answer.class) {
            (Some(LeaseState::Leased), Class::Done) => {}
            // Told by the first look.
            _ if lacks_permission(&asked.answer) => {}
            (Some(_), Class::Done) | (_, Class::LeaseMismatch) => {
                return self.no_conditional_break(
                    "a break that was refused, since the blob had changed, still ended the lease",
                );
            }
            _ => return self.no_conditional_break(&self.explained(&asked)),
        }
        self.break_seen(false).await
    }

    /// Breaks the lease by what is there. `told`: what there is to say of the condition was said.
    async fn break_seen(&mut self, told: bool) -> Result<(), Stop> {
        self.is_broken = true;
        let seen = Operation::Break { period: Some(0), if_match: self.etags[0].clone() };
        let asked = self.ask("break lease", seen).await?;
        self.is_leased &= !matches!(asked.answer.class, Class::Done | Class::Conflict);
        match asked.answer.class {
            Class::ConditionNotMet => {
                return self.no_conditional_break("the lease could not be broken although the blob had not changed (412)");
            }
            Class::Done if !told => self.find(Finding::good(
                CONDITIONAL_BREAK,
                "the lease is not broken when the blob has changed since (If-Match): failover before the lease ends needs \
                 that",
            )),
            _ => {}
        }
        self.permitted(&asked, None)?;
        Ok(())
    }

    /// Nothing goes wrong without failover.
    fn no_conditional_break(&mut self, why: &str) -> Result<(), Stop> {
        let detail = format!(
            "{why}. Failover before the lease ends (--failover) is not safe here: a follower may end the lease of a \
             healthy leader"
        );
        self.find(match self.examination.settings.timings.failover {
            Some(_) => Finding::failed(CONDITIONAL_BREAK, detail),
            None => Finding::warning(CONDITIONAL_BREAK, detail),
        });
        Err(Stop::Failed)
    }

    /// Removes what was made.
    async fn clean(&mut self) -> Result<(), GaveUp> {
        const CHECK: &str = "delete blob";
        let blob = self.blob.clone();
        if !self.is_broken {
            let end = Operation::Break { period: Some(0), if_match: None };
            if let Ok(asked) = self.examination.ask(end, &blob).await? {
                self.is_leased &= !matches!(asked.answer.class, Class::Done | Class::Conflict);
            }
        }
        let lease = self.is_leased.then_some(self.held);
        let delete = Operation::Delete { lease, if_match: None };
        let asked = match self.examination.ask(delete, &blob).await? {
            Ok(asked) => asked,
            Err(problem) => {
                let detail = format!(
                    "{}. The blob {blob} may still exist: delete it by hand",
                    problem.detail
                );
                self.find(Finding::warning(CHECK, detail));
                return Ok(());
            }
        };
        let Answered { answer, again, .. } = &asked;
        let gone = answer.class == Class::Done || (*again && answer.class == Class::MissingBlob);
        self.find(if gone {
            Finding::good(CHECK, "permitted; the test blob is gone")
        } else if !self.removable && lacks_permission(answer) {
            Finding::good(
                CHECK,
                format!(
                    "not permitted, but elections do not need it: the empty blob {blob} stays, and the next run uses \
                     it again"
                ),
            )
        } else {
            let why = self.explained(&asked);
            Finding::warning(CHECK, format!("{why}. Delete the blob {blob} by hand"))
        });
        Ok(())
    }

    fn find(&mut self, finding: Finding) {
        self.examination.findings.push(finding);
    }

    fn explained(&self, asked: &Answered) -> String {
        self.examination.explained(asked, &self.blob)
    }

    fn write(&self, etag: &Option<ETag>) -> Operation {
        Operation::WriteMetadata {
            lease: self.held,
            if_match: etag.clone().unwrap_or_else(|| ETag("*".into())),
            metadata: Metadata::from_iter([(MARK, "examined")]),
        }
    }

    /// Asks about the blob, for this check.
    async fn ask(&mut self, check: &'static str, operation: Operation) -> Result<Answered, Stop> {
        if let Some(place) = self.left.iter().position(|next| *next == check) {
            self.left = &self.left[place + 1..];
        }
        let asked = self.examination.ask(operation, &self.blob).await?;
        asked.map_err(|problem| {
            self.find(Finding::failed(check, problem.detail));
            Stop::Failed
        })
    }

    /// Whether a request was permitted, as it has to be; the rest can be tried when it was not. `lease`: which one
    /// the answer has to name.
    fn permitted(&mut self, asked: &Answered, lease: Option<LeaseId>) -> Result<bool, Stop> {
        self.permitted_or(false, asked, lease)
    }

    /// The same of one that may have been `carried_out` by a try whose answer was lost.
    fn permitted_or(
        &mut self,
        carried_out: bool,
        asked: &Answered,
        lease: Option<LeaseId>,
    ) -> Result<bool, Stop> {
        let (check, done) = (asked.operation.name(), asked.answer.class == Class::Done);
        if !done && !carried_out {
            return self.refuse(check, asked).then_some(false).ok_or(Stop::Failed);
        }
        if done && lease.is_some() && asked.answer.lease != lease {
            self.find(Finding::failed(
                check,
                "the answer names a different lease: this service does not tell leases apart as the Blob service does",
            ));
            return Err(Stop::Failed);
        }
        self.find(Finding::good(check, "permitted"));
        Ok(true)
    }

    /// Whether a request was refused, as it has to be, and for this reason.
    fn refused(
        &mut self,
        check: &'static str,
        asked: &Answered,
        by: Class,
        good: &str,
        bad: &str,
    ) -> Result<(), Stop> {
        match asked.answer.class {
            class if class == by => self.find(Finding::good(check, good)),
            Class::Done => {
                self.find(Finding::failed(check, bad));
                return Err(Stop::Failed);
            }
            _ if self.refuse(check, asked) => {}
            _ => return Err(Stop::Failed),
        }
        Ok(())
    }

    /// A request was refused, or answered otherwise than it should be. Whether the rest can be tried: just this is
    /// denied.
    fn refuse(&mut self, check: &'static str, asked: &Answered) -> bool {
        let lacks = lacks_permission(&asked.answer);
        let detail = match lacks {
            true => lacking(
                &asked.operation,
                &asked.answer,
                self.examination.settings.account.credential(),
            ),
            false => self.explained(asked),
        };
        self.find(Finding::failed(check, detail));
        lacks
    }
}

/// Which permission it is.
fn lacking(operation: &Operation, answer: &Answer, credential: &Credential) -> String {
    let needed = operation.permission().needed(credential);
    let code = answer.code.as_deref().unwrap_or("");
    format!(
        "not permitted ({} {code}): it needs {needed}{}",
        answer.status,
        if matches!(credential, Credential::Sas(_)) {
            ""
        } else {
            " (Storage Blob Data Contributor has it)"
        }
    )
}
