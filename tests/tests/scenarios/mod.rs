//! What is to happen, whatever the store.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tenure_tests::candidate::{Line, first};
use tenure_tests::{BEAT_HANDLER, Candidate, Group, Outsider, Sink, Store};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tenure-under-test");

/// A lease of 15 s, a poll of 4 s, and a loaded machine.
const CRASH: Duration = Duration::from_secs(20);
const GRACEFUL: Duration = Duration::from_secs(5);
/// For what has no bound of its own.
const SOON: Duration = Duration::from_secs(30);
/// As long as A3 does not hold: the renew interval and one request time-out.
const BROKEN_OVERLAP: Duration = Duration::from_secs(7);

/// A store, a sink, and candidates, of which the first leads.
struct Scene {
    store: Option<Store>,
    sink: Sink,
    group: Group,
    candidates: Vec<Candidate>,
    leader: usize,
    term: u64,
}

impl Scene {
    async fn empty(store: Store) -> Result<Self> {
        let sink = Sink::start().await?;
        let group = Group::new(PROGRAM, &store, &sink);
        group.warm_up().await?;
        let candidates = Vec::new();
        Ok(Self { store: Some(store), sink, group, candidates, leader: 0, term: 0 })
    }

    /// Three candidates, one of which leads and works.
    async fn of_three(store: Store) -> Result<Self> {
        let mut scene = Self::empty(store).await?;
        for name in ["ada", "ben", "cyd"] {
            scene.candidates.push(scene.group.start(name, &[])?);
        }
        scene.find_leader(0, SOON).await;
        scene.sink.beat_of(scene.term, SOON).await;
        Ok(scene)
    }

    /// Waits until a candidate wins a term above `above`.
    async fn find_leader(&mut self, above: u64, limit: Duration) -> Line {
        let elections = self.candidates.iter().enumerate().map(|(index, candidate)| {
            let elected = move |line: &Line| line.name() == "elected" && line.term() > above;
            Box::pin(async move { (index, candidate.line("election", 0, limit, elected).await) })
        });
        let (index, line) = first(elections.collect()).await;
        self.leader = index;
        self.term = line.term();
        line
    }

    fn leader(&mut self) -> &mut Candidate {
        &mut self.candidates[self.leader]
    }

    fn outsider(&self) -> Outsider {
        Outsider::new(&self.group.connection_string, &self.group.election)
    }

    /// Judges what the sink saw, stops everybody and removes the container.
    async fn end(mut self, overlap_at_most: Duration) -> Result<()> {
        let (overlap, stale) = self.sink.overlap();
        ensure!(
            overlap <= overlap_at_most,
            "{stale} stale beats, up to {overlap:?} after a new term's first"
        );
        ensure!(self.sink.doubled_slots().is_empty(), "{:?}", self.sink.doubled_slots());
        ensure!(!self.sink.beats().is_empty(), "the sink saw nothing");
        let mut elected: Vec<Line> = self.candidates.iter().flat_map(Candidate::lines).collect();
        elected.retain(|line| line.name() == "elected");
        elected.sort_by_key(|line| line.at);
        let terms: Vec<u64> = elected.iter().map(Line::term).collect();
        ensure!(terms.is_sorted_by(|earlier, later| earlier < later), "terms: {terms:?}");
        for candidate in &mut self.candidates {
            if candidate.is_alive() {
                let status = candidate.terminate(SOON).await?;
                ensure!(status.success(), "{}: {status}", candidate.transcript());
            }
        }
        if let Some(Store::Account(_)) = &self.store {
            self.outsider().delete_container().await?;
        }
        Ok(())
    }
}

pub async fn one_leads_and_the_others_follow(store: Store) -> Result<()> {
    let mut scene = Scene::of_three(store).await?;
    let (term, leader) = (scene.term, scene.leader().name.clone());
    for (index, candidate) in scene.candidates.iter().enumerate() {
        if index == scene.leader {
            let ended = candidate.event("turn-ended", SOON).await;
            ensure!(ended.event["outcome"] == "succeeded", "{}", ended.event);
            let renewed = candidate.event("renewed", SOON).await;
            ensure!(renewed.term() == term, "{}", renewed.event);
        } else {
            let names = |line: &Line| {
                line.name() == "following" && line.term() == term && line.event["leader"] == leader
            };
            candidate.line("follower of the leader", 0, SOON, names).await;
            ensure!(candidate.count("elected") == 0, "{}", candidate.transcript());
            ensure!(candidate.count("turn-started") == 0, "{}", candidate.transcript());
        }
    }
    scene.end(Duration::ZERO).await
}

pub async fn a_killed_leader_is_succeeded(store: Store) -> Result<()> {
    let mut scene = Scene::of_three(store).await?;
    let before = scene.term;
    scene.leader().kill().await?;
    let killed = Instant::now();
    let elected = scene.find_leader(before, SOON).await;
    ensure!(elected.at - killed <= CRASH, "took over after {:?}", elected.at - killed);
    scene.sink.beat_of(scene.term, SOON).await;
    scene.end(Duration::ZERO).await
}

pub async fn a_stopped_leader_hands_over(store: Store) -> Result<()> {
    let mut scene = Scene::of_three(store).await?;
    let before = scene.term;
    let asked = Instant::now();
    let status = scene.leader().terminate(SOON).await?;
    ensure!(status.success(), "{}", scene.leader().transcript());
    let old = &scene.candidates[scene.leader];
    let ended = old.lines().last().map(|line| line.event.clone());
    ensure!(ended.is_some_and(|event| event["event"] == "stopped"), "{}", old.transcript());
    let stood_down = old.event("stood-down", SOON).await;
    ensure!(stood_down.event["reason"] == "left", "{}", stood_down.event);
    let elected = scene.find_leader(before, SOON).await;
    ensure!(elected.at - asked <= GRACEFUL, "took over after {:?}", elected.at - asked);
    scene.sink.beat_of(scene.term, SOON).await;
    scene.end(Duration::ZERO).await
}

pub async fn a_broken_lease_is_noticed(store: Store) -> Result<()> {
    let mut scene = Scene::of_three(store).await?;
    let before = scene.term;
    scene.outsider().break_lease().await?;
    let stood_down = scene.leader().event("stood-down", SOON).await;
    ensure!(stood_down.event["reason"] == "lease-lost", "{}", stood_down.event);
    let lost = |line: &Line| line.event["class"] == "lease-lost";
    scene.leader().line("trouble", 0, SOON, lost).await;
    scene.find_leader(before, SOON).await;
    scene.sink.beat_of(scene.term, SOON).await;
    scene.end(BROKEN_OVERLAP).await
}

pub async fn terms_rise_although_the_blob_was_deleted(store: Store) -> Result<()> {
    let mut scene = Scene::of_three(store).await?;
    let before = scene.term;
    let outsider = scene.outsider();
    outsider.break_lease().await?;
    outsider.delete_blob().await?;
    scene.find_leader(before, SOON).await;
    scene.sink.beat_of(scene.term, SOON).await;
    scene.end(BROKEN_OVERLAP).await
}

pub async fn terms_rise_although_the_record_was_wiped(store: Store) -> Result<()> {
    let mut scene = Scene::of_three(store).await?;
    let before = scene.term;
    let outsider = scene.outsider();
    outsider.break_lease().await?;
    outsider.wipe_metadata().await?;
    scene.find_leader(before, SOON).await;
    scene.sink.beat_of(scene.term, SOON).await;
    scene.end(BROKEN_OVERLAP).await
}

pub async fn terms_rise_although_the_container_was_deleted(store: Store) -> Result<()> {
    let mut scene = Scene::of_three(store).await?;
    let before = scene.term;
    scene.outsider().delete_container().await?;
    // The service may refuse to make it again for half a minute and more.
    scene.find_leader(before, 4 * SOON).await;
    scene.sink.beat_of(scene.term, SOON).await;
    scene.end(BROKEN_OVERLAP).await
}

pub async fn a_wrong_key_is_trouble_and_harms_nobody(store: Store) -> Result<()> {
    let scene = Scene::of_three(store).await?;
    let right = &scene.group.connection_string;
    let key = right.split(';').find_map(|part| part.strip_prefix("AccountKey=")).unwrap();
    let wrong = right.replace(key, "d3Jvbmcga2V5IG9mIG5vYm9keQ==");
    let handler = Path::new(BEAT_HANDLER);
    let mut stranger = scene.group.start_with("eve", &wrong, handler, &[])?;
    let trouble = stranger.event("trouble", SOON).await;
    ensure!(trouble.event["class"] == "refused", "{}", trouble.event);
    let detail = trouble.event["detail"].as_str().unwrap().to_lowercase();
    ensure!(detail.contains("key"), "says what to look at: {detail}");
    ensure!(!stranger.transcript().contains("d3Jvbmcga2V5"), "{}", stranger.transcript());
    ensure!(stranger.is_alive(), "it goes on contending");
    ensure!(stranger.count("elected") == 0);
    ensure!(stranger.terminate(SOON).await?.success());
    let leader = &scene.candidates[scene.leader];
    ensure!(leader.count("stood-down") == 0, "{}", leader.transcript());
    scene.end(Duration::ZERO).await
}

pub async fn a_blob_of_somebody_else_is_left_alone(store: Store) -> Result<()> {
    let scene = Scene::empty(store).await?;
    let outsider = scene.outsider();
    outsider.put_foreign_blob().await?;
    let mut candidate = scene.group.start("ada", &[])?;
    let trouble = candidate.event("trouble", SOON).await;
    ensure!(trouble.event["class"] == "configuration", "{}", trouble.event);
    ensure!(trouble.event["detail"].as_str().unwrap().contains("owner"), "{}", trouble.event);
    ensure!(candidate.count("elected") == 0, "{}", candidate.transcript());
    ensure!(candidate.terminate(SOON).await?.success());
    ensure!(outsider.metadata().await? == ["owner=payroll"]);
    outsider.delete_container().await
}

/// A server that closes idle connections closes them just as a renewal goes out.
pub async fn renewals_outlive_idle_connections(store: Store) -> Result<()> {
    const ELECTIONS: usize = 10;
    const RENEWALS: usize = 5;
    let mut scene = Scene::empty(store).await?;
    for index in 0..ELECTIONS {
        let mut group = scene.group.clone();
        group.election = format!("{}-{index}", scene.group.election);
        group.timer = ["--every", "1h"]; // No request but the renewals.
        let timings = ["--lease", "20s", "--renew", "6s"];
        scene.candidates.push(group.start(&format!("solo-{index}"), &timings)?);
    }
    for candidate in &mut scene.candidates {
        let limit = Duration::from_secs(90);
        let last = |line: &Line| line.name() == "renewed";
        let mut after = 0;
        for _ in 0..RENEWALS {
            let line = candidate.line("renewal", after, limit, last).await;
            after = candidate.lines().iter().position(|other| other.at == line.at).unwrap() + 1;
        }
        ensure!(candidate.count("stood-down") == 0, "{}", candidate.transcript());
        ensure!(candidate.count("elected") == 1, "{}", candidate.transcript());
        ensure!(candidate.terminate(SOON).await?.success(), "{}", candidate.transcript());
    }
    scene.outsider().delete_container().await
}

pub async fn candidates_with_different_leases_share_an_election(store: Store) -> Result<()> {
    let mut scene = Scene::empty(store).await?;
    scene.candidates.push(scene.group.start("long", &["--lease", "30s"])?);
    scene.find_leader(0, SOON).await;
    scene.candidates.push(scene.group.start("short", &["--lease", "15s"])?);
    let term = scene.term;
    let follows = |line: &Line| line.name() == "following" && line.term() == term;
    scene.candidates[1].line("follower of the long lease", 0, SOON, follows).await;
    scene.sink.beat_of(term, SOON).await;

    // The long lease runs out by its own length, whatever the successor's.
    scene.leader().kill().await?;
    let killed = Instant::now();
    let elected = scene.find_leader(term, Duration::from_secs(60)).await;
    let took = elected.at - killed;
    ensure!(took <= Duration::from_secs(30) + GRACEFUL, "took over after {took:?}");
    ensure!(took >= Duration::from_secs(15), "took over after {took:?}: before the lease's end");
    scene.candidates.push(scene.group.start("long again", &["--lease", "30s"])?);
    let term = scene.term;
    let follows = |line: &Line| line.name() == "following" && line.term() == term;
    scene.candidates[2].line("follower of the short lease", 0, SOON, follows).await;
    scene.leader().terminate(SOON).await?;
    scene.find_leader(term, SOON).await;
    scene.sink.beat_of(scene.term, SOON).await;
    scene.end(Duration::ZERO).await
}

/// Most likely two jobs that were given one election by mistake.
pub async fn candidates_with_different_schedules_are_both_told(store: Store) -> Result<()> {
    // The leader looks for a notice when it has led for a minute.
    const FIRST_LOOK: Duration = Duration::from_secs(180);
    let mut scene = Scene::empty(store).await?;
    scene.candidates.push(scene.group.start("report", &[])?);
    scene.find_leader(0, SOON).await;
    let mut other = scene.group.clone();
    other.timer = ["--every", "3s"];
    scene.candidates.push(other.start("backup", &[])?);
    let names_both = |line: &Line| {
        let detail = line.event["detail"].as_str().unwrap_or_default();
        line.event["class"] == "schedule"
            && detail.contains("\"every 2s\"")
            && detail.contains("\"every 3s\"")
    };
    let [leader, follower] = &scene.candidates[..] else { unreachable!() };
    follower.line("word of the leader's schedule", 0, SOON, names_both).await;
    let told = leader.line("word of the other's schedule", 0, FIRST_LOOK, names_both).await;
    ensure!(told.event["detail"].as_str().unwrap().contains("\"backup\""), "{}", told.event);
    ensure!(leader.count("stood-down") == 0, "{}", leader.transcript());
    scene.end(Duration::ZERO).await
}

pub async fn a_store_that_restarts_costs_only_the_outage(store: Store) -> Result<()> {
    let mut scene = Scene::of_three(store).await?;
    let before = scene.term;
    let stopped = scene.store.take().unwrap().stop().await?;
    // Nobody may lead for longer than the validity, however long the store is away.
    let stood_down = scene.leader().event("stood-down", SOON).await;
    ensure!(stood_down.event["reason"] == "validity-ended", "{}", stood_down.event);
    let away = |line: &Line| line.event["class"] == "unreachable";
    for candidate in &mut scene.candidates {
        candidate.line("unreachable store", 0, SOON, away).await;
        ensure!(candidate.is_alive(), "{}", candidate.transcript());
    }
    scene.store = Some(stopped.start().await?);
    scene.find_leader(before, SOON).await;
    scene.sink.beat_of(scene.term, SOON).await;
    scene.end(Duration::ZERO).await
}

pub async fn a_store_that_is_away_at_the_start_is_waited_for(store: Store) -> Result<()> {
    let mut scene = Scene::empty(store).await?;
    let stopped = scene.store.take().unwrap().stop().await?;
    scene.candidates.push(scene.group.start("early", &[])?);
    let trouble = scene.candidates[0].event("trouble", SOON).await;
    ensure!(trouble.event["class"] == "unreachable", "{}", trouble.event);
    scene.store = Some(stopped.start().await?);
    scene.find_leader(0, SOON).await;
    scene.sink.beat_of(scene.term, SOON).await;
    scene.end(Duration::ZERO).await
}
