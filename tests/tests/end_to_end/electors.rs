//! A program that leads through the library, contending with one that hosts the component.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tenure::engine::{CandidateSettings, Election, Elector, Order, Runner};
use tenure::settings::{Credential, Schedule, Settings};
use tenure::{Event, handler};
use tenure_clock::BootClock;
use tenure_core::LeaseState;
use tenure_tests::{Store, needs};
use tenure_wasmtime::{ElectionComponent, Engine};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use uuid::Uuid;

struct Candidate {
    task: JoinHandle<()>,
    leave: oneshot::Sender<()>,
    orders: mpsc::Sender<Order>,
    events: mpsc::UnboundedReceiver<Event>,
}

/// Work that must never run twice at the same time, and whose terms increase.
async fn work(term: u64, active_term: Arc<AtomicU64>) {
    /// Guard that shows the term during the work, and clears it afterwards.
    struct ActiveTermGuard(Arc<AtomicU64>);
    impl Drop for ActiveTermGuard {
        fn drop(&mut self) {
            self.0.store(0, Ordering::SeqCst);
        }
    }
    assert_eq!(active_term.swap(term, Ordering::SeqCst), 0, "two work at a time");
    let _guard = ActiveTermGuard(active_term);
    std::future::pending().await
}

impl Candidate {
    fn start(
        elector: impl Elector + 'static,
        clock: &BootClock,
        active_term: &Arc<AtomicU64>,
    ) -> Self {
        let ((leave, leave_requested), (orders, mut orders_rx)) =
            (oneshot::channel(), mpsc::channel(1));
        let (event_tx, events) = mpsc::unbounded_channel();
        let active_term = active_term.clone();
        let work = handler::from_fn(move |turn, _| {
            let work = work(turn.term, active_term.clone());
            async move {
                work.await;
                Ok(())
            }
        });
        let mut runner = Runner::new(elector, work, clock.clone())
            .grace(Duration::ZERO)
            .on_event(move |event| drop(event_tx.send(event)));
        let task = tokio::spawn(async move {
            runner.run_with(async { drop(leave_requested.await) }, &mut orders_rx).await;
        });
        Self { task, leave, orders, events }
    }

    async fn wait_for<T>(&mut self, extract: impl Fn(&Event) -> Option<T>) -> T {
        let found = async {
            loop {
                let event = self.events.recv().await.expect("it has not ended");
                if let Some(found) = extract(&event) {
                    return found;
                }
            }
        };
        timeout(tenure_tests::PATIENCE, found).await.expect("it happens")
    }

    /// Waits until it leads, and returns its term.
    async fn wait_until_leading(&mut self) -> u64 {
        self.wait_for(|event| match event {
            Event::Elected { term, .. } => Some(*term),
            _ => None,
        })
        .await
    }

    async fn wait_until_following(&mut self) {
        self.wait_for(|event| matches!(event, Event::Following { .. }).then_some(())).await;
    }

    async fn hand_over(&self, to: &str) {
        self.orders.send(Order::HandOver(to.to_owned())).await.unwrap();
    }
}

async fn electors_of_both_kinds_lead_one_after_the_other(store: Store) {
    let clock = BootClock::new();
    let election = format!("tenure-test-{}/jobs/report", Uuid::new_v4().simple());
    let settings = |name: &str| {
        let credential = Credential::ConnectionString(store.connection_string().into());
        let mut settings = Settings::new(&election, credential);
        settings.name = Some(name.to_owned());
        CandidateSettings::from(settings).with_schedule(Schedule::WhileLeading)
    };
    let active_term = Arc::default();
    let mut native =
        Candidate::start(Election::new(settings("native"), &clock), &clock, &active_term);
    let mut terms = vec![native.wait_until_leading().await];
    let engine = Engine::with_cache(None).unwrap();
    let hosted = ElectionComponent::new(&engine, settings("hosted"), &clock).unwrap();
    let mut hosted = Candidate::start(hosted, &clock, &active_term);
    hosted.wait_until_following().await;
    native.hand_over("hosted").await;
    terms.push(hosted.wait_until_leading().await);
    hosted.hand_over("native").await;
    terms.push(native.wait_until_leading().await);
    // Killed: its work ends at once, and its lease expires.
    native.task.abort();
    assert!(native.task.await.unwrap_err().is_cancelled());
    terms.push(hosted.wait_until_leading().await);
    let mut native =
        Candidate::start(Election::new(settings("native"), &clock), &clock, &active_term);
    native.wait_until_following().await;
    hosted.leave.send(()).unwrap();
    hosted.task.await.unwrap();
    terms.push(native.wait_until_leading().await);
    native.leave.send(()).unwrap();
    native.task.await.unwrap();
    assert!(terms.is_sorted_by(|before, after| before < after), "{terms:?}");
    let election = Election::new(settings("nobody"), &clock);
    election.check().unwrap();
    assert_eq!(election.inspect().await.unwrap().lease, LeaseState::Available);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn electors_of_both_kinds_lead_one_after_the_other_in_the_embedded_store() {
    electors_of_both_kinds_lead_one_after_the_other(Store::embedded().await.unwrap()).await;
}

async fn electors_of_both_kinds_lead_one_after_the_other_in_azurite() {
    electors_of_both_kinds_lead_one_after_the_other(Store::shared_azurite(false).await.unwrap())
        .await;
}

needs!(Node => async fn electors_of_both_kinds_lead_one_after_the_other_in_azurite);
