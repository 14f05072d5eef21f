//! Credentials by which a receiver trusts a call: a token, and signatures by the scheme of
//! [Standard Webhooks](https://www.standardwebhooks.com).

use super::variable;
use tenure_azure::identity::is_token;
use tenure_azure::secret::Secret;
use tenure_azure::shared_key::Key;
use tenure_base::prelude::*;
use tenure_core::{Complaint, Environment, SettingId, read_secret};

/// The prefix of a secret.
const SECRET_PREFIX: &str = "whsec_";

/// The length of a secret in bytes (Standard Webhooks, *Signature scheme*).
const SECRET_LENGTH: core::ops::RangeInclusive<usize> = 24..=64;

/// The credentials of calls. `Debug` prints nothing of them.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// The value of `authorization`.
    pub(super) token: Option<Secret>,
    /// Several keys while receivers change from one secret to another.
    keys: Vec<Key>,
}

impl Credentials {
    /// Reads the variables and the files that they name.
    ///
    /// # Errors
    /// All complaints at once, without values.
    pub fn read(environment: &dyn Environment) -> Result<Self, Vec<Complaint>> {
        let mut reader = Reader { environment, complaints: Vec::new() };
        let token = reader.token();
        let keys = reader.keys();
        match reader.complaints {
            complaints if complaints.is_empty() => Ok(Self { token, keys }),
            complaints => Err(complaints),
        }
    }

    /// Returns the value of `webhook-signature`, if there is a secret.
    pub(super) fn sign(&self, id: &str, timestamp: &str, body: &str) -> Option<String> {
        let content = format!("{id}.{timestamp}.{body}");
        let mut signatures = String::new();
        for key in &self.keys {
            let blank = if signatures.is_empty() { "" } else { " " };
            signatures = format!("{signatures}{blank}v1,{}", key.sign(&content));
        }
        (!signatures.is_empty()).then_some(signatures)
    }
}

struct Reader<'e> {
    environment: &'e dyn Environment,
    complaints: Vec<Complaint>,
}

impl Reader<'_> {
    fn get(&self, name: &str) -> Option<String> {
        self.environment
            .variable(name)
            .map(|value| value.trim().into())
            .filter(|v: &String| !v.is_empty())
    }

    fn complain(&mut self, setting: &'static str, problem: impl Into<String>, advice: &str) {
        let (problem, advice) = (problem.into(), advice.into());
        self.complaints.push(Complaint { setting: SettingId::new(setting), problem, advice });
    }

    /// Returns the value of `authorization`.
    fn token(&mut self) -> Option<Secret> {
        let (setting, token) = self.secret(variable::TOKEN, variable::TOKEN_FILE)?;
        if !is_token(token.reveal()) {
            let problem = "holds more than one word, or characters that a header cannot carry";
            self.complain(setting, problem, "let it hold the token alone, in one line");
        }
        Some(format!("Bearer {}", token.reveal()).into())
    }

    fn keys(&mut self) -> Vec<Key> {
        let Some((setting, text)) = self.secret(variable::SECRET, variable::SECRET_FILE) else {
            return Vec::new();
        };
        let keys: Option<Vec<_>> = text.reveal().split_ascii_whitespace().map(key).collect();
        keys.unwrap_or_else(|| {
            let problem = "is not whsec_ and 24 to 64 bytes in Base64";
            let advice = "make a secret with: echo whsec_$(openssl rand -base64 32). Put several on separate lines";
            self.complain(setting, problem, advice);
            Vec::new()
        })
    }

    /// Returns a secret and the variable that provides it, directly or through a file.
    fn secret(&mut self, name: &'static str, file: &'static str) -> Option<(&'static str, Secret)> {
        match (self.get(name), self.get(file)) {
            (None, None) => None,
            (Some(text), None) => Some((name, text.into())),
            (None, Some(path)) => match read_secret(self.environment, &path) {
                Ok(text) => Some((file, text)),
                Err((problem, advice)) => {
                    self.complain(file, problem, advice);
                    None
                }
            },
            (Some(_), Some(_)) => {
                self.complain(file, format!("excludes {name}"), "keep one of the two");
                None
            }
        }
    }
}

fn key(text: &str) -> Option<Key> {
    let text = text.strip_prefix(SECRET_PREFIX)?;
    let bytes = text.bytes().filter(|letter| *letter != b'=').count() * 3 / 4;
    Key::from_base64(text).filter(|_| SECRET_LENGTH.contains(&bytes))
}

#[cfg(test)]
mod tests {
    use super::super::variable::{SECRET, SECRET_FILE, TOKEN, TOKEN_FILE};
    use super::*;
    use tenure_core::FileError;

    /// The secret of the examples in the Standard Webhooks libraries.
    const KNOWN: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const LONGER: &str = "whsec_VmVyeVNlY3JldFNlY3JldFNlY3JldFNlY3JldFM=";

    struct TestEnvironment<'a>(&'a [(&'a str, &'a str)]);

    impl Environment for TestEnvironment<'_> {
        fn variable(&self, name: &str) -> Option<String> {
            self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string())
        }

        fn file(&self, path: &str) -> Result<Secret, FileError> {
            self.variable(path).map(Secret::from).ok_or(FileError::Missing)
        }
    }

    fn read(variables: &[(&str, &str)]) -> Result<Credentials, Vec<Complaint>> {
        Credentials::read(&TestEnvironment(variables))
    }

    fn refused(variables: &[(&str, &str)]) -> Vec<String> {
        let complaints = read(variables).unwrap_err();
        let text = Complaint::join_all(&complaints);
        assert!(!text.contains("S3CRET") && !text.contains("whsec_M"), "{text}");
        complaints.into_iter().map(|complaint| complaint.setting.variable().to_string()).collect()
    }

    #[test]
    fn a_token_is_that_of_a_bearer() {
        let token = |variables: &[_]| {
            read(variables).unwrap().token.map(|value| value.reveal().to_string())
        };
        assert_eq!(token(&[(TOKEN, " a.b ")]).as_deref(), Some("Bearer a.b"));
        let file = [(TOKEN_FILE, "/f"), ("/f", "\u{feff}a\n")];
        assert_eq!(token(&file).as_deref(), Some("Bearer a"));
        assert_eq!(token(&[]), None);
    }

    #[test]
    fn a_signature_is_that_of_the_standard() {
        // The example of Standard Webhooks' own tests.
        let signed = |secret: &str| {
            let credentials = read(&[(SECRET, secret)]).unwrap();
            credentials.sign(
                "msg_p5jXN8AQM9LWM0D4loKWxJek",
                "1614265330",
                r#"{"test": 2432232314}"#,
            )
        };
        let expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(signed(KNOWN).unwrap(), expected);
        let both = signed(&format!("{KNOWN}\n{LONGER}\n")).unwrap();
        let (first, second) = both.split_once(' ').unwrap();
        assert_eq!((first, second), (expected, signed(LONGER).unwrap().as_str()));
        assert_ne!(first, second);
        assert_eq!(read(&[]).unwrap().sign("a", "1", "b"), None);
    }

    #[test]
    fn invalid_secrets_are_refused_without_their_value() {
        for wrong in [
            "S3CRETS3CRETS3CRETS3CRETS3CRETS3",
            "whsec_S3CRET!!",
            "whsec_S3CRETS3CRETS3CRETS3CRETS3CR",
            "whsec_",
            &format!("{KNOWN} S3CRET"),
            &format!("whsec_{}", "S3CR".repeat(22)),
        ] {
            assert_eq!(refused(&[(SECRET, wrong)]), [SECRET], "{wrong}");
            assert_eq!(refused(&[(SECRET_FILE, "/f"), ("/f", wrong)]), [SECRET_FILE], "{wrong}");
        }
        for wrong in ["S3CRET b", "S3CRET\nb", "S3CRETü"] {
            assert_eq!(refused(&[(TOKEN, wrong)]), [TOKEN], "{wrong}");
        }
        let twice = [(TOKEN, "S3CRET"), (TOKEN_FILE, "/f"), ("/f", "S3CRET")];
        assert_eq!(refused(&twice), [TOKEN_FILE]);
        assert_eq!(refused(&[(TOKEN_FILE, "/f"), ("/f", " \n")]), [TOKEN_FILE]);
        assert_eq!(refused(&[(TOKEN_FILE, "/f"), (SECRET_FILE, "/g")]), [TOKEN_FILE, SECRET_FILE]);
    }

    #[test]
    fn nothing_is_printed() {
        let credentials = read(&[(TOKEN, "S3CRET"), (SECRET, KNOWN)]).unwrap();
        let printed = format!("{credentials:?}");
        assert!(!printed.contains("S3CRET") && !printed.contains("MfKQ"), "{printed}");
    }
}
