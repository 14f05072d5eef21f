//! Exercises the store through Azure's SDK for Rust with its defaults, as a user's own tests would.

use std::collections::HashMap;

use azure_core::error::ErrorKind;
use azure_core::http::{RequestContent, Url};
use azure_storage_blob::models::{
    BlobClientAcquireLeaseResultHeaders as _, BlobClientBreakLeaseOptions,
    BlobClientBreakLeaseResultHeaders as _, BlobClientChangeLeaseResultHeaders as _,
    BlobClientDownloadOptions, BlobClientGetPropertiesResultHeaders as _,
    BlobClientSetMetadataOptions, BlobClientUploadOptions, BlobContainerClientListBlobsOptions,
    HttpRange, LeaseState, ListBlobsIncludeItem,
};
use azure_storage_blob::{BlobClient, BlobContainerClient, BlobServiceClient};
use futures::TryStreamExt as _;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Fails unless the call was refused with this error code, and returns the message.
fn refused<T>(code: &str, result: azure_core::Result<T>) -> Result<String> {
    match result {
        Ok(_) => Err(format!("it should have been refused with {code}").into()),
        Err(error) => match error.kind() {
            ErrorKind::HttpResponse { error_code: Some(actual), .. } if actual == code => {
                Ok(error.to_string())
            }
            _ => Err(format!("it should have been refused with {code}: {error}").into()),
        },
    }
}

async fn put(blob: &BlobClient, content: &[u8]) -> azure_core::Result<()> {
    blob.upload(RequestContent::from(content.to_vec()), None).await.map(drop)
}

async fn read(blob: &BlobClient, range: Option<HttpRange>) -> azure_core::Result<Vec<u8>> {
    let options = BlobClientDownloadOptions { range, ..Default::default() };
    let answer = blob.download(Some(options)).await?;
    Ok(answer.body.collect().await?.to_vec())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    // The SDK takes tokens and shared access signatures; a signature is part of the address.
    let address = std::env::args().nth(1).ok_or("the address of an account, with its signature")?;
    let service = BlobServiceClient::new(Url::parse(&address)?, None, None)?;
    let container = service.blob_container_client("rust");
    container.create(None).await?;
    refused("ContainerAlreadyExists", container.create(None).await)?;
    up_and_down(&container).await?;
    metadata_and_conditions(&container).await?;
    listing(&service, &container).await?;
    leases(&container.blob_client("digits")).await?;

    // The store rejects unsupported operations.
    let digits = container.blob_client("digits");
    let error = refused("NotImplemented", digits.get_tags(None).await)?;
    assert!(error.contains("NotImplemented"), "{error}");

    digits.delete(None).await?;
    refused("BlobNotFound", read(&digits, None).await)?;
    container.delete(None).await?;
    refused("ContainerNotFound", container.get_properties(None).await)?;
    println!("all is well");
    Ok(())
}

/// Tests small, empty and large blobs, and ranges. The SDK uploads more than 4 MiB in blocks, which
/// the store does not support.
async fn up_and_down(container: &BlobContainerClient) -> Result<()> {
    let digits = container.blob_client("digits");
    put(&digits, b"0123456789").await?;
    assert_eq!(read(&digits, None).await?, b"0123456789");
    assert_eq!(read(&digits, Some(HttpRange::new(2, 3))).await?, b"234");
    assert_eq!(read(&digits, Some(HttpRange::from_offset(7))).await?, b"789");
    refused("InvalidRange", read(&digits, Some(HttpRange::new(10, 1))).await)?;
    let empty = container.blob_client("empty");
    put(&empty, b"").await?;
    assert_eq!(read(&empty, None).await?, b"");
    let bytes: Vec<u8> = (0..9_000_000_u32).map(|number| number as u8).collect();
    let large = container.blob_client("large");
    put(&large, &bytes[..4_000_000]).await?;
    assert!(read(&large, None).await? == bytes[..4_000_000]);
    refused("NotImplemented", put(&large, &bytes).await)?;
    Ok(())
}

async fn metadata_and_conditions(container: &BlobContainerClient) -> Result<()> {
    let digits = container.blob_client("digits");
    let metadata = HashMap::from([("owner".to_owned(), "ada".to_owned())]);
    digits.set_metadata(&metadata, None).await?;
    let properties = digits.get_properties(None).await?;
    assert_eq!(properties.metadata()?, metadata);
    assert!(digits.exists().await? && !container.blob_client("none").exists().await?);

    let new = BlobClientUploadOptions::default().if_not_exists();
    let content = || RequestContent::from(b"9876543210".to_vec());
    refused("BlobAlreadyExists", digits.upload(content(), Some(new)).await)?;
    let etag = properties.etag()?;
    let same = || BlobClientUploadOptions { if_match: etag.clone(), ..Default::default() };
    digits.upload(content(), Some(same())).await?;
    refused("ConditionNotMet", digits.upload(content(), Some(same())).await)?;
    Ok(())
}

/// Tests flat listings, pages and prefixes.
async fn listing(service: &BlobServiceClient, container: &BlobContainerClient) -> Result<()> {
    let flat = ["a/1", "a/2", "b & ü/<3>", "digits", "empty", "large"];
    for name in &flat[..3] {
        put(&container.blob_client(name), b"x").await?;
    }
    let options = BlobContainerClientListBlobsOptions {
        maxresults: Some(2),
        include: Some(vec![ListBlobsIncludeItem::Metadata]),
        ..Default::default()
    };
    let blobs: Vec<_> = container.list_blobs(Some(options))?.try_collect().await?;
    let names: Vec<_> = blobs.iter().filter_map(|blob| blob.name.as_deref()).collect();
    assert_eq!(names, flat);
    let options =
        BlobContainerClientListBlobsOptions { prefix: Some("a/".to_owned()), ..Default::default() };
    let blobs: Vec<_> = container.list_blobs(Some(options))?.try_collect().await?;
    assert_eq!(blobs.len(), 2);
    let boxes: Vec<_> = service.list_containers(None)?.try_collect().await?;
    assert!(boxes.iter().any(|item| item.name.as_deref() == Some("rust")));
    Ok(())
}

/// Tests all five lease actions.
async fn leases(blob: &BlobClient) -> Result<()> {
    let lease = blob.acquire_lease(15, None).await?.lease_id()?.ok_or("no lease id")?;
    refused("LeaseAlreadyPresent", blob.acquire_lease(15, None).await)?;
    refused("LeaseIdMissing", put(blob, b"x").await)?;
    blob.renew_lease(lease.clone(), None).await?;
    let other = "11111111-2222-4333-8444-555555555555".to_owned();
    let changed = blob.change_lease(lease, other.clone(), None).await?.lease_id()?;
    assert_eq!(changed.as_ref(), Some(&other));
    let own_options = BlobClientSetMetadataOptions { lease_id: Some(other.clone()), ..Default::default() };
    blob.set_metadata(&HashMap::new(), Some(own_options)).await?;
    assert_eq!(blob.get_properties(None).await?.lease_state()?, Some(LeaseState::Leased));
    let at_once = BlobClientBreakLeaseOptions { break_period: Some(0), ..Default::default() };
    assert_eq!(blob.break_lease(Some(at_once)).await?.lease_time()?, Some(0));
    let renewed = blob.renew_lease(other.clone(), None).await;
    refused("LeaseIsBrokenAndCannotBeRenewed", renewed)?;
    blob.release_lease(other, None).await?;
    Ok(())
}
