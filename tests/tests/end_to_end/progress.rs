//! A leader that does not work must not lead. Turns run behind a proxy with late answers, and a
//! leader that cannot write its record resigns.

use crate::PROGRAM;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tenure_tests::{Access, BEAT_HANDLER, Group, Line, Mode, Proxy, Sink, Store};

/// Limit of waits without a specific bound.
const TIMEOUT: Duration = tenure_tests::PATIENCE;

/// Uses the embedded store, which is never late: only the proxy delays answers.
async fn stage() -> Result<(Store, Sink, Group)> {
    let (store, sink) = (Store::embedded().await?, Sink::start().await?);
    let group = Group::new(PROGRAM, &store, &sink);
    group.warm_up().await?;
    Ok((store, sink, group))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turns_run_when_every_answer_comes_two_and_a_half_seconds_late() -> Result<()> {
    let (_store, sink, mut group) = stage().await?;
    (group.timer, group.turn_ms) = (["--every", "10s"], 200);
    let (proxy, proxy_connection_string) = Proxy::for_store(&group.connection_string).await?;
    proxy.set_mode(Mode::LateAnswers(Duration::from_millis(2_500)));
    let access = Access::from_connection_string(&proxy_connection_string);
    let mut ada = group.start_with("ada", &access, Path::new(BEAT_HANDLER), &[])?;
    let elected = ada.event("elected", TIMEOUT).await;
    let mut since = elected.at;
    for _ in 0..3 {
        let is_next_end = |line: &Line| line.name() == "turn-ended" && line.at > since;
        let ended = ada.line("turn", 0, TIMEOUT, is_next_end).await;
        ensure!(ended.event["outcome"] == "succeeded", "{}", ended.event);
        ensure!(ended.term() == elected.term(), "{}", ada.transcript());
        since = ended.at;
    }
    ensure!(ada.count("stood-down") == 0, "{}", ada.transcript());
    ensure!(sink.repeated_slots().is_empty(), "{:?}", sink.repeated_slots());
    proxy.set_mode(Mode::Pass);
    ada.terminate(TIMEOUT).await?;
    Ok(())
}

/// `TENURE_TEST_REFUSED_SECONDS` sets the time for which writes are refused; the default lasts
/// until another candidate leads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leader_with_refused_record_writes_stands_down() -> Result<()> {
    let (_store, sink, group) = stage().await?;
    let (proxy, proxy_connection_string) = Proxy::for_store(&group.connection_string).await?;
    let access = Access::from_connection_string(&proxy_connection_string);
    let mut ada = group.start_with("ada", &access, Path::new(BEAT_HANDLER), &[])?;
    ada.event("turn-ended", TIMEOUT).await;
    let mut ben = group.start("ben", &[])?;
    ben.event("following", TIMEOUT).await;
    proxy.set_mode(Mode::RefuseMetadata);
    let refused_since = Instant::now();
    let stood_down = ada.event("stood-down", TIMEOUT).await;
    ensure!(stood_down.event["reason"] == "work-failed", "{}", stood_down.event);
    let elected = ben.event("elected", TIMEOUT).await;
    ensure!(elected.term() > stood_down.term(), "{}", ben.transcript());
    ben.event("turn-ended", TIMEOUT).await;
    let seconds = std::env::var("TENURE_TEST_REFUSED_SECONDS");
    let remaining = Duration::from_secs(seconds.map_or(0, |n| n.parse().unwrap()));
    let remaining = remaining.saturating_sub(refused_since.elapsed());
    if !remaining.is_zero() {
        // The other candidate keeps leading for that time.
        let lost =
            tokio::time::timeout(remaining, ben.wait_for_line(|line| line.name() == "stood-down"));
        ensure!(lost.await.is_err(), "{}", ben.transcript());
        ensure!(ada.count("elected") == 1, "{}", ada.transcript());
    }
    let (overlap, stale) = sink.overlap();
    ensure!(stale == 0, "{stale} stale beats, {overlap:?}");
    ensure!(sink.repeated_slots().is_empty(), "{:?}", sink.repeated_slots());
    proxy.set_mode(Mode::Pass);
    ben.terminate(TIMEOUT).await?;
    ada.terminate(TIMEOUT).await?;
    Ok(())
}
