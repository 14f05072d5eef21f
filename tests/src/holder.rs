//! Process that only holds leases: the reference for a candidate's processor time.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use chrono::{TimeDelta, Utc};
use rustix::process::Pid;
use tenure_store::sas::{SasParameters, Scope};
use tenure_store::{Account, KeyName};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::task::spawn_blocking;

use crate::measure::{peak_memory, processor_time};
use crate::sdk;

/// Client that sends the renewals of a holder.
#[derive(Clone, Copy, Debug)]
pub enum HolderClient {
    /// Azure's SDK for Rust.
    Sdk,
    /// Plain requests of `reqwest`.
    Raw,
}

/// Number of leases of each kind, and the interval of their requests.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// Number of leases that it holds.
    pub held_leases: usize,
    /// Interval between renewals.
    pub renew_interval: Duration,
    /// Number of leases of another holder that it polls.
    pub polled_leases: usize,
    /// Interval between attempts.
    pub poll_interval: Duration,
}

/// Holder process. Dropping it kills the process.
#[derive(Debug)]
pub struct Holder(Child);

impl Holder {
    /// Starts a holder on the emulator's account at `origin` (`http://host:port`), in its own
    /// container. Returns once it holds all its leases.
    ///
    /// # Errors
    /// The holder cannot be built, or fails to acquire its leases.
    pub async fn start(
        client: HolderClient,
        origin: &str,
        container: &str,
        workload: Workload,
    ) -> Result<Self> {
        let scope = Scope::Account { services: "b".to_owned(), types: "sco".to_owned() };
        let terms = SasParameters::new(scope, "rwdlc", Utc::now() + TimeDelta::hours(12));
        let account = Account::emulator();
        let token = account.sas(KeyName::Key1, &terms).context("the account has no key")?;
        let program = spawn_blocking(|| sdk::rust_optimised("hold")).await??;
        let mut command = Command::from(program);
        command.arg(match client {
            HolderClient::Sdk => "sdk",
            HolderClient::Raw => "raw",
        });
        command.arg(format!("{origin}/{}?{}", account.name(), token.query())).arg(container);
        let Workload { held_leases, renew_interval, polled_leases, poll_interval } = workload;
        for (count, period) in [(held_leases, renew_interval), (polled_leases, poll_interval)] {
            command.args([count.to_string(), period.as_millis().to_string()]);
        }
        Self::spawn(command).await
    }

    /// Starts a holder that prints `ready` once it holds all its leases, and returns then.
    ///
    /// # Errors
    /// The program does not start, or prints something else.
    pub async fn spawn(mut command: Command) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().context("the holder does not start")?;
        let output = BufReader::new(child.stdout.take().context("no standard output")?);
        let first_line = output.lines().next_line().await?;
        ensure!(first_line.as_deref() == Some("ready"), "the holder printed {first_line:?}");
        Ok(Self(child))
    }

    /// Returns the processor time that it has used so far.
    ///
    /// # Errors
    /// The holder has exited, because it lost a lease.
    pub fn processor_time(&self) -> Result<Duration> {
        processor_time(self.id()?)
    }

    /// Returns its peak memory so far, in bytes.
    ///
    /// # Errors
    /// Fails like [`processor_time`](Self::processor_time).
    pub fn peak_memory(&self) -> Result<u64> {
        peak_memory(self.id()?)
    }

    fn id(&self) -> Result<Pid> {
        let id = self.0.id().context("it has ended")?;
        Pid::from_raw(i32::try_from(id)?).context("no process id")
    }
}
