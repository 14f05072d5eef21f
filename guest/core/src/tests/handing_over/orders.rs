//! Orders that conflict with another one, or with a leader that resigns by itself.

use super::*;

/// Returns the reported details that contain this part.
fn matching_details<'s>(scene: &'s Scene, part: &str) -> Vec<&'s str> {
    let details = scene.problems.iter().map(|(_, problem)| problem.detail.as_str());
    details.filter(|detail| detail.contains(part)).collect()
}

#[test]
fn an_order_takes_the_place_of_a_rotation_that_waits_for_the_turn() {
    let variables = [(variable::MAX_TENURE, "60s"), (variable::EVERY, "1s")];
    let mut scene = Scene::new(vec![
        candidate_named("first", &variables),
        candidate_named("second", &variables),
    ]);
    scene.run(seconds(60));
    assert_eq!(scene.leader().as_deref(), Some("first"), "its turn still runs");
    let report = scene.hand_over("second");
    assert_eq!(report.problems, []);
    scene.run(seconds(8));
    scene.turn_ends(Outcome::CutOff);
    scene.run(seconds(2));
    assert_eq!(scene.endings[0].1.reason, EndingReason::HandedOver);
    assert_eq!(scene.leader().as_deref(), Some("second"));
}

#[test]
fn a_rotation_goes_on_when_an_order_that_took_its_place_fails() {
    let variables = [(variable::MAX_TENURE, "60s"), (variable::EVERY, "1s")];
    let mut scene = Scene::new(vec![
        candidate_named("first", &variables),
        candidate_named("second", &variables),
    ]);
    scene.run(seconds(60));
    scene.hand_over("nobody");
    scene.run(seconds(80));
    assert_eq!(matching_details(&scene, "not handed over").len(), 1, "{:?}", scene.problems);
    scene.turn_ends(Outcome::Succeeded);
    scene.run(seconds(5));
    assert_eq!(scene.endings[0].1.reason, EndingReason::Resigned);
    assert_eq!(scene.leader().as_deref(), Some("second"));
}

#[test]
fn an_order_that_is_repeated_knows_that_its_successor_is_on_record() {
    let mut scene = scene(["first", "second", "third"]);
    scene.hand_over("nobody");
    scene.run(seconds(5));
    scene.hand_over("nobody");
    scene.run(seconds(80));
    let [reason] = matching_details(&scene, "hand")[..] else { panic!("{:?}", scene.problems) };
    assert!(reason.contains("no candidate of that name announced itself"), "{reason}");
}

#[test]
fn an_order_that_another_one_replaces_is_answered_too() {
    let mut scene = scene(["first", "second", "third"]);
    scene.hand_over("nobody");
    scene.run(seconds(5));
    scene.hand_over("second");
    let [reason] = matching_details(&scene, "hand")[..] else { panic!("{:?}", scene.problems) };
    assert!(
        reason.contains("\"nobody\" is cancelled") && reason.contains("\"second\""),
        "{reason}"
    );
    scene.run(seconds(10));
    assert_eq!(scene.leader().as_deref(), Some("second"));
}
