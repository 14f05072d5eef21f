//! Rejects secrets in the file, because it is copied, mailed and put under version control.

/// Marks in the name of a key (without dashes and underscores), and the variable for such a secret.
const MARKS: [(&str, &str); 7] = [
    ("webhooktoken", "TENURE_HANDLER_TOKEN"),
    ("webhooksecret", "TENURE_HANDLER_SECRET"),
    ("connectionstring", "AZURE_STORAGE_CONNECTION_STRING"),
    ("clientsecret", "AZURE_CLIENT_SECRET"),
    ("sas", "AZURE_STORAGE_SAS_TOKEN"),
    ("token", "AZURE_STORAGE_AUTH_TOKEN"),
    ("key", "AZURE_STORAGE_KEY"),
];

/// Marks of other secrets, not of the account.
const GENERIC_MARKS: [&str; 3] = ["secret", "password", "credential"];

/// Returns the advice for a secret with this key, or none if the key is not for a secret.
pub(super) fn advice(key: &str) -> Option<String> {
    let letters: String = key.chars().filter(char::is_ascii_alphabetic).collect();
    let letters = letters.to_ascii_lowercase();
    if letters.ends_with("file") {
        return None;
    }
    let marked = MARKS.iter().find(|(mark, _)| letters.contains(mark));
    match marked {
        Some((_, variable)) => Some(format!(
            "set the variable {variable}, or {variable}_FILE to the name of a file that holds it"
        )),
        None if GENERIC_MARKS.iter().any(|word| letters.contains(word)) => {
            Some("set the variable that it belongs to, or NAME_FILE to a file that holds it".into())
        }
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::advice;

    #[test]
    fn a_secret_belongs_to_its_variable() {
        for (key, variable) in [
            ("connection-string", "AZURE_STORAGE_CONNECTION_STRING"),
            ("AZURE_STORAGE_KEY", "AZURE_STORAGE_KEY"),
            ("accountKey", "AZURE_STORAGE_KEY"),
            ("sas_token", "AZURE_STORAGE_SAS_TOKEN"),
            ("auth-token", "AZURE_STORAGE_AUTH_TOKEN"),
            ("client-secret", "AZURE_CLIENT_SECRET"),
            ("webhook-token", "TENURE_HANDLER_TOKEN"),
            ("webhook_secret", "TENURE_HANDLER_SECRET"),
        ] {
            let advice = advice(key).unwrap();
            assert!(advice.contains(&format!("variable {variable}, ")), "{key}: {advice}");
        }
        assert!(advice("password").is_some());
        for key in ["evry", "timezone", "REPORT_URL", "connection_string_file"] {
            assert_eq!(advice(key), None, "{key}");
        }
    }
}
