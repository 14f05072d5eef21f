//! Holds many leases with Azure's SDK for Rust, and polls leases of another holder. `many`,
//! `budget` and `library` use it as the reference for processor time.
//!
//! ```text
//! hold sdk|raw ADDRESS CONTAINER LED RENEW_MS FOLLOWED POLL_MS
//! ```
//!
//! With `raw`, plain requests of `reqwest` renew the leases.
//!
//! A lease of 15 s is renewed `RENEW_MS` after the last renewal was sent. A follower polls by an
//! attempt to acquire, like Microsoft's sample. The requests are spread over their period. Prints
//! `ready` once it holds all leases, and runs until it is killed.

use std::error::Error;
use std::time::Duration;

use azure_core::http::{RequestContent, Url};
use azure_storage_blob::models::BlobClientAcquireLeaseResultHeaders as _;
use azure_storage_blob::{BlobClient, BlobContainerClient, BlobServiceClient};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [client, address, container, led, renew, followed, poll] = &arguments[..] else {
        return Err("sdk|raw ADDRESS CONTAINER LED RENEW_MS FOLLOWED POLL_MS".into());
    };
    let raw = match client.as_str() {
        "sdk" => None,
        "raw" => Some(reqwest::Client::new()),
        other => return Err(other.into()),
    };
    let (led, followed): (u32, u32) = (led.parse()?, followed.parse()?);
    let (renew, poll) = (period(renew)?, period(poll)?);
    let service = BlobServiceClient::new(Url::parse(address)?, None, None)?;
    let container = service.blob_container_client(container);
    // The container may already exist.
    let _ = container.create(None).await;
    let mut leases = Vec::new();
    for number in 0..led {
        let blob = blob(&container, &format!("led-{number}")).await?;
        let lease = blob.acquire_lease(15, None).await?.lease_id()?.ok_or("no lease id")?;
        let first = Instant::now() + renew * number / led;
        leases.push((blob, lease, first));
        // Renews the first leases, so that none expires while the others are acquired.
        if number % 1_000 == 999 {
            for (blob, lease, _) in &leases {
                blob.renew_lease(lease.clone(), None).await?;
            }
        }
    }
    let mut others = Vec::new();
    for number in 0..followed {
        let blob = blob(&container, &format!("followed-{number}")).await?;
        blob.acquire_lease(-1, None).await?;
        others.push((blob, Instant::now() + poll * number / followed));
    }
    println!("ready");
    let mut tasks = JoinSet::new();
    for (blob, lease, mut at) in leases {
        let raw = raw.clone();
        tasks.spawn(async move {
            loop {
                sleep_until(at).await;
                at = Instant::now() + renew;
                let renewed = match &raw {
                    None => {
                        blob.renew_lease(lease.clone(), None).await.map(drop).map_err(Into::into)
                    }
                    Some(client) => raw_renewal(client, blob.url(), &lease).await,
                };
                if let Err(error) = renewed {
                    return format!("lost: {error}");
                }
            }
        });
    }
    for (blob, mut at) in others {
        tasks.spawn(async move {
            loop {
                sleep_until(at).await;
                at = Instant::now() + poll;
                if blob.acquire_lease(15, None).await.is_ok() {
                    return "acquired what another one holds".to_owned();
                }
            }
        });
    }
    match tasks.join_next().await {
        Some(end) => Err(end?.into()),
        None => Ok(()),
    }
}

async fn blob(container: &BlobContainerClient, name: &str) -> Result<BlobClient> {
    let blob = container.blob_client(name);
    blob.upload(RequestContent::from(Vec::new()), None).await?;
    Ok(blob)
}

/// Renews a lease with one request. The query of `blob` authorises it.
async fn raw_renewal(client: &reqwest::Client, blob: &Url, lease: &str) -> Result<()> {
    let mut url = blob.clone();
    url.query_pairs_mut().append_pair("comp", "lease");
    let request = client.put(url).timeout(Duration::from_secs(3));
    let request = request.header("x-ms-version", "2021-12-02").header("content-length", "0");
    let request = request.header("x-ms-lease-action", "renew").header("x-ms-lease-id", lease);
    let response = request.send().await?.error_for_status()?;
    response.bytes().await?;
    Ok(())
}

fn period(milliseconds: &str) -> Result<Duration> {
    Ok(Duration::from_millis(milliseconds.parse()?))
}
