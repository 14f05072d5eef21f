//! Third party with the key, which breaks leases and deletes blobs. No candidate does such things.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use chrono::Utc;
use reqwest::{Client, Method, Response};
use tenure_azure::credential::Credential;
use tenure_azure::shared_key::{authorization, decoded_query, string_to_sign};
use tenure_azure::{API_VERSION, Account, BlobName, encoding};
use uuid::Uuid;

use crate::certificates::client;

/// Client that sends signed requests for one election's blob and container.
#[derive(Debug)]
pub struct Outsider {
    account: Account,
    blob: BlobName,
    client: Client,
}

impl Outsider {
    /// Creates a client for the blob `election` of the account.
    ///
    /// # Panics
    /// The connection string or the name is invalid.
    #[must_use]
    pub fn new(connection_string: &str, election: &str) -> Self {
        Self {
            account: Account::from_connection_string(connection_string).expect("a good one"),
            blob: BlobName::parse(election).expect("a good name"),
            client: client(None).expect("a client"),
        }
    }

    /// Trusts only this authority.
    ///
    /// # Panics
    /// The file contains no certificate.
    #[must_use]
    pub fn trusting(self, ca: &Path) -> Self {
        Self { client: client(Some(ca)).expect("a certificate"), ..self }
    }

    /// Breaks the lease at once.
    ///
    /// # Errors
    /// The service rejects the request.
    pub async fn break_lease(&self) -> Result<()> {
        let headers = [("x-ms-lease-action", "break"), ("x-ms-lease-break-period", "0")];
        self.send_expecting_success(Method::PUT, &self.blob.path(), "comp=lease", &headers).await
    }

    /// Breaks the lease and acquires it, so that no candidate intervenes while the test changes the
    /// blob. Returns the id of the lease, which expires after 15 s.
    ///
    /// # Errors
    /// The service rejects the request, or candidates were faster ten times.
    pub async fn break_and_acquire(&self) -> Result<String> {
        let id = Uuid::new_v4().to_string();
        let headers = [
            ("x-ms-lease-action", "acquire"),
            ("x-ms-lease-duration", "15"),
            ("x-ms-proposed-lease-id", id.as_str()),
        ];
        let mut acquired = Ok(());
        for _ in 0..10 {
            self.break_lease().await?;
            acquired = self
                .send_expecting_success(Method::PUT, &self.blob.path(), "comp=lease", &headers)
                .await;
            if acquired.is_ok() {
                break;
            }
        }
        acquired.map(|()| id)
    }

    /// Acquires an infinite lease of the blob, which is not leased.
    ///
    /// # Errors
    /// The service rejects the request.
    pub async fn acquire_forever(&self) -> Result<()> {
        let headers = [("x-ms-lease-action", "acquire"), ("x-ms-lease-duration", "-1")];
        self.send_expecting_success(Method::PUT, &self.blob.path(), "comp=lease", &headers).await
    }

    /// Releases a lease that was taken.
    ///
    /// # Errors
    /// The service rejects the request.
    pub async fn release(&self, lease: &str) -> Result<()> {
        let headers = [("x-ms-lease-action", "release"), ("x-ms-lease-id", lease)];
        self.send_expecting_success(Method::PUT, &self.blob.path(), "comp=lease", &headers).await
    }

    /// Deletes the blob, which has this lease.
    ///
    /// # Errors
    /// The service rejects the request.
    pub async fn delete_blob(&self, lease: &str) -> Result<()> {
        self.send_expecting_success(
            Method::DELETE,
            &self.blob.path(),
            "",
            &[("x-ms-lease-id", lease)],
        )
        .await
    }

    /// Removes the metadata of the blob, which has this lease.
    ///
    /// # Errors
    /// The service rejects the request.
    pub async fn wipe_metadata(&self, lease: &str) -> Result<()> {
        let headers = [("x-ms-lease-id", lease)];
        self.send_expecting_success(Method::PUT, &self.blob.path(), "comp=metadata", &headers).await
    }

    /// Returns the term in the record.
    ///
    /// # Errors
    /// The service rejects the request, or the record has no term.
    pub async fn term(&self) -> Result<u64> {
        let lines = self.metadata().await?;
        let term = lines.iter().find_map(|line| line.strip_prefix("tenureterm="));
        Ok(term.context("no term on record")?.parse()?)
    }

    /// Replaces the metadata of the blob, which must not be leased.
    ///
    /// # Errors
    /// The service rejects the request.
    pub async fn put_metadata(&self, metadata: &[(&str, &str)]) -> Result<()> {
        let names: Vec<_> = metadata.iter().map(|(name, _)| format!("x-ms-meta-{name}")).collect();
        let names = names.iter().map(String::as_str);
        let headers: Vec<_> = names.zip(metadata.iter().map(|(_, value)| *value)).collect();
        self.send_expecting_success(Method::PUT, &self.blob.path(), "comp=metadata", &headers).await
    }

    /// Creates the container.
    ///
    /// # Errors
    /// The service rejects the request.
    pub async fn create_container(&self) -> Result<()> {
        let path = self.blob.container_path();
        self.send_expecting_success(Method::PUT, &path, "restype=container", &[]).await
    }

    /// Deletes the container with all its blobs, leased or not.
    ///
    /// # Errors
    /// The service rejects the request.
    pub async fn delete_container(&self) -> Result<()> {
        let path = self.blob.container_path();
        self.send_expecting_success(Method::DELETE, &path, "restype=container", &[]).await
    }

    /// Replaces the blob with one that holds another application's data.
    ///
    /// # Errors
    /// The service rejects the request.
    pub async fn put_foreign_blob(&self) -> Result<()> {
        let headers = [("x-ms-blob-type", "BlockBlob"), ("x-ms-meta-owner", "payroll")];
        self.send_expecting_success(Method::PUT, &self.blob.path(), "", &headers).await
    }

    /// Returns the metadata of the blob as `name=value` lines.
    ///
    /// # Errors
    /// The service rejects the request.
    pub async fn metadata(&self) -> Result<Vec<String>> {
        let answer = self.send(Method::HEAD, &self.blob.path(), "", &[]).await?;
        ensure!(answer.status().is_success(), "head: {}", answer.status());
        let headers = answer.headers().iter();
        let mut lines: Vec<_> = headers
            .filter_map(|(name, value)| {
                let name = name.as_str().strip_prefix("x-ms-meta-")?;
                Some(format!("{name}={}", value.to_str().ok()?))
            })
            .collect();
        lines.sort();
        Ok(lines)
    }

    async fn send_expecting_success(
        &self,
        method: Method,
        path: &str,
        query: &str,
        headers: &[(&str, &str)],
    ) -> Result<()> {
        let request_line = format!("{method} {path}?{query}");
        let answer = self.send(method, path, query, headers).await?;
        let (status, code) = (answer.status(), answer.headers().get("x-ms-error-code").cloned());
        ensure!(status.is_success(), "{request_line}: {status} {code:?}");
        Ok(())
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        query: &str,
        headers: &[(&str, &str)],
    ) -> Result<Response> {
        let path = format!("{}{path}", self.account.prefix());
        let date = encoding::format_http_date(Utc::now());
        let headers = signed(&self.account, method.as_str(), &path, query, headers, &date);
        let separator = if query.is_empty() { "" } else { "?" };
        let url = format!("{}{path}{separator}{query}", self.account.origin());
        let mut request = self.client.request(method.clone(), url);
        for (name, value) in &headers {
            request = request.header(name, value);
        }
        if method == Method::PUT {
            request = request.header("content-length", "0");
        }
        request.send().await.context("no answer")
    }
}

/// Returns all headers of a request without a body, including the signature. `path` is as on the
/// wire.
fn signed(
    account: &Account,
    method: &str,
    path: &str,
    query: &str,
    headers: &[(&str, &str)],
    date: &str,
) -> Vec<(String, String)> {
    let fixed_headers = [("x-ms-date", date), ("x-ms-version", API_VERSION)];
    let mut headers: Vec<(String, String)> =
        fixed_headers.iter().chain(headers).map(|(n, v)| (n.to_string(), v.to_string())).collect();
    let signed_text = string_to_sign(method, path, &decoded_query(query), &headers, account.name());
    let Credential::SharedKey(key) = account.credential() else { panic!("an account key") };
    let signature = authorization(account.name(), key, &signed_text);
    headers.push(("authorization".into(), signature));
    headers
}
