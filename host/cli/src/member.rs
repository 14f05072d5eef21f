//! A process among those that are there for shares of an election: `tenure run --shares`.

use super::candidacy::{Candidacy, Coordination};
use super::configuration::Configuration;
use super::log::Whose;
use super::process::{Handle, Process};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tenure::Event;
use tenure_base::duration::format_duration;
use tenure_clock::Clock as _;
use tenure_members::{AGAIN, Candidate, LEAVE_WITHIN, Place, Running, Task, Wills};
use tokio::select;
use tokio::time::timeout;

/// Takes part until the elections of the process are to leave; then it hands its shares over. Each share is an
/// election of the process, and so is the coordinating one, whose candidate is `candidacy`.
pub(super) async fn take_part(
    coordination: Coordination,
    process: Arc<Process>,
    candidacy: Candidacy,
    whose: Whose,
) {
    let wills = wills(&coordination, &process, &whose);
    let own_log = process.log.of(&whose);
    let mut ready = candidacy.ready();
    let (log, board, clock) =
        (own_log.clone(), candidacy.board.clone(), process.shared.clock.clone());
    let events = Arc::new(move |event| {
        board.happened(&event, clock.now());
        log.event(&event);
    });
    let there =
        (coordination.election, process.shared.clock.clone(), process.tasks.runtime.clone());
    let coordinating = |place: Place| -> Running {
        let handle = process.begin(candidacy, whose, Duration::ZERO, Some(&place));
        Box::pin(obey(handle, place))
    };
    let member = coordination.membership.sign.member.clone();
    let of_share = |candidate: Candidate, place: Place| -> Running {
        let (process, given) = (process.clone(), coordination.given.clone());
        let member = member.clone();
        // Files may be read for it: the member does not wait for that.
        Box::pin(async move {
            let configuration = Configuration::of_share(given, &candidate, &member);
            add(process, configuration, place).await;
        })
    };
    let task = Task::begin(coordination.membership, there, events, coordinating, &of_share)
        .leaving_wills(wills);
    let leave = async {
        process.tasks.asked().await;
        let within = format_duration(LEAVE_WITHIN);
        let detail = format!(
            "this process hands over its shares for {within} at most, and then releases those that are left"
        );
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
fn wills(coordination: &Coordination, process: &Process, whose: &Whose) -> Option<Wills> {
    let link = process.link.clone().filter(|_| coordination.leaves_wills)?;
    let (election, ca_file) = (whose.election.clone(), coordination.given.ca_file());
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
