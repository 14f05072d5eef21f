//! A process that takes part in the shares of an election: `tenure run --shares`.

use super::candidacy::{Candidacy, Coordination};
use super::process::{Handle, Process};
use crate::configuration::Configuration;
use crate::output::log::LogContext;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tenure::Event;
use tenure_base::duration::format_duration;
use tenure_clock::Clock as _;
use tenure_members::{
    CandidateContext, CandidateFuture, LEAVE_WITHIN, LastWillSink, RECHECK_INTERVAL,
    ShareCandidate, Task,
};
use tokio::select;
use tokio::time::timeout;

/// Takes part until the process leaves, and then hands its shares over. Each share is an election
/// of the process, and so is the coordinating election. `candidacy` is the candidate of the
/// coordinating election.
pub(crate) async fn take_part(
    coordination: Coordination,
    process: Arc<Process>,
    candidacy: Candidacy,
    context: LogContext,
) {
    let wills = wills(&coordination, &process, &context);
    let member_log = process.log.for_candidate(&context);
    let mut ready = candidacy.ready();
    let (log, board, clock) =
        (member_log.clone(), candidacy.board.clone(), process.shared.clock.clone());
    let events = Arc::new(move |event| {
        board.on_event(&event, clock.now());
        log.event(&event);
    });
    let resources =
        (coordination.election, process.shared.clock.clone(), process.tasks.runtime.clone());
    let run_coordinator = |member_side: CandidateContext| -> CandidateFuture {
        let handle = process.start(candidacy, context, Duration::ZERO, Some(&member_side));
        Box::pin(follow_orders(handle, member_side))
    };
    let member = coordination.membership.sign.member.clone();
    let run_share = |candidate: ShareCandidate, member_side: CandidateContext| -> CandidateFuture {
        let (process, resolved) = (process.clone(), coordination.resolved.clone());
        let member = member.clone();
        // Reading files must not delay the member.
        Box::pin(async move {
            let configuration = Configuration::for_share(resolved, &candidate, &member);
            add(process, configuration, member_side).await;
        })
    };
    let task = Task::new(coordination.membership, resources, events, run_coordinator, &run_share)
        .with_last_will_sink(wills);
    let leave = async {
        process.tasks.leave_requested().await;
        let within = format_duration(LEAVE_WITHIN);
        let detail = format!(
            "this process hands over its shares for {within} at most, and then releases those that are left"
        );
        member_log.event(&Event::Note { detail });
    };
    let ready = async {
        if ready.wait_for(|ready| *ready).await.is_err() {
            // The candidate has ended without becoming ready.
            pending().await
        }
    };
    task.run(ready, leave).await;
}

/// Returns the sink that passes the member's last will to the supervisor. The will deletes the
/// member's blob. Returns none if there is no supervisor to send it.
fn wills(
    coordination: &Coordination,
    process: &Process,
    context: &LogContext,
) -> Option<LastWillSink> {
    let link = process.link.clone().filter(|_| coordination.leaves_wills)?;
    let (election, ca_file) = (context.election.clone(), coordination.resolved.ca_file());
    Some(Box::new(move |will| {
        link.set_sign_of_life_will(&election, will.as_ref(), ca_file.as_ref())
    }))
}

async fn add(
    process: Arc<Process>,
    configuration: Configuration,
    mut member_side: CandidateContext,
) {
    match process.add(configuration, Some(&member_side)).await {
        Some(handle) => follow_orders(handle, member_side).await,
        // `Process::add` has reported the reason. The member tries again after this returns.
        None => drop(
            timeout(RECHECK_INTERVAL, async { while member_side.next_order().await.is_some() {} })
                .await,
        ),
    }
}

/// Applies the member's orders to a candidate until it has left.
async fn follow_orders(mut handle: Handle, mut member_side: CandidateContext) {
    loop {
        let order = select! {
            order = member_side.next_order() => order,
            () = handle.ended() => return,
        };
        match order {
            Some(order) => handle.order(order).await,
            None => return handle.remove().await,
        }
    }
}
