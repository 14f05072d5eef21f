//! Under the real runner, with a script in place of the election.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tenure::Event;
use tenure::engine::{Elector, ElectorError, Runner};
use tenure::handler::TurnEnd;
use tenure_clock::{Clock, Reading};
use tenure_core::{Event as Word, Leadership, Report, Role, State};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::stage::{LONG, SOON, Stage, TURN};

/// How long the leadership is valid after each step.
const VALID: Duration = Duration::from_secs(3);
/// How often it is renewed.
const RENEW: Duration = Duration::from_millis(300);

/// Leads, has a turn run, and renews `renewals` times.
struct Script {
    clock: Reading,
    renewals: usize,
    steps: AtomicUsize,
    /// Up to when the leadership was prolonged, in nanoseconds.
    until: Arc<AtomicU64>,
}

impl Elector for Script {
    async fn step(
        &self,
        _: Option<State>,
        elapsed: Duration,
        word: Option<Word>,
    ) -> Result<Report, ElectorError> {
        let step = self.steps.fetch_add(1, Ordering::SeqCst);
        assert!(self.clock.now() >= elapsed);
        let again_in = if step < self.renewals { RENEW } else { LONG };
        let mut report = Report { renewed: step > 0, ..Report::of(Role::Left, again_in) };
        if word.is_none() {
            let valid_for = VALID;
            report.role = Role::Leading(Leadership { term: TURN.term, valid_for });
            report.run = (step == 0).then_some(tenure_core::Turn { valid_for, ..TURN });
            self.until.store(nanoseconds(elapsed + VALID), Ordering::SeqCst);
        }
        Ok(report)
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap()
}

/// Runs one turn in `mode`. Returns how it ended, when, and up to when the leadership was
/// prolonged.
async fn play(mode: &str, renewals: usize, host: Option<&str>) -> (TurnEnd, Duration, Duration) {
    let stage = Stage::new(mode, host);
    let clock = stage.clock.clone();
    let until = Arc::new(AtomicU64::new(0));
    let elector = Script {
        clock: clock.reading(),
        renewals,
        steps: AtomicUsize::new(0),
        until: until.clone(),
    };
    let (ended, end) = oneshot::channel();
    let ended = std::sync::Mutex::new(Some(ended));
    let told = clock.clone();
    let mut runner = Runner::new(elector, stage.handler, clock).on_event(move |event| {
        if let Event::TurnEnded { end, .. } = event {
            let ended = ended.lock().unwrap().take().expect("one turn");
            ended.send((end, told.now())).unwrap();
        }
    });
    // It leaves as soon as the turn has ended.
    timeout(SOON, runner.run(std::future::pending())).await.expect("the turn has no end");
    let (end, at) = end.await.unwrap();
    (end, at, Duration::from_nanos(until.load(Ordering::SeqCst)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewals_move_the_end_of_a_turn_that_never_ends() {
    for mode in ["spin", "wait"] {
        let (end, at, until) = play(mode, 6, None).await;
        assert_eq!(end, TurnEnd::CutOff, "{mode}");
        assert!(at >= until && until > VALID + 5 * RENEW, "{mode}: {at:?}, {until:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_for_an_answer_ends_at_the_deadline() {
    // The kernel takes connections; nobody ever answers.
    let silence = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = silence.local_addr().unwrap().to_string();
    let (end, at, until) = play("wait-answer", 0, Some(&host)).await;
    assert_eq!(end, TurnEnd::CutOff);
    assert!(at >= until);
    silence.set_nonblocking(true).unwrap();
    silence.accept().expect("it asked");
}
