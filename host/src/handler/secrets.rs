//! Which variables of this process are none of the work's business.

use std::ffi::OsStr;

/// Variables whose names begin so are the election's: they hold credentials, or settings that would
/// be mistaken for the work's own.
const OURS: [&str; 4] = ["AZURE_", "IDENTITY_", "MSI_", "TENURE_"];

/// How whoever started this process speaks with it: what a command said there would be taken for the
/// runner's word.
const SERVICE_MANAGER: [&str; 3] = ["NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"];

/// Whether a variable is kept from commands, in whatever case its name is written: programs, and
/// some systems, do not tell cases apart.
pub fn is_ours(name: &OsStr) -> bool {
    let name = name.to_string_lossy().to_ascii_uppercase();
    let name = setting(&name);
    OURS.iter().any(|ours| name.starts_with(ours)) || SERVICE_MANAGER.contains(&name)
}

/// App Service sets each setting a second time, with its kind before its name: `APPSETTING_NAME`,
/// `CUSTOMCONNSTR_NAME`, `SQLAZURECONNSTR_NAME` and so on.
fn setting(mut name: &str) -> &str {
    const KIND: fn(char) -> bool = |letter| letter.is_ascii_alphabetic();
    loop {
        let after_kind = name.trim_start_matches(KIND);
        let (kind, rest) = name.split_at(name.len() - after_kind.len());
        match rest.strip_prefix('_') {
            Some(rest) if kind == "APPSETTING" || kind.ends_with("CONNSTR") => name = rest,
            _ => return name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(name: &str) -> bool {
        is_ours(OsStr::new(name))
    }

    #[test]
    fn names_are_known_in_any_case() {
        for name in ["AZURE_STORAGE_KEY", "azure_storage_key", "Tenure_Control_Token", "msi_secret"]
        {
            assert!(ours(name), "{name}");
        }
        for name in ["notify_socket", "IDENTITY_header"] {
            assert!(ours(name), "{name}");
        }
    }

    #[test]
    fn names_are_known_behind_the_kinds_of_app_service() {
        for name in [
            "APPSETTING_AZURE_STORAGE_KEY",
            "APPSETTING_TENURE_CONTROL_TOKEN",
            "CUSTOMCONNSTR_AZURE_STORAGE_CONNECTION_STRING",
            "SQLCONNSTR_AZURE_STORAGE_CONNECTION_STRING",
            "SQLAZURECONNSTR_azure_storage_key",
            "appsetting_msi_secret",
            "APPSETTING_CUSTOMCONNSTR_AZURE_STORAGE_KEY",
        ] {
            assert!(ours(name), "{name}");
        }
    }

    #[test]
    fn others_are_left() {
        for name in [
            "PATH",
            "MY_AZURE_",
            "APPSETTING_GREETING",
            "CUSTOMCONNSTR_ORDERS",
            "APPSETTINGS_AZURE_",
            "_AZURE_",
            "AZUREX",
            "",
        ] {
            assert!(!ours(name), "{name}");
        }
    }
}
