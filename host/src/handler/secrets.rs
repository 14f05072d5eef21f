//! Variables of this process that the work does not inherit.

use std::ffi::OsStr;
use tenure_core::variable;

/// Variables that may hold the secret for the storage account. Variables that identify a principal
/// are not secret, and the work may use them itself.
const SECRETS: [&str; 5] = [
    variable::CONNECTION_STRING,
    variable::KEY,
    variable::SAS_TOKEN,
    variable::AUTH_TOKEN,
    variable::CLIENT_SECRET,
];

/// Settings of this program, some of them secret. The work may run this program too.
const SETTINGS: &str = "TENURE_";

/// Variables of the service manager. A command could otherwise send notifications in the name of
/// the runner.
const SERVICE_MANAGER: [&str; 3] = ["NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"];

/// Returns true if commands do not inherit the variable. The case of its name does not matter: some
/// programs and systems ignore it.
pub fn is_withheld(name: &OsStr) -> bool {
    let name = name.to_string_lossy().to_ascii_uppercase();
    let name = base_name(&name);
    name.starts_with(SETTINGS) || SECRETS.contains(&name) || SERVICE_MANAGER.contains(&name)
}

/// Strips the prefix of a kind. App Service sets each setting a second time with such a prefix:
/// `APPSETTING_NAME`, `CUSTOMCONNSTR_NAME`, `SQLAZURECONNSTR_NAME` and so on.
fn base_name(mut name: &str) -> &str {
    const KIND: fn(char) -> bool = |letter| letter.is_ascii_alphabetic();
    loop {
        let after_kind = name.trim_start_matches(KIND);
        let (kind, suffix) = name.split_at(name.len() - after_kind.len());
        match suffix.strip_prefix('_') {
            Some(rest) if kind == "APPSETTING" || kind.ends_with("CONNSTR") => name = rest,
            _ => return name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
