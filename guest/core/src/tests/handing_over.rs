//! Handover between a leader and its successor, with one small service.

mod orders;
mod scene;

use super::*;
pub(super) use scene::{Scene, Service, candidate_named, scene};
use tenure_azure::blob::SideBlob;

#[test]
fn the_successor_leads_and_the_lease_was_never_free() {
    let mut scene = scene(["first", "second", "third"]);
    scene.hand_over("third");
    scene.run(seconds(8));
    assert_eq!(scene.leader().as_deref(), Some("third"));
    assert_eq!(scene.service.lease_ids.len(), 2);
    let [(name, ending)] = &scene.endings[..] else { panic!("{:?}", scene.endings) };
    assert_eq!((name.as_str(), ending.reason), ("first", EndingReason::HandedOver));
    let record = Record::from_metadata(&scene.service.record).unwrap().unwrap();
    assert_eq!((record.leader.as_str(), record.successor), ("third", None));
    assert!(record.term > ending.term);
    let earlier: Vec<_> = record.history.leaders().iter().map(|l| l.name.as_str()).collect();
    assert_eq!((earlier, record.changes), (vec!["first", "there"], 2));
    // The reverse direction.
    scene.candidates.swap(0, 2);
    scene.hand_over("first");
    scene.run(seconds(8));
    assert_eq!(scene.leader().as_deref(), Some("first"));
}

#[test]
fn a_successor_that_polls_more_seldom_than_its_leader_has_time_to_come() {
    for seed in 0..8 {
        let polls = |name, poll| candidate_named(name, &[(variable::POLL, poll)]);
        let mut scene = Scene::new(vec![polls("first", "500ms"), polls("second", "60s")]);
        scene.run(seconds(60) + seed * seconds(7));
        scene.hand_over("second");
        scene.run(seconds(75));
        assert_eq!(scene.leader().as_deref(), Some("second"), "{:?}", scene.problems);
    }
}

#[test]
fn leader_without_successor_stays_and_reports_why() {
    let mut scene = scene(["first", "second", "third"]);
    scene.hand_over("nobody");
    scene.run(seconds(75));
    assert_eq!(scene.leader().as_deref(), Some("first"));
    let [(name, problem)] = &scene.problems[..] else { panic!("{:?}", scene.problems) };
    assert_eq!(name, "first");
    assert!(problem.detail.contains("\"nobody\"") && problem.detail.contains("announced itself"));
    let record = Record::from_metadata(&scene.service.record).unwrap().unwrap();
    assert_eq!(record.successor, None);
}

#[test]
fn a_successor_that_may_not_write_beside_the_blob_does_not_harm() {
    let mut scene = scene(["first", "second", "third"]);
    scene.service.forbids_side_blobs = true;
    scene.hand_over("second");
    scene.run(seconds(80));
    assert_eq!(scene.leader().as_deref(), Some("first"));
    assert!(scene.problems.iter().any(|(name, _)| name == "first"), "{:?}", scene.problems);
}

#[test]
fn a_paused_candidate_is_no_successor() {
    let mut scene = scene(["first", "second", "third"]);
    scene.step(1, Some(Event::Ready(false)));
    scene.hand_over("second");
    scene.run(seconds(80));
    assert_eq!(scene.leader().as_deref(), Some("first"));
}

#[test]
fn one_of_two_candidates_with_one_name_leads() {
    let mut scene = scene(["first", "twin", "twin"]);
    scene.hand_over("twin");
    scene.run(seconds(10));
    assert_eq!(scene.leader().as_deref(), Some("twin"));
    assert_eq!(scene.service.lease_ids.len(), 2);
}

#[test]
fn the_lease_is_given_away_only_when_the_work_was_seen_stopped() {
    let every = [(variable::EVERY, "1s")];
    let mut scene =
        Scene::new(vec![candidate_named("first", &every), candidate_named("second", &every)]);
    let turn = |scene: &Scene| scene.candidates[0].0.state.clone();
    assert!(turn(&scene).is_some());
    scene.hand_over("second");
    scene.run(seconds(8));
    // A turn was claimed in the first steps, and its end was never reported.
    assert_eq!(scene.leader().as_deref(), Some("first"));
    let report = scene.step(0, None);
    assert!(report.wind_down, "{report:?}");
    let limit = report.wind_down_limit.unwrap();
    assert!(seconds(31) < limit && limit < seconds(40), "{limit:?}");
    let report = scene.step(0, Some(Event::TurnEnded(Outcome::CutOff.into())));
    assert_eq!(report.ending.map(|ending| ending.reason), Some(EndingReason::HandedOver));
    let verbs = scene.candidates[0].0.verbs();
    assert_eq!(verbs, ["write record", "change lease"]);
    scene.run(seconds(2));
    assert_eq!(scene.leader().as_deref(), Some("second"));
}

#[test]
fn a_successor_whose_leader_goes_on_follows_again() {
    let every = [(variable::EVERY, "1s")];
    let mut scene =
        Scene::new(vec![candidate_named("first", &every), candidate_named("second", &every)]);
    scene.hand_over("second");
    // The turn never ends.
    scene.run(seconds(120));
    assert_eq!(scene.leader().as_deref(), Some("first"));
    let is_reported = scene.problems.iter().any(|(_, t)| t.detail.contains("did not end in time"));
    assert!(is_reported, "{:?}", scene.problems);
    let (second, ..) = &scene.candidates[1];
    assert_eq!(second.requests[0].operation, Operation::Read { lease: None });
}

#[test]
fn without_an_order_no_leader_looks_for_a_successor() {
    let mut scene = scene(["first", "second", "third"]);
    scene.run(seconds(300));
    assert_eq!(scene.service.reads_announcements, 0);
    let report = scene.hand_over("first");
    assert_eq!(report.problems.len(), 1);
}

#[test]
fn a_successor_that_was_named_without_result_comes_when_it_is_called_again() {
    let every = [(variable::EVERY, "1s")];
    let mut scene =
        Scene::new(vec![candidate_named("first", &every), candidate_named("second", &every)]);
    scene.hand_over("second");
    // The turn does not end in the 45 s that the leader gives it. Then the order is repeated at
    // once, before the successor has seen the cancellation.
    while !scene.problems.iter().any(|(_, problem)| problem.detail.contains("did not end in time"))
    {
        scene.run(millis(100));
    }
    scene.hand_over("second");
    scene.run(seconds(20));
    scene.step(0, Some(Event::TurnEnded(Outcome::CutOff.into())));
    scene.run(seconds(3));
    assert_eq!(scene.leader().as_deref(), Some("second"));
}

#[test]
fn resigning_leader_refuses_to_hand_over() {
    let every = [(variable::EVERY, "1s")];
    let mut scene =
        Scene::new(vec![candidate_named("first", &every), candidate_named("second", &every)]);
    scene.step(0, Some(Event::Ready(false)));
    let report = scene.hand_over("nobody");
    assert!(report.problems[0].detail.contains("already giving up its leadership"), "{report:?}");
    assert!(report.wind_down);
}

/// Returns a leader whose turn runs, and which hands over to the announced second candidate.
fn waiting_for_the_turn(more: &[(&str, &'static str)]) -> Scene {
    let variables: Vec<_> = [(variable::EVERY, "1s")]
        .into_iter()
        .filter(|_| more.is_empty())
        .chain(more.iter().copied())
        .collect();
    let names = ["first", "second", "third"];
    let mut scene = Scene::new(names.map(|name| candidate_named(name, &variables)).into());
    scene.hand_over("second");
    // The successor learns of it when it polls.
    for _ in 0..60 {
        scene.run(millis(500));
        if scene.step(0, None).wind_down {
            return scene;
        }
    }
    panic!("it never saw the successor: {:?}", scene.problems);
}

impl Scene {
    fn turn_ends(&mut self, outcome: Outcome) -> Report {
        self.step(0, Some(Event::TurnEnded(outcome.into())))
    }
}

#[test]
fn a_successor_that_was_paused_meanwhile_gives_the_lease_back_at_once() {
    let mut scene = waiting_for_the_turn(&[]);
    scene.step(1, Some(Event::Ready(false)));
    scene.turn_ends(Outcome::CutOff);
    scene.run(seconds(10));
    assert!(matches!(scene.leader().as_deref(), Some("first" | "third")), "{:?}", scene.leader());
    let Role::Following(_) = scene.candidates[1].2 else { panic!("{:?}", scene.candidates[1].2) };
}

#[test]
fn a_busy_service_does_not_make_a_successor_forget_its_lease() {
    let mut scene = waiting_for_the_turn(&[]);
    scene.service.busy = 3;
    scene.run(seconds(3));
    assert_eq!(scene.service.busy, 0);
    scene.turn_ends(Outcome::CutOff);
    scene.run(seconds(2));
    assert_eq!(scene.leader().as_deref(), Some("second"));
}

#[test]
fn a_successor_has_one_lease_id_in_a_term_however_often_it_is_called() {
    let mut scene = waiting_for_the_turn(&[]);
    // The handover fails, because the turn does not end. The order is repeated long after that.
    scene.run(seconds(150));
    assert_eq!(scene.leader().as_deref(), Some("first"));
    scene.hand_over("second");
    scene.run(seconds(6));
    scene.turn_ends(Outcome::CutOff);
    scene.run(seconds(2));
    assert_eq!(scene.leader().as_deref(), Some("second"));
}

#[test]
fn a_successor_that_began_anew_announces_itself_again() {
    let mut scene = waiting_for_the_turn(&[]);
    scene.candidates[1].0.state = None;
    scene.candidates[1].0.chance = Counter(77);
    // An old announcement of its predecessor counts as foreign until it has aged.
    scene.run(seconds(25));
    scene.turn_ends(Outcome::CutOff);
    scene.run(seconds(2));
    assert_eq!(scene.leader().as_deref(), Some("second"));
    assert_eq!(scene.service.lease_ids.len(), 2);
}

#[test]
fn the_lease_is_not_given_to_a_successor_that_is_gone() {
    let mut scene = waiting_for_the_turn(&[]);
    scene.candidates.remove(1);
    scene.run(seconds(20));
    let report = scene.turn_ends(Outcome::CutOff);
    assert_eq!(report.ending, None);
    scene.run(seconds(40));
    assert_eq!(scene.leader().as_deref(), Some("first"));
    assert_eq!(scene.service.lease_ids.len(), 1);
    let failure = "not handed over to \"second\"; the leader stays: ";
    let is_reported = scene.problems.iter().any(|(_, t)| t.detail.contains(failure));
    assert!(is_reported, "{:?}", scene.problems);
}

#[test]
fn a_successor_that_leaves_takes_its_announcement_back() {
    let mut scene = waiting_for_the_turn(&[]);
    let report = scene.step(1, Some(Event::Leave(None)));
    assert_eq!(report.role, Role::Left);
    scene.run(seconds(1));
    let report = scene.turn_ends(Outcome::CutOff);
    assert_eq!(report.ending, None);
    assert_eq!(scene.service.lease_ids.len(), 1);
}

#[test]
fn a_successor_that_was_given_the_lease_when_it_leaves_releases_it() {
    let mut scene = waiting_for_the_turn(&[]);
    scene.turn_ends(Outcome::CutOff);
    assert_eq!(scene.service.lease_ids.len(), 2);
    let report = scene.step(1, Some(Event::Leave(None)));
    assert_eq!((report.role, scene.service.holder), (Role::Left, None));
}

#[test]
fn work_that_is_one_turn_is_handed_over_too() {
    for outcome in [Outcome::CutOff, Outcome::Succeeded] {
        let mut scene = waiting_for_the_turn(&[(variable::WHILE_LEADING, "true")]);
        scene.turn_ends(outcome);
        scene.run(seconds(2));
        assert_eq!(scene.leader().as_deref(), Some("second"), "{outcome:?}");
        assert_eq!(scene.service.lease_ids.len(), 2, "the lease was never free");
        let (_, ending) = &scene.endings[0];
        assert_eq!(ending.reason, EndingReason::HandedOver);
    }
}

#[test]
fn the_lease_is_not_given_to_a_successor_that_cannot_be_seen() {
    let mut scene = waiting_for_the_turn(&[(variable::WHILE_LEADING, "true")]);
    scene.service.hides_announcements = true;
    scene.run(seconds(3));
    let report = scene.turn_ends(Outcome::CutOff);
    assert_eq!((report.ending, scene.service.lease_ids.len()), (None, 1));
    // Nor does it continue to lead without the work that was to last as long.
    scene.run(seconds(60));
    let (_, ending) = &scene.endings[0];
    assert_eq!(ending.reason, EndingReason::Resigned);
    let failure = "not handed over to \"second\"; the leader resigns: ";
    let is_reported = scene.problems.iter().any(|(_, t)| t.detail.contains(failure));
    assert!(is_reported, "{:?}", scene.problems);
    assert!(matches!(scene.leader().as_deref(), Some("second" | "third")), "{:?}", scene.leader());
}

#[test]
fn hand_over_order_outlasts_the_longest_tenure() {
    let first = candidate_named("first", &[(variable::MAX_TENURE, "60s")]);
    let mut scene = Scene::new(vec![first, candidate_named("second", &[])]);
    scene.run(seconds(48));
    scene.hand_over("nobody");
    let before = scene.steps;
    scene.run(seconds(15));
    assert!(scene.steps - before < 80, "{} steps", scene.steps - before);
    assert_eq!(scene.leader().as_deref(), Some("first"));
    scene.run(seconds(70));
    assert_eq!(scene.leader().as_deref(), Some("second"), "it failed, so it rotates");
}

#[test]
fn a_successor_sees_soon_that_another_one_leads() {
    let mut scene = waiting_for_the_turn(&[]);
    scene.candidates.remove(0);
    scene.service.record = Record {
        term: ORIGIN_SECONDS + 9_999,
        ..Record::from_metadata(&incumbent(9)).unwrap().unwrap()
    }
    .to_metadata();
    scene.service.holder = Some(scene.service.lease_ids[0]);
    scene.run(seconds(5));
    let Role::Following(Some(leader)) = &scene.candidates[0].2 else { panic!() };
    assert_eq!(leader.name, "there");
}

#[test]
fn a_successor_that_polls_often_finds_its_lease_too() {
    let mut scene = waiting_for_the_turn(&[(variable::EVERY, "1s"), (variable::POLL, "500ms")]);
    scene.step(1, Some(Event::Ready(false)));
    scene.run(seconds(2));
    scene.turn_ends(Outcome::CutOff);
    scene.run(seconds(5));
    assert_eq!(scene.service.lease_ids[1..].len(), 2, "given to the successor, which gave it back");
    assert!(scene.leader().is_some());
}

#[test]
fn a_successor_that_polls_often_has_time_to_announce_itself() {
    let variables = [(variable::POLL, "500ms")];
    let mut scene = Scene::new(vec![
        candidate_named("first", &variables),
        candidate_named("second", &variables),
    ]);
    scene.candidates[1].0.slow = Some(("read announcement", millis(450)));
    scene.hand_over("second");
    scene.run(seconds(5));
    assert_eq!(scene.leader().as_deref(), Some("second"));
}

#[test]
fn a_successor_that_polls_seldom_looks_on_when_the_service_is_busy() {
    let mut scene = waiting_for_the_turn(&[(variable::EVERY, "1s"), (variable::POLL, "20s")]);
    scene.service.busy_for_followers = 2;
    scene.run(seconds(5));
    scene.turn_ends(Outcome::CutOff);
    scene.run(seconds(2));
    assert_eq!(scene.leader().as_deref(), Some("second"));
}

#[test]
fn an_order_outlasts_a_moment_without_a_successor() {
    let mut scene = waiting_for_the_turn(&[(variable::WHILE_LEADING, "true")]);
    scene.service.successor = None;
    scene.run(millis(700));
    let report = scene.turn_ends(Outcome::Succeeded);
    assert_eq!(report.ending, None);
    scene.run(seconds(8));
    assert_eq!(scene.endings[0].1.reason, EndingReason::HandedOver);
    assert_eq!(scene.leader().as_deref(), Some("second"));
}

/// While the successor was missing, an application may have received permission to act for that
/// long.
#[test]
fn work_has_a_lease_to_end_each_time_that_the_successor_comes() {
    let mut scene = waiting_for_the_turn(&[(variable::WHILE_LEADING, "true")]);
    scene.run(seconds(36));
    scene.service.successor = None;
    scene.run(millis(700));
    assert_eq!(scene.step(0, None).wind_down_limit, None);
    let comes = (0..100).find_map(|_| {
        scene.run(millis(100));
        scene.step(0, None).wind_down_limit
    });
    let limit = comes.unwrap();
    assert!(limit > seconds(14), "{limit:?}");
    scene.run(limit);
    scene.turn_ends(Outcome::CutOff);
    scene.run(seconds(4));
    assert_eq!(scene.leader().as_deref(), Some("second"));
}

#[test]
fn leaving_successor_withdraws_only_its_own_announcement() {
    let mut scene = waiting_for_the_turn(&[]);
    let (announcement, when) = scene.service.successor.clone().unwrap();
    scene.service.successor = Some((announcement.clone(), when));
    scene.service.announcement_version += 1;
    scene.step(1, Some(Event::Leave(None)));
    assert_eq!(scene.service.successor.unwrap().0, announcement);
}

#[test]
fn a_successor_leaves_soon_when_nothing_is_answered() {
    let mut scene = waiting_for_the_turn(&[]);
    let (second, ..) = &mut scene.candidates[1];
    let began = second.now;
    let mut event = Some(Event::Leave(None));
    loop {
        let report = second.step(event.take(), |_, _| failure(FailureKind::Connect));
        if report.role == Role::Left {
            break;
        }
        second.now += report.again_in.max(millis(10));
    }
    assert!(second.now - began < seconds(5), "{:?}", second.now - began);
}

#[test]
fn the_lease_lasts_as_long_as_the_successor_configures() {
    let first = candidate_named("first", &[]);
    let second = candidate_named("second", &[(variable::LEASE, "60s")]);
    let mut scene = Scene::new(vec![first, second]);
    assert_eq!(scene.service.seconds, 15);
    scene.hand_over("second");
    scene.run(seconds(8));
    assert_eq!(scene.leader().as_deref(), Some("second"));
    assert_eq!((scene.service.seconds, scene.service.lease_ids.len()), (60, 2));
}

#[test]
fn lease_that_cannot_be_changed_in_time_is_released() {
    let mut scene = waiting_for_the_turn(&[]);
    scene.service.loses_changes = true;
    scene.turn_ends(Outcome::CutOff);
    scene.candidates.remove(1);
    scene.run(seconds(12));
    assert!(scene.leader().is_some());
}
