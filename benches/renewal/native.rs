//! The minimum work of a native program for one renewal: sign, send, check the response.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use chrono::Utc;
use reqwest::{Method, Response, Url};
use rustls::{ClientConfig, RootCertStore};
use tenure_azure::request::Method as OperationKind;
use tenure_azure::{Account, BlobName, LeaseId, Operation};
use uuid::Uuid;

const TIMEOUT: Duration = Duration::from_secs(3);

/// A native holder of a blob's lease.
pub struct Native {
    client: reqwest::Client,
    account: Account,
    blob: BlobName,
    lease: LeaseId,
}

impl Native {
    /// Creates container and blob, and acquires the lease.
    pub async fn acquire(connection_string: &str, blob: &str) -> Result<Self> {
        let account = Account::from_connection_string(connection_string);
        let lease = LeaseId::from_random(*Uuid::new_v4().as_bytes());
        let native = Self {
            client: client()?,
            account: account.ok().context("a wrong connection string")?,
            blob: BlobName::parse(blob).ok().context("a wrong name")?,
            lease,
        };
        let acquire = Operation::Acquire { lease, seconds: 15, if_match: None };
        for operation in [Operation::CreateContainer, Operation::CreateBlob, acquire] {
            let answer = native.send(&operation).await?;
            ensure!(answer.status().is_success(), "{}: {}", operation.name(), answer.status());
        }
        Ok(native)
    }

    /// Sends the measured renewal.
    pub async fn renew(&self) -> Result<()> {
        let answer = self.send(&Operation::Renew { lease: self.lease }).await?;
        let (status, headers) = (answer.status(), answer.headers());
        let lease = headers.get("x-ms-lease-id").and_then(|id| LeaseId::parse(id.to_str().ok()?));
        ensure!(status == 200 && lease == Some(self.lease), "renew: {status}");
        answer.bytes().await?;
        Ok(())
    }

    async fn send(&self, operation: &Operation) -> Result<Response> {
        let signed = operation.request(
            &self.account,
            &self.blob,
            Utc::now(),
            3,
            self.account.authorization(),
        );
        let method = match signed.method {
            OperationKind::Head => Method::HEAD,
            OperationKind::Put => Method::PUT,
            OperationKind::Get => Method::GET,
            OperationKind::Post => Method::POST,
            OperationKind::Delete => Method::DELETE,
        };
        let url = Url::parse(&(signed.origin + &signed.path_and_query))?;
        let mut request = self.client.request(method, url).timeout(TIMEOUT);
        for (name, value) in &signed.headers {
            request = request.header(name, value);
        }
        Ok(request.send().await?)
    }
}

/// Returns a client with the settings that the runner uses for the component.
fn client() -> Result<reqwest::Client> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let builder = reqwest::Client::builder()
        .http1_only()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .user_agent("tenure-bench")
        .tcp_nodelay(true)
        .connect_timeout(Duration::from_secs(10))
        .pool_idle_timeout(Duration::from_secs(90))
        .pool_max_idle_per_host(1)
        .tls_backend_preconfigured(tls);
    Ok(builder.build()?)
}
