use super::super::script::{ms, started};
use super::*;

#[test]
fn a_take_over_is_measured_from_the_kill() {
    let mut story = started();
    story.begins(2_000, 0, 1000);
    story.kill(ms(2_300), 0);
    assert_eq!(story.leader(), None);
    // It promised to have stopped 2.1 s after its newest sign of life.
    assert_eq!(story.promise_left(ms(2_800)), Some(ms(1_600)));
    assert_eq!(story.promise_left(ms(4_500)), Some(ms(0)));
    story.dies(2_310, 0);
    assert_eq!(story.lost, 0);
    assert_eq!(story.turns[0].ended, Some(ms(2_310)));
    assert!(!story.turns[0].done());
    assert_eq!(story.leaderships[0].ended, Some((ms(2_300), "its machine died".to_owned())));

    story.elects(4_600, 1, 1015);
    assert_eq!(story.leader(), Some(1));
    assert_eq!(story.promise_left(ms(4_600)), None);
    let take_over = TakeOver { cause: Act::KillMachine, after: ms(2_300) };
    assert_eq!(
        (&story.take_overs[..], story.leaderships[1].took_over),
        (&[take_over][..], Some(take_over))
    );
    assert_eq!(
        story.said(),
        "ben takes over 2.3 s after the leader's machine died, with a higher term: 1015."
    );
}

#[test]
fn nobody_waits_for_a_process_whose_supervisor_lives() {
    let mut story = started();
    story.begins(2_000, 0, 1000);
    story.kill_process(ms(2_300), 0);
    let died = "The process of anna dies in the middle of a turn (SIGKILL). Its supervisor sees that, and releases \
                the lease.";
    assert_eq!(story.said(), died);
    assert_eq!((story.leader(), story.promise_left(ms(2_300))), (None, None));
    let (class, detail) = ("process".to_owned(), "the lease was released".to_owned());
    story.tells(2_330, 0, What::Event(Event::Problem { class, detail }));
    assert!(story.notes.iter().all(|note| note.kind != Kind::Problem), "it was asked for");
    // The next one may be there before the end of the supervisor is heard of.
    story.elects(2_383, 1, 1003);
    assert_eq!(
        story.said(),
        "ben takes over 83 ms after the leader's process died, with a higher term: 1003."
    );
    story.dies(2_390, 0);
    assert_eq!(story.leaderships[0].ended, Some((ms(2_300), PROCESS_DIED.to_owned())));
    assert_eq!((story.lost, story.turns[0].ended), (0, Some(ms(2_390))));
}

#[test]
fn a_leader_that_was_asked_leaves_in_good_order() {
    let mut story = started();
    story.runs(2_000, 0, 1000);
    story.stop(ms(3_000), 0);
    assert_eq!(story.promise_left(ms(3_000)), None);
    story.stands_down(3_010, 0, 1000, "left");
    story.tells(3_020, 0, What::Ended("exit status: 0".to_owned()));
    story.elects(4_000, 2, 1004);
    assert_eq!(story.lost, 0);
    assert_eq!(story.leaderships[0].ended, Some((ms(3_010), "stopped".to_owned())));
    assert_eq!(story.take_overs, [TakeOver { cause: Act::Stop, after: ms(1_000) }]);
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
    told(&story, "ben has ended, though nobody asked it to: exit status: 1.");
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
    told(&story, "anna no longer leads, though nobody asked it to stop: the lease was lost.");
    assert_eq!(story.leader(), None);
}

#[test]
fn a_slot_is_told_by_its_time_of_day() {
    assert_eq!(time_of("2026-11-20T07:42:50Z"), "07:42:50");
    assert_eq!(time_of("odd"), "odd");
}
