//! A process that holds leases with Azure's SDK for Rust, and nothing else: what a candidate's processor time is compared with.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use chrono::{TimeDelta, Utc};
use rustix::process::Pid;
use tenure_store::sas::{Scope, SasParameters};
use tenure_store::{Account, KeyName};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::task::spawn_blocking;

use crate::measure::{peak_memory, processor_time};
use crate::sdk;

/// How many leases of each kind, and how often there is a request for each.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// Leases that it holds.
    pub held_leases: usize,
    /// From one renewal to the next.
    pub renew_interval: Duration,
    /// Leases that somebody else holds.
    pub polled_leases: usize,
    /// From one attempt to the next.
    pub poll_interval: Duration,
}

/// It is killed when it is dropped.
#[derive(Debug)]
pub struct Holder(Child);

impl Holder {
    /// Starts one on the emulator's account at `origin` (`http://host:port`), in a container of its own. It holds all of
    /// them when this returns.
    ///
    /// # Errors
    /// It cannot be built, or does not come so far.
    pub async fn start(origin: &str, container: &str, workload: Workload) -> Result<Self> {
        let scope = Scope::Account { services: "b".to_owned(), types: "sco".to_owned() };
        let terms = SasParameters::new(scope, "rwdlc", Utc::now() + TimeDelta::hours(12));
        let account = Account::emulator();
        let token = account.sas(KeyName::Key1, &terms).context("the account has no key")?;
        let program = spawn_blocking(|| sdk::rust_optimised("hold")).await??;
        let mut command = Command::from(program);
        command.arg(format!("{origin}/{}?{}", account.name(), token.query())).arg(container);
        let Workload { held_leases, renew_interval, polled_leases, poll_interval } = workload;
        for (count, period) in [(held_leases, renew_interval), (polled_leases, poll_interval)] {
            command.args([count.to_string(), period.as_millis().to_string()]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().context("the SDK's loop does not start")?;
        let output = BufReader::new(child.stdout.take().context("no standard output")?);
        let first_line = output.lines().next_line().await?;
        ensure!(first_line.as_deref() == Some("ready"), "the SDK's loop told {first_line:?}");
        Ok(Self(child))
    }

    /// The processor time that it used so far.
    ///
    /// # Errors
    /// It does not run any more: it lost a lease.
    pub fn processor_time(&self) -> Result<Duration> {
        processor_time(self.id()?)
    }

    /// The most memory that it had so far, in bytes.
    ///
    /// # Errors
    /// As [`processor_time`](Self::processor_time).
    pub fn peak_memory(&self) -> Result<u64> {
        peak_memory(self.id()?)
    }

    fn id(&self) -> Result<Pid> {
        let id = self.0.id().context("it has ended")?;
        Pid::from_raw(i32::try_from(id)?).context("no process id")
    }
}
