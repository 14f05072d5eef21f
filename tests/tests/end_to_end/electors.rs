//! A program that leads by the library alone, beside one that hosts the component.

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

/// Work that nobody else does at the same time, and that rises in terms.
async fn work(term: u64, acts: Arc<AtomicU64>) {
    /// The term, while the work goes on; nothing for others to see afterwards.
    struct Acts(Arc<AtomicU64>);
    impl Drop for Acts {
        fn drop(&mut self) {
            self.0.store(0, Ordering::SeqCst);
        }
    }
    assert_eq!(acts.swap(term, Ordering::SeqCst), 0, "two work at a time");
    let _acts = Acts(acts);
    std::future::pending().await
}

impl Candidate {
    fn start(elector: impl Elector + 'static, clock: &BootClock, acts: &Arc<AtomicU64>) -> Self {
        let ((leave, asked), (orders, mut ordered)) = (oneshot::channel(), mpsc::channel(1));
        let (tell, events) = mpsc::unbounded_channel();
        let acts = acts.clone();
        let work = handler::from_fn(move |turn, _| {
            let work = work(turn.term, acts.clone());
            async move {
                work.await;
                Ok(())
            }
        });
        let mut runner = Runner::new(elector, work, clock.clone())
            .grace(Duration::ZERO)
            .on_event(move |event| drop(tell.send(event)));
        let task = tokio::spawn(async move {
            runner.run_with(async { drop(asked.await) }, &mut ordered).await;
        });
        Self { task, leave, orders, events }
    }

    async fn until<T>(&mut self, seen: impl Fn(&Event) -> Option<T>) -> T {
        let found = async {
            loop {
                let event = self.events.recv().await.expect("it has not ended");
                if let Some(found) = seen(&event) {
                    return found;
                }
            }
        };
        timeout(tenure_tests::PATIENCE, found).await.expect("it happens")
    }

    /// Its term, as soon as it leads.
    async fn leads(&mut self) -> u64 {
        self.until(|event| match event {
            Event::Elected { term, .. } => Some(*term),
            _ => None,
        })
        .await
    }

    async fn follows(&mut self) {
        self.until(|event| matches!(event, Event::Following { .. }).then_some(())).await;
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
        CandidateSettings::from(settings).on(Schedule::WhileLeading)
    };
    let acts = Arc::default();
    let mut native = Candidate::start(Election::new(settings("native"), &clock), &clock, &acts);
    let mut terms = vec![native.leads().await];
    let engine = Engine::with_cache(None).unwrap();
    let hosted = ElectionComponent::new(&engine, settings("hosted"), &clock).unwrap();
    let mut hosted = Candidate::start(hosted, &clock, &acts);
    hosted.follows().await;
    native.hand_over("hosted").await;
    terms.push(hosted.leads().await);
    hosted.hand_over("native").await;
    terms.push(native.leads().await);
    // Killed: its work ends in the same instant, and its lease runs out.
    native.task.abort();
    assert!(native.task.await.unwrap_err().is_cancelled());
    terms.push(hosted.leads().await);
    let mut native = Candidate::start(Election::new(settings("native"), &clock), &clock, &acts);
    native.follows().await;
    hosted.leave.send(()).unwrap();
    hosted.task.await.unwrap();
    terms.push(native.leads().await);
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
