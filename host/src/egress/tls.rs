//! TLS configurations, how servers are verified, and the root certificates for that.

use super::Error;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{CertificateError, ClientConfig, ConfigBuilder, OtherError, RootCertStore};
use rustls::{WantsVerifier, client::WantsClientCert};
use rustls_platform_verifier::Verifier;
use std::sync::Arc;

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

const BEGIN: &[u8] = b"-----BEGIN ";

const CERTIFICATE: &[u8] = b"-----BEGIN CERTIFICATE-----";

/// Certificates of authorities or single servers that are trusted in addition to those of the
/// platform. Empty by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RootCertificates(Vec<CertificateDer<'static>>);

impl RootCertificates {
    /// Reads all certificates of a PEM file. Ignores text between them, which some tools write
    /// before each certificate.
    ///
    /// # Errors
    ///
    /// Fails if the file contains no certificate, another kind of section, or a certificate that is
    /// not valid X.509.
    pub fn from_pem(pem: &[u8]) -> Result<Self, InvalidRootCertificates> {
        if pem.starts_with(&[0xff, 0xfe]) || pem.starts_with(&[0xfe, 0xff]) {
            return Err(InvalidRootCertificates::Utf16);
        }
        let (pem, sections) = certificate_sections(pem)?;
        // The parser's error message quotes the file, which may contain a key.
        let parsed = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
        let parsed = parsed.map_err(|_| InvalidRootCertificates::Malformed)?;
        if parsed.is_empty() {
            return Err(InvalidRootCertificates::NoCertificate);
        }
        // The parser drops a section without an end when the next one begins.
        if parsed.len() != sections {
            return Err(InvalidRootCertificates::Malformed);
        }
        for (index, certificate) in parsed.iter().enumerate() {
            // Otherwise the first connection would report the error.
            let result = RootCertStore::empty().add(certificate.clone());
            result.map_err(|_| InvalidRootCertificates::InvalidCertificate(index + 1))?;
        }
        Ok(Self(parsed))
    }

    fn certificates(&self) -> impl Iterator<Item = CertificateDer<'static>> {
        self.0.iter().cloned()
    }
}

/// Returns the text without byte order marks, and the number of its sections.
///
/// A file that was concatenated from several may contain byte order marks before a line. This
/// function rejects sections of other kinds, because the parser would skip them silently.
fn certificate_sections(pem: &[u8]) -> Result<(Vec<u8>, usize), InvalidRootCertificates> {
    let (mut text, mut sections) = (Vec::with_capacity(pem.len()), 0);
    for (index, line) in pem.split(|byte| *byte == b'\n').enumerate() {
        let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        if line.windows(BEGIN.len()).any(|part| part == BEGIN) {
            if line.trim_ascii_end() != CERTIFICATE {
                return Err(InvalidRootCertificates::UnexpectedSection(index + 1));
            }
            sections += 1;
        }
        text.extend_from_slice(line);
        text.push(b'\n');
    }
    Ok((text, sections))
}

/// Error for a file that does not contain [`RootCertificates`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidRootCertificates {
    /// The file is UTF-16 text.
    #[error("is text in UTF-16; save it in UTF-8")]
    Utf16,
    /// The section in this line, from 1, is not a certificate, or its first line contains other
    /// text.
    #[error(
        "has a section in line {0} that is not read; keep only certificates, each from its own line \
         -----BEGIN CERTIFICATE----- to its own line -----END CERTIFICATE-----"
    )]
    UnexpectedSection(usize),
    /// The file contains no certificate.
    #[error("holds no certificate in PEM form")]
    NoCertificate,
    /// A section does not end, or is not Base64.
    #[error("is damaged: one of its sections is not PEM")]
    Malformed,
    /// The certificate with this number, from 1, is not valid X.509.
    #[error("has a certificate that is not X.509, number {0}")]
    InvalidCertificate(usize),
}

pub(super) const CA_AS_END_ENTITY: &str = "the server presents the certificate of an authority (CA:TRUE) as its own, which is not \
    accepted, even from the file of trusted certificates; make the server's certificate with CA:FALSE, for example with \
    openssl req -x509 and -addext basicConstraints=critical,CA:FALSE";

impl Error {
    /// Returns an explanation if the server was rejected because its own certificate is that of an
    /// authority.
    #[must_use]
    pub fn ca_as_end_entity(error: &CertificateError) -> Option<&'static str> {
        let CertificateError::Other(OtherError(cause)) = error else { return None };
        let is_ca = matches!(cause.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity));
        is_ca.then_some(CA_AS_END_ENTITY)
    }
}

impl RootCertificates {
    /// Returns the configuration of clients that trust these certificates and the platform's.
    /// Loading the platform's certificates is the slowest part of the start.
    ///
    /// # Errors
    ///
    /// Fails if the platform's certificates cannot be read.
    pub fn client_config(&self) -> Result<ClientConfig, rustls::Error> {
        let verifier = Verifier::new_with_extra_roots(self.certificates(), provider())?;
        // "Dangerous" refers to custom verifiers in general; this one verifies certificates.
        let builder = builder()?.dangerous();
        Ok(http1(builder.with_custom_certificate_verifier(Arc::new(verifier))))
    }
}

/// Returns a configuration that trusts no server, for the client of plain HTTP.
pub(super) fn without_roots() -> Result<ClientConfig, rustls::Error> {
    Ok(http1(builder()?.with_root_certificates(RootCertStore::empty())))
}

fn builder() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, rustls::Error> {
    ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn http1(builder: ConfigBuilder<ClientConfig, WantsClientCert>) -> ClientConfig {
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config
}

#[cfg(test)]
mod root_certificate_tests {
    use super::*;

    fn certificate() -> String {
        rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap().cert.pem()
    }

    #[test]
    fn every_certificate_of_a_file_is_read() {
        let (one, other) = (certificate(), certificate());
        let file = format!("subject=an authority\n{one}\nissuer=another\r\n{other}");
        let authorities = RootCertificates::from_pem(file.as_bytes()).unwrap();
        assert_eq!(authorities.certificates().count(), 2);
        assert_eq!(RootCertificates::default().certificates().count(), 0);
    }

    #[test]
    fn a_file_without_a_certificate_is_rejected() {
        for file in ["", "\n", "no certificate", "\0\u{1}", "\u{feff}"] {
            let result = RootCertificates::from_pem(file.as_bytes());
            assert_eq!(result.unwrap_err(), InvalidRootCertificates::NoCertificate, "{file:?}");
        }
    }

    #[test]
    fn a_byte_order_mark_is_skipped() {
        let (one, other) = (certificate(), certificate());
        let file = format!("\u{feff}{one}\u{feff}{other}");
        assert_eq!(RootCertificates::from_pem(file.as_bytes()).unwrap().certificates().count(), 2);
        let utf16 = one.encode_utf16().flat_map(u16::to_le_bytes);
        let utf16 = [0xff, 0xfe].into_iter().chain(utf16).collect::<Vec<_>>();
        assert_eq!(RootCertificates::from_pem(&utf16).unwrap_err(), InvalidRootCertificates::Utf16);
    }

    #[test]
    fn an_unexpected_section_is_rejected() {
        let good = certificate();
        let key = rcgen::KeyPair::generate().unwrap().serialize_pem();
        for (file, line) in [
            (key.clone(), 1),
            (format!("{good}{key}"), good.lines().count() + 1),
            (good.replace("CERTIFICATE", "TRUSTED CERTIFICATE"), 1),
            (format!("\n  {}", good.replace('\n', "\n  ")), 2),
            (good.replace('\n', " "), 1),
        ] {
            let error = RootCertificates::from_pem(file.as_bytes()).unwrap_err();
            assert_eq!(error, InvalidRootCertificates::UnexpectedSection(line), "{file}");
        }
    }

    #[test]
    fn a_damaged_file_is_rejected_as_a_whole() {
        let good = certificate();
        let end = good.find("-----END").unwrap();
        for damaged in [&good[..end], &good.replacen("\nM", "\n!", 1)] {
            let file = format!("{good}{damaged}\n{good}");
            let result = RootCertificates::from_pem(file.as_bytes());
            assert_eq!(result.unwrap_err(), InvalidRootCertificates::Malformed, "{file}");
        }
        let text = "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n";
        let result = RootCertificates::from_pem(format!("{good}{text}").as_bytes());
        assert_eq!(result.unwrap_err(), InvalidRootCertificates::InvalidCertificate(2));
    }
}
