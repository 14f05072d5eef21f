use super::super::script::{ms, started};
use super::*;

#[test]
fn a_take_over_is_measured_from_the_kill() {
    let mut story = started();
    story.begins(2_000, 0, 1000);
    story.kill(ms(2_300), 0);
    assert_eq!(story.leader(), None);
    // Its lease was taken at 0.2 s.
    assert_eq!(story.lease_left(ms(5_200)), Some(ms(10_000)));
    assert_eq!(story.lease_left(ms(16_000)), Some(ms(0)));
    story.dies(2_310, 0);
    assert_eq!(story.lost, 0);
    assert_eq!(story.turns[0].ended, Some(ms(2_310)));
    assert!(!story.turns[0].done());
    assert_eq!(story.leaderships[0].ended, Some((ms(2_310), "killed".to_owned())));

    story.elects(15_300, 1, 1015);
    assert_eq!(story.leader(), Some(1));
    assert_eq!(story.lease_left(ms(15_300)), None);
    assert_eq!(story.take_overs, [TakeOver { cause: Cause::Crash, after: ms(13_000) }]);
    assert_eq!(story.said(), "ben takes over 13.0 s after the kill, with a higher term: 1015.");
}

#[test]
fn a_renewal_moves_the_end_of_the_lease() {
    let mut story = started();
    story.renews(4_000, 0, 1000);
    story.kill(ms(5_000), 0);
    assert_eq!(story.lease_left(ms(5_000)), Some(ms(14_000)));
}

#[test]
fn a_leader_that_was_asked_leaves_in_good_order() {
    let mut story = started();
    story.runs(2_000, 0, 1000);
    story.stop(ms(3_000), 0);
    assert_eq!(story.lease_left(ms(3_000)), None);
    story.stands_down(3_010, 0, 1000, "left");
    story.tells(3_020, 0, What::Ended("exit status: 0".to_owned()));
    story.elects(4_000, 2, 1004);
    assert_eq!(story.lost, 0);
    assert_eq!(story.leaderships[0].ended, Some((ms(3_010), "stopped".to_owned())));
    assert_eq!(story.take_overs, [TakeOver { cause: Cause::Stop, after: ms(1_000) }]);
    assert!(story.notes.iter().all(|note| note.kind != Kind::Problem), "{:?}", story.notes);
}

#[test]
fn what_nobody_asked_for_is_a_problem() {
    let mut story = started();
    let mut problems = 0;
    let mut told = |story: &Story, text: &str| {
        problems += 1;
        assert_eq!(story.said(), text);
        let all = story.notes.iter().filter(|note| note.kind == Kind::Problem);
        assert_eq!(all.count(), problems);
    };
    story.dies(1_000, 1);
    told(&story, "ben has ended, though nobody asked it: exit status: 1.");
    assert_eq!(story.lost, 1);
    story.tells(1_000, 2, What::Words("hm".to_owned()));
    told(&story, "cleo says: hm");
    let (class, detail) = ("refused".to_owned(), "the key is wrong".to_owned());
    story.tells(1_000, 2, What::Event(Event::Problem { class, detail }));
    told(&story, "cleo: refused: the key is wrong");
    let (line, stream) = ("oh".to_owned(), "stderr".to_owned());
    story.tells(1_000, 0, What::Event(Event::Handler { line, stream }));
    told(&story, "anna: its handler says: oh");
    story.begins(2_000, 0, 1000);
    story.ends(2_100, 0, 1000, 2_000, "failed");
    told(&story, "anna: the turn of 00:00:02 failed");
    assert!(!story.turns[0].done());
    story.stands_down(3_000, 0, 1000, "lease-lost");
    told(&story, "anna leads no longer, though nobody asked it: the lease was lost.");
    assert_eq!(story.leader(), None);
}

#[test]
fn a_slot_is_told_by_its_time_of_day() {
    assert_eq!(time_of("2026-11-20T07:42:50Z"), "07:42:50");
    assert_eq!(time_of("odd"), "odd");
}
