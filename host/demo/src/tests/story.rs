use super::script::{ms, started};
use crate::screen::summary_table;
use crate::story::{Action, Event};

#[test]
fn a_takeover_is_measured_from_the_kill() {
    let mut story = started();
    story.start_turn(2_000, 0, 1000);
    story.apply(ms(2_300), 0, Action::KillMachine);
    assert_eq!((story.leader(), story.valid_leader(ms(2_300))), (None, None));
    assert_eq!(story.terms[0].blocks_until(story.promise()), Some(ms(4_400)));
    story.die(2_310, 0);
    assert_eq!((story.lost(), &*story.turns[0].outcome), (0, "cut-off"));
    assert_eq!(story.terms[0].ended, Some((ms(2_300), "its machine died".to_owned())));

    story.elect(4_600, 1, 1015);
    assert_eq!(story.leader(), Some(1));
    let takeover = (Action::KillMachine, ms(2_300));
    assert_eq!((story.takeovers(), story.takeover(1)), (vec![takeover], Some(takeover)));
    assert_eq!(
        story.last_note(),
        "ben takes over 2.3 s after the leader's machine died, with a higher term: 1015."
    );
}

#[test]
fn no_candidate_waits_for_a_process_whose_supervisor_lives() {
    let mut story = started();
    story.start_turn(2_000, 0, 1000);
    story.apply(ms(2_300), 0, Action::KillProcess);
    let died = "The process of anna dies in the middle of a turn (SIGKILL). Its supervisor sees that, and releases \
                the lease.";
    assert_eq!(story.last_note(), died);
    assert_eq!(story.terms[0].blocks_until(story.promise()), None);
    let (class, detail) = ("process".to_owned(), "the lease was released".to_owned());
    story.log_event(2_330, 0, Event::Problem { class, detail });
    assert_eq!(story.problems(), 0, "it was asked for");
    story.elect(2_383, 1, 1003);
    assert!(
        story.last_note().contains("83 ms after the leader's process died"),
        "{}",
        story.last_note()
    );
}

#[test]
fn a_leader_that_was_asked_leaves_in_good_order() {
    let mut story = started();
    story.run_turn(2_000, 0, 1000);
    story.apply(ms(3_000), 0, Action::Stop);
    story.stand_down(3_010, 0, 1000, "left");
    story.die(3_020, 0);
    story.elect(4_000, 2, 1004);
    assert_eq!((story.lost(), story.problems()), (0, 0));
    assert_eq!(story.terms[0].ended, Some((ms(3_010), "stopped".to_owned())));
    assert_eq!(story.takeovers(), [(Action::Stop, ms(1_000))]);
}

#[test]
fn unrequested_events_are_problems() {
    let mut story = started();
    story.die(1_000, 1);
    assert_eq!(story.last_note(), "ben has ended unexpectedly: exit status: 1.");
    assert_eq!(story.lost(), 1);
    story.problem(ms(1_000), "cleo says: a\u{1b}[2J\r\nb".to_owned());
    assert_eq!(story.last_note(), "cleo says: a [2J  b");
    let (class, detail) = ("refused".to_owned(), "the key is wrong".to_owned());
    story.log_event(1_000, 2, Event::Problem { class, detail });
    assert_eq!(story.last_note(), "cleo: refused: the key is wrong");
    story.start_turn(2_000, 0, 1000);
    story.end_turn(2_100, 0, 1000, 2_000, "failed");
    assert_eq!(story.last_note(), "anna: the turn of 2000-01-01T00:00:02Z failed");
    story.stand_down(3_000, 0, 1000, "lease-lost");
    assert_eq!(story.last_note(), "anna unexpectedly no longer leads: lease lost.");
    assert_eq!((story.leader(), story.problems()), (None, 5));
}

#[test]
fn a_frozen_leader_leads_as_long_as_its_time_lasts() {
    let mut story = started();
    story.apply(ms(2_000), 0, Action::Freeze);
    assert_eq!((story.valid_leader(ms(3_600)), story.valid_leader(ms(3_800))), (Some(0), None));
    story.elect(4_300, 1, 1004);
    assert!(
        story.last_note().contains("2.3 s after the leader was frozen"),
        "{}",
        story.last_note()
    );
    story.apply(ms(6_000), 0, Action::Thaw);
    story.stand_down(6_010, 0, 1000, "validity-ended");
    assert_eq!(story.last_note(), "anna no longer leads: its validity has ended.");
    assert_eq!(story.problems(), 0);
    // A leader that is thawed in time continues.
    let mut story = started();
    story.apply(ms(2_000), 0, Action::Freeze);
    story.apply(ms(3_000), 0, Action::Thaw);
    story.renew(4_000, 0, 1000);
    story.elect(60_000, 1, 1060);
    assert!(story.takeovers().is_empty(), "the freeze was over");
}

#[test]
fn a_leader_that_is_hindered_twice_gives_no_beat_before_it_is_free() {
    let mut story = started();
    story.apply(ms(2_000), 0, Action::Freeze);
    story.apply(ms(2_100), 0, Action::Partition);
    story.apply(ms(2_200), 0, Action::Thaw);
    assert_eq!(story.valid_leader(ms(3_700)), None, "it is cut off");
    story.apply(ms(3_800), 0, Action::Heal);
    assert_eq!(story.valid_leader(ms(3_800)), None, "its time was over");
    story.elect(4_300, 2, 1016);
    assert_eq!(story.problems(), 0);
}

#[test]
fn a_leader_that_resigns_goes_on_as_a_follower() {
    let mut story = started();
    story.apply(ms(2_000), 0, Action::Resign);
    story.stand_down(2_100, 0, 1000, "resigned");
    assert_eq!(story.last_note(), "anna has given the lease back.");
    assert_eq!((story.valid_leader(ms(2_100)), story.problems()), (None, 0));
    story.elect(2_152, 1, 1003);
    assert!(story.last_note().contains("52 ms after the leader resigned"), "{}", story.last_note());

    story.apply(ms(4_000), 1, Action::Resign);
    story.problem(ms(4_100), "ben does not resign: 404".to_owned());
    assert_eq!(story.last_note(), "ben does not resign: 404");
    story.stand_down(9_000, 1, 1003, "lease-lost");
    assert_eq!(story.problems(), 2);
}

#[test]
#[cfg(target_os = "linux")]
fn possible_actions_depend_on_the_state() {
    let mut story = started();
    let names = |story: &crate::story::Story, index, now| {
        let acts = story.possible_actions(index, ms(now)).into_iter();
        acts.map(Action::name).collect::<Vec<_>>().join(" ")
    };
    let follower = "kill-machine kill-process freeze partition";
    assert_eq!(names(&story, 0, 1_000), format!("{follower} resign"));
    assert_eq!(names(&story, 1, 1_000), follower);
    story.apply(ms(1_000), 0, Action::Freeze);
    assert_eq!(names(&story, 0, 1_000), "kill-machine thaw partition");
    story.apply(ms(1_100), 0, Action::Partition);
    assert_eq!(names(&story, 0, 1_100), "kill-machine thaw heal");
    story.apply(ms(1_200), 0, Action::KillMachine);
    assert_eq!(names(&story, 0, 1_200), "heal", "its end is not seen yet");
    story.die(1_210, 0);
    assert_eq!(names(&story, 0, 1_300), "start heal");
}

#[test]
fn a_long_demo_does_not_grow() {
    let mut story = started();
    for number in 1..1_000 {
        let at = number * 10_000;
        let term = 1_000 + number;
        story.elect(at, 0, term);
        story.run_turn(at + 2_000, 0, term);
        story.apply(ms(at + 4_000), 1, Action::Freeze);
        story.apply(ms(at + 5_000), 1, Action::Thaw);
        story.stand_down(at + 6_000, 0, term, "lease-lost");
    }
    assert_eq!((story.turns_started, story.turns_succeeded), (999, 999), "all are counted");
    assert_eq!((story.notes.len(), story.terms.len(), story.turns.len()), (200, 200, 200));
    assert!(story.lanes.iter().all(|lane| lane.spans.len() < 20));
}

#[test]
fn a_table_for_a_narrow_terminal() {
    let mut story = started();
    story.start_turn(2_000, 0, 1000);
    story.apply(ms(2_300), 0, Action::KillMachine);
    story.die(2_310, 0);
    story.elect(4_600, 1, 1015);
    story.run_turn(5_000, 1, 1015);
    story.start_turn(6_000, 1, 1015);
    story.end_turn(6_600, 1, 1015, 6_000, "failed");
    story.apply(ms(7_000), 1, Action::KillProcess);
    story.die(7_040, 1);
    story.elect(7_061, 2, 1016);
    let table = summary_table(&story);
    let lines = [
        "",
        "  term        leader  turns   ended",
        "  1000        anna        1   its machine died",
        "  1015        ben         2   its process died",
        "  1016        cleo        0   not yet",
        "",
        "  machine died, takeover    2.3 s  the failover window had to end",
        "  process died, takeover    61 ms  its supervisor released the lease",
        "  turns run                     3  2 did not succeed",
        "  overlapping turns             0  by the endpoint that they call",
        "",
    ];
    assert_eq!(crate::screen::plain(&table).split('\n').collect::<Vec<_>>(), lines);
}
