//! Membership of this process in an election: its role, its events, and how to leave.

use crate::election::Election;
use crate::lease::Lease;
use crate::runner::{Event, Runner};
use crate::tasks::{Task, Tasks};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use tenure_clock::{BootClock, Clock as _, ClockHandle};
use tenure_core as contract;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::watch;

/// Maximum number of events that are kept for a slow reader of [`Events`].
const EVENTS: usize = 256;

/// Membership of this process in an election, from [`Elector::start`](crate::Elector::start).
///
/// Dropping it leaves the election like [`leave`](Self::leave), in the background.
#[derive(Debug)]
pub struct Membership {
    task: Task,
    role: watch::Receiver<Role>,
    /// Sender of the events. The candidate owns it, so readers notice when the candidate ends.
    events: Weak<EventSender>,
}

/// Sender of events. Created for the first reader, because a channel takes about 60 KiB.
type EventSender = OnceLock<broadcast::Sender<Event>>;

/// Role of a process in an election.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Role {
    /// No leader is known: no poll was answered yet, or none has found a leader since this process
    /// led or since the last leader ended.
    #[default]
    Undecided,
    /// The process leads until this lease is lost. [`leading_term`](Role::leading_term) checks the
    /// lease too.
    ///
    /// This lease is lost early, as soon as the process starts to [leave](Membership::leave) or its
    /// work is asked to stop. The lease on the blob is released when the handler has stopped,
    /// without waiting for code outside the handler. Work that needs the time until that release
    /// must run in a handler that lasts as long as leadership.
    Leading(Lease),
    /// Another candidate leads.
    #[non_exhaustive]
    Following {
        /// The leader. `None` if another candidate holds the lease but there is no record yet.
        leader: Option<Leader>,
    },
    /// The process has left the election.
    Left,
}

/// Another candidate that leads, according to its record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// Its [name](crate::settings::Settings::name).
    pub name: String,
    /// Its fencing token.
    pub term: u64,
    /// Its [address](crate::settings::Settings::address), to which requests for the leader can be
    /// sent.
    pub address: Option<String>,
}

/// Stream of the events of an election: see [`Membership::events`].
#[derive(Debug)]
pub struct Events(broadcast::Receiver<Event>);

impl Membership {
    /// Runs the candidate on the thread of `tasks`.
    pub(crate) fn start(candidate: Runner<Election, BootClock>, tasks: &Tasks) -> Self {
        let (role_sender, role) = watch::channel(Role::default());
        let (role_sender, event_sender) = (Arc::new(role_sender), Arc::new(EventSender::new()));
        let events = Arc::downgrade(&event_sender);
        let mut candidate = publish_role(candidate, role_sender.clone()).on_event(move |event| {
            if let Some(sender) = event_sender.get() {
                // Fails if all readers were dropped.
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

    /// Returns the current role of this process in the election.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role.borrow().clone()
    }

    /// Returns a receiver of the role, which reports the current role first and then each change.
    ///
    /// A renewal is not a change. The last role is [`Left`](Role::Left).
    #[must_use]
    pub fn watch_role(&self) -> watch::Receiver<Role> {
        let mut role = self.role.clone();
        role.mark_changed();
        role
    }

    /// Returns the term of this process if it currently leads and may act, like
    /// [`Role::leading_term`].
    #[must_use]
    pub fn leading_term(&self) -> Option<u64> {
        self.role.borrow().leading_term()
    }

    /// Returns the stream of events from now on.
    ///
    /// Events are for logs and displays. Programs should act on the role and on the deadline of a
    /// turn.
    #[must_use]
    pub fn events(&self) -> Events {
        match self.events.upgrade() {
            Some(events) => {
                Events(events.get_or_init(|| broadcast::Sender::new(EVENTS)).subscribe())
            }
            // The candidate has ended. A channel without a sender is closed.
            None => Events(broadcast::channel(1).1),
        }
    }

    /// Leaves the election and returns when that is done, like [`Runner::run`].
    ///
    /// A running turn may end by itself within the [grace period](crate::handler::Handler::grace)
    /// of its handler, and is stopped after that. The lease is then released. All this starts with
    /// the call, before the first poll, and continues if the future is dropped. A handler that did
    /// not stop in time may still run afterwards.
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
    /// Returns the next event. Returns `None` after the last event once the candidate has ended,
    /// even by a panic.
    ///
    /// A reader that falls behind by more than 256 events misses the oldest ones. This method is
    /// cancel safe.
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

/// Sets the role to `Left` when the candidate ends, even by a panic.
struct LeaveGuard(Arc<watch::Sender<Role>>);

impl Drop for LeaveGuard {
    fn drop(&mut self) {
        self.0.send_if_modified(Role::set_left);
    }
}

/// Makes the candidate publish its role through `role_sender`.
fn publish_role(
    candidate: Runner<Election, BootClock>,
    role_sender: Arc<watch::Sender<Role>>,
) -> Runner<Election, BootClock> {
    let (clock, ended_sender) = (candidate.clock.handle(), role_sender.clone());
    let is_leaving = Arc::new(AtomicBool::new(false));
    let leaving_flag = is_leaving.clone();
    candidate
        .on_report(move |report, taken_at| {
            // The lease is held until the turn is over, but code outside the turn must stop now.
            let is_ending = report.wind_down || leaving_flag.load(Ordering::Relaxed);
            role_sender.send_if_modified(|role| match &report.role {
                contract::Role::Leading(_) if is_ending => role.end_leadership(None),
                reported => role.update(reported, taken_at, &clock),
            });
        })
        .on_event(move |event| {
            // Events are needed too: a failed step has no report, and leaving begins while a step
            // may still run.
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
    /// Returns the term of the process if it leads and may act now.
    ///
    /// Returns `None` if the role is `Leading` but its lease has run out. That happens while the
    /// step that should renew the lease is still under way, or after the machine was suspended.
    #[must_use]
    pub fn leading_term(&self) -> Option<u64> {
        match self {
            Self::Leading(lease) if !lease.is_lost() => Some(lease.term()),
            _ => None,
        }
    }

    /// Applies a report whose durations count from `taken_at`. Returns true if the role changed.
    fn update(
        &mut self,
        reported: &contract::Role,
        taken_at: Duration,
        clock: &ClockHandle,
    ) -> bool {
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

    /// Sets the role to `Left`. Returns true if the role changed.
    fn set_left(&mut self) -> bool {
        if let Self::Leading(lease) = self {
            lease.end();
        }
        !matches!(std::mem::replace(self, Self::Left), Self::Left)
    }

    /// Ends the leadership of that term, or of any term. Returns true if the role changed.
    fn end_leadership(&mut self, ended_term: Option<u64>) -> bool {
        match self {
            Self::Leading(lease)
                if ended_term.is_none_or(|ended_term| lease.term() == ended_term) =>
            {
                lease.end()
            }
            _ => return false,
        }
        *self = Self::Undecided;
        true
    }
}

#[cfg(test)]
mod tests;
