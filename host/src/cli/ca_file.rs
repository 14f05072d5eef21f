//! `--ca-file`: whom to trust beside the platform's authorities.

use super::complaint::{Complaint, shown};
use crate::egress::Authorities;
use std::path::{Path, PathBuf};

/// The variable of `--ca-file`. It is the host's business alone.
pub(super) const CA_FILE: &str = "TENURE_CA_FILE";

const ADVICE: &str = "name a readable file of certificates in PEM form, each one between \
                      -----BEGIN CERTIFICATE----- and -----END CERTIFICATE-----";

/// The authorities that the flag or else the variable names; none when neither is given.
///
/// # Errors
///
/// The file cannot be read, or holds none.
pub(super) fn authorities(flag: Option<&Path>) -> Result<Authorities, Complaint> {
    let variable = || std::env::var_os(CA_FILE).filter(|value| !value.is_empty());
    let (source, file) = match (flag, variable()) {
        (Some(file), _) => (format!("--ca-file {}", told(file)), file.to_owned()),
        (None, Some(value)) => (CA_FILE.to_owned(), PathBuf::from(value)),
        (None, None) => return Ok(Authorities::default()),
    };
    read(&file)
        .map_err(|problem| Complaint::new(source, format!("\"{}\" {problem}", told(&file)), ADVICE))
}

fn read(file: &Path) -> Result<Authorities, String> {
    let pem = std::fs::read(file).map_err(|error| format!("cannot be read: {error}"))?;
    Authorities::from_pem(&pem).map_err(|problem| problem.to_string())
}

fn told(file: &Path) -> String {
    shown(&file.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(content: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), content).unwrap();
        file
    }

    #[test]
    fn a_file_of_certificates_is_taken() {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        authorities(Some(file(&made.cert.pem()).path())).unwrap();
        authorities(None).unwrap();
    }

    #[test]
    fn a_file_that_vouches_for_nobody_is_complained_about() {
        let cases = [
            (file(""), "holds no certificate"),
            (file("Zm9yIHlvdXIgZXllcyBvbmx5"), "holds no certificate"),
            (file("-----BEGIN CERTIFICATE-----\nZm9yIHlvdXIgZXllcyBvbmx5\n"), "is damaged"),
        ];
        for (file, problem) in &cases {
            let complaint = authorities(Some(file.path())).unwrap_err();
            assert_eq!(complaint.source, format!("--ca-file {}", file.path().display()));
            assert!(complaint.problem.contains(problem), "{complaint:?}");
            assert!(!format!("{complaint:?}").contains("Zm9y"), "{complaint:?}");
        }
        for missing in ["/no/such/file", "/"] {
            let complaint = authorities(Some(Path::new(missing))).unwrap_err();
            let problem = format!("\"{missing}\" cannot be read: ");
            assert!(complaint.problem.starts_with(&problem), "{complaint:?}");
        }
    }
}
