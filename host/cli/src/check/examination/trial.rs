//! The requests to the scratch blob, in order, and the meaning of each response.

use super::{Aborted, Examination, Exchange, Finding, Scratch, Transport, lacks_permission};
use tenure_azure::answer::{Answer, Class, LeaseState};
use tenure_azure::credential::Credential;
use tenure_azure::operation::{ETag, Operation};
use tenure_azure::{BlobName, LeaseId, Metadata};
use tenure_core::fresh_lease_id;

/// The lease on the scratch blob, in seconds: the shortest that the service grants.
const LEASE_SECONDS: u32 = 15;

/// The metadata field by which an examination recognises its own blob.
const MARK: &str = "check";

/// Name of the conditional break. With it, a follower ends the lease of a dead leader, but never
/// that of a healthy one.
const CONDITIONAL_BREAK: &str = "conditional break";

/// Name of the deletion at the end.
const DELETE_BLOB: &str = "delete blob";

/// The checks after the blob was created, in order. Preparatory requests are not listed.
const CHECKS: [&str; 9] = [
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

/// The reason why the remaining requests are not tried.
enum TrialError {
    /// An earlier check failed.
    Failed,
    /// The blob must not be changed.
    Untouchable,
    Aborted(Aborted),
}

impl From<Aborted> for TrialError {
    fn from(why: Aborted) -> Self {
        Self::Aborted(why)
    }
}

/// The scratch blob, and its state after the requests so far.
struct Trial<'e, 's, W> {
    examination: &'e mut Examination<'s, W>,
    blob: BlobName,
    /// True if the blob can be deleted. Otherwise all examinations of the election share it.
    removable: bool,
    /// True if the blob may exist, and must be deleted.
    may_exist: bool,
    ids: [LeaseId; 2],
    /// The id of the lease, if the lease is held.
    held_lease: LeaseId,
    /// True if the lease may be held.
    is_leased: bool,
    /// True if a break of the lease was tried.
    has_tried_break: bool,
    /// The blob's newest ETag, and the previous one.
    etags: [Option<ETag>; 2],
    /// The part of [`CHECKS`] that is still to come.
    remaining: &'static [&'static str],
}

impl<W: Transport> Examination<'_, W> {
    /// Tries each request of an election on the scratch blob, and deletes that blob.
    pub(super) async fn try_on_scratch(&mut self, mut scratch: Scratch) -> Result<(), Aborted> {
        let delete = Operation::Delete { lease: None, if_match: None };
        // The blob does not exist yet, so this only tests the permission.
        let exchange = self.require_answer(delete, scratch.name()).await?;
        scratch.removable = exchange.answer.class != Class::Refused;
        let ids = [fresh_lease_id(&mut self.transport), fresh_lease_id(&mut self.transport)];
        let mut trial = Trial {
            examination: self,
            blob: scratch.name().clone(),
            removable: scratch.removable,
            may_exist: false,
            ids,
            held_lease: ids[0],
            is_leased: false,
            has_tried_break: false,
            etags: [None, None],
            remaining: &CHECKS,
        };
        let result = match trial.run().await {
            Ok(()) => Ok(()),
            Err(TrialError::Failed) => {
                let remaining = trial.remaining.join(", ");
                if !remaining.is_empty() {
                    let why = format!("{remaining}: an earlier check failed");
                    trial.push_finding(Finding::unknown("not tried", why));
                }
                Ok(())
            }
            Err(TrialError::Untouchable) => return Ok(()),
            Err(TrialError::Aborted(why)) => Err(why),
        };
        if !trial.may_exist {
            return result;
        }
        // Without a token, the blob cannot be deleted either.
        let result = match result {
            Ok(()) => trial.clean_up().await,
            aborted => aborted,
        };
        result.inspect_err(|Aborted(why)| trial.report_leftover(why))
    }
}

impl<W: Transport> Trial<'_, '_, W> {
    async fn run(&mut self) -> Result<(), TrialError> {
        self.ensure_blob().await?;
        self.check_ownership().await?;
        self.try_leader_requests().await?;
        self.try_takeover().await
    }

    /// Creates the blob, and the container if that is missing.
    async fn ensure_blob(&mut self) -> Result<(), TrialError> {
        let mut exchange = self.create().await?;
        if exchange.answer.class == Class::MissingContainer {
            self.ensure_container().await?;
            exchange = self.create().await?;
        }
        let Exchange { answer, .. } = &exchange;
        // A lease mismatch (412) means that another examination holds a lease on the same blob.
        let exists = matches!(answer.class, Class::Conflict | Class::LeaseMismatch)
            && matches!(answer.code.as_deref(), Some("BlobAlreadyExists" | "LeaseIdMissing"));
        if answer.class != Class::Done && !exists {
            self.report_refusal("create blob", &exchange);
            return Err(TrialError::Failed);
        }
        if answer.class == Class::Done {
            self.etags[0].clone_from(&answer.etag);
        }
        self.may_exist = true;
        self.push_finding(Finding::good("create blob", "permitted"));
        Ok(())
    }

    async fn create(&mut self) -> Result<Exchange, TrialError> {
        // A request without a response may have created the blob.
        self.may_exist = true;
        let exchange = self.ask("create blob", Operation::CreateBlob).await?;
        self.may_exist = false;
        Ok(exchange)
    }

    async fn ensure_container(&mut self) -> Result<(), TrialError> {
        const CHECK: &str = "create container";
        let election = &self.examination.settings.election;
        let exchange =
            self.examination.require_answer(Operation::CreateContainer, election).await?;
        let exists = exchange.answer.code.as_deref() == Some("ContainerAlreadyExists");
        if exchange.answer.class == Class::Done || exists {
            self.push_finding(Finding::good(
                CHECK,
                "the container was missing; it was created, as a candidate would do, and is kept",
            ));
            return Ok(());
        }
        let detail = format!(
            "{}; the container {} is missing: create it, or use a credential that may",
            self.examination.explain(&exchange, election),
            election.container()
        );
        self.push_finding(Finding::failed(CHECK, detail));
        Err(Aborted("there is no container").into())
    }

    /// Checks that the blob belongs to an examination, and that no other one uses it.
    async fn check_ownership(&mut self) -> Result<(), TrialError> {
        const CHECK: &str = "permissions";
        let exchange = self.ask("read blob", Operation::Read { lease: None }).await?;
        let Exchange { answer, .. } = &exchange;
        let Some(properties) = answer.properties.as_ref().filter(|_| answer.class == Class::Done)
        else {
            if lacks_permission(answer) {
                // `check_election` has reported the missing permission.
                return Ok(());
            }
            self.report_refusal("read blob", &exchange);
            return Err(TrialError::Failed);
        };
        let is_ours = properties.metadata.is_empty() || properties.metadata.get(MARK).is_some();
        let blob = &self.blob;
        if !is_ours || properties.content_length > 0 {
            let detail = format!(
                "{blob} was not made by Tenure, so it was left untouched, and nothing was tested on it"
            );
            self.push_finding(Finding::unknown(CHECK, detail));
            return Err(TrialError::Untouchable);
        }
        if matches!(
            properties.lease,
            LeaseState::Leased | LeaseState::Infinite | LeaseState::Breaking
        ) {
            return Err(self.in_use());
        }
        self.etags[0].clone_from(&answer.etag);
        Ok(())
    }

    /// Reports that another examination uses the blob. A blob that cannot be deleted is shared by
    /// all examinations.
    fn in_use(&mut self) -> TrialError {
        let detail =
            format!("another tenure check uses {}; try again in {LEASE_SECONDS}s", self.blob);
        self.push_finding(Finding::unknown("permissions", detail));
        TrialError::Untouchable
    }

    async fn try_leader_requests(&mut self) -> Result<(), TrialError> {
        let [first, second] = self.ids;
        let acquire =
            |lease, if_match| Operation::Acquire { lease, seconds: LEASE_SECONDS, if_match };

        // The lease may be held even if no response arrives, or if the response names another id.
        self.is_leased = true;
        let exchange = self.ask("acquire lease", acquire(first, self.etags[0].clone())).await?;
        self.is_leased = exchange.answer.class == Class::Done;
        let is_taken = matches!(exchange.answer.class, Class::Conflict | Class::ConditionNotMet);
        if !self.removable && is_taken {
            return Err(self.in_use());
        }
        if !self.expect_permitted(&exchange, Some(first))? {
            return Err(TrialError::Failed);
        }
        // If the blob existed and may not be read, this is the first answer with its ETag.
        self.etags[0] = self.etags[0].take().or(exchange.answer.etag);

        let exchange = self.ask("exclusion", acquire(second, None)).await?;
        self.expect_refused(
            "exclusion",
            &exchange,
            Class::Conflict,
            "a second lease is refused while the first one is held",
            "the lease was granted a second time while it was held: no election can be held on \
             this service",
        )?;

        let exchange = self.ask("write record", self.write(&self.etags[0])).await?;
        // The first try applied the write, but its response was lost.
        let lost = exchange.is_retry && exchange.answer.class == Class::ConditionNotMet;
        if self.expect_permitted_or(lost, &exchange, None)? {
            self.etags = [exchange.answer.etag, self.etags[0].take()];
            self.check_conditions().await?;
        }

        let exchange = self.ask("renew lease", Operation::Renew { lease: self.held_lease }).await?;
        self.expect_permitted(&exchange, Some(self.held_lease))?;

        let change = Operation::Change { lease: self.held_lease, proposed: second };
        let exchange = self.ask("change lease", change).await?;
        if self.expect_permitted(&exchange, Some(second))? {
            self.held_lease = second;
        }

        let exchange =
            self.ask("release lease", Operation::Release { lease: self.held_lease }).await?;
        let lost = exchange.is_retry && exchange.answer.class == Class::Conflict;
        self.expect_permitted_or(lost, &exchange, None)?;
        Ok(())
    }

    /// Checks that a write with the previous ETag is refused.
    async fn check_conditions(&mut self) -> Result<(), TrialError> {
        const CHECK: &str = "conditions";
        if self.etags[1].is_none() {
            // A write with `If-Match: *` would be accepted.
            self.push_finding(Finding::unknown(CHECK, "no answer had the ETag of the blob"));
            return Ok(());
        }
        let exchange = self.ask(CHECK, self.write(&self.etags[1])).await?;
        self.expect_refused(
            CHECK,
            &exchange,
            Class::ConditionNotMet,
            "a write over a newer version is refused (If-Match)",
            "a write over a newer version was accepted: If-Match does not reach the service, or \
             the service ignores it; look for a proxy in between",
        )
    }

    /// Sends the requests of a follower that replaces a dead leader. Each failure rules out
    /// failover, but nothing else.
    async fn try_takeover(&mut self) -> Result<(), TrialError> {
        let first = self.ids[0];
        let acquire = Operation::Acquire { lease: first, seconds: LEASE_SECONDS, if_match: None };
        let exchange = self.ask("acquire lease", acquire).await?;
        match exchange.answer.class {
            Class::Done => self.held_lease = first,
            // The lease was not released.
            Class::Conflict => {}
            _ => {
                let why = "there is no lease to break";
                self.push_finding(Finding::unknown(CONDITIONAL_BREAK, why));
                return self.break_current(true).await;
            }
        }
        let stale_etag = self.etags[1].clone().unwrap_or_else(|| ETag("\"0x0\"".into()));
        let stale_break = Operation::Break { period: Some(0), if_match: Some(stale_etag) };
        let exchange = self.ask(CONDITIONAL_BREAK, stale_break).await?;
        match exchange.answer.class {
            _ if exchange.answer.status == 412 => {}
            Class::Done => {
                return self.no_conditional_break(
                    "the lease was broken although the blob had changed since: If-Match does not reach the service, or the service \
                     ignores it; look for a proxy in between",
                );
            }
            _ if lacks_permission(&exchange.answer) => {
                // The next request shows which permission is missing.
                self.push_finding(Finding::unknown(
                    CONDITIONAL_BREAK,
                    "this credential may not break leases",
                ));
                return self.break_current(true).await;
            }
            _ => return self.no_conditional_break(&self.explain(&exchange)),
        }
        let read = Operation::Read { lease: Some(self.held_lease) };
        let exchange = self.ask(CONDITIONAL_BREAK, read).await?;
        let lease = exchange.answer.properties.as_ref().map(|properties| properties.lease);
        match (lease, exchange.answer.class) {
            (Some(LeaseState::Leased), Class::Done) => {}
            // `check_election` has reported the missing permission.
            _ if lacks_permission(&exchange.answer) => {}
            (Some(_), Class::Done) | (_, Class::LeaseMismatch) => {
                return self.no_conditional_break(
                    "a break that was refused, since the blob had changed, still ended the lease",
                );
            }
            _ => return self.no_conditional_break(&self.explain(&exchange)),
        }
        self.break_current(false).await
    }

    /// Breaks the lease on the current version of the blob. `condition_reported` is true if the
    /// conditional break already has a finding.
    async fn break_current(&mut self, condition_reported: bool) -> Result<(), TrialError> {
        self.has_tried_break = true;
        let current_break = Operation::Break { period: Some(0), if_match: self.etags[0].clone() };
        let exchange = self.ask("break lease", current_break).await?;
        self.is_leased &= !matches!(exchange.answer.class, Class::Done | Class::Conflict);
        match exchange.answer.class {
            Class::ConditionNotMet => {
                return self.no_conditional_break("the lease could not be broken although the blob had not changed (412)");
            }
            Class::Done if !condition_reported => self.push_finding(Finding::good(
                CONDITIONAL_BREAK,
                "the lease is not broken when the blob has changed since (If-Match): failover before the lease ends needs \
                 that",
            )),
            _ => {}
        }
        self.expect_permitted(&exchange, None)?;
        Ok(())
    }

    /// Reports that the conditional break is not available. Only failover needs it, so without
    /// failover this is a warning.
    fn no_conditional_break(&mut self, why: &str) -> Result<(), TrialError> {
        let detail = format!(
            "{why}. Failover before the lease ends (--failover) is not safe here: a follower may end the lease of a \
             healthy leader"
        );
        self.push_finding(match self.examination.settings.timings.failover {
            Some(_) => Finding::failed(CONDITIONAL_BREAK, detail),
            None => Finding::warning(CONDITIONAL_BREAK, detail),
        });
        Err(TrialError::Failed)
    }

    /// Breaks the lease if needed, deletes the blob, and reports the result.
    async fn clean_up(&mut self) -> Result<(), Aborted> {
        let blob = self.blob.clone();
        if !self.has_tried_break {
            let break_lease = Operation::Break { period: Some(0), if_match: None };
            if let Ok(exchange) = self.examination.ask(break_lease, &blob).await? {
                self.is_leased &= !matches!(exchange.answer.class, Class::Done | Class::Conflict);
            }
        }
        let lease = self.is_leased.then_some(self.held_lease);
        let delete = Operation::Delete { lease, if_match: None };
        let exchange = match self.examination.ask(delete, &blob).await? {
            Ok(exchange) => exchange,
            Err(problem) => {
                self.report_leftover(&problem.detail);
                return Ok(());
            }
        };
        let Exchange { answer, is_retry, .. } = &exchange;
        let is_deleted =
            answer.class == Class::Done || (*is_retry && answer.class == Class::MissingBlob);
        self.push_finding(if is_deleted {
            Finding::good(DELETE_BLOB, "permitted; the test blob is gone")
        } else if !self.removable && lacks_permission(answer) {
            Finding::good(
                DELETE_BLOB,
                format!(
                    "not permitted, but elections do not need it: the empty blob {blob} stays, and the next run uses \
                     it again"
                ),
            )
        } else {
            let why = self.explain(&exchange);
            Finding::warning(DELETE_BLOB, format!("{why}. Delete the blob {blob} by hand"))
        });
        Ok(())
    }

    /// Reports that the blob was not deleted.
    fn report_leftover(&mut self, why: &str) {
        let detail = format!("{why}. The blob {} may still exist: delete it by hand", self.blob);
        self.push_finding(Finding::warning(DELETE_BLOB, detail));
    }

    fn push_finding(&mut self, finding: Finding) {
        self.examination.findings.push(finding);
    }

    fn explain(&self, exchange: &Exchange) -> String {
        self.examination.explain(exchange, &self.blob)
    }

    fn write(&self, etag: &Option<ETag>) -> Operation {
        Operation::WriteMetadata {
            lease: self.held_lease,
            if_match: etag.clone().unwrap_or_else(|| ETag("*".into())),
            metadata: Metadata::from_iter([(MARK, "examined")]),
        }
    }

    /// Sends a request to the scratch blob, and counts `check` as tried.
    async fn ask(
        &mut self,
        check: &'static str,
        operation: Operation,
    ) -> Result<Exchange, TrialError> {
        if let Some(place) = self.remaining.iter().position(|next| *next == check) {
            self.remaining = &self.remaining[place + 1..];
        }
        let exchange = self.examination.ask(operation, &self.blob).await?;
        exchange.map_err(|problem| {
            self.push_finding(Finding::failed(check, problem.detail));
            TrialError::Failed
        })
    }

    /// Returns true if a request was permitted, and false if only this operation is denied, so that
    /// the remaining checks can be tried. `lease` is the lease id that the response must name.
    fn expect_permitted(
        &mut self,
        exchange: &Exchange,
        lease: Option<LeaseId>,
    ) -> Result<bool, TrialError> {
        self.expect_permitted_or(false, exchange, lease)
    }

    /// Like `expect_permitted`. If `carried_out` is true, a refusal is accepted, because an earlier
    /// try whose response was lost may have applied the request.
    fn expect_permitted_or(
        &mut self,
        carried_out: bool,
        exchange: &Exchange,
        lease: Option<LeaseId>,
    ) -> Result<bool, TrialError> {
        let (check, done) = (exchange.operation.name(), exchange.answer.class == Class::Done);
        if !done && !carried_out {
            return self.report_refusal(check, exchange).then_some(false).ok_or(TrialError::Failed);
        }
        if done && lease.is_some() && exchange.answer.lease != lease {
            self.push_finding(Finding::failed(
                check,
                "the answer names a different lease: this service does not tell leases apart as the Blob service does",
            ));
            return Err(TrialError::Failed);
        }
        self.push_finding(Finding::good(check, "permitted"));
        Ok(true)
    }

    /// Checks that a request was refused with the class `expected`, and reports the result.
    fn expect_refused(
        &mut self,
        check: &'static str,
        exchange: &Exchange,
        expected: Class,
        good: &str,
        bad: &str,
    ) -> Result<(), TrialError> {
        match exchange.answer.class {
            class if class == expected => self.push_finding(Finding::good(check, good)),
            Class::Done => {
                self.push_finding(Finding::failed(check, bad));
                return Err(TrialError::Failed);
            }
            _ if self.report_refusal(check, exchange) => {}
            _ => return Err(TrialError::Failed),
        }
        Ok(())
    }

    /// Reports a request that was refused, or got an unexpected response. Returns true if only this
    /// operation is denied, so that the remaining checks can be tried.
    fn report_refusal(&mut self, check: &'static str, exchange: &Exchange) -> bool {
        let lacks_permission = lacks_permission(&exchange.answer);
        let detail = match lacks_permission {
            true => missing_permission(
                &exchange.operation,
                &exchange.answer,
                self.examination.settings.account.credential(),
            ),
            false => self.explain(exchange),
        };
        self.push_finding(Finding::failed(check, detail));
        lacks_permission
    }
}

fn missing_permission(operation: &Operation, answer: &Answer, credential: &Credential) -> String {
    let needed = operation.permission().describe(credential);
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
