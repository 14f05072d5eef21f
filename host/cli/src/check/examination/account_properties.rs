//! Properties of the account, learned from response headers, and the expiry of the credential.

use super::Finding;
use chrono::{DateTime, TimeDelta, Utc};
use std::iter;
use std::time::Duration;
use tenure_azure::answer::{Answer, Class};
use tenure_azure::credential::Credential;
use tenure_azure::operation::Operation;
use tenure_base::duration::format_duration;
use tenure_core::{Failover, Needs, Settings};

/// The account of every emulator. Its key is public.
const EMULATOR: &str = "devstoreaccount1";

/// Prefix of the `Server` header that the emulator sends.
const AZURITE: &str = "Azurite";

/// Properties that the responses showed so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    server: Option<String>,
    sku: Option<String>,
    kind: Option<String>,
    /// True if the account keeps every version of a blob.
    pub versions: bool,
    /// True if a write succeeded. Its response would have reported a version.
    has_written: bool,
    soft_delete: bool,
    immutable: bool,
    legal_hold: bool,
    /// The reason why the account's kind is unknown.
    account_error: Option<String>,
}

impl Facts {
    /// Records the headers of a response.
    pub fn read(&mut self, headers: &[(String, Vec<u8>)]) {
        for (name, value) in headers {
            let Ok(value) = core::str::from_utf8(value) else { continue };
            // Accepts only short, printable values from the service.
            let text = || Some(value).filter(|value| is_plain(value)).map(String::from);
            match name.to_ascii_lowercase().as_str() {
                "server" => self.server = text().or(self.server.take()),
                "x-ms-sku-name" => self.sku = text(),
                "x-ms-account-kind" => self.kind = text(),
                "x-ms-version-id" => self.versions = true,
                // In the response to Delete Blob: the account keeps deleted blobs.
                "x-ms-delete-type-permanent" if value == "false" => self.soft_delete = true,
                "x-ms-immutability-policy-until-date" => self.immutable = true,
                "x-ms-legal-hold" if value == "true" => self.legal_hold = true,
                _ => {}
            }
        }
    }

    pub fn record_answer(&mut self, operation: &Operation, answer: &Answer) {
        let writes = matches!(operation, Operation::CreateBlob | Operation::WriteMetadata { .. });
        self.has_written |= writes && answer.class == Class::Done;
        self.immutable |= answer.code.as_deref() == Some("BlobImmutableDueToPolicy");
    }

    /// Records the result of the request for account information.
    pub fn record_account(&mut self, is_known: bool, reason: String) {
        self.account_error = (!is_known).then_some(reason);
    }

    /// Returns the findings about an emulator and about the protection of blobs. Usually there are
    /// none.
    pub fn findings(&self, account: &str) -> Vec<Finding> {
        let mut findings: Vec<_> = self.emulator(account).into_iter().collect();
        findings.extend(self.protection());
        findings
    }

    /// Returns the finding about the account's kind and replication (REST: *Get Account
    /// Information*).
    pub fn account(&self, account: &str) -> Finding {
        const CHECK: &str = "account";
        let (Some(sku), Some(kind)) = (&self.sku, &self.kind) else {
            let why = match &self.account_error {
                Some(why) => why.as_str(),
                None => "the service did not say",
            };
            return Finding::unknown(CHECK, format!("its kind and replication are unknown: {why}"));
        };
        let detail = format!("{sku}, {kind}");
        // An emulator's statements about itself are not reliable.
        if self.emulator(account).is_some() {
            return Finding::good(CHECK, format!("{detail}, as the emulator says"));
        }
        if sku.contains("GRS") || sku.contains("GZRS") {
            return Finding::warning(
                CHECK,
                format!(
                    "{detail}: geo-redundant; an active lease can delay a failover to the other region; use an LRS or \
                     ZRS account for elections"
                ),
            );
        }
        let no_block_blobs =
            kind == "FileStorage" || (sku.starts_with("Premium") && kind != "BlockBlobStorage");
        if no_block_blobs {
            return Finding::failed(
                CHECK,
                format!(
                    "{detail}: this kind of account has no block blobs, which elections need; use an account of kind \
                     StorageV2 (Standard) or BlockBlobStorage"
                ),
            );
        }
        Finding::good(CHECK, detail)
    }

    fn emulator(&self, account: &str) -> Option<Finding> {
        const CHECK: &str = "emulator";
        let server = self.server.as_deref().filter(|server| server.starts_with(AZURITE));
        let detail = match server {
            Some(server) => format!(
                "this is an emulator ({server}): good for trying things out; some leases, dates and permissions work \
                 differently from the service"
            ),
            None if account == EMULATOR => format!(
                "the account is the emulators' own ({EMULATOR}), whose key is public: good for trying things out"
            ),
            None => return None,
        };
        Some(Finding::warning(CHECK, detail))
    }

    /// Returns the finding about versioning: with it, each write of the record creates a version of
    /// the blob.
    pub fn versioning(&self, failover: Option<Failover>) -> Finding {
        const CHECK: &str = "versioning";
        match (self.versions, failover) {
            (true, Some(failover)) => {
                let day = Duration::from_secs(24 * 3600).as_millis();
                let beats = day / failover.beat_interval().as_millis().max(1);
                let detail = format!(
                    "the account keeps every version of a blob, and --failover {} would make {beats} a day. So \
                     it has no effect: a leader that dies is replaced when its lease expires (60s unless it is set). Turn \
                     blob versioning off, use another account, or leave --failover out (the lease is 15s then)",
                    format_duration(failover.within)
                );
                Finding::failed(CHECK, detail)
            }
            (true, None) => Finding::warning(
                CHECK,
                "every write of the record (up to two a turn), and with --shares every sign of life, makes a version of \
                 its blob; versions are kept and cost money; let a lifecycle rule delete old versions, or use an account without versioning. \
                 Failover before the lease ends (--failover) is not available here",
            ),
            (false, _) if self.has_written => Finding::good(
                CHECK,
                "off: old versions are not kept, as failover before the lease ends requires",
            ),
            (false, _) => Finding::unknown(
                CHECK,
                "nothing was written, so it is not known; failover before the lease ends (--failover) needs an account \
                 without blob versioning",
            ),
        }
    }

    fn protection(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        if self.immutable {
            findings.push(Finding::failed(
                "immutability",
                "an immutability policy protects the blobs here, and the record of an election is \
                 written again and again; use a container without one",
            ));
        }
        if self.legal_hold {
            findings.push(Finding::failed(
                "legal hold",
                "a legal hold protects the blobs here, and the record of an election is written again \
                 and again; use a container without one",
            ));
        }
        if self.soft_delete {
            findings.push(Finding::good(
                "soft delete",
                "deleted blobs are kept for a while, this check's too. So is each overwritten entry of the list of \
                 candidates (about 130 a day for each candidate); the record leaves nothing behind. With --shares each \
                 sign of life (BLOB.member.NAME) would leave one every few seconds, and make lists slow: use a \
                 container in an account without soft delete for these. Do not restore an election's blob while \
                 candidates run",
            ));
        }
        findings
    }
}

fn is_plain(text: &str) -> bool {
    (1..=80).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ')
}

/// Remaining validity below which a SAS gets a warning.
const EXPIRY_WARNING: TimeDelta = TimeDelta::days(7);

/// Returns the finding about the credential. `now` is the service's time, as far as it is known.
pub(super) fn credential_finding(settings: &Settings, now: DateTime<Utc>) -> Finding {
    const CHECK: &str = "credential";
    let Needs { credential, notes, .. } = settings.needs(now);
    let detail = iter::once(credential).chain(notes).collect::<Vec<_>>().join("; ");
    let Credential::Sas(sas) = settings.account.credential() else {
        return Finding::good(CHECK, detail);
    };
    match sas.validity_bounds() {
        (Some(start), _) if start > now => Finding::failed(
            CHECK,
            format!("{detail}; wait until then, or make one with an earlier st (or none)"),
        ),
        (_, Some(expiry)) if expiry <= now => {
            Finding::failed(CHECK, format!("{detail}; make a new one"))
        }
        (_, Some(expiry)) if expiry < now + EXPIRY_WARNING => Finding::warning(
            CHECK,
            format!(
                "{detail}, which is soon: after that no candidate can lead; make a new one in time \
                 (AZURE_STORAGE_SAS_TOKEN_FILE is read again while a candidate runs)"
            ),
        ),
        _ => Finding::good(CHECK, detail),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::findings::Verdict;

    fn facts(headers: &[(&str, &str)]) -> Facts {
        let mut facts = Facts::default();
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()))
            .collect();
        facts.read(&headers);
        facts
    }

    #[test]
    fn account_verdict_depends_on_kind_and_replication() {
        for (sku, kind, verdict, expected) in [
            ("Standard_LRS", "StorageV2", Verdict::Good, "Standard_LRS, StorageV2"),
            ("Standard_ZRS", "BlobStorage", Verdict::Good, ""),
            ("Premium_ZRS", "BlockBlobStorage", Verdict::Good, ""),
            ("Standard_GRS", "StorageV2", Verdict::Warning, "failover"),
            ("Standard_RAGRS", "Storage", Verdict::Warning, "LRS or ZRS"),
            ("Standard_RAGZRS", "StorageV2", Verdict::Warning, "geo-redundant"),
            ("Premium_LRS", "StorageV2", Verdict::Failed, "no block blobs"),
            ("Premium_LRS", "FileStorage", Verdict::Failed, "no block blobs"),
            ("", "", Verdict::Unknown, "did not say"),
            ("Standard\u{7f}LRS", "StorageV2", Verdict::Unknown, "did not say"),
        ] {
            let facts = facts(&[("x-ms-sku-name", sku), ("X-MS-Account-Kind", kind)]);
            let finding = facts.account("acc");
            assert_eq!(finding.verdict, verdict, "{sku} {kind}: {finding:?}");
            assert!(finding.detail.contains(expected), "{sku} {kind}: {finding:?}");
        }
    }

    #[test]
    fn an_emulator_is_known_by_its_name_or_its_account() {
        let azurite = facts(&[("server", "Azurite-Blob/3.37.0")]);
        let service = facts(&[("Server", "Windows-Azure-Blob/1.0 Microsoft-HTTPAPI/2.0")]);
        for (facts, account, emulates) in
            [(&azurite, "acc", true), (&service, EMULATOR, true), (&service, "acc", false)]
        {
            let emulator =
                facts.findings(account).into_iter().find(|finding| finding.check == "emulator");
            assert_eq!(emulator.is_some(), emulates, "{account}");
            assert!(emulator.is_none_or(|finding| finding.verdict == Verdict::Warning));
        }
        // Azurite calls itself geo-redundant.
        let replicated = facts(&[
            ("server", "Azurite-Blob/3.37.0"),
            ("x-ms-sku-name", "Standard_RAGRS"),
            ("x-ms-account-kind", "StorageV2"),
        ]);
        assert_eq!(replicated.account("acc").verdict, Verdict::Good);
    }

    #[test]
    fn retention_and_protection_are_reported() {
        for (header, check, verdict) in [
            (("x-ms-delete-type-permanent", "false"), "soft delete", Verdict::Good),
            (("x-ms-immutability-policy-until-date", "x"), "immutability", Verdict::Failed),
            (("x-ms-legal-hold", "true"), "legal hold", Verdict::Failed),
        ] {
            let findings = facts(&[header]).findings("acc");
            let checks: Vec<_> = findings.iter().map(|finding| finding.check).collect();
            assert_eq!(checks, [check]);
            assert_eq!(findings[0].verdict, verdict);
        }
        let nothing =
            facts(&[("x-ms-delete-type-permanent", "true"), ("x-ms-legal-hold", "false")]);
        assert_eq!(nothing.findings("acc"), []);
    }

    #[test]
    fn versions_are_a_failure_where_failover_would_make_them() {
        let failover = Some(Failover { within: Duration::from_secs(3) });
        let version = ("X-Ms-Version-Id", "2026-01-01T00:00:00Z");
        let wrote = Facts { has_written: true, ..facts(&[]) };
        for (facts, failover, verdict, words) in [
            (facts(&[version]), failover, Verdict::Failed, "--failover 3s would make 172800 a day"),
            (facts(&[version]), None, Verdict::Warning, "not available here"),
            (wrote.clone(), failover, Verdict::Good, "off"),
            (wrote, None, Verdict::Good, "off"),
            (facts(&[]), failover, Verdict::Unknown, "nothing was written"),
        ] {
            let finding = facts.versioning(failover);
            assert_eq!((finding.check, finding.verdict), ("versioning", verdict), "{finding:?}");
            assert!(finding.detail.contains(words), "{finding:?}");
        }
    }

    fn finding_for_sas(sas: &str) -> Finding {
        let text = format!(
            "BlobEndpoint=http://127.0.0.1:1/acc;SharedAccessSignature={sas}&sv=1&sig=c2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2k="
        );
        let settings = Settings::read(|name: &str| match name {
            "TENURE_ELECTION" => Some("jobs/report".into()),
            "AZURE_STORAGE_CONNECTION_STRING" => Some(text.clone()),
            _ => None,
        });
        // 2026-01-10T00:00:00Z
        credential_finding(&settings.unwrap(), DateTime::from_timestamp(1_768_003_200, 0).unwrap())
    }

    #[test]
    fn sas_verdict_depends_on_its_validity_period() {
        for (times, verdict, expected) in [
            ("se=2026-01-10T00:00:00Z", Verdict::Failed, "has expired"),
            ("se=2026-01-16T23:59:59Z", Verdict::Warning, "which is soon"),
            ("se=2026-01-17T00:00:00Z", Verdict::Good, "expires at 2026-01-17"),
            ("st=2026-01-10T00:00:01Z&se=2027-01-01", Verdict::Failed, "not valid before"),
            ("si=policy", Verdict::Good, "the SAS in the connection string"),
        ] {
            let finding = finding_for_sas(&format!("sr=c&sp=rcw&{times}"));
            assert_eq!(finding.verdict, verdict, "{times}: {finding:?}");
            assert!(finding.detail.contains(expected), "{times}: {finding:?}");
            assert!(!finding.detail.contains("c2ln"), "{finding:?}");
        }
    }
}
