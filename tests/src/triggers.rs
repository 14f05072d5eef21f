//! Runs `tenure trigger` while the leading process is killed repeatedly.
//!
//! The work is a command that records the trigger at its start and at its end. Each trigger command
//! is repeated with the same id until it is done, and sometimes once more.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Signal, kill_process};
use tokio::time::{sleep, timeout};

use crate::operator::{self, current_leader};
use crate::{Candidate, Group, Sink, Store, reserve_port};

/// Longer than any trigger takes.
const TIMEOUT: Duration = crate::PATIENCE;

/// Number of candidates, and number of concurrent commands.
const CANDIDATES: usize = 3;
const PARALLEL_COMMANDS: u32 = 4;

/// Work that records a line with `begin` or `end` and the id.
const WORK_SCRIPT: &str =
    r#"echo "begin $TENURE_TRIGGER" >> "$0"; sleep 0.05; echo "end $TENURE_TRIGGER" >> "$0""#;

/// Results of the triggers.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Number of placed triggers.
    pub placed: u32,
    /// Number of killed leaders.
    pub killed: u32,
    /// Number of started and completed turns, by trigger.
    pub turns: BTreeMap<String, (u32, u32)>,
}

impl Tally {
    /// Returns the triggers with more than one started turn.
    #[must_use]
    pub fn ran_twice(&self) -> Vec<&str> {
        let repeated = self.turns.iter().filter(|(_, (began, _))| *began > 1);
        repeated.map(|(id, _)| id.as_str()).collect()
    }

    /// Returns the triggers without a completed turn.
    #[must_use]
    pub fn never_completed(&self) -> Vec<String> {
        let ended = |id: &String| self.turns.get(id).is_some_and(|(_, ended)| *ended > 0);
        (1..=self.placed).map(|number| format!("t{number}")).filter(|id| !ended(id)).collect()
    }
}

/// Places `count` triggers from several concurrent commands, while a leader is killed every
/// `kill_interval`.
///
/// # Errors
/// A process could not be started, or a trigger could not be placed in time.
pub async fn round(
    program: &str,
    store: &Store,
    count: u32,
    delivery: &'static str,
    kill_interval: Duration,
) -> Result<Tally> {
    let sink = Sink::start().await?;
    let group = Group { timer: ["--every", "24h"], ..Group::new(program, store, &sink) };
    group.warm_up().await?;
    let directory = tempfile::tempdir()?;
    let turns_file = directory.path().join("turns");
    std::fs::write(&turns_file, "")?;
    let mut seats = Vec::new();
    for seat in 0..CANDIDATES {
        seats.push(start(&group, seat, 0, delivery, &turns_file)?);
    }
    let is_elected = |line: &crate::Line| line.name() == "elected";
    let first: Vec<_> = seats.iter().map(|seat| Box::pin(seat.wait_for_line(is_elected))).collect();
    timeout(TIMEOUT, crate::candidate::first(first)).await.context("nobody leads")?;
    let mut commands = tokio::task::JoinSet::new();
    // Numbers ascend, so that a repeated request at the end is among the newest ids, which are
    // remembered.
    let next = Arc::new(AtomicU32::new(1));
    for _ in 0..PARALLEL_COMMANDS {
        let (group, next) = (group.clone(), next.clone());
        commands.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number > count {
                    return anyhow::Ok(());
                }
                place_trigger(&group, number).await?;
            }
        });
    }
    let mut killed = 0;
    while !commands.is_empty() {
        if timeout(kill_interval, async {
            while let Some(ended) = commands.join_next().await {
                ended??;
            }
            anyhow::Ok(())
        })
        .await
        .map_or(Ok(false), |result| result.map(|()| true))?
        {
            break;
        }
        let Some(seat) = current_leader(&seats) else { continue };
        if let Ok(runner) = seats[seat].runner() {
            kill_process(runner, Signal::KILL)?;
            killed += 1;
            let _ = seats[seat].end(TIMEOUT).await;
            seats[seat] = start(&group, seat, killed, delivery, &turns_file)?;
        }
    }
    // Repeats the newest triggers, and waits for those that are still pending.
    for number in (1..=count).rev().take(8) {
        run_trigger(&group, number, &["--wait", "120s"]).await?;
    }
    let mut turns = BTreeMap::<String, (u32, u32)>::new();
    for line in std::fs::read_to_string(&turns_file)?.lines() {
        let (phase, id) = line.split_once(' ').context("a line of the work")?;
        // A turn of the schedule, due at midnight.
        if id.is_empty() {
            continue;
        }
        let (began, ended) = turns.entry(id.to_owned()).or_default();
        *(if phase == "begin" { began } else { ended }) += 1;
    }
    Ok(Tally { placed: count, killed, turns })
}

fn start(
    group: &Group,
    seat: usize,
    life: u32,
    delivery: &str,
    turns_file: &Path,
) -> Result<Candidate> {
    let name = format!("c{seat}-{life}");
    let listen = reserve_port()?.to_string();
    let address = format!("http://{listen}");
    let options = [
        "--listen",
        &listen,
        "--address",
        &address,
        "--poll",
        "1s",
        "--delivery",
        delivery,
        "--max-failures",
        "0",
    ];
    let turns_file = turns_file.to_string_lossy();
    Candidate::spawn(&name, group.command(&name, &options, &["sh", "-c", WORK_SCRIPT, &turns_file]))
}

/// Repeats the command until the trigger is placed; every seventh trigger is placed twice.
async fn place_trigger(group: &Group, number: u32) -> Result<()> {
    let attempts = if number.is_multiple_of(7) { 2 } else { 1 };
    for _ in 0..attempts {
        run_trigger(group, number, &[]).await?;
    }
    Ok(())
}

async fn run_trigger(group: &Group, number: u32, options: &[&str]) -> Result<()> {
    let id = format!("t{number}");
    let placing = async {
        loop {
            let arguments = ["trigger", &group.election, "--id", &id];
            let (code, output) =
                operator::run_command(group, &[&arguments, options].concat()).await?;
            match code {
                // The trigger is pending, had its turn, or will get none.
                Some(0 | 3) => return Ok(()),
                // Too many triggers are pending, or no candidate has ever led.
                Some(1 | 2) => sleep(Duration::from_millis(300)).await,
                _ => bail!("{output}"),
            }
        }
    };
    timeout(TIMEOUT, placing).await.with_context(|| format!("{id} is not placed"))?
}
