//! Fixture of the scenarios.

use crate::PROGRAM;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tenure_tests::candidate::{Line, first};
use tenure_tests::store::StoppedStore;
use tenure_tests::{Candidate, Credential, Group, Sink, Store};

use super::TIMEOUT;

/// Store, and the credential of the candidates.
pub type Stage = (Store, Credential);

/// Store, sink and candidates, the first of which leads.
pub struct Scene {
    pub credential: Credential,
    pub sink: Sink,
    pub group: Group,
    pub candidates: Vec<Candidate>,
    /// Index of the leader.
    pub leader: usize,
    pub term: u64,
    store: Option<Store>,
    stopped: Option<StoppedStore>,
}

impl Scene {
    /// Creates a scene without candidates. Provides a container if they cannot create it.
    pub async fn empty((store, credential): Stage) -> Result<Self> {
        let sink = Sink::start().await?;
        let group = Group::with_credential(PROGRAM, &store, &sink, credential);
        group.warm_up().await?;
        let scene = Self {
            credential,
            sink,
            group,
            candidates: Vec::new(),
            leader: 0,
            term: 0,
            store: Some(store),
            stopped: None,
        };
        scene.provide_container().await?;
        Ok(scene)
    }

    /// Starts three candidates, and waits until one leads and works.
    pub async fn with_three_candidates(stage: Stage) -> Result<Self> {
        let mut scene = Self::empty(stage).await?;
        for name in ["ada", "ben", "cyd"] {
            scene.candidates.push(scene.group.start(name, &[])?);
        }
        scene.wait_for_leader(0, TIMEOUT).await;
        scene.sink.wait_for_term(scene.term, TIMEOUT).await;
        Ok(scene)
    }

    /// Waits until a candidate wins a term above `previous_term`.
    pub async fn wait_for_leader(&mut self, previous_term: u64, limit: Duration) -> Line {
        let elections = self.candidates.iter().enumerate().map(|(index, candidate)| {
            let elected =
                move |line: &Line| line.name() == "elected" && line.term() > previous_term;
            // A candidate that has ended wins no term.
            Box::pin(async move { (index, candidate.wait_for_line(elected).await) })
        });
        let (index, line) = tokio::time::timeout(limit, first(elections.collect()))
            .await
            .unwrap_or_else(|_| panic!("no term above {previous_term} within {limit:?}"));
        self.leader = index;
        self.term = line.term();
        line
    }

    pub fn leader(&mut self) -> &mut Candidate {
        &mut self.candidates[self.leader]
    }

    /// Creates the container for candidates that cannot do so.
    pub async fn provide_container(&self) -> Result<()> {
        match self.credential.makes_containers() {
            true => Ok(()),
            false => self.group.outsider().create_container().await,
        }
    }

    /// Stops the store.
    pub async fn stop_store(&mut self) -> Result<()> {
        let store = self.store.take().context("the store does not run")?;
        self.stopped = Some(store.stop().await?);
        Ok(())
    }

    /// Restarts the store, and the container if candidates cannot create it: some stores lose their
    /// state.
    pub async fn start_store(&mut self) -> Result<()> {
        let stopped = self.stopped.take().context("the store was not stopped")?;
        self.store = Some(stopped.start().await?);
        self.provide_container().await
    }

    /// Checks the sink's beats, stops all candidates and removes the container.
    pub async fn finish(mut self, overlap_at_most: Duration) -> Result<()> {
        let (overlap, stale) = self.sink.overlap();
        ensure!(
            overlap <= overlap_at_most,
            "{stale} stale beats, up to {overlap:?} after a new term's first"
        );
        ensure!(self.sink.repeated_slots().is_empty(), "{:?}", self.sink.repeated_slots());
        ensure!(!self.sink.beats().is_empty(), "the sink saw nothing");
        let mut elected: Vec<Line> = self.candidates.iter().flat_map(Candidate::lines).collect();
        elected.retain(|line| line.name() == "elected");
        elected.sort_by_key(|line| line.at);
        let terms: Vec<u64> = elected.iter().map(Line::term).collect();
        ensure!(terms.is_sorted_by(|earlier, later| earlier < later), "terms: {terms:?}");
        for candidate in &mut self.candidates {
            if candidate.is_alive() {
                let status = candidate.terminate(TIMEOUT).await?;
                ensure!(status.success(), "{}: {status}", candidate.transcript());
            }
            let secret = self.group.access.leaks_in(&candidate.transcript());
            ensure!(!secret, "{} told a secret", candidate.name);
        }
        if let Some(Store::Account(_)) = &self.store {
            self.group.outsider().delete_container().await?;
        }
        Ok(())
    }
}
