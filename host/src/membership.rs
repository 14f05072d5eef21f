//! An election that this process takes part in: its role, its events, and the way out.

use crate::election::Election;
use crate::lease::Lease;
use crate::runner::{Event, Runner};
use crate::tasks::{Task, Tasks};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tenure_clock::{BootClock, Clock as _, ClockHandle};
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
    pub(crate) fn start(candidate: Runner<Election, BootClock>, tasks: &Tasks) -> Self {
        let (role_sender, role) = watch::channel(Role::default());
        let (role_sender, events) = (Arc::new(role_sender), Arc::new(OnceLock::new()));
        let senders: Arc<OnceLock<broadcast::Sender<Event>>> = events.clone();
        let mut candidate = publish_role(candidate, role_sender.clone()).on_event(move |event| {
            if let Some(sender) = senders.get() {
                // All readers may have gone.
                let _ = sender.send(event);
            }
        });
        let leave_guard = LeaveGuard(role_sender);
        let task = tasks.add(|leave| async move {
            let _leave_guard = leave_guard;
            candidate.run(leave.requested()).await;
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
    pub fn watch_role(&self) -> watch::Receiver<Role> {
        let mut role = self.role.clone();
        role.mark_changed();
        role
    }

    /// Returns the term of this process if it leads and may act at this instant, as [`Role::leads`] does.
    #[must_use]
    pub fn leading_term(&self) -> Option<u64> {
        self.role.borrow().leading_term()
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
        async move { self.task.join().await }
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
struct LeaveGuard(Arc<watch::Sender<Role>>);

impl Drop for LeaveGuard {
    fn drop(&mut self) {
        self.0.send_if_modified(Role::set_left);
    }
}

/// Makes the candidate show its role in `shown`.
fn publish_role(
    candidate: Runner<Election, BootClock>,
    role_sender: Arc<watch::Sender<Role>>,
) -> Runner<Election, BootClock> {
    let (clock, ended_sender) = (candidate.clock.handle(), role_sender.clone());
    let is_leaving = Arc::new(AtomicBool::new(false));
    let leaving_flag = is_leaving.clone();
    candidate
        .on_report(move |report, taken_at| {
            // The lease is held until the turn is over. Code outside the turn has to stop now.
            let is_ending = report.wind_down || leaving_flag.load(Ordering::Relaxed);
            role_sender.send_if_modified(|role| match &report.role {
                contract::Role::Leading(_) if is_ending => role.end_leadership(None),
                reported => role.update(reported, taken_at, &clock),
            });
        })
        .on_event(move |event| {
            // At the end of its validity a step may be under way, and take its time.
            match event {
                Event::StoodDown { term, .. } => {
                    ended_sender.send_if_modified(|role| role.end_leadership(Some(term)))
                }
                Event::Leaving { .. } => {
                    is_leaving.store(true, Ordering::Relaxed);
                    ended_sender.send_if_modified(|role| role.end_leadership(None))
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
    pub fn leading_term(&self) -> Option<u64> {
        match self {
            Self::Leading(lease) if !lease.is_lost() => Some(lease.term()),
            _ => None,
        }
    }

    /// Becomes what a report says that is counted from `taken_at`. Whether that is a change.
    fn update(&mut self, reported: &contract::Role, taken_at: Duration, clock: &ClockHandle) -> bool {
        let next = match (reported, &*self) {
            (contract::Role::Leading(leadership), _) => {
                let until = taken_at + leadership.valid_for;
                if let Self::Leading(lease) = self
                    && lease.term() == leadership.term
                {
                    lease.set_valid_until(until);
                    return false;
                }
                Self::Leading(Lease::new(leadership.term, clock.clone(), until))
            }
            (contract::Role::Following(leader), _) => {
                let leader = leader.as_ref().map(Leader::from_record);
                if matches!(self, Self::Following { leader: previous } if *previous == leader) {
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
    fn set_left(&mut self) -> bool {
        if let Self::Leading(lease) = self {
            lease.end();
        }
        !matches!(std::mem::replace(self, Self::Left), Self::Left)
    }

    /// The leadership of that term is over, or of any. Whether it was not known yet.
    fn end_leadership(&mut self, ended_term: Option<u64>) -> bool {
        match self {
            Self::Leading(lease) if ended_term.is_none_or(|ended_term| lease.term() == ended_term) => lease.end(),
            _ => return false,
        }
        *self = Self::Undecided;
        true
    }
}

#[cfg(test)]
mod tests;
