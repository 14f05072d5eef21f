//! A process among those that are there for shares of an election: `tenure run --shares`.

use super::candidacy::Candidacy;
use super::configuration::Configuration;
use super::log::Whose;
use super::process::{Handle, Process};
use super::whole::Whole;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tenure::clock::Clock as _;
use tenure::program::shares::{AGAIN, Candidate, LEAVE_WITHIN, Place, Running, Task, Wills};
use tenure::runner::Event;
use tenure_base::duration::format_duration;
use tokio::select;
use tokio::time::timeout;

/// Takes part until the elections of the process are to leave; then it hands its shares over. Each share is an
/// election of the process, and so is the whole, whose candidate is `candidacy`.
pub(super) async fn take_part(
    whole: Whole,
    process: Arc<Process>,
    candidacy: Candidacy,
    whose: Whose,
) {
    let wills = wills(&whole, &process, &whose);
    let own_log = process.log.of(&whose);
    let mut ready = candidacy.ready();
    let (log, board, clock) =
        (own_log.clone(), candidacy.board.clone(), process.shared.clock.clone());
    let events = Arc::new(move |event| {
        board.happened(&event, clock.now());
        log.event(&event);
    });
    let there = (whole.component, process.shared.clock.clone(), process.tasks.runtime.clone());
    let of_whole = |place: Place| -> Running {
        let handle = process.begin(candidacy, whose, Duration::ZERO, Some(&place));
        Box::pin(obey(handle, place))
    };
    let of_share = |candidate: Candidate, place: Place| -> Running {
        let configuration = Configuration::of_share(whole.given.clone(), &candidate);
        Box::pin(add(process.clone(), configuration, place))
    };
    let task =
        Task::begin(whole.membership, there, events, of_whole, &of_share).leaving_wills(wills);
    let leave = async {
        process.tasks.asked().await;
        let within = format_duration(LEAVE_WITHIN);
        let detail = format!("it hands over its shares within {within}, and releases the rest");
        own_log.event(&Event::Note { detail });
    };
    let ready = async {
        if ready.wait_for(|ready| *ready).await.is_err() {
            // Its candidate has ended.
            pending().await
        }
    };
    task.run(ready, leave).await;
}

/// What leaves the deletion of the sign with the supervisor.
fn wills(whole: &Whole, process: &Process, whose: &Whose) -> Option<Wills> {
    let link = process.link.clone().filter(|_| whole.leaves_wills)?;
    let (election, ca_file) = (whose.election.clone(), whole.given.ca_file());
    Some(Box::new(move |will| link.signed(&election, will.as_ref(), ca_file.as_ref())))
}

/// Adds the election of a share.
async fn add(process: Arc<Process>, configuration: Configuration, mut place: Place) {
    match process.add(configuration, Some(&place)).await {
        Some(handle) => obey(handle, place).await,
        // Why was told. When it ends, the member begins another one.
        None => drop(timeout(AGAIN, async { while place.next().await.is_some() {} }).await),
    }
}

/// Has a candidate do what the member wants of it, until it has left.
async fn obey(mut handle: Handle, mut place: Place) {
    loop {
        let order = select! {
            order = place.next() => order,
            () = handle.ended() => return,
        };
        match order {
            Some(order) => handle.order(order).await,
            None => return handle.remove().await,
        }
    }
}
