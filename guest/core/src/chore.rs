//! What a follower leaves beside the election's blob, which it cannot write to while it is leased.

use core::time::Duration;

use super::Moment;
use super::candidate::{Phase, Step};
use super::errands::LONGEST_NOTICE;
use super::notice::{self, Notice};
use serde::{Deserialize, Serialize};
use tenure_azure::answer::{Answer, Class};
use tenure_azure::name::Aside;
use tenure_azure::operation::{ETag, Operation};

/// What a follower has to do about one of those blobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Chore {
    /// Nothing.
    #[default]
    None,
    /// See what is in its place.
    Look(Aside),
    /// Leave it, over what is there with that tag if something is.
    Leave { aside: Aside, over: Option<ETag> },
}

impl Step<'_> {
    /// The request for the chore; none when there is nothing to do.
    pub(super) fn chore(&self) -> Option<Operation> {
        match &self.state.chore {
            Chore::None => None,
            Chore::Look(aside) => Some(Operation::LookAside(*aside)),
            Chore::Leave { aside, over } => Some(Operation::WriteAside {
                aside: *aside,
                over: over.clone(),
                metadata: match aside {
                    Aside::Notice => Notice::of(self.settings)?.write(),
                    Aside::Heir => self.forward()?.write(),
                },
            }),
        }
    }

    /// Forgets the chore: what a look gave cause for may be otherwise after an event. The next look need not
    /// wait for it then.
    pub(super) fn drop_chore(&mut self, now: Moment) {
        let had = core::mem::take(&mut self.state.chore) != Chore::None;
        let soon = now + self.settings.timings.poll / 2;
        if let (true, Phase::Watching(watch)) = (had, &mut self.state.phase) {
            watch.pace.next = watch.pace.next.min(soon);
        }
    }

    /// The longest that one request for the chore may take: nothing waits for a notice, but an heir has
    /// to come forward however far away the service is.
    pub(super) fn longest_chore(&self) -> Duration {
        match &self.state.chore {
            Chore::Look(Aside::Heir) | Chore::Leave { aside: Aside::Heir, .. } => {
                self.settings.timings.request_timeout
            }
            _ => LONGEST_NOTICE,
        }
    }

    /// Takes the answer to it, which `took` so long. Somebody else's blob is left untouched.
    pub(super) fn chore_answered(&mut self, answer: Option<&Answer>, took: Duration) {
        let (Chore::Look(aside), Some(answer)) = (core::mem::take(&mut self.state.chore), answer)
        else {
            return;
        };
        let over = match (answer.class, &answer.properties) {
            (Class::MissingBlob, _) => None,
            (Class::Done, Some(seen)) if notice::is_a_candidates(seen) => answer.etag.clone(),
            _ => return,
        };
        if aside == Aside::Notice || self.may_come_forward(answer, took) {
            self.state.chore = Chore::Leave { aside, over };
        }
    }
}
