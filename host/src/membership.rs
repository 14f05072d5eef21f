//! An election that this process takes part in: its role, its events, and the way out.

use crate::election::Election;
use crate::lease::Lease;
use crate::runner::{Event, Runner};
use crate::tasks::{Task, Tasks};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tenure_clock::{BootClock, Clock as _, Reading};
use tenure_core as contract;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::watch;

/// Capacity of an [`Events`] for a slow reader.
const EVENTS: usize = 256;

/// An election that this process takes part in, from [`Elector::start`](crate::Elector::start) on.
///
/// When this is dropped, the process leaves the election as with [`leave`](Self::leave), and nothing waits for that.
#[derive(Debug)]
pub struct Membership {
    task: Task,
    role: watch::Receiver<Role>,
    /// A channel takes about 60 KiB, so it is made for the first reader.
    events: Arc<OnceLock<broadcast::Sender<Event>>>,
}

/// The role of a process in an election.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Role {
    /// Not known yet, or no leader is known.
    #[default]
    Undecided,
    /// The process leads, or did until now: the lease decides (see [`leads`](Role::leads)).
    ///
    /// This lease is also lost when the end begins: when the process is to [leave](Membership::leave), or when its work is
    /// asked to stop. It is released as soon as the handler has stopped, and waits for no other code. To act by this lease
    /// alone, start with a handler that lasts as long as the leadership.
    Leading(Lease),
    /// Another one leads.
    #[non_exhaustive]
    Following {
        /// Which one, where that is known.
        leader: Option<Leader>,
    },
    /// The process has left the election.
    Left,
}

/// Another candidate, which leads, as the record tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// Its [name](crate::settings::Settings::name).
    pub name: String,
    /// Its fencing token.
    pub term: u64,
    /// Its [address](crate::settings::Settings::address), where requests for the leader can be sent.
    pub address: Option<String>,
}

/// The events of an election as they happen: see [`Membership::events`].
#[derive(Debug)]
pub struct Events(broadcast::Receiver<Event>);

impl Membership {
    /// Runs the candidate on the thread of `tasks`.
    pub(crate) fn begin(candidate: Runner<Election, BootClock>, tasks: &Tasks) -> Self {
        let (shown, role) = watch::channel(Role::default());
        let (shown, events) = (Arc::new(shown), Arc::new(OnceLock::new()));
        let senders: Arc<OnceLock<broadcast::Sender<Event>>> = events.clone();
        let mut candidate = showing_role(candidate, shown.clone()).on_event(move |event| {
            if let Some(sender) = senders.get() {
                // All readers may have gone.
                let _ = sender.send(event);
            }
        });
        let left = Left(shown);
        let task = tasks.add(|leave| async move {
            let _left = left;
            candidate.run(leave.asked()).await;
        });
        Self { task, role, events }
    }

    /// Returns the role of this process in the election at this instant.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role.borrow().clone()
    }

    /// Returns the role of this process now, as a change, and whenever it changes. A renewal is no change. The last role is
    /// [`Left`](Role::Left).
    #[must_use]
    pub fn roles(&self) -> watch::Receiver<Role> {
        let mut role = self.role.clone();
        role.mark_changed();
        role
    }

    /// Returns the term of this process if it leads and may act at this instant, as [`Role::leads`] does.
    #[must_use]
    pub fn leads(&self) -> Option<u64> {
        self.role.borrow().leads()
    }

    /// Returns the events from now on. They are for people: act on the role and on the deadline of a turn.
    #[must_use]
    pub fn events(&self) -> Events {
        Events(self.events.get_or_init(|| broadcast::Sender::new(EVENTS)).subscribe())
    }

    /// Leaves the election: lets a running turn end within the [grace](crate::handler::Handler::grace) of its handler or
    /// stops it, releases the lease, and completes when that is over, as [`Runner::run`] does. It begins at once, and goes
    /// on when the future is dropped. A handler that did not stop in time may still run then.
    pub fn leave(mut self) -> impl Future<Output = ()> {
        self.task.leave();
        async move { self.task.ended().await }
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.task.leave();
    }
}

impl Events {
    /// Returns the next event; none once the process has left the election.
    ///
    /// A reader that falls behind by more than 256 events misses the oldest of them. No event is lost when the future is
    /// dropped.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            match self.0.recv().await {
                Ok(event) => return Some(event),
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return None,
            }
        }
    }
}

/// Shows that the process has left, however the candidate ends.
struct Left(Arc<watch::Sender<Role>>);

impl Drop for Left {
    fn drop(&mut self) {
        self.0.send_if_modified(Role::leaves);
    }
}

/// Makes the candidate show its role in `shown`.
fn showing_role(
    candidate: Runner<Election, BootClock>,
    shown: Arc<watch::Sender<Role>>,
) -> Runner<Election, BootClock> {
    let (clock, ended) = (candidate.clock.reading(), shown.clone());
    let leaving = Arc::new(AtomicBool::new(false));
    let leaves = leaving.clone();
    candidate
        .on_report(move |report, taken_at| {
            // The lease is held until the turn is over. Code outside the turn has to stop now.
            let over = report.wind_down || leaves.load(Ordering::Relaxed);
            shown.send_if_modified(|role| match &report.role {
                contract::Role::Leading(_) if over => role.ends(None),
                other => role.becomes(other, taken_at, &clock),
            });
        })
        .on_event(move |event| {
            // At the end of its validity a step may be under way, and take its time.
            match event {
                Event::StoodDown { term, .. } => {
                    ended.send_if_modified(|role| role.ends(Some(term)))
                }
                Event::Leaving { .. } => {
                    leaving.store(true, Ordering::Relaxed);
                    ended.send_if_modified(|role| role.ends(None))
                }
                _ => false,
            };
        })
}

impl Leader {
    fn from_record(leader: &contract::Incumbent) -> Self {
        Self { name: leader.name.clone(), term: leader.term, address: leader.address.clone() }
    }
}

impl Role {
    /// Its term, if it leads and may act at this instant. None also where it is shown as the leader, but its time is over:
    /// a step may be under way then, or the machine was suspended.
    #[must_use]
    pub fn leads(&self) -> Option<u64> {
        match self {
            Self::Leading(lease) if !lease.is_lost() => Some(lease.term()),
            _ => None,
        }
    }

    /// Becomes what a report says that is counted from `taken_at`. Whether that is a change.
    fn becomes(&mut self, told: &contract::Role, taken_at: Duration, clock: &Reading) -> bool {
        let next = match (told, &*self) {
            (contract::Role::Leading(now), _) => {
                let until = taken_at + now.valid_for;
                if let Self::Leading(lease) = self
                    && lease.term() == now.term
                {
                    lease.set(until);
                    return false;
                }
                Self::Leading(Lease::new(now.term, clock.clone(), until))
            }
            (contract::Role::Following(leader), _) => {
                let leader = leader.as_ref().map(Leader::from_record);
                if matches!(self, Self::Following { leader: before } if *before == leader) {
                    return false;
                }
                Self::Following { leader }
            }
            (contract::Role::Undecided, Self::Undecided) | (contract::Role::Left, Self::Left) => {
                return false;
            }
            (contract::Role::Undecided, _) => Self::Undecided,
            (contract::Role::Left, _) => Self::Left,
        };
        if let Self::Leading(lease) = self {
            lease.end();
        }
        *self = next;
        true
    }

    /// Ends with the election. Returns true if that is a change.
    fn leaves(&mut self) -> bool {
        if let Self::Leading(lease) = self {
            lease.end();
        }
        !matches!(std::mem::replace(self, Self::Left), Self::Left)
    }

    /// The leadership of that term is over, or of any. Whether it was not known yet.
    fn ends(&mut self, over: Option<u64>) -> bool {
        match self {
            Self::Leading(lease) if over.is_none_or(|over| lease.term() == over) => lease.end(),
            _ => return false,
        }
        *self = Self::Undecided;
        true
    }
}

#[cfg(test)]
mod tests;
