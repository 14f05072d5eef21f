//! Slots, as an operator meets them: the program `tenure` with real processes.

use crate::PROGRAM;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tenure_tests::{Access, Front, Group, Instead, Outsider, Sink, Store, asks};

const SOON: Duration = tenure_tests::PATIENCE;

async fn tenure(group: &Group, arguments: &[&str]) -> Result<Output> {
    let mut command = Command::new(PROGRAM);
    command
        .args(arguments)
        .args([&group.election])
        .env("AZURE_STORAGE_CONNECTION_STRING", &group.connection_string)
        .stdin(Stdio::null());
    Ok(tokio::task::spawn_blocking(move || command.output()).await??)
}

fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_resets_a_slot_in_the_future() -> Result<()> {
    let (store, sink) = (Store::embedded().await?, Sink::start().await?);
    let group = Group::new(PROGRAM, &store, &sink);
    group.warm_up().await?;
    let mut first = group.start("ada", &[])?;
    first.event("turn-ended", SOON).await;
    let nothing = tenure(&group, &["reset-slot"]).await?;
    ensure!(nothing.status.code() == Some(0), "{}", said(&nothing));
    ensure!(said(&nothing).contains("No slot lies in the future"), "{}", said(&nothing));
    first.terminate(SOON).await?;

    let outsider = group.outsider();
    let record = outsider.metadata().await?;
    let fields: Vec<_> = record
        .iter()
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| match name {
            "tenureslot" => (name, "2056-11-20T07:00:00Z"),
            _ => (name, value),
        })
        .collect();
    outsider.put_metadata(&fields).await?;

    let mut second = group.start("ben", &[])?;
    let problem = second.event("problem", SOON).await;
    ensure!(problem.event["class"] == "schedule", "{problem:?}");
    let unasked = tenure(&group, &["reset-slot"]).await?;
    ensure!(unasked.status.code() == Some(2), "{}", said(&unasked));
    ensure!(said(&unasked).contains("--yes"), "{}", said(&unasked));
    let done = tenure(&group, &["reset-slot", "--yes"]).await?;
    ensure!(done.status.code() == Some(0), "{}", said(&done));
    ensure!(said(&done).contains("2056-11-20T07:00:00Z is forgotten"), "{}", said(&done));
    second.event("turn-ended", SOON).await;
    second.terminate(SOON).await?;
    Ok(())
}

/// It fails, or is told to end, while it leads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_that_breaks_off_gives_the_lease_back() -> Result<()> {
    let (store, sink) = (Store::embedded().await?, Sink::start().await?);
    let front = Front::start().await?;
    let connection_string = front.connection_string();
    let access = Access::with(&connection_string);
    let group = Group { connection_string, access, ..Group::new(PROGRAM, &store, &sink) };
    let outsider = Outsider::new(&group.connection_string, &group.election);
    let mut first = group.start("ada", &[])?;
    first.event("turn-ended", SOON).await;
    first.terminate(SOON).await?;

    for interrupted in [false, true] {
        front.set(|_| None);
        let record = outsider.metadata().await?;
        let fields = record.iter().filter_map(|line| line.split_once('='));
        let fields: Vec<_> = fields.filter(|(name, _)| *name != "tenureslot").collect();
        let fields = [&fields[..], &[("tenureslot", "2056-11-20T07:00:00Z")]].concat();
        outsider.put_metadata(&fields).await?;
        let (asked, mut seen) = tokio::sync::watch::channel(Vec::new());
        front.set(move |request| {
            let what = asks(request);
            let count =
                |known: &str| asked.borrow().iter().filter(|asked| **asked == known).count();
            let writes = count("write") + usize::from(what == "write");
            asked.send_modify(|asked| asked.push(what));
            // The first one raises the term, and the second one resets the slot.
            let refused = match interrupted {
                true => what == "write" && writes > 1,
                false => what == "look" && writes > 0,
            };
            refused.then_some(Instead::Code(403, "AuthorizationPermissionMismatch"))
        });
        let mut command = tokio::process::Command::new(PROGRAM);
        command.args(["reset-slot", "--yes", &group.election]);
        group.access.give(&mut command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.kill_on_drop(true).spawn()?;
        if interrupted {
            let resets =
                |asked: &Vec<_>| asked.iter().filter(|asked| **asked == "write").count() > 1;
            tokio::time::timeout(SOON, seen.wait_for(resets)).await??;
            let id = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
            kill_process(id.context("it runs")?, Signal::INT)?;
        }
        let output = tokio::time::timeout(SOON, child.wait_with_output()).await??;
        let code = if interrupted { 130 } else { 1 };
        ensure!(output.status.code() == Some(code), "{}", said(&output));
        ensure!(seen.borrow().contains(&"release"), "{:?}: {}", seen.borrow(), said(&output));
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cron_expression_in_a_zone_has_its_turns() -> Result<()> {
    let (store, sink) = (Store::embedded().await?, Sink::start().await?);
    let timer = ["--cron", "*/2 * * * * *"];
    let group = Group { timer, ..Group::new(PROGRAM, &store, &sink) };
    let more = ["--time-zone", "Europe/Berlin", "--delivery", "at-least-once"];
    let mut candidate = group.start("ada", &more)?;
    let slot = candidate.event("turn-started", SOON).await.event["slot"].clone();
    let slot = slot.as_str().unwrap_or_default();
    let seconds: String = slot.chars().skip(17).collect();
    ensure!(seconds.trim_end_matches('Z').parse::<u32>()? % 2 == 0, "{slot}");
    candidate.terminate(SOON).await?;
    Ok(())
}

/// With the election's name alone, long before the next claim.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_asks_is_told_whether_the_last_turn_succeeded_and_when_the_next_one_comes()
-> Result<()> {
    let (store, sink) = (Store::embedded().await?, Sink::start().await?);
    // Every fifteen seconds, so that there is time to ask.
    let timer = ["--cron", "*/15 * * * * *"];
    let group = Group { timer, ..Group::new(PROGRAM, &store, &sink) };
    let mut candidate = group.start("ada", &["--time-zone", "Europe/Berlin"])?;
    let ended = candidate.event("turn-ended", SOON).await.event;
    let next = ended["next_turn"]["slot"].clone();
    ensure!(next.is_string() && ended["last_success"].is_null(), "{ended}");
    let told = loop {
        let status = tenure(&group, &["status", "--json"]).await?;
        let told: Value = serde_json::from_slice(&status.stdout)?;
        ensure!(
            told["last_slot"]["slot"] == ended["slot"],
            "the outcome waited for a claim: {told}"
        );
        if !told["last_turn"].is_null() {
            break told;
        }
    };
    let last = &told["last_turn"];
    ensure!((&last["slot"], &last["outcome"]) == (&ended["slot"], &"succeeded".into()), "{told}");
    ensure!(last["took_ms"].is_u64() && told["last_success"] == *last, "{told}");
    ensure!(told["last_failure"].is_null() && told["next_turn"]["slot"] == next, "{told}");
    let local = told["next_turn"]["local"].as_str().unwrap_or_default();
    ensure!(local.ends_with("[Europe/Berlin]"), "{told}");
    let text = said(&tenure(&group, &["status"]).await?);
    ensure!(text.contains("last turn    succeeded ") && text.contains(local), "{text}");
    candidate.terminate(SOON).await?;
    Ok(())
}
