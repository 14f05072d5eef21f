//! The credential that authorises requests, and its expiry.

use std::iter;

use chrono::{DateTime, TimeDelta, Utc};

use super::Finding;
use tenure_azure::credential::Credential;
use tenure_core::{Needs, Settings};

const CHECK: &str = "credential";

/// A credential that expires sooner than this gets a warning.
const EXPIRY_WARNING: TimeDelta = TimeDelta::days(7);

/// Returns the finding about the credential. `now` is the service's time, as far as it is known.
pub(super) fn finding(settings: &Settings, now: DateTime<Utc>) -> Finding {
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
                "{detail}, which is soon: after that nobody can lead; make a new one in time \
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

    fn finding_for(sas: &str) -> Finding {
        let text = format!(
            "BlobEndpoint=http://127.0.0.1:1/acc;SharedAccessSignature={sas}&sv=1&sig=c2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2k="
        );
        let settings = Settings::read(|name: &str| match name {
            "TENURE_ELECTION" => Some("jobs/report".into()),
            "AZURE_STORAGE_CONNECTION_STRING" => Some(text.clone()),
            _ => None,
        });
        // 2026-01-10T00:00:00Z
        finding(&settings.unwrap(), DateTime::from_timestamp(1_768_003_200, 0).unwrap())
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
            let finding = finding_for(&format!("sr=c&sp=rcw&{times}"));
            assert_eq!(finding.verdict, verdict, "{times}: {finding:?}");
            assert!(finding.detail.contains(expected), "{times}: {finding:?}");
            assert!(!finding.detail.contains("c2ln"), "{finding:?}");
        }
    }
}
