//! Certificates that are trusted in addition to those of the platform.

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::fmt;

/// Certificates of authorities, or of single servers, that are trusted in addition to those that the
/// platform trusts. None by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authorities(Vec<CertificateDer<'static>>);

impl Authorities {
    /// All certificates of a PEM file. What else it holds, like the text that some tools put
    /// before each certificate, is passed over.
    ///
    /// # Errors
    ///
    /// When there is no certificate in it, or one that cannot be trusted, whatever it vouches for.
    pub fn from_pem(pem: &[u8]) -> Result<Self, InvalidAuthorities> {
        // The parser's own words quote the file, which may hold a key.
        let all = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
        let all = all.map_err(|_| InvalidAuthorities::Broken)?;
        if all.is_empty() {
            return Err(InvalidAuthorities::Missing);
        }
        for (index, certificate) in all.iter().enumerate() {
            // Else it would be noticed with the first connection only.
            let judged = RootCertStore::empty().add(certificate.clone());
            judged.map_err(|_| InvalidAuthorities::Unusable(index + 1))?;
        }
        Ok(Self(all))
    }

    pub(super) fn certificates(&self) -> impl Iterator<Item = CertificateDer<'static>> {
        self.0.iter().cloned()
    }
}

/// Why a text names no [`Authorities`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidAuthorities {
    /// There is no certificate in it.
    Missing,
    /// A section of it does not end, or is no Base64.
    Broken,
    /// The certificate of this number, from 1, is none that servers are known by.
    Unusable(usize),
}

impl fmt::Display for InvalidAuthorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("holds no certificate in PEM form"),
            Self::Broken => f.write_str("is damaged: one of its sections is not PEM"),
            Self::Unusable(number) => {
                write!(f, "has a certificate that is not X.509, number {number}")
            }
        }
    }
}

impl std::error::Error for InvalidAuthorities {}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate() -> String {
        rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap().cert.pem()
    }

    #[test]
    fn every_certificate_of_a_file_counts() {
        let (one, other) = (certificate(), certificate());
        let file = format!("subject=an authority\n{one}\nissuer=another\r\n{other}");
        let authorities = Authorities::from_pem(file.as_bytes()).unwrap();
        assert_eq!(authorities.certificates().count(), 2);
        assert_eq!(Authorities::default().certificates().count(), 0);
    }

    #[test]
    fn a_file_without_a_certificate_is_none() {
        let key = rcgen::KeyPair::generate().unwrap().serialize_pem();
        for file in ["", "\n", "no certificate", "\0\u{1}", &key] {
            let judged = Authorities::from_pem(file.as_bytes());
            assert_eq!(judged.unwrap_err(), InvalidAuthorities::Missing, "{file:?}");
        }
    }

    #[test]
    fn a_damaged_file_is_not_half_believed() {
        let good = certificate();
        let end = good.find("-----END").unwrap();
        for damaged in [&good[..end], &good.replacen("\nM", "\n!", 1)] {
            let file = format!("{good}{damaged}");
            let judged = Authorities::from_pem(file.as_bytes());
            assert_eq!(judged.unwrap_err(), InvalidAuthorities::Broken, "{file}");
        }
        let text = "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n";
        let judged = Authorities::from_pem(format!("{good}{text}").as_bytes());
        assert_eq!(judged.unwrap_err(), InvalidAuthorities::Unusable(2));
    }
}
