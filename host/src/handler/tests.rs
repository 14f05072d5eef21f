//! Arguments for tests of handlers, and tests of what handlers share.

use super::{MAX_ERROR, is_withheld, truncated};
use crate::lease::Lease;
use std::ffi::OsStr;
use std::time::Duration;
use tenure_clock::{BootClock, Clock as _};
use tenure_core::{Timestamp, Turn};

pub(super) fn turn() -> Turn {
    Turn {
        election: "jobs/report".to_owned(),
        key: "acme/jobs/report/1970-01-01T00:00:01.500Z".to_owned(),
        term: 7,
        slot: Timestamp(1_500_000_000),
        trigger: None,
        attempt: 1,
        past_due: false,
        missed: 0,
        valid_for: Duration::from_secs(1),
        time_limit: None,
        share: None,
    }
}

pub(super) fn lease() -> Lease {
    Lease::new(1, BootClock::new().handle(), Duration::MAX)
}

#[test]
fn a_long_text_is_truncated_between_characters() {
    assert_eq!(truncated("x".repeat(MAX_ERROR)), "x".repeat(MAX_ERROR));
    let truncated_text = truncated(format!("x{}", "ü".repeat(MAX_ERROR)));
    assert_eq!(truncated_text.len(), MAX_ERROR - 1 + '…'.len_utf8());
    assert!(truncated_text.ends_with("ü…"));
}

fn withheld(name: &str) -> bool {
    is_withheld(OsStr::new(name))
}

#[test]
fn names_are_matched_in_any_case() {
    for name in [
        "AZURE_STORAGE_CONNECTION_STRING",
        "azure_storage_key",
        "AZURE_STORAGE_SAS_TOKEN",
        "AZURE_STORAGE_AUTH_TOKEN",
        "Azure_Client_Secret",
        "Tenure_Tick_Token",
        "TENURE_HANDLER_SECRET",
        "notify_socket",
    ] {
        assert!(withheld(name), "{name}");
    }
}

#[test]
fn names_are_matched_after_app_service_prefixes() {
    for name in [
        "APPSETTING_AZURE_STORAGE_KEY",
        "APPSETTING_TENURE_TICK_TOKEN",
        "CUSTOMCONNSTR_AZURE_STORAGE_CONNECTION_STRING",
        "SQLCONNSTR_AZURE_STORAGE_CONNECTION_STRING",
        "SQLAZURECONNSTR_azure_storage_key",
        "appsetting_azure_client_secret",
        "APPSETTING_CUSTOMCONNSTR_AZURE_STORAGE_KEY",
    ] {
        assert!(withheld(name), "{name}");
    }
}

#[test]
fn other_variables_are_passed_on() {
    for name in [
        "PATH",
        "AZURE_CLIENT_ID",
        "AZURE_TENANT_ID",
        "AZURE_FEDERATED_TOKEN_FILE",
        "AZURE_AUTHORITY_HOST",
        "AZURE_STORAGE_ACCOUNT",
        "AZURE_STORAGE_KEY_FILE",
        "AZURE_REGION",
        "IDENTITY_ENDPOINT",
        "IDENTITY_HEADER",
        "MSI_ENDPOINT",
        "MSI_SECRET",
        "MY_AZURE_STORAGE_KEY",
        "APPSETTING_GREETING",
        "CUSTOMCONNSTR_ORDERS",
        "APPSETTINGS_AZURE_STORAGE_KEY",
        "_AZURE_STORAGE_KEY",
        "",
    ] {
        assert!(!withheld(name), "{name}");
    }
}
