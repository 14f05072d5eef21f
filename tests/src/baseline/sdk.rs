//! Requests as the official SDKs send them, with the retry options of the sample: three retries
//! after 5, 10 and 20 s, and a network time-out of 100 s for each try.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use chrono::Utc;
use reqwest::{Client, Method};
use tenure_azure::{Account, Answer, BlobName, Class, Operation};
use tokio::time::sleep;

const TRY_TIMEOUT: Duration = Duration::from_secs(100);
const BACK_OFF_DELAYS: [Duration; 3] =
    [Duration::from_secs(5), Duration::from_secs(10), Duration::from_secs(20)];

/// Answer to one request.
pub(super) struct Reply {
    /// Time at which the answered try was sent.
    pub(super) sent_at: Instant,
    pub(super) answer: Answer,
}

pub(super) struct Sdk {
    account: Account,
    blob: BlobName,
    client: Client,
}

impl Sdk {
    pub(super) fn new(account: Account, blob: BlobName) -> Result<Self> {
        // reqwest is built without a default crypto provider. A second call has no effect.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Ok(Self { account, blob, client: Client::builder().no_proxy().build()? })
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Sends the request until the service answers with anything other than a transient error.
    pub(super) async fn send(&self, operation: &Operation) -> Result<Reply> {
        for pause in BACK_OFF_DELAYS.map(Some).into_iter().chain([None]) {
            let sent_at = Instant::now();
            match (self.attempt(operation).await, pause) {
                (Ok(answer), _) if answer.class != Class::Unavailable => {
                    return Ok(Reply { sent_at, answer });
                }
                (_, Some(pause)) => sleep(pause).await,
                (Ok(answer), None) => return Ok(Reply { sent_at, answer }),
                (Err(error), None) => return Err(error),
            }
        }
        bail!("the last try has no pause after it")
    }

    async fn attempt(&self, operation: &Operation) -> Result<Answer> {
        let request = operation.request(
            &self.account,
            &self.blob,
            Utc::now(),
            100,
            self.account.authorization(),
        );
        let method = Method::from_bytes(request.method.as_str().as_bytes())?;
        let url = format!("{}{}", request.origin, request.path_and_query);
        let mut request_builder = self.client.request(method, url).timeout(TRY_TIMEOUT);
        for (name, value) in request.headers {
            request_builder = request_builder.header(name, value);
        }
        let answer = request_builder.send().await?;
        let headers = answer.headers().iter();
        let headers: Vec<_> =
            headers.map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect();
        Ok(Answer::from_parts(operation, answer.status().as_u16(), &headers))
    }
}
