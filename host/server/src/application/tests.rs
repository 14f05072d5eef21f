use super::super::role::Role;
use super::super::tests::{NOW, board as a_board, leading, report, seconds, turn};
use super::*;
use futures_util::FutureExt as _;
use std::sync::Mutex;
use std::task::Poll;
use tenure::Event;
use tenure_core::ExchangeResult::Done;
use tenure_core::Report;

/// A manual clock. Sleeping tasks check it when they are polled.
#[derive(Clone)]
struct ManualClock(Arc<Mutex<Duration>>);

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        *self.0.lock().unwrap()
    }

    async fn sleep_until(&self, at: Duration) {
        // The tests poll by hand too.
        std::future::poll_fn(|_| match self.now() < at {
            true => Poll::Pending,
            false => Poll::Ready(()),
        })
        .await;
    }
}

struct Scene {
    clock: ManualClock,
    board: Arc<Board>,
    application: Application<ManualClock>,
}

impl Scene {
    /// Returns a leader for 12 seconds.
    fn leading() -> Self {
        let clock = ManualClock(Arc::new(Mutex::new(NOW)));
        let board = Arc::new(a_board());
        let application = Application::new(board.clone(), clock.clone());
        board.on_step(&report(leading(), &[Done]), NOW, NOW);
        Self { clock, board, application }
    }

    fn set_elapsed(&self, elapsed: Duration) {
        *self.clock.0.lock().unwrap() = NOW + elapsed;
    }

    /// Returns true if the application may act now.
    fn may_act(&self) -> bool {
        matches!(self.board.allowed_role(self.clock.now()), Role::Leading { .. })
    }

    fn turn(&self) -> BoxFuture<'_, TurnEnd> {
        let deadline = Lease::new(1, self.clock.handle(), NOW + seconds(12));
        self.application.on_tick(turn(), deadline)
    }

    fn set_winding_down(&self, winds_down: bool) {
        let now = self.clock.now();
        let report = Report { wind_down: winds_down, ..report(leading(), &[Done]) };
        self.board.on_step(&report, now, now);
    }
}

#[test]
fn it_may_act_while_its_turn_is_under_way_and_no_longer_than_the_leadership() {
    let scene = Scene::leading();
    assert!(!scene.may_act(), "the turn has not begun");
    let mut turn = scene.turn();
    assert!(turn.as_mut().now_or_never().is_none() && scene.may_act());
    scene.set_elapsed(seconds(11));
    assert!(scene.may_act());
    scene.set_elapsed(seconds(12));
    assert!(!scene.may_act(), "nobody renewed it");
    scene.set_elapsed(seconds(11));
    drop(turn);
    assert!(!scene.may_act(), "it was stopped");
}

/// Reports that the runner leaves.
fn leave(board: &Board) {
    board.on_event(&Event::Leaving { grace: Duration::ZERO }, NOW);
}

#[test]
fn a_leadership_is_given_up_when_every_allowance_has_expired() {
    for leaves in [false, true] {
        let scene = Scene::leading();
        let mut turn = scene.turn();
        assert!(turn.as_mut().now_or_never().is_none() && scene.may_act());
        scene.set_elapsed(seconds(3));
        match leaves {
            true => leave(&scene.board),
            false => scene.set_winding_down(true),
        }
        assert!(!scene.may_act(), "it is told at once");
        // The lease is renewed meanwhile; the application is not notified.
        scene.set_elapsed(seconds(11));
        scene.set_winding_down(!leaves);
        assert!(!scene.may_act());
        assert!(turn.as_mut().now_or_never().is_none(), "it may act for one second more");
        scene.set_elapsed(seconds(12));
        assert_eq!(turn.as_mut().now_or_never(), Some(TurnEnd::Succeeded));
    }
}

#[test]
fn an_unused_leadership_is_given_up_at_once() {
    let scene = Scene::leading();
    let mut turn = scene.turn();
    assert!(turn.as_mut().now_or_never().is_none());
    leave(&scene.board);
    assert_eq!(turn.as_mut().now_or_never(), Some(TurnEnd::Succeeded));
}

#[test]
fn a_leadership_that_continues_after_all_is_reported_again() {
    let scene = Scene::leading();
    let mut turn = scene.turn();
    assert!(turn.as_mut().now_or_never().is_none() && scene.may_act());
    scene.set_winding_down(true);
    assert!(turn.as_mut().now_or_never().is_none() && !scene.may_act());
    scene.set_elapsed(seconds(1));
    scene.set_winding_down(false);
    assert!(turn.as_mut().now_or_never().is_none() && scene.may_act());
    scene.set_elapsed(seconds(12));
    assert!(turn.as_mut().now_or_never().is_none(), "until then it was told before");
}

#[test]
fn work_of_this_process_is_reported_unchanged() {
    let board = a_board();
    board.on_step(&report(leading(), &[Done]), NOW, NOW);
    leave(&board);
    assert!(matches!(board.allowed_role(NOW), Role::Leading { term: 7, .. }));
    assert_eq!(board.allowed_role(NOW + seconds(12)), Role::Undecided);
}
