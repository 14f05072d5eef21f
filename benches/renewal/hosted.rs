//! A leader as the runner hosts it: the released component on a reused instance.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tenure::engine::Variables;
use tenure_clock::BootClock;
use tenure_core::{Report, Role, State, variable};
use tenure_wasmtime::{ElectionComponent, Engine};

/// More steps than a candidate needs to win a free lease.
const STEPS: usize = 20;

/// A candidate that leads an election.
pub struct Hosted {
    component: ElectionComponent,
    state: State,
    /// The candidate's time. The bench advances it, so renewals are due at once.
    elapsed: Duration,
    again_in: Duration,
}

impl Hosted {
    /// Contends until it wins.
    pub async fn elect(connection_string: &str, election: &str) -> Result<Self> {
        let settings = Variables::new()
            .with(variable::ELECTION, election)
            .with(variable::NAME, "bench")
            .with(variable::CONNECTION_STRING, connection_string);
        let engine = Engine::new().map_err(|error| anyhow::anyhow!("{error:#}"))?;
        let component = ElectionComponent::new(&engine, settings, &BootClock::new())?;
        component.check().await?;
        let mut elapsed = Duration::ZERO;
        let mut state = None;
        for _ in 0..STEPS {
            let report = component.step(state.as_ref(), elapsed, None).await?;
            ensure!(report.problems.is_empty(), "{:?}", report.problems);
            let Report { role, again_in, state: newest, .. } = report;
            if let Role::Leading(_) = role {
                return Ok(Self { component, state: newest, elapsed, again_in });
            }
            elapsed += again_in;
            state = Some(newest);
        }
        None.context("it does not win a free lease")
    }

    /// Runs the measured step, at the time when its renewal is due.
    pub async fn renew(&mut self) -> Result<()> {
        self.elapsed += self.again_in;
        let report = self.component.step(Some(&self.state), self.elapsed, None).await?;
        ensure!(report.renewed && report.problems.is_empty(), "{report:?}");
        self.state = report.state;
        self.again_in = report.again_in;
        Ok(())
    }

    /// Runs a step that is too early, and sends no request.
    pub async fn idle(&mut self) -> Result<()> {
        let report = self.component.step(Some(&self.state), self.elapsed, None).await?;
        ensure!(!report.renewed && report.problems.is_empty(), "{report:?}");
        Ok(())
    }
}
