//! Many elections in one process, which come and go while others work.

pub(crate) mod tasks;
#[cfg(test)]
mod tests;

use crate::clock::{BootClock, Clock as _, Reading};
use crate::contract;
use crate::deadline::Deadline;
use crate::election::Election;
use crate::handler::Handler;
use crate::runner::{Event, Runner};
use crate::settings::{InvalidSettings, Variables};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tasks::{Task, Tasks};
use tokio::runtime::Handle as Runtime;
use tokio::sync::watch;

/// The elections of a process. They share a clock, a thread, and the connections to the storage
/// service. Of each there is little more than its state: 20 to 30 KiB.
///
/// Turns run on the runtime on which their election was [added](Tenure::add).
///
/// Keep it as long as its elections are to go on: when it is dropped, all work stops, and leases run out.
///
/// ```no_run
/// use tenure::elections::{Role, Tenure};
/// use tenure::handler;
/// use tenure::settings::{Credential, Schedule, Settings};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let tenure = Tenure::start()?;
/// let mut handles = Vec::new();
/// for tenant in ["ada", "ben"] {
///     let mut settings = Settings::new(format!("tenants/{tenant}"), Credential::Environment);
///     settings.schedule = Some(Schedule::WhileLeading);
///     let work = handler::from_fn(|turn, lease| async move {
///         println!("{} under term {}, {:?} left", turn.election, turn.term, lease.remaining());
///         std::future::pending().await
///     });
///     handles.push(tenure.add(tenure.candidate(settings, work)).await?);
/// }
/// // What one of them is now, and whenever that changes.
/// let mut roles = handles[0].watch();
/// while let Some(role) = roles.next().await {
///     match role {
///         Role::Leading { term, .. } => {
///             println!("it leads under term {term}");
///             break;
///         }
///         Role::Following { leader: Some(leader), .. } => println!("{} leads", leader.name),
///         _ => {}
///     }
/// }
/// // Whether it may act, asked before each thing that is done outside its handler.
/// if let Some(term) = handles[0].leads() {
///     println!("it acts under term {term}");
/// }
/// // It stops its work and releases its lease; the other one goes on.
/// handles.remove(0).leave().await;
/// // All that are left.
/// tenure.leave().await;
/// # Ok(())
/// # }
/// ```
pub struct Tenure {
    election: Election,
    clock: BootClock,
    tasks: Tasks,
}

/// An election that was [added](Tenure::add). It goes on when this is dropped, for as long as its [`Tenure`] is there.
#[derive(Clone, Debug)]
pub struct Handle {
    task: Task,
    role: watch::Receiver<Role>,
}

/// What a candidate is at the moment.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Role {
    /// Not known yet, or nobody is known to lead.
    #[default]
    Undecided,
    /// It leads, or did until now: `valid` decides (see [`leads`](Role::leads)).
    #[non_exhaustive]
    Leading {
        /// The fencing token.
        term: u64,
        /// Until when it may act. Renewals move that on, and the end of the leadership moves it into the past, also
        /// where nobody reads [`watch`](Handle::watch). That is so from the moment on in which it is to
        /// [leave](Handle::leave) or its work is told to end. The lease is released as soon as the handler has stopped, and
        /// waits for nobody else. Whatever acts by this alone needs a handler whose turn lasts as long as the leadership
        /// ([`Schedule::WhileLeading`](crate::settings::Schedule::WhileLeading)) and ends only after it has ended.
        valid: Deadline,
    },
    /// Another one leads.
    #[non_exhaustive]
    Following {
        /// Which one, where that is known.
        leader: Option<Leader>,
    },
    /// It has left the election, or has ended without that: its [`Tenure`] was dropped, or a callback panicked.
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

/// The role of this process in an election, as it changes: see [`Handle::watch`].
#[derive(Clone, Debug)]
pub struct Roles(watch::Receiver<Role>);

impl Tenure {
    /// No election yet, on a thread of its own. When it is dropped, the thread ends, and leases expire: work ends at its
    /// next `.await`, and nobody waits for it. [`leave`](Self::leave) does.
    ///
    /// # Errors
    ///
    /// The system has no thread left.
    pub fn start() -> io::Result<Self> {
        let clock = BootClock::new();
        let election = Election::new(Variables::new(), &clock);
        Ok(Self { election, clock, tasks: Tasks::start()? })
    }

    /// A candidate of one election with its work, for [`add`](Tenure::add). Configure the returned [`Runner`] before.
    #[must_use]
    pub fn candidate(
        &self,
        settings: impl Into<Variables>,
        work: impl Handler,
    ) -> Runner<Election, BootClock> {
        let elector = self.election.with_settings(settings);
        Runner::new(elector, work, self.clock.clone())
    }

    /// Adds an election, in which the candidate contends from now on. The others are not held up. After
    /// [`leave`](Tenure::leave) of all of them it does not contend, but has [`Left`](Role::Left).
    ///
    /// Its turns run on the runtime that this is called in, which must outlast it: without it, each turn fails. A runtime of
    /// the calling thread alone runs them only while that is inside `block_on`.
    ///
    /// A runner with an elector of its own may be added too, one that is
    /// [trusting](Election::trusting) other authorities for example.
    ///
    /// Two candidates of one election are two that contend. Give them [names](crate::settings::Settings::name) that differ.
    ///
    /// # Errors
    ///
    /// All complaints about its settings at once. Nothing was sent then.
    ///
    /// # Panics
    ///
    /// Outside a runtime of tokio, which runs the turns.
    pub async fn add(
        &self,
        candidate: Runner<Election, BootClock>,
    ) -> Result<Handle, InvalidSettings> {
        candidate.elector.check()?;
        let (told, role) = watch::channel(Role::default());
        let told = Arc::new(told);
        let mut candidate = seen(candidate.turns_by_default_on(Runtime::current()), told.clone());
        let ended = Ended(told);
        let task = self.tasks.add(|leave| async move {
            let _ended = ended;
            candidate.run(leave.asked()).await;
        });
        Ok(Handle { task, role })
    }

    /// Leaves all elections: each as [`Handle::leave`] does, and all at the same time.
    ///
    /// # Panics
    ///
    /// When a callback of one of them did, at any time before. The others have left by then.
    pub fn leave(&self) -> impl Future<Output = ()> {
        self.tasks.leave();
        self.tasks.left()
    }
}

impl fmt::Debug for Tenure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tenure").field("election", &self.election).finish_non_exhaustive()
    }
}

impl Handle {
    /// The role of this process in the election at this instant.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role.borrow().clone()
    }

    /// The role of this process in the election, now and whenever it changes. A renewal is no change.
    #[must_use]
    pub fn watch(&self) -> Roles {
        let mut role = self.role.clone();
        role.mark_changed();
        Roles(role)
    }

    /// The term of this process, if it leads and may act at this instant, as [`Role::leads`].
    #[must_use]
    pub fn leads(&self) -> Option<u64> {
        self.role.borrow().leads()
    }

    /// Leaves the election: lets a running turn end within the grace of its runner or stops it, releases the lease, and
    /// completes when that is over, as [`Runner::run`] does. It begins at once, and goes on when the future is dropped.
    /// A handler that did not stop in time may still run then: do not add the same election again before it has stopped
    /// ([`Runner::keeping`]). If the [`Tenure`] is gone, nothing is left to be released, and it completes at once.
    pub fn leave(mut self) -> impl Future<Output = ()> {
        self.task.leave();
        async move { self.task.ended().await }
    }
}

impl Roles {
    /// The role now when this is asked first, and the newest one whenever it has changed since. The last one is
    /// [`Left`](Role::Left), and none follows.
    ///
    /// No role is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Role> {
        self.0.changed().await.ok()?;
        Some(self.0.borrow_and_update().clone())
    }
}

/// However it ends, the role ends with it.
struct Ended(Arc<watch::Sender<Role>>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.send_if_modified(Role::leaves);
    }
}

/// Makes the candidate show its role in `told`.
fn seen(
    candidate: Runner<Election, BootClock>,
    told: Arc<watch::Sender<Role>>,
) -> Runner<Election, BootClock> {
    let (clock, ended) = (candidate.clock.reading(), told.clone());
    let leaving = Arc::new(AtomicBool::new(false));
    let leaves = leaving.clone();
    candidate
        .on_report(move |report, taken_at| {
            // It leads on until its turn is over and the lease is released, which nobody else is waited for.
            let over = report.wind_down || leaves.load(Ordering::Relaxed);
            told.send_if_modified(|role| match &report.role {
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
    fn of(told: &contract::Incumbent) -> Self {
        Self { name: told.name.clone(), term: told.term, address: told.address.clone() }
    }
}

impl Role {
    /// Its term, if it leads and may act at this instant. None also where it is shown as the leader, but its time is over:
    /// a step may be under way then, or the machine was suspended.
    #[must_use]
    pub fn leads(&self) -> Option<u64> {
        match self {
            Self::Leading { term, valid } if !valid.passed() => Some(*term),
            _ => None,
        }
    }

    /// Becomes what a report says that is counted from `taken_at`. Whether that is a change.
    fn becomes(&mut self, told: &contract::Role, taken_at: Duration, clock: &Reading) -> bool {
        let next = match (told, &*self) {
            (contract::Role::Leading(now), _) => {
                let until = taken_at + now.valid_for;
                if let Self::Leading { term, valid } = self
                    && *term == now.term
                {
                    valid.set(until);
                    return false;
                }
                Self::Leading { term: now.term, valid: Deadline::new(clock.clone(), until) }
            }
            (contract::Role::Following(leader), _) => {
                let leader = leader.as_ref().map(Leader::of);
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
        if let Self::Leading { valid, .. } = self {
            valid.set(Duration::ZERO);
        }
        *self = next;
        true
    }

    /// It is over. Whether that was not known yet.
    fn leaves(&mut self) -> bool {
        if let Self::Leading { valid, .. } = self {
            valid.set(Duration::ZERO);
        }
        !matches!(std::mem::replace(self, Self::Left), Self::Left)
    }

    /// The leadership of that term is over, or of any. Whether it was not known yet.
    fn ends(&mut self, over: Option<u64>) -> bool {
        match self {
            Self::Leading { term, valid } if over.is_none_or(|over| *term == over) => {
                valid.set(Duration::ZERO);
            }
            _ => return false,
        }
        *self = Self::Undecided;
        true
    }
}
