//! What the coordinating candidate has for the shares that the work is split into.

use super::configuration::Split;
use super::settings::Given;
use super::understood::Understood;
use std::sync::Arc;
use std::time::Duration;
use tenure::component::ElectionComponent;
use tenure::handler::{Handler, from_fn};
use tenure::program::shares::{LEAVE_WITHIN, Membership, Pace, Sign};
use tenure::settings::{Variables, names};

/// What a process needs to be there for shares.
pub(super) struct Coordination {
    /// Each share is made of it.
    pub given: Given,
    /// For requests beside the election.
    pub component: Arc<ElectionComponent>,
    pub membership: Membership,
    /// Where there is a supervisor, it is left the deletion of the sign.
    pub leaves_wills: bool,
}

impl Coordination {
    /// `component` was checked, with these settings.
    pub(super) fn new(
        given: Given,
        component: ElectionComponent,
        settings: &Variables,
        split: Split,
        understood: &Understood,
        grace: Duration,
    ) -> Self {
        let Split { count, capacity, most } = split;
        let pace = Pace::of(understood.failover.unwrap_or(understood.lease));
        let membership = Membership {
            sign: Sign { member: understood.candidate.clone(), weight: capacity, most, pace },
            count,
            patience: 2 * understood.lease + grace,
            leave_within: LEAVE_WITHIN,
        };
        let leaves_wills = settings.get(names::LAST_WILL) == Some("true");
        Self { given, component: Arc::new(component), membership, leaves_wills }
    }
}

/// The coordinating election has no turns. This is what one would come to.
pub(super) fn no_work(shares: u32) -> Box<dyn Handler> {
    let told = format!(
        "nothing was run: the work is split into {shares} shares; trigger the election of one, \
         BLOB.share.SPLIT.INDEX-of-COUNT"
    );
    Box::new(from_fn(move |_, _| std::future::ready(Err(told.clone().into()))))
}
