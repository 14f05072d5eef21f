//! A thread for the elections of a process alone, and what runs on it.
//!
//! The candidates of a process share it, with their requests and timers: what one of them does needs no other thread to
//! wake up. Turns, pages and collectors are elsewhere, so that nothing that they compute holds up a renewal.

use crate::future::becomes_true;
use std::future::poll_fn;
use std::io;
use std::panic::resume_unwind;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use tokio::runtime::{Builder, Handle as Runtime};
use tokio::select;
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::JoinSet;

/// Tasks that come and go. When this is dropped, they end.
#[derive(Debug)]
pub struct Tasks {
    /// What they run on: one thread.
    pub runtime: Runtime,
    running: Mutex<JoinSet<()>>,
    /// Held by the one that waits for their end.
    waiting: tokio::sync::Mutex<()>,
    added: Notify,
    /// All are to leave.
    leave: watch::Sender<bool>,
    /// Its end ends the thread.
    _keep: oneshot::Sender<()>,
}

/// A task that was added. It goes on when this is dropped.
#[derive(Clone, Debug)]
pub struct Task {
    leave: watch::Sender<bool>,
    ended: watch::Receiver<()>,
}

/// The word that a task is to leave.
#[derive(Clone, Debug)]
pub struct Leave {
    own: watch::Receiver<bool>,
    all: watch::Receiver<bool>,
}

impl Tasks {
    /// # Errors
    ///
    /// The system has no thread left, or no descriptor.
    pub fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (keep, end) = oneshot::channel();
        let handle = runtime.handle().clone();
        let work = move || {
            let _ = runtime.block_on(end);
            // Name resolution under way must not hold up the end.
            runtime.shutdown_background();
        };
        thread::Builder::new().name("tenure-elections".to_owned()).spawn(work)?;
        Ok(Self {
            runtime: handle,
            running: Mutex::default(),
            waiting: tokio::sync::Mutex::default(),
            added: Notify::new(),
            leave: watch::Sender::new(false),
            _keep: keep,
        })
    }

    /// Runs one more, which is told when it is to leave.
    pub fn add<F>(&self, task: impl FnOnce(Leave) -> F) -> Task
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let leave = watch::Sender::new(false);
        // Dropped with the task, however it ends.
        let (running, ended) = watch::channel(());
        // In a place of its own, or the task would have room for it twice.
        let task = Box::pin(task(Leave { own: leave.subscribe(), all: self.leave.subscribe() }));
        let task = async move {
            let _running = running;
            task.await;
        };
        let mut running = self.running();
        self.forget_ended(&mut running);
        running.spawn_on(task, &self.runtime);
        drop(running);
        self.added.notify_one();
        Task { leave, ended }
    }

    /// Whether all are to leave.
    pub fn is_leaving(&self) -> bool {
        *self.leave.borrow()
    }

    /// Completes when all are to leave.
    pub async fn asked(&self) {
        becomes_true(&mut self.leave.subscribe()).await;
    }

    /// Has all leave.
    pub fn leave(&self) {
        self.leave.send_replace(true);
    }

    /// Completes when all were told to leave and have ended.
    ///
    /// # Panics
    ///
    /// As soon as one of them did.
    pub async fn ended(&self) {
        // Tasks wake up one that waits for them, and no other.
        let _one = self.waiting.lock().await;
        let mut leave = self.leave.subscribe();
        loop {
            let next = poll_fn(|context| self.running().poll_join_next(context));
            match next.await {
                Some(Err(error)) if error.is_panic() => resume_unwind(error.into_panic()),
                Some(_) => {}
                None if *leave.borrow() => return,
                // Nothing runs, which is no end: more may come.
                None => select! {
                    () = self.added.notified() => {}
                    _ = leave.changed() => {}
                },
            }
        }
    }

    /// Ends all, whatever they are at.
    pub async fn abort(&self) {
        let mut running = std::mem::take(&mut *self.running());
        running.shutdown().await;
    }

    /// What has ended takes room until somebody hears of it. A panic is kept for [`ended`](Self::ended).
    fn forget_ended(&self, running: &mut JoinSet<()>) {
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
    /// Has it leave.
    pub fn leave(&self) {
        self.leave.send_replace(true);
    }

    /// Completes when it has ended.
    pub async fn ended(&mut self) {
        // Nothing is ever sent.
        while self.ended.changed().await.is_ok() {}
    }
}

impl Leave {
    /// Completes when the task is to leave.
    pub async fn asked(mut self) {
        select! {
            () = becomes_true(&mut self.own) => {}
            () = becomes_true(&mut self.all) => {}
        }
    }

    /// Completes when the task was told so itself: whoever added it has it leave in its turn.
    pub async fn asked_itself(mut self) {
        becomes_true(&mut self.own).await;
    }

    /// Whether the task alone is to leave, while others go on.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        *self.own.borrow() && !*self.all.borrow()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::time::timeout;

    #[tokio::test]
    async fn tasks_come_and_go_and_the_rest_is_ended_at_the_end() {
        let tasks = Tasks::start().unwrap();
        let until_asked = |leave: Leave| leave.asked();
        let (mut first, mut second) = (tasks.add(until_asked), tasks.add(until_asked));
        first.leave();
        first.ended().await;
        assert!(timeout(Duration::ZERO, second.ended()).await.is_err(), "it goes on");
        let third = tasks.add(until_asked);
        // Whoever holds nothing of a task has not ended it.
        drop(third);
        assert!(timeout(Duration::ZERO, tasks.ended()).await.is_err(), "two go on");
        tasks.leave();
        tasks.ended().await;
        second.ended().await;
        // It has left before it began.
        tasks.add(until_asked).ended().await;
        tasks.ended().await;
    }

    #[tokio::test]
    async fn all_who_wait_for_the_end_hear_of_it() {
        let tasks = Arc::new(Tasks::start().unwrap());
        tasks.add(|leave| leave.asked());
        let mut waiting = JoinSet::new();
        for _ in 0..2 {
            let tasks = tasks.clone();
            waiting.spawn(async move { tasks.ended().await });
            // It waits before the next one does.
            tokio::task::yield_now().await;
        }
        tasks.leave();
        timeout(Duration::from_secs(60), waiting.join_all()).await.expect("both hear of it");
    }

    #[tokio::test]
    async fn those_that_have_ended_take_no_room() {
        let tasks = Tasks::start().unwrap();
        for _ in 0..100 {
            tasks.add(|_| async {}).ended().await;
        }
        let left = tasks.running().len();
        assert!(left < 10, "{left}");
    }

    #[tokio::test]
    #[should_panic(expected = "of one")]
    async fn the_panic_of_one_is_not_forgotten_when_others_come() {
        let tasks = Tasks::start().unwrap();
        tasks.add(|_| async { panic!("of one") }).ended().await;
        for _ in 0..10 {
            tasks.add(|_| async {}).ended().await;
        }
        tasks.ended().await;
    }

    #[tokio::test]
    async fn nothing_that_runs_is_no_end() {
        let tasks = Tasks::start().unwrap();
        assert!(timeout(Duration::ZERO, tasks.ended()).await.is_err());
        tasks.add(Leave::asked).leave();
        let ended = async {
            tasks.ended().await;
        };
        let (mut task, asks) = (tasks.add(Leave::asked), async { tasks.leave() });
        tokio::join!(ended, asks);
        task.ended().await;
    }

    #[tokio::test]
    #[should_panic(expected = "of one")]
    async fn the_panic_of_one_is_not_lost() {
        let tasks = Tasks::start().unwrap();
        tasks.add(|_| async { panic!("of one") });
        tasks.ended().await;
    }
}
