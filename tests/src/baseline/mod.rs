//! Reference candidate that works like the sample of the leader election pattern: a lease of 15 s,
//! renewed every 10 s while that succeeds, and no clock of its own.
//!
//! - A follower tries to acquire every 20 s.
//! - The leader's work continues until a renewal is *answered* with a failure, or fails for good
//!   after the retries of the SDK. While a renewal hangs, the work continues.
//! - A lease that could not be renewed is not released; the candidate contends again at once.
//!
//! The baseline improves on the sample in two ways: SIGTERM shuts it down gracefully (the sample
//! only reacts to a key press), and no error ends it. It has no terms: each leadership gets a
//! number from the time at which the service granted it, so that the sink can distinguish
//! leaderships.

mod sdk;

use std::cell::Cell;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use chrono::{DateTime, SecondsFormat, Utc};
use clap::Parser;
use serde_json::{Value, json};
use tenure_azure::{Account, BlobName, Class, LeaseId, Operation};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use sdk::Sdk;

/// Duration of the sample's lease.
pub const LEASE: Duration = Duration::from_secs(15);
/// Interval between the starts of two renewals in the sample.
pub const RENEW_INTERVAL: Duration = Duration::from_secs(10);
/// Pause before the sample's next attempt to acquire.
pub const RETRY_INTERVAL: Duration = Duration::from_secs(20);
/// Same interval as the tests' beat handler.
const BEAT_INTERVAL: Duration = Duration::from_millis(20);

/// One process of the baseline. Reads the connection string from the environment.
#[derive(Parser)]
#[command(name = "baseline", about = "A candidate as the reference sample works")]
struct Arguments {
    #[arg(long)]
    name: String,
    #[arg(long, value_name = "CONTAINER/BLOB")]
    election: String,
    #[arg(long, value_name = "HOST:PORT")]
    sink: String,
}

/// Runs a candidate, in a program whose first argument is `baseline`.
///
/// # Errors
/// The connection string is missing, or it or a name is invalid.
pub fn main() -> Result<ExitCode> {
    let Arguments { name, election, sink } = Arguments::parse_from(std::env::args().skip(1));
    let account = std::env::var("AZURE_STORAGE_CONNECTION_STRING")?;
    let candidate = Baseline::new(&name, &account, &election, &sink)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(candidate.run())?;
    Ok(ExitCode::SUCCESS)
}

/// Candidate of the baseline.
pub struct Baseline {
    name: String,
    sdk: Sdk,
    sink: String,
    held_lease: Cell<Option<LeaseId>>,
}

impl Baseline {
    /// Creates a candidate for `election` (`container/blob`) that beats at `sink` (`host:port`).
    ///
    /// # Errors
    /// The connection string or a name is invalid.
    pub fn new(name: &str, connection_string: &str, election: &str, sink: &str) -> Result<Self> {
        let account = Account::from_connection_string(connection_string);
        let account = account.ok().context("this is no connection string")?;
        let blob = BlobName::parse(election).ok().context("the election is no CONTAINER/BLOB")?;
        let sink = format!("http://{sink}/");
        Ok(Self {
            name: name.into(),
            sdk: Sdk::new(account, blob)?,
            sink,
            held_lease: Cell::new(None),
        })
    }

    /// Contends until SIGTERM, then releases the lease.
    ///
    /// # Errors
    /// A signal handler cannot be installed.
    pub async fn run(&self) -> Result<()> {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            _ = terminate.recv() => {}
            never = self.contend() => match never {},
        }
        if let Some(lease) = self.held_lease.take() {
            let _ = self.sdk.send(&Operation::Release { lease }).await;
        }
        self.print_event(json!({ "event": "stopped" }));
        Ok(())
    }

    async fn contend(&self) -> std::convert::Infallible {
        for operation in [Operation::CreateContainer, Operation::CreateBlob] {
            // All but the first candidate receive the error that it already exists.
            let _ = self.sdk.send(&operation).await;
        }
        loop {
            let lease = LeaseId::from_random(*uuid::Uuid::new_v4().as_bytes());
            let acquire = Operation::Acquire { lease, seconds: 15, if_match: None };
            let granted = self.sdk.send(&acquire).await;
            match granted {
                Ok(granted) if granted.answer.class == Class::Done => {
                    self.held_lease.set(Some(lease));
                    let term = term_from(granted.answer.date);
                    self.lead(lease, term, granted.sent_at).await;
                    self.held_lease.set(None);
                }
                _ => {
                    self.print_event(json!({ "event": "following" }));
                    sleep(RETRY_INTERVAL).await;
                }
            }
        }
    }

    /// Works until a renewal has failed.
    async fn lead(&self, lease: LeaseId, term: u64, sent: Instant) {
        self.print_event(
            json!({ "event": "elected", "term": term, "valid_for_ms": valid_for_ms(sent) }),
        );
        tokio::select! {
            () = self.renew(lease, term) => {}
            () = self.send_beats(term) => {}
        }
        self.print_event(
            json!({ "event": "stood-down", "term": term, "reason": "renewal failed" }),
        );
    }

    async fn renew(&self, lease: LeaseId, term: u64) {
        loop {
            let started_at = Instant::now();
            let renewed = self.sdk.send(&Operation::Renew { lease }).await;
            let Ok(renewed) = renewed else { return };
            // Azurite renews for any caller and returns the actual lease id. The service answers
            // 409.
            if renewed.answer.class != Class::Done || renewed.answer.lease != Some(lease) {
                return;
            }
            let valid_for_ms = valid_for_ms(renewed.sent_at);
            self.print_event(
                json!({ "event": "renewed", "term": term, "valid_for_ms": valid_for_ms }),
            );
            sleep(RENEW_INTERVAL.saturating_sub(started_at.elapsed())).await;
        }
    }

    /// Beats at the sink until the caller drops the future.
    async fn send_beats(&self, term: u64) {
        let client = self.sdk.client();
        let mut ticks = interval(BEAT_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for beat in 0_u64.. {
            ticks.tick().await;
            let json = json!({ "term": term, "slot": 0, "beat": beat }).to_string();
            let post = client.post(&self.sink).header("content-type", "application/json");
            // A failed beat is ignored: the tests only use the beats that arrive.
            let _ = timeout(RENEW_INTERVAL, post.body(json).send()).await;
        }
    }

    /// Prints an event in the format of `tenure run --log json`.
    fn print_event(&self, mut event: Value) {
        event["timestamp"] = Utc::now().to_rfc3339_opts(SecondsFormat::Millis, true).into();
        event["candidate"] = self.name.as_str().into();
        println!("{event}");
    }
}

/// Returns the remaining validity of the lease in ms, which is negative if the response came too
/// late.
fn valid_for_ms(sent: Instant) -> i64 {
    let (lease, elapsed) = (LEASE.as_millis(), sent.elapsed().as_millis());
    i64::try_from(lease).unwrap_or(i64::MAX) - i64::try_from(elapsed).unwrap_or(i64::MAX)
}

/// Returns the service's second at which the lease was granted, plus this machine's millisecond
/// within that second.
fn term_from(granted: Option<DateTime<Utc>>) -> u64 {
    let now = Utc::now();
    let seconds = granted.unwrap_or(now).timestamp();
    u64::try_from(seconds * 1_000).unwrap_or(0) + u64::from(now.timestamp_subsec_millis())
}
