//! Detection of secrets in the wrong place: a complaint shows a value only if it does not look like
//! a secret.

use crate::text::cut;

/// Prefixes of connection string parts, signatures, tokens and webhook secrets, in lower case.
const SECRET_MARKS: [&str; 6] =
    ["accountkey", "sharedaccesssignature", "sig=", "bearer ", "eyj0", "whsec_"];

/// Minimum length of keys and tokens.
const LEAST_SECRET_LENGTH: usize = 32;

/// Returns true if a text, or a part of it, looks like a key, a signature or a token.
#[must_use]
pub fn looks_secret(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let is_secret_char = |c: char| {
        c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=' | '_' | '~' | '-' | '.' | '%')
    };
    SECRET_MARKS.iter().any(|mark| cut(&lower, mark).is_some())
        || text.split(|c| !is_secret_char(c)).any(|word| {
            let has_byte = |kind: fn(&u8) -> bool| word.as_bytes().iter().any(kind);
            let is_key = has_byte(u8::is_ascii_uppercase) && has_byte(u8::is_ascii_digit);
            // The form of `openssl rand -hex 32`.
            let is_hex = word.as_bytes().iter().all(u8::is_ascii_hexdigit);
            word.len() >= LEAST_SECRET_LENGTH && (is_key || is_hex)
        })
}

/// Returns a value for a complaint. One that looks like a misplaced secret is hidden.
#[must_use]
pub fn redact(value: &str) -> &str {
    if value.len() > 1100 || looks_secret(value) { "…" } else { value }
}

#[cfg(test)]
mod tests {
    use super::looks_secret;

    #[test]
    fn keys_signatures_and_tokens_do() {
        for secret in [
            "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
            "AccountName=a;AccountKey=c2VjcmV0",
            "?sv=2022-11-02&sig=c2VjcmV0",
            "eyJ0eXAiOiJKV1QifQ.e30.c2ln",
            "whsec_c2VjcmV0",
            "853B9A84E1A84F2A9D0C11AA00F0F0F0",
            "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "my Q8~dq3kL0bTt2mZ9xW5vRrY7uNnA1cEe4fGh",
        ] {
            assert!(looks_secret(secret), "{secret}");
        }
    }

    #[test]
    fn names_and_periods_do_not() {
        for plain in [
            "15s",
            "leases/nightly-report",
            "jobs/Nightly Report For The Whole Of The Company 2026",
            "a-very-long-container-name-for-the-jobs-of-2026",
            "0 9 * * MON-FRI",
            "ab1f708d-50f6-404c-a006-d71b2ac7a606",
        ] {
            assert!(!looks_secret(plain), "{plain}");
        }
    }
}
