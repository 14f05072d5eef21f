//! Lease loop on Azure's SDK for Rust, with its default time-outs and retries.
//!
//! The SDK has no leader election sample, so the loop follows Microsoft's sample at a faster
//! rhythm: a lease of 15 s, renewed 5 s after the last renewal, and another attempt after 1 s. The
//! work runs in parallel with the renewals until a renewal fails.

use std::env::var;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use azure_core::http::Url;
use azure_storage_blob::models::BlobClientAcquireLeaseResultHeaders as _;
use azure_storage_blob::{BlobClient, BlobServiceClient};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    // The SDK takes tokens and shared access signatures; a signature is part of the address.
    let account = var("AZURE_STORAGE_CONNECTION_STRING")?;
    let part = |name: &str| account.split(';').find_map(|part| part.strip_prefix(name));
    let endpoint = part("BlobEndpoint=").ok_or("an endpoint")?.trim_end_matches('/');
    let address = format!("{endpoint}?{}", part("SharedAccessSignature=").ok_or("a signature")?);
    let election = var("ELECTION")?;
    let (container, name) = election.split_once('/').ok_or("CONTAINER/BLOB")?;
    let service = BlobServiceClient::new(Url::parse(&address)?, None, None)?;
    let blob = service.blob_container_client(container).blob_client(name);
    let mut leadership = None;
    tokio::select! {
        _ = terminate.recv() => {}
        never = contend(&blob, &mut leadership) => match never? {},
    }
    if let Some((lease, work)) = leadership {
        work.stop();
        blob.release_lease(lease, None).await?;
    }
    Ok(())
}

async fn contend(
    blob: &BlobClient,
    leadership: &mut Option<(String, Work)>,
) -> Result<std::convert::Infallible> {
    loop {
        let Ok(acquired) = blob.acquire_lease(15, None).await else {
            sleep(Duration::from_secs(1)).await;
            continue;
        };
        let lease = acquired.lease_id()?.ok_or("no lease id")?;
        println!("leads");
        *leadership = Some((lease.clone(), Work::start()?));
        let lost = loop {
            sleep(Duration::from_secs(5)).await;
            if let Err(error) = blob.renew_lease(lease.clone(), None).await {
                break error;
            }
        };
        if let Some((_, work)) = leadership.take() {
            work.stop();
        }
        println!("lost: {}", lost.kind());
    }
}

/// Work of a leader: beats at the sink `BEAT_AT` every 20 ms until it is stopped.
struct Work {
    over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Work {
    fn start() -> Result<Self> {
        let (sink, over) = (var("BEAT_AT")?, Arc::new(AtomicBool::new(false)));
        let is_over = Arc::clone(&over);
        let thread = thread::spawn(move || {
            let mut connection = None;
            for beat in 0_u64.. {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                // A failed beat is ignored: the tests only use the beats that arrive.
                connection = post(connection, &sink, beat).ok();
                thread::sleep(Duration::from_millis(20));
            }
        });
        Ok(Self { over, thread })
    }

    fn stop(self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = self.thread.join();
    }
}

fn post(connection: Option<TcpStream>, sink: &str, beat: u64) -> std::io::Result<TcpStream> {
    let mut stream = connection.map_or_else(|| TcpStream::connect(sink), Ok)?;
    let body = format!(r#"{{"beat":{beat}}}"#);
    let request = format!(
        "POST / HTTP/1.1\r\nhost: {sink}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes())?;
    // The response has no body, and arrives in one piece.
    match stream.read(&mut [0; 1024])? {
        0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(stream),
    }
}
