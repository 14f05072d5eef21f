use super::super::role::Role;
use super::super::tests::{NOW, board as a_board, leading, report, seconds, turn};
use super::*;
use futures_util::FutureExt as _;
use std::sync::Mutex;
use std::task::Poll;
use tenure::Event;
use tenure_core::ExchangeResult::Done;
use tenure_core::Report;

/// A clock that is set by hand, and wakes whoever sleeps.
#[derive(Clone)]
struct ByHand(Arc<Mutex<Duration>>);

impl Clock for ByHand {
    fn now(&self) -> Duration {
        *self.0.lock().unwrap()
    }

    async fn sleep_until(&self, at: Duration) {
        // Polled by hand too.
        std::future::poll_fn(|_| match self.now() < at {
            true => Poll::Pending,
            false => Poll::Ready(()),
        })
        .await;
    }
}

struct Scene {
    clock: ByHand,
    board: Arc<Board>,
    application: Application<ByHand>,
}

impl Scene {
    /// A leader for 12 seconds.
    fn leading() -> Self {
        let clock = ByHand(Arc::new(Mutex::new(NOW)));
        let board = Arc::new(a_board());
        let application = Application::new(board.clone(), clock.clone());
        board.stepped(&report(leading(), &[Done]), NOW, NOW);
        Self { clock, board, application }
    }

    fn at(&self, since: Duration) {
        *self.clock.0.lock().unwrap() = NOW + since;
    }

    /// Whether the application that asks now may act.
    fn says_yes(&self) -> bool {
        matches!(self.board.told_role(self.clock.now()), Role::Leading { .. })
    }

    fn turn(&self) -> BoxFuture<'_, TurnEnd> {
        let deadline = Lease::new(1, self.clock.reading(), NOW + seconds(12));
        self.application.on_tick(turn(), deadline)
    }

    fn winds_down(&self, winds_down: bool) {
        let now = self.clock.now();
        let report = Report { wind_down: winds_down, ..report(leading(), &[Done]) };
        self.board.stepped(&report, now, now);
    }
}

#[test]
fn it_may_act_while_its_turn_is_under_way_and_no_longer_than_the_leadership() {
    let scene = Scene::leading();
    assert!(!scene.says_yes(), "the turn has not begun");
    let mut turn = scene.turn();
    assert!(turn.as_mut().now_or_never().is_none() && scene.says_yes());
    scene.at(seconds(11));
    assert!(scene.says_yes());
    scene.at(seconds(12));
    assert!(!scene.says_yes(), "nobody renewed it");
    scene.at(seconds(11));
    drop(turn);
    assert!(!scene.says_yes(), "it was stopped");
}

/// The runner is told to leave.
fn leave(board: &Board) {
    board.happened(&Event::Leaving { grace: Duration::ZERO }, NOW);
}

#[test]
fn a_leadership_is_given_up_when_all_that_was_told_has_run_out() {
    for leaves in [false, true] {
        let scene = Scene::leading();
        let mut turn = scene.turn();
        assert!(turn.as_mut().now_or_never().is_none() && scene.says_yes());
        scene.at(seconds(3));
        match leaves {
            true => leave(&scene.board),
            false => scene.winds_down(true),
        }
        assert!(!scene.says_yes(), "it is told at once");
        // The lease is renewed meanwhile, which is not told.
        scene.at(seconds(11));
        scene.winds_down(!leaves);
        assert!(!scene.says_yes());
        assert!(turn.as_mut().now_or_never().is_none(), "it may act for one second more");
        scene.at(seconds(12));
        assert_eq!(turn.as_mut().now_or_never(), Some(TurnEnd::Succeeded));
    }
}

#[test]
fn what_nobody_asked_for_is_given_up_at_once() {
    let scene = Scene::leading();
    let mut turn = scene.turn();
    assert!(turn.as_mut().now_or_never().is_none());
    leave(&scene.board);
    assert_eq!(turn.as_mut().now_or_never(), Some(TurnEnd::Succeeded));
}

#[test]
fn a_leadership_that_goes_on_after_all_is_told_again() {
    let scene = Scene::leading();
    let mut turn = scene.turn();
    assert!(turn.as_mut().now_or_never().is_none() && scene.says_yes());
    scene.winds_down(true);
    assert!(turn.as_mut().now_or_never().is_none() && !scene.says_yes());
    scene.at(seconds(1));
    scene.winds_down(false);
    assert!(turn.as_mut().now_or_never().is_none() && scene.says_yes());
    scene.at(seconds(12));
    assert!(turn.as_mut().now_or_never().is_none(), "until then it was told before");
}

#[test]
fn work_of_this_process_is_told_of_as_it_is() {
    let board = a_board();
    board.stepped(&report(leading(), &[Done]), NOW, NOW);
    leave(&board);
    assert!(matches!(board.told_role(NOW), Role::Leading { term: 7, .. }));
    assert_eq!(board.told_role(NOW + seconds(12)), Role::Undecided);
}
