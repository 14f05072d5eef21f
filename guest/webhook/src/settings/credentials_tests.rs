use super::variable::{SECRET, SECRET_FILE, TOKEN, TOKEN_FILE};
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
    let token =
        |variables: &[_]| read(variables).unwrap().token.map(|value| value.reveal().to_string());
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
        credentials.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", r#"{"test": 2432232314}"#)
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
