//! Shared access signatures for an hour, made with the account's key.

use chrono::{SecondsFormat, TimeDelta, Utc};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tenure_guest::azure::Account;
use tenure_guest::azure::credential::Credential;

/// The version that signatures are made for.
const VERSION: &str = "2021-12-02";

/// A service SAS for a container, as the service's reference has it signed. For an hour.
#[must_use]
pub fn container_sas(account: &Account, container: &str, permissions: &str) -> String {
    let expiry = in_an_hour();
    let resource = format!("/blob/{}/{container}", account.name());
    // sp, st, se, resource, si, sip, spr, sv, sr, snapshot, ses, rscc, rscd, rsce, rscl, rsct
    let lines =
        [permissions, "", &expiry, &resource, "", "", "", VERSION, "c", "", "", "", "", "", "", ""];
    let parameters = [("sp", permissions), ("se", expiry.as_str()), ("sv", VERSION), ("sr", "c")];
    sas(account, &lines.join("\n"), &parameters)
}

/// An account SAS for blobs and containers, as the service's reference has it signed. For an hour;
/// over TLS only, when that is how the account is reached.
#[must_use]
pub fn account_sas(account: &Account, permissions: &str) -> String {
    let expiry = in_an_hour();
    let protocol = if account.origin().starts_with("https:") { "https" } else { "https,http" };
    // name, sp, ss, srt, st, se, sip, spr, sv, ses
    let lines =
        [account.name(), permissions, "b", "co", "", &expiry, "", protocol, VERSION, "", ""];
    let parameters = [
        ("sp", permissions),
        ("ss", "b"),
        ("srt", "co"),
        ("se", expiry.as_str()),
        ("spr", protocol),
        ("sv", VERSION),
    ];
    sas(account, &lines.join("\n"), &parameters)
}

fn in_an_hour() -> String {
    (Utc::now() + TimeDelta::hours(1)).to_rfc3339_opts(SecondsFormat::Secs, true)
}

fn sas(account: &Account, to_sign: &str, parameters: &[(&str, &str)]) -> String {
    let Credential::SharedKey(key) = account.credential() else { panic!("{account:?} has no key") };
    let signature = key.sign(to_sign);
    let all = parameters.iter().copied().chain([("sig", signature.as_str())]);
    let encoded =
        all.map(|(name, value)| format!("{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC)));
    encoded.collect::<Vec<_>>().join("&")
}
