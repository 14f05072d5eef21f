//! Slots from an operator's view: the program `tenure` with real processes.

use crate::PROGRAM;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tenure_tests::{Access, Front, Group, Outsider, Override, Sink, Store, operation_name};

const TIMEOUT: Duration = tenure_tests::PATIENCE;

async fn tenure(group: &Group, arguments: &[&str]) -> Result<Output> {
    let mut command = Command::new(PROGRAM);
    command
        .args(arguments)
        .args([&group.election])
        .env("AZURE_STORAGE_CONNECTION_STRING", &group.connection_string)
        .stdin(Stdio::null());
    Ok(tokio::task::spawn_blocking(move || command.output()).await??)
}

fn output_text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_resets_a_slot_in_the_future() -> Result<()> {
    let (store, sink) = (Store::embedded().await?, Sink::start().await?);
    let group = Group::new(PROGRAM, &store, &sink);
    group.warm_up().await?;
    let mut first = group.start("ada", &[])?;
    first.event("turn-ended", TIMEOUT).await;
    let no_reset = tenure(&group, &["reset-slot"]).await?;
    ensure!(no_reset.status.code() == Some(0), "{}", output_text(&no_reset));
    ensure!(
        output_text(&no_reset).contains("No slot lies in the future"),
        "{}",
        output_text(&no_reset)
    );
    first.terminate(TIMEOUT).await?;

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
    let problem = second.event("problem", TIMEOUT).await;
    ensure!(problem.event["class"] == "schedule", "{problem:?}");
    let unconfirmed = tenure(&group, &["reset-slot"]).await?;
    ensure!(unconfirmed.status.code() == Some(2), "{}", output_text(&unconfirmed));
    ensure!(output_text(&unconfirmed).contains("--yes"), "{}", output_text(&unconfirmed));
    let done = tenure(&group, &["reset-slot", "--yes"]).await?;
    ensure!(done.status.code() == Some(0), "{}", output_text(&done));
    ensure!(
        output_text(&done).contains("2056-11-20T07:00:00Z is forgotten"),
        "{}",
        output_text(&done)
    );
    second.event("turn-ended", TIMEOUT).await;
    second.terminate(TIMEOUT).await?;
    Ok(())
}

/// The command fails, or receives a signal, while it leads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interrupted_reset_releases_the_lease() -> Result<()> {
    let (store, sink) = (Store::embedded().await?, Sink::start().await?);
    let front = Front::start().await?;
    let connection_string = front.connection_string();
    let access = Access::from_connection_string(&connection_string);
    let group = Group { connection_string, access, ..Group::new(PROGRAM, &store, &sink) };
    let outsider = Outsider::new(&group.connection_string, &group.election);
    let mut first = group.start("ada", &[])?;
    first.event("turn-ended", TIMEOUT).await;
    first.terminate(TIMEOUT).await?;

    for interrupted in [false, true] {
        front.set_rule(|_| None);
        let record = outsider.metadata().await?;
        let fields = record.iter().filter_map(|line| line.split_once('='));
        let fields: Vec<_> = fields.filter(|(name, _)| *name != "tenureslot").collect();
        let fields = [&fields[..], &[("tenureslot", "2056-11-20T07:00:00Z")]].concat();
        outsider.put_metadata(&fields).await?;
        let (requests_tx, mut requests_rx) = tokio::sync::watch::channel(Vec::new());
        front.set_rule(move |request| {
            let request_kind = operation_name(request);
            let count =
                |kind: &str| requests_tx.borrow().iter().filter(|sent| **sent == kind).count();
            let writes = count("write") + usize::from(request_kind == "write");
            requests_tx.send_modify(|requests| requests.push(request_kind));
            // The first write raises the term, and the second one resets the slot.
            let refused = match interrupted {
                true => request_kind == "write" && writes > 1,
                false => request_kind == "look" && writes > 0,
            };
            refused.then_some(Override::Error(403, "AuthorizationPermissionMismatch"))
        });
        let mut command = tokio::process::Command::new(PROGRAM);
        command.args(["reset-slot", "--yes", &group.election]);
        group.access.apply(&mut command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.kill_on_drop(true).spawn()?;
        if interrupted {
            let resets =
                |requests: &Vec<_>| requests.iter().filter(|sent| **sent == "write").count() > 1;
            tokio::time::timeout(TIMEOUT, requests_rx.wait_for(resets)).await??;
            let id = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
            kill_process(id.context("it runs")?, Signal::INT)?;
        }
        let output = tokio::time::timeout(TIMEOUT, child.wait_with_output()).await??;
        let code = if interrupted { 130 } else { 1 };
        ensure!(output.status.code() == Some(code), "{}", output_text(&output));
        ensure!(
            requests_rx.borrow().contains(&"release"),
            "{:?}: {}",
            requests_rx.borrow(),
            output_text(&output)
        );
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
    let slot = candidate.event("turn-started", TIMEOUT).await.event["slot"].clone();
    let slot = slot.as_str().unwrap_or_default();
    let seconds: String = slot.chars().skip(17).collect();
    ensure!(seconds.trim_end_matches('Z').parse::<u32>()? % 2 == 0, "{slot}");
    candidate.terminate(TIMEOUT).await?;
    Ok(())
}

/// Needs only the election's name, long before the next claim.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_shows_last_outcome_and_next_turn() -> Result<()> {
    let (store, sink) = (Store::embedded().await?, Sink::start().await?);
    // Fifteen seconds leave enough time to ask.
    let timer = ["--cron", "*/15 * * * * *"];
    let group = Group { timer, ..Group::new(PROGRAM, &store, &sink) };
    let mut candidate = group.start("ada", &["--time-zone", "Europe/Berlin"])?;
    let ended = candidate.event("turn-ended", TIMEOUT).await.event;
    let next = ended["next_turn"]["slot"].clone();
    ensure!(next.is_string() && ended["last_success"].is_null(), "{ended}");
    let status_json = loop {
        let status = tenure(&group, &["status", "--json"]).await?;
        let status_json: Value = serde_json::from_slice(&status.stdout)?;
        ensure!(
            status_json["last_slot"]["slot"] == ended["slot"],
            "the outcome waited for a claim: {status_json}"
        );
        if !status_json["last_turn"].is_null() {
            break status_json;
        }
    };
    let last = &status_json["last_turn"];
    ensure!(
        (&last["slot"], &last["outcome"]) == (&ended["slot"], &"succeeded".into()),
        "{status_json}"
    );
    ensure!(last["took_ms"].is_u64() && status_json["last_success"] == *last, "{status_json}");
    ensure!(
        status_json["last_failure"].is_null() && status_json["next_turn"]["slot"] == next,
        "{status_json}"
    );
    let local = status_json["next_turn"]["local"].as_str().unwrap_or_default();
    ensure!(local.ends_with("[Europe/Berlin]"), "{status_json}");
    let text = output_text(&tenure(&group, &["status"]).await?);
    ensure!(text.contains("last turn    succeeded ") && text.contains(local), "{text}");
    candidate.terminate(TIMEOUT).await?;
    Ok(())
}
