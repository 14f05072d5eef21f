//! Holds many leases with Azure's SDK for Rust, and polls leases of another holder. `many` and
//! `budget` use it as the reference for processor time.
//!
//! ```text
//! hold ADDRESS CONTAINER LED RENEW_MS FOLLOWED POLL_MS
//! ```
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
    let [address, container, led, renew, followed, poll] = &arguments[..] else {
        return Err("ADDRESS CONTAINER LED RENEW_MS FOLLOWED POLL_MS".into());
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
        tasks.spawn(async move {
            loop {
                sleep_until(at).await;
                at = Instant::now() + renew;
                if let Err(error) = blob.renew_lease(lease.clone(), None).await {
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

fn period(milliseconds: &str) -> Result<Duration> {
    Ok(Duration::from_millis(milliseconds.parse()?))
}
