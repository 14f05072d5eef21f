//! Runs the handler under the real runner, with a scripted election.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tenure::Event;
use tenure::engine::{Elector, ElectorError, Runner};
use tenure::handler::TurnEnd;
use tenure_clock::{Clock, ClockHandle};
use tenure_core::{Event as StepInput, Leadership, Report, Role, State};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::stage::{LONG, Stage, TIMEOUT, TURN};

/// Validity of the leadership after each step.
const VALIDITY: Duration = Duration::from_secs(3);
/// Interval between renewals.
const RENEW_INTERVAL: Duration = Duration::from_millis(300);

/// Leads, starts a turn, and renews `renewals` times.
struct ScriptedElector {
    clock: ClockHandle,
    renewals: usize,
    steps: AtomicUsize,
    /// End of the extended leadership, in nanoseconds.
    until: Arc<AtomicU64>,
}

impl Elector for ScriptedElector {
    async fn step(
        &self,
        _: Option<State>,
        elapsed: Duration,
        input: Option<StepInput>,
    ) -> Result<Report, ElectorError> {
        let step = self.steps.fetch_add(1, Ordering::SeqCst);
        assert!(self.clock.now() >= elapsed);
        let again_in = if step < self.renewals { RENEW_INTERVAL } else { LONG };
        let mut report = Report { renewed: step > 0, ..Report::new(Role::Left, again_in) };
        if input.is_none() {
            let valid_for = VALIDITY;
            report.role = Role::Leading(Leadership { term: TURN.term, valid_for });
            report.run = (step == 0).then_some(tenure_core::Turn { valid_for, ..TURN });
            self.until.store(nanoseconds(elapsed + VALIDITY), Ordering::SeqCst);
        }
        Ok(report)
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap()
}

/// Runs one turn in `mode`. Returns its end, the time of that, and the end of the extended
/// leadership.
async fn run_turn(
    mode: &str,
    renewals: usize,
    host: Option<&str>,
) -> (TurnEnd, Duration, Duration) {
    let stage = Stage::new(mode, host);
    let clock = stage.clock.clone();
    let until = Arc::new(AtomicU64::new(0));
    let elector = ScriptedElector {
        clock: clock.handle(),
        renewals,
        steps: AtomicUsize::new(0),
        until: until.clone(),
    };
    let (ended, end) = oneshot::channel();
    let ended = std::sync::Mutex::new(Some(ended));
    let event_clock = clock.clone();
    let mut runner = Runner::new(elector, stage.handler, clock).on_event(move |event| {
        if let Event::TurnEnded { end, .. } = event {
            let ended = ended.lock().unwrap().take().expect("one turn");
            ended.send((end, event_clock.now())).unwrap();
        }
    });
    // The elector leaves as soon as the turn has ended.
    timeout(TIMEOUT, runner.run(std::future::pending())).await.expect("the turn has no end");
    let (end, at) = end.await.unwrap();
    (end, at, Duration::from_nanos(until.load(Ordering::SeqCst)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewals_move_the_end_of_a_turn_that_never_ends() {
    for mode in ["spin", "wait"] {
        let (end, at, until) = run_turn(mode, 6, None).await;
        assert_eq!(end, TurnEnd::CutOff, "{mode}");
        assert!(at >= until && until > VALIDITY + 5 * RENEW_INTERVAL, "{mode}: {at:?}, {until:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_for_an_answer_ends_at_the_deadline() {
    // The kernel accepts connections, but no server answers.
    let silent_listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = silent_listener.local_addr().unwrap().to_string();
    let (end, at, until) = run_turn("wait-answer", 0, Some(&host)).await;
    assert_eq!(end, TurnEnd::CutOff);
    assert!(at >= until);
    silent_listener.set_nonblocking(true).unwrap();
    silent_listener.accept().expect("it asked");
}
