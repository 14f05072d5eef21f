//! Certificate authority for one test, and its certificates for servers on this machine.

use std::path::{Path, PathBuf};

use anyhow::Result;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use reqwest::Client;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tempfile::TempDir;

const CA: &str = "ca.pem";
const CERTIFICATE: &str = "certificate.pem";
const KEY: &str = "key.pem";

/// PEM files of an authority, and of one server as `127.0.0.1` and `localhost`. Dropping it deletes
/// the files.
#[derive(Debug)]
pub struct Certificates(TempDir);

impl Certificates {
    /// Generates an untrusted authority and the server's certificate.
    ///
    /// # Errors
    /// The files cannot be written.
    pub fn generate() -> Result<Self> {
        let mut params = CertificateParams::new([])?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "an authority of a test");
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let key = KeyPair::generate()?;
        let names = ["127.0.0.1", "localhost"].map(str::to_owned);
        let certificate = CertificateParams::new(names)?.signed_by(&key, &authority)?;

        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join(CA), authority.pem())?;
        std::fs::write(folder.path().join(CERTIFICATE), certificate.pem())?;
        std::fs::write(folder.path().join(KEY), key.serialize_pem())?;
        Ok(Self(folder))
    }

    /// Returns the path of the authority's certificate, which clients must trust.
    #[must_use]
    pub fn ca(&self) -> PathBuf {
        self.0.path().join(CA)
    }

    /// Returns the path of the server's certificate.
    #[must_use]
    pub fn certificate(&self) -> PathBuf {
        self.0.path().join(CERTIFICATE)
    }

    /// Returns the path of the server's key.
    #[must_use]
    pub fn key(&self) -> PathBuf {
        self.0.path().join(KEY)
    }

    /// Returns the TLS configuration for a server in this process.
    ///
    /// # Errors
    /// A file is missing.
    pub fn server(&self) -> Result<ServerConfig> {
        let certificate = CertificateDer::from_pem_file(self.certificate())?;
        let key = PrivateKeyDer::from_pem_file(self.key())?;
        install_crypto_provider();
        let config = ServerConfig::builder().with_no_client_auth();
        Ok(config.with_single_cert(vec![certificate], key)?)
    }
}

/// Returns a client without a proxy. It only trusts this authority, if one is given.
///
/// # Errors
/// The file is missing or holds no certificate.
pub fn client(ca: Option<&Path>) -> Result<Client> {
    install_crypto_provider();
    let mut client = Client::builder().no_proxy();
    if let Some(ca) = ca {
        client = client.tls_certs_only([reqwest::Certificate::from_pem(&std::fs::read(ca)?)?]);
    }
    Ok(client.build()?)
}

/// reqwest and rustls are built without a default crypto provider. A second call has no effect.
fn install_crypto_provider() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}
