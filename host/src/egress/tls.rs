//! TLS configurations, and how servers are verified.

use super::{Error, RootCertificates};
use rustls::crypto::CryptoProvider;
use rustls::{CertificateError, ClientConfig, ConfigBuilder, OtherError, RootCertStore};
use rustls::{WantsVerifier, client::WantsClientCert};
use rustls_platform_verifier::Verifier;
use std::sync::Arc;

pub(super) const CA_AS_END_ENTITY: &str = "the server presents the certificate of an authority (CA:TRUE) as its own, which is not \
    accepted, even from the file of trusted certificates; make the server's certificate with CA:FALSE, for example with \
    openssl req -x509 and -addext basicConstraints=critical,CA:FALSE";

impl Error {
    /// Explains that a server was rejected because its certificate is that of an authority, if that
    /// is the error.
    #[must_use]
    pub fn ca_as_end_entity(error: &CertificateError) -> Option<&'static str> {
        let CertificateError::Other(OtherError(cause)) = error else { return None };
        let is_ca = matches!(cause.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity));
        is_ca.then_some(CA_AS_END_ENTITY)
    }
}

impl RootCertificates {
    /// Returns the configuration of clients that trust these certificates and the platform's.
    /// Loading the platform's is the slowest part of the start.
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
