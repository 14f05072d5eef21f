//! A thread for the elections of a process, and its tasks.
//!
//! All candidates of a process share the thread, including their requests and timers, so these
//! rarely wake another thread. Turns, pages and collectors run elsewhere, so that their
//! computations do not delay renewals.

use crate::future::wait_until_true;
use std::future::poll_fn;
use std::io;
use std::panic::resume_unwind;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use tokio::runtime::{Builder, Handle as Runtime};
use tokio::select;
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::JoinSet;

/// A dynamic set of tasks on one thread. Dropping the set ends the tasks.
#[derive(Debug)]
pub struct Tasks {
    /// Runtime of the tasks, with one thread.
    pub runtime: Runtime,
    running: Mutex<JoinSet<()>>,
    /// Held while joining the tasks.
    join_lock: tokio::sync::Mutex<()>,
    added: Notify,
    /// True if all tasks are to leave.
    leave: watch::Sender<bool>,
    /// Dropping it ends the thread.
    _keep_alive: oneshot::Sender<()>,
}

/// Handle to an added task. Dropping it does not end the task.
#[derive(Clone, Debug)]
pub struct Task {
    leave: watch::Sender<bool>,
    ended: watch::Receiver<()>,
}

/// Signal that a task is to leave.
#[derive(Clone, Debug)]
pub struct LeaveSignal {
    task_flag: watch::Receiver<bool>,
    shared_flag: watch::Receiver<bool>,
}

impl Tasks {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// Fails if the system cannot create a thread or a descriptor.
    pub fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (keep_alive, end) = oneshot::channel();
        let handle = runtime.handle().clone();
        let work = move || {
            let _ = runtime.block_on(end);
            // Name resolution in progress must not delay the end.
            runtime.shutdown_background();
        };
        thread::Builder::new().name("tenure-elections".to_owned()).spawn(work)?;
        Ok(Self {
            runtime: handle,
            running: Mutex::default(),
            join_lock: tokio::sync::Mutex::default(),
            added: Notify::new(),
            leave: watch::Sender::new(false),
            _keep_alive: keep_alive,
        })
    }

    /// Adds a task, which receives the signal to leave.
    pub fn add<F>(&self, task: impl FnOnce(LeaveSignal) -> F) -> Task
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let leave = watch::Sender::new(false);
        // The sender is dropped with the task, even on a panic, which closes `ended`.
        let (running, ended) = watch::channel(());
        // Boxed, because the task would otherwise reserve its size twice.
        let task = Box::pin(task(LeaveSignal {
            task_flag: leave.subscribe(),
            shared_flag: self.leave.subscribe(),
        }));
        let task = async move {
            let _running = running;
            task.await;
        };
        let mut running = self.running();
        self.reap_ended(&mut running);
        running.spawn_on(task, &self.runtime);
        drop(running);
        self.added.notify_one();
        Task { leave, ended }
    }

    /// Returns true if all tasks are to leave.
    pub fn is_leaving(&self) -> bool {
        *self.leave.borrow()
    }

    /// Waits until all tasks are to leave.
    pub async fn leave_requested(&self) {
        wait_until_true(&mut self.leave.subscribe()).await;
    }

    /// Asks all tasks to leave.
    pub fn leave(&self) {
        self.leave.send_replace(true);
    }

    /// Waits until all tasks were asked to leave and have ended.
    ///
    /// # Panics
    ///
    /// Panics as soon as a task has panicked.
    pub async fn join(&self) {
        // A `JoinSet` wakes only one waiter.
        let _one = self.join_lock.lock().await;
        let mut leave = self.leave.subscribe();
        loop {
            let next = poll_fn(|context| self.running().poll_join_next(context));
            match next.await {
                Some(Err(error)) if error.is_panic() => resume_unwind(error.into_panic()),
                Some(_) => {}
                None if *leave.borrow() => return,
                // An empty set is not the end, because tasks may be added.
                None => select! {
                    () = self.added.notified() => {}
                    _ = leave.changed() => {}
                },
            }
        }
    }

    /// Aborts all tasks, and waits until they have ended.
    pub async fn abort(&self) {
        let mut running = std::mem::take(&mut *self.running());
        running.shutdown().await;
    }

    /// Removes ended tasks, which use memory until they are joined. Keeps a panic for
    /// [`join`](Self::join).
    fn reap_ended(&self, running: &mut JoinSet<()>) {
        while let Some(ended) = running.try_join_next() {
            if let Some(panic) = ended.err().and_then(|error| error.try_into_panic().ok()) {
                running.spawn_on(async { resume_unwind(panic) }, &self.runtime);
                return;
            }
        }
    }

    fn running(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Task {
    /// Asks the task to leave.
    pub fn leave(&self) {
        self.leave.send_replace(true);
    }

    /// Waits until the task has ended.
    pub async fn join(&mut self) {
        // The channel carries no values; it closes at the end.
        while self.ended.changed().await.is_ok() {}
    }
}

impl LeaveSignal {
    /// Waits until the task is to leave.
    pub async fn requested(mut self) {
        select! {
            () = wait_until_true(&mut self.task_flag) => {}
            () = wait_until_true(&mut self.shared_flag) => {}
        }
    }

    /// Waits until the owner asks this task to leave. A request to all tasks does not count.
    pub async fn requested_for_task(mut self) {
        wait_until_true(&mut self.task_flag).await;
    }

    /// Returns true if only this task is to leave, while other tasks continue.
    #[must_use]
    pub fn is_for_task_only(&self) -> bool {
        *self.task_flag.borrow() && !*self.shared_flag.borrow()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::time::timeout;

    #[tokio::test]
    async fn tasks_end_alone_or_all_together() {
        let tasks = Tasks::start().unwrap();
        let wait_for_leave = |leave: LeaveSignal| leave.requested();
        let (mut first, mut second) = (tasks.add(wait_for_leave), tasks.add(wait_for_leave));
        first.leave();
        first.join().await;
        assert!(timeout(Duration::ZERO, second.join()).await.is_err(), "it goes on");
        let third = tasks.add(wait_for_leave);
        // Dropping a handle does not end its task.
        drop(third);
        assert!(timeout(Duration::ZERO, tasks.join()).await.is_err(), "two go on");
        tasks.leave();
        tasks.join().await;
        second.join().await;
        // The task is asked to leave before it starts.
        tasks.add(wait_for_leave).join().await;
        tasks.join().await;
    }

    #[tokio::test]
    async fn all_waiters_observe_the_end() {
        let tasks = Arc::new(Tasks::start().unwrap());
        tasks.add(|leave| leave.requested());
        let mut waiting = JoinSet::new();
        for _ in 0..2 {
            let tasks = tasks.clone();
            waiting.spawn(async move { tasks.join().await });
            // Lets this task wait before the next one does.
            tokio::task::yield_now().await;
        }
        tasks.leave();
        timeout(Duration::from_secs(60), waiting.join_all()).await.expect("both hear of it");
    }

    #[tokio::test]
    async fn ended_tasks_free_their_memory() {
        let tasks = Tasks::start().unwrap();
        for _ in 0..100 {
            tasks.add(|_| async {}).join().await;
        }
        let remaining = tasks.running().len();
        assert!(remaining < 10, "{remaining}");
    }

    #[tokio::test]
    #[should_panic(expected = "of one")]
    async fn a_panic_survives_later_tasks() {
        let tasks = Tasks::start().unwrap();
        tasks.add(|_| async { panic!("of one") }).join().await;
        for _ in 0..10 {
            tasks.add(|_| async {}).join().await;
        }
        tasks.join().await;
    }

    #[tokio::test]
    async fn an_empty_set_does_not_end_by_itself() {
        let tasks = Tasks::start().unwrap();
        assert!(timeout(Duration::ZERO, tasks.join()).await.is_err());
        tasks.add(LeaveSignal::requested).leave();
        let ended = async {
            tasks.join().await;
        };
        let (mut task, leaving) = (tasks.add(LeaveSignal::requested), async { tasks.leave() });
        tokio::join!(ended, leaving);
        task.join().await;
    }

    #[tokio::test]
    #[should_panic(expected = "of one")]
    async fn a_panic_is_propagated() {
        let tasks = Tasks::start().unwrap();
        tasks.add(|_| async { panic!("of one") });
        tasks.join().await;
    }
}
