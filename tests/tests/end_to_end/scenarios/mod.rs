//! Scenarios for every store and credential.

mod scene;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tenure_tests::candidate::Line;
use tenure_tests::{BEAT_HANDLER, Credential};

use scene::Scene;
pub use scene::Stage;

/// Minimum remaining time of a 15 s lease when its holder receives SIGTERM: it was renewed at most
/// 4 s before.
const MIN_REMAINING_LEASE: Duration = Duration::from_secs(11);
/// Limit of waits without a specific bound.
const TIMEOUT: Duration = tenure_tests::PATIENCE;
/// Longest overlap while A3 does not hold: the renew interval and one request time-out.
const BROKEN_OVERLAP: Duration = Duration::from_secs(7);

pub async fn one_leads_and_the_others_follow(stage: Stage) -> Result<()> {
    let mut scene = Scene::with_three_candidates(stage).await?;
    let (term, leader) = (scene.term, scene.leader().name.clone());
    for (index, candidate) in scene.candidates.iter().enumerate() {
        if index == scene.leader {
            let ended = candidate.event("turn-ended", TIMEOUT).await;
            ensure!(ended.event["outcome"] == "succeeded", "{}", ended.event);
            let renewed = candidate.event("renewed", TIMEOUT).await;
            ensure!(renewed.term() == term, "{}", renewed.event);
        } else {
            let is_follower = |line: &Line| {
                line.name() == "following" && line.term() == term && line.event["leader"] == leader
            };
            candidate.line("follower of the leader", 0, TIMEOUT, is_follower).await;
            ensure!(candidate.count("elected") == 0, "{}", candidate.transcript());
            ensure!(candidate.count("turn-started") == 0, "{}", candidate.transcript());
        }
    }
    scene.finish(Duration::ZERO).await
}

pub async fn a_killed_leader_is_succeeded(stage: Stage) -> Result<()> {
    let mut scene = Scene::with_three_candidates(stage).await?;
    let before = scene.term;
    scene.leader().kill().await?;
    scene.wait_for_leader(before, TIMEOUT).await;
    scene.sink.wait_for_term(scene.term, TIMEOUT).await;
    scene.finish(Duration::ZERO).await
}

pub async fn a_stopped_leader_hands_over(stage: Stage) -> Result<()> {
    let mut scene = Scene::with_three_candidates(stage).await?;
    let before = scene.term;
    let terminated_at = Instant::now();
    let status = scene.leader().terminate(TIMEOUT).await?;
    ensure!(status.success(), "{}", scene.leader().transcript());
    let old = &scene.candidates[scene.leader];
    let ended = old.lines().last().map(|line| line.event.clone());
    ensure!(ended.is_some_and(|event| event["event"] == "stopped"), "{}", old.transcript());
    let stood_down = old.event("stood-down", TIMEOUT).await;
    ensure!(stood_down.event["reason"] == "left", "{}", stood_down.event);
    let elected = scene.wait_for_leader(before, TIMEOUT).await;
    // Without a release, the new leader would have waited for the end of the lease.
    ensure!(
        elected.at - terminated_at < MIN_REMAINING_LEASE,
        "took over after {:?}",
        elected.at - terminated_at
    );
    scene.sink.wait_for_term(scene.term, TIMEOUT).await;
    scene.finish(Duration::ZERO).await
}

pub async fn a_broken_lease_is_noticed(stage: Stage) -> Result<()> {
    let mut scene = Scene::with_three_candidates(stage).await?;
    let before = scene.term;
    scene.group.outsider().break_lease().await?;
    let stood_down = scene.leader().event("stood-down", TIMEOUT).await;
    ensure!(stood_down.event["reason"] == "lease-lost", "{}", stood_down.event);
    let lost = |line: &Line| line.event["class"] == "lease-lost";
    scene.leader().line("problem", 0, TIMEOUT, lost).await;
    scene.wait_for_leader(before, TIMEOUT).await;
    scene.sink.wait_for_term(scene.term, TIMEOUT).await;
    scene.finish(BROKEN_OVERLAP).await
}

pub async fn terms_rise_although_the_blob_was_deleted(stage: Stage) -> Result<()> {
    let mut scene = Scene::with_three_candidates(stage).await?;
    let outsider = scene.group.outsider();
    let lease = outsider.break_and_acquire().await?;
    let before = outsider.term().await?;
    outsider.delete_blob(&lease).await?;
    scene.wait_for_leader(before, TIMEOUT).await;
    scene.sink.wait_for_term(scene.term, TIMEOUT).await;
    scene.finish(BROKEN_OVERLAP).await
}

pub async fn terms_rise_although_the_record_was_wiped(stage: Stage) -> Result<()> {
    let mut scene = Scene::with_three_candidates(stage).await?;
    let outsider = scene.group.outsider();
    let lease = outsider.break_and_acquire().await?;
    let before = outsider.term().await?;
    outsider.wipe_metadata(&lease).await?;
    outsider.release(&lease).await?;
    scene.wait_for_leader(before, TIMEOUT).await;
    scene.sink.wait_for_term(scene.term, TIMEOUT).await;
    scene.finish(BROKEN_OVERLAP).await
}

pub async fn terms_rise_although_the_container_was_deleted(stage: Stage) -> Result<()> {
    let mut scene = Scene::with_three_candidates(stage).await?;
    let before = scene.term;
    scene.group.outsider().delete_container().await?;
    scene.provide_container().await?;
    // The service may refuse to create it again for more than half a minute.
    scene.wait_for_leader(before, 4 * TIMEOUT).await;
    scene.sink.wait_for_term(scene.term, TIMEOUT).await;
    scene.finish(BROKEN_OVERLAP).await
}

/// Returns true for a problem other than a stalled store or machine.
fn is_not_outage(line: &Line) -> bool {
    let class = line.event["class"].as_str().unwrap_or_default();
    line.name() == "problem" && !["unreachable", "unavailable", "overload"].contains(&class)
}

pub async fn a_wrong_credential_is_a_problem_and_harms_nobody(stage: Stage) -> Result<()> {
    let scene = Scene::with_three_candidates(stage).await?;
    let (container, _) = scene.group.election.split_once('/').unwrap();
    let wrong_access = scene.credential.wrong_access(&scene.group.connection_string, container);
    let wrong_access = wrong_access.trusting(scene.group.access.ca().map(Path::to_owned));
    let handler = Path::new(BEAT_HANDLER);
    let mut wrong_candidate = scene.group.start_with("eve", &wrong_access, handler, &[])?;
    let problem = wrong_candidate.line("problem", 0, TIMEOUT, is_not_outage).await;
    ensure!(problem.event["class"] == "refused", "{}", problem.event);
    let detail = problem.event["detail"].as_str().unwrap();
    let expected = match (scene.credential, wrong_access.ca()) {
        // An Azurite that accepts tokens reports a wrong signature as an invalid token.
        (Credential::SharedKey, Some(_)) => "InvalidAuthenticationInfo",
        (credential, _) => credential.name(),
    };
    ensure!(detail.contains(expected), "says what to look at: {detail}");
    ensure!(!wrong_access.leaks_in(&wrong_candidate.transcript()), "it told its secret");
    ensure!(wrong_candidate.is_alive(), "it goes on contending");
    ensure!(wrong_candidate.count("elected") == 0);
    ensure!(wrong_candidate.terminate(TIMEOUT).await?.success());
    let leader = &scene.candidates[scene.leader];
    ensure!(leader.count("stood-down") == 0, "{}", leader.transcript());
    scene.finish(Duration::ZERO).await
}

pub async fn a_blob_of_somebody_else_is_left_alone(stage: Stage) -> Result<()> {
    let scene = Scene::empty(stage).await?;
    let outsider = scene.group.outsider();
    if scene.credential.makes_containers() {
        outsider.create_container().await?;
    }
    outsider.put_foreign_blob().await?;
    let mut candidate = scene.group.start("ada", &[])?;
    let problem = candidate.line("problem", 0, TIMEOUT, is_not_outage).await;
    ensure!(problem.event["class"] == "unusable-blob", "{}", problem.event);
    ensure!(problem.event["detail"].as_str().unwrap().contains("owner"), "{}", problem.event);
    ensure!(candidate.count("elected") == 0, "{}", candidate.transcript());
    ensure!(candidate.terminate(TIMEOUT).await?.success());
    ensure!(outsider.metadata().await? == ["owner=payroll"]);
    outsider.delete_container().await
}

/// A server that closes idle connections may close one just as a renewal is sent.
pub async fn renewals_outlive_idle_connections(stage: Stage) -> Result<()> {
    const ELECTIONS: usize = 10;
    const RENEWALS: usize = 5;
    let mut scene = Scene::empty(stage).await?;
    for index in 0..ELECTIONS {
        let mut group = scene.group.clone();
        group.election = format!("{}-{index}", scene.group.election);
        group.timer = ["--every", "1h"]; // No request but the renewals.
        let timings = ["--lease", "60s", "--renew", "6s"];
        scene.candidates.push(group.start(&format!("solo-{index}"), &timings)?);
    }
    for candidate in &mut scene.candidates {
        let limit = Duration::from_secs(90);
        let is_renewal = |line: &Line| line.name() == "renewed";
        let mut after = 0;
        for _ in 0..RENEWALS {
            let line = candidate.line("renewal", after, limit, is_renewal).await;
            after = candidate.lines().iter().position(|other| other.at == line.at).unwrap() + 1;
        }
        ensure!(candidate.count("stood-down") == 0, "{}", candidate.transcript());
        ensure!(candidate.count("elected") == 1, "{}", candidate.transcript());
        ensure!(candidate.terminate(TIMEOUT).await?.success(), "{}", candidate.transcript());
    }
    scene.group.outsider().delete_container().await
}

pub async fn candidates_with_different_leases_share_an_election(stage: Stage) -> Result<()> {
    let mut scene = Scene::empty(stage).await?;
    scene.candidates.push(scene.group.start("long", &["--lease", "30s"])?);
    scene.wait_for_leader(0, TIMEOUT).await;
    scene.candidates.push(scene.group.start("short", &["--lease", "15s"])?);
    let term = scene.term;
    let follows = |line: &Line| line.name() == "following" && line.term() == term;
    scene.candidates[1].line("follower of the long lease", 0, TIMEOUT, follows).await;
    scene.sink.wait_for_term(term, TIMEOUT).await;

    // The long lease expires after its own duration, not the successor's.
    scene.leader().kill().await?;
    let killed = Instant::now();
    let elected = scene.wait_for_leader(term, Duration::from_secs(60)).await;
    let took = elected.at - killed;
    ensure!(took >= Duration::from_secs(15), "took over after {took:?}: before the lease's end");
    scene.candidates.push(scene.group.start("long again", &["--lease", "30s"])?);
    let term = scene.term;
    let follows = |line: &Line| line.name() == "following" && line.term() == term;
    scene.candidates[2].line("follower of the short lease", 0, TIMEOUT, follows).await;
    scene.leader().terminate(TIMEOUT).await?;
    scene.wait_for_leader(term, TIMEOUT).await;
    scene.sink.wait_for_term(scene.term, TIMEOUT).await;
    scene.finish(Duration::ZERO).await
}

/// Probably two jobs that share one election by mistake.
pub async fn the_follower_reports_that_the_leader_has_another_schedule(stage: Stage) -> Result<()> {
    let mut scene = Scene::empty(stage).await?;
    scene.candidates.push(scene.group.start("report", &[])?);
    scene.wait_for_leader(0, TIMEOUT).await;
    let mut other = scene.group.clone();
    other.timer = ["--every", "3s"];
    scene.candidates.push(other.start("backup", &[])?);
    let names_both_schedules = |line: &Line| {
        let detail = line.event["detail"].as_str().unwrap_or_default();
        line.event["class"] == "schedule"
            && detail.contains("\"every 2s\"")
            && detail.contains("\"every 3s\"")
    };
    let [leader, follower] = &scene.candidates[..] else { unreachable!() };
    follower.line("problem about the schedules", 0, TIMEOUT, names_both_schedules).await;
    ensure!(leader.count("stood-down") == 0, "{}", leader.transcript());
    scene.sink.wait_for_term(scene.term, TIMEOUT).await;
    scene.finish(Duration::ZERO).await
}

pub async fn a_store_that_restarts_costs_only_the_outage(stage: Stage) -> Result<()> {
    let mut scene = Scene::with_three_candidates(stage).await?;
    let before = scene.term;
    scene.stop_store().await?;
    // No candidate may lead for longer than the validity, however long the store is unreachable.
    let stood_down = scene.leader().event("stood-down", TIMEOUT).await;
    ensure!(stood_down.event["reason"] == "validity-ended", "{}", stood_down.event);
    let is_unreachable = |line: &Line| line.event["class"] == "unreachable";
    for candidate in &mut scene.candidates {
        candidate.line("unreachable store", 0, TIMEOUT, is_unreachable).await;
        ensure!(candidate.is_alive(), "{}", candidate.transcript());
    }
    scene.start_store().await?;
    scene.wait_for_leader(before, TIMEOUT).await;
    scene.sink.wait_for_term(scene.term, TIMEOUT).await;
    scene.finish(Duration::ZERO).await
}

pub async fn a_store_that_is_away_at_the_start_is_waited_for(stage: Stage) -> Result<()> {
    let mut scene = Scene::empty(stage).await?;
    scene.stop_store().await?;
    scene.candidates.push(scene.group.start("early", &[])?);
    let problem = scene.candidates[0].event("problem", TIMEOUT).await;
    ensure!(problem.event["class"] == "unreachable", "{}", problem.event);
    scene.start_store().await?;
    scene.wait_for_leader(0, TIMEOUT).await;
    scene.sink.wait_for_term(scene.term, TIMEOUT).await;
    scene.finish(Duration::ZERO).await
}
