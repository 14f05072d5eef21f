//! How servers prove who they are.

use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier, client::WantsClientCert};
use rustls_platform_verifier::BuilderVerifierExt;
use std::sync::Arc;

/// Trusts the certificates that the platform trusts. Reading them takes longer than all else at
/// the start.
pub(super) fn trusting() -> Result<ClientConfig, rustls::Error> {
    Ok(http1(builder()?.with_platform_verifier()?))
}

/// Trusts nobody: for the client that makes no such connection.
pub(super) fn none() -> Result<ClientConfig, rustls::Error> {
    Ok(http1(builder()?.with_root_certificates(RootCertStore::empty())))
}

fn builder() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()
}

fn http1(builder: ConfigBuilder<ClientConfig, WantsClientCert>) -> ClientConfig {
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config
}
