//! `--ca-file` and `--webhook-ca-file`: whom to trust beside the platform's authorities.

use super::complaint::{Complaint, shown};
use std::path::{Path, PathBuf};
use tenure::egress::Authorities;

/// An option that names authorities. It is the host's business alone.
#[derive(Clone, Copy)]
pub(super) struct CaFile {
    flag: &'static str,
    variable: &'static str,
}

/// For the storage account, and whoever gives out tokens for it.
pub(super) const STORAGE: CaFile = CaFile { flag: "--ca-file", variable: "TENURE_CA_FILE" };

/// For the webhook.
pub(super) const WEBHOOK: CaFile =
    CaFile { flag: "--webhook-ca-file", variable: "TENURE_HANDLER_CA_FILE" };

const ADVICE: &str = "name a readable file of certificates in PEM form, each one between \
                      -----BEGIN CERTIFICATE----- and -----END CERTIFICATE-----";

impl CaFile {
    /// The authorities that the flag, `given` or not, or else the variable names; none when neither
    /// is given.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or holds none.
    pub(super) fn authorities(self, given: Option<&Path>) -> Result<Authorities, Complaint> {
        let variable = || std::env::var_os(self.variable).filter(|value| !value.is_empty());
        let (source, file) = match (given, variable()) {
            (Some(file), _) => (format!("{} {}", self.flag, told(file)), file.to_owned()),
            (None, Some(value)) => (self.variable.to_owned(), PathBuf::from(value)),
            (None, None) => return Ok(Authorities::default()),
        };
        read(&file).map_err(|problem| {
            Complaint::new(source, format!("\"{}\" {problem}", told(&file)), ADVICE)
        })
    }
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
        STORAGE.authorities(Some(file(&made.cert.pem()).path())).unwrap();
        STORAGE.authorities(None).unwrap();
    }

    #[test]
    fn a_file_that_vouches_for_nobody_is_complained_about() {
        let cases = [
            (file(""), "holds no certificate"),
            (file("Zm9yIHlvdXIgZXllcyBvbmx5"), "holds no certificate"),
            (file("-----BEGIN CERTIFICATE-----\nZm9yIHlvdXIgZXllcyBvbmx5\n"), "is damaged"),
        ];
        for (file, problem) in &cases {
            for of in [STORAGE, WEBHOOK] {
                let complaint = of.authorities(Some(file.path())).unwrap_err();
                assert_eq!(complaint.source, format!("{} {}", of.flag, file.path().display()));
                assert!(complaint.problem.contains(problem), "{complaint:?}");
                assert!(!format!("{complaint:?}").contains("Zm9y"), "{complaint:?}");
            }
        }
        for missing in ["/no/such/file", "/"] {
            let complaint = STORAGE.authorities(Some(Path::new(missing))).unwrap_err();
            let problem = format!("\"{missing}\" cannot be read: ");
            assert!(complaint.problem.starts_with(&problem), "{complaint:?}");
        }
    }
}
