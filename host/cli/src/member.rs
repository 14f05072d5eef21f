//! A process among those that are there for shares of an election: `tenure run --shares`.

use super::candidacy::Candidacy;
use super::configuration::{Configuration, Split};
use super::log::Whose;
use super::process::{Handle, Process};
use super::settings::Given;
use super::understood::Understood;
use std::sync::Arc;
use std::time::Duration;
use tenure::component::ElectionComponent;
use tenure::handler::{Handler, from_fn};
use tenure::program::shares::{
    Candidate, LEAVE_WITHIN, Membership, Place, Running, Sign, Task, Wills,
};
use tenure::runner::Event;
use tenure::settings::{Variables, names};
use tenure_base::duration::format_duration;
use tokio::select;

/// What it takes to be one of them.
pub(super) struct Member {
    /// For the whole, of which each share is made.
    given: Given,
    /// For requests beside the election of the whole.
    component: Arc<ElectionComponent>,
    of: Membership,
    /// Where there is a supervisor, it is left the deletion of the sign.
    leaves_wills: bool,
}

impl Member {
    /// `component` is one of the whole, which was checked, with these settings.
    pub(super) fn new(
        given: Given,
        component: ElectionComponent,
        settings: &Variables,
        split: Split,
        understood: &Understood,
    ) -> Self {
        let Split { count, capacity, most } = split;
        let of = Membership {
            sign: Sign { member: understood.candidate.clone(), weight: capacity, most },
            count,
            replaced_after: understood.failover.unwrap_or(understood.lease),
            leave_within: LEAVE_WITHIN,
        };
        let leaves_wills = settings.get(names::LAST_WILL) == Some("true");
        Self { given, component: Arc::new(component), of, leaves_wills }
    }

    /// Takes part until the elections of the process are to leave; then it hands its shares over. Each share is an
    /// election of the process, and so is the whole, whose candidate is `whole`.
    pub(super) async fn run(self, process: Arc<Process>, whole: Candidacy, whose: Whose) {
        let wills = self.wills(&process, &whose);
        let own_log = process.log.of(&whose);
        let log = own_log.clone();
        let events = Arc::new(move |event| log.event(&event));
        let there = (self.component, process.shared.clock.clone(), process.tasks.runtime.clone());
        let of_whole = |place: Place| -> Running {
            let handle = process.begin(whole, whose, Duration::ZERO, Some(&place));
            Box::pin(obey(handle, place))
        };
        let of_share = |candidate: Candidate, place: Place| -> Running {
            let configuration = Configuration::of_share(self.given.clone(), &candidate);
            Box::pin(add(process.clone(), configuration, place))
        };
        let task = Task::begin(self.of, there, events, of_whole, &of_share).leaving_wills(wills);
        let leave = async {
            process.tasks.asked().await;
            let within = format_duration(LEAVE_WITHIN);
            let detail = format!("it hands its shares over within {within}, and gives up the rest");
            own_log.event(&Event::Note { detail });
        };
        task.run(leave).await;
    }

    /// What leaves the deletion of the sign with the supervisor.
    fn wills(&self, process: &Process, whose: &Whose) -> Option<Wills> {
        let link = process.link.clone().filter(|_| self.leaves_wills)?;
        let (whole, ca_file) = (whose.election.clone(), self.given.ca_file());
        Some(Box::new(move |will| link.signed(&whole, will.as_ref(), ca_file.as_ref())))
    }
}

/// What the whole does in a turn, which has none of the schedule: somebody left a trigger.
pub(super) fn no_work(shares: u32) -> Box<dyn Handler> {
    let told =
        format!("nothing was run: the work is split into {shares} shares; trigger one of them");
    Box::new(from_fn(move |_, _| std::future::ready(Err(told.clone()))))
}

/// Adds the election of a share.
async fn add(process: Arc<Process>, configuration: Configuration, mut place: Place) {
    match process.add(configuration, Some(&place)).await {
        Some(handle) => obey(handle, place).await,
        // Why was told. It is as one that never leads.
        None => while place.next().await.is_some() {},
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
