use super::script::{ms, started};
use crate::screen::{WIDTH, plain, render_final, render_live};
use crate::story::{Action, Event, Story};
use crate::view::view;
use tenure_server::page::view::{Kind, TakeOver, Validity, View};

fn view_at(story: &Story, now: u64) -> View {
    view(story, ms(now))
}

fn text(lines: &[String]) -> Vec<String> {
    lines.iter().map(|line| plain(line).trim_end().to_owned()).collect()
}

/// Returns the row of a candidate, in cells of 0.5 s.
fn row(story: &Story, index: usize, now: u64) -> String {
    let lines = text(&render_final(&view_at(story, now), ms(now)));
    lines[index + 1].chars().skip(18).collect()
}

#[test]
fn the_picture_of_a_killed_leader() {
    let mut story = started();
    story.run_turn(2_000, 0, 1000);
    story.start_turn(4_000, 0, 1000);
    story.apply(ms(5_000), 0, Action::KillMachine);
    let lines = render_live(&view_at(&story, 6_000), ms(6_000), 24);
    assert_eq!(
        text(&lines),
        [
            "",
            "  anna   killed   ━━━━●━━━●━✗░░",
            "  ben    follows  ·············",
            "  cleo   follows  ·············",
            "                  0 s                 10 s                20 s",
            "  term            1000",
            "",
            "  ━ leads   ● turn   · follows   ✗ killed   ░ others wait   ■ stopped",
            "",
            "   6 s  The machine of anna dies in the middle of a turn (SIGKILL). The",
            "        others wait until its promise is over. It lasts 1.1 s more.",
        ]
    );
    let final_lines = render_final(&view_at(&story, 6_000), ms(6_000));
    assert_eq!(final_lines, lines[..6]);
}

#[test]
fn a_restart_and_a_stop_are_seen() {
    let mut story = started();
    story.apply(ms(2_050), 0, Action::KillMachine);
    story.die(2_060, 0);
    story.elect(4_050, 1, 1_795_160_569);
    story.apply(ms(4_850), 0, Action::Start);
    story.log_event(5_250, 0, Event::Following);
    assert_eq!(row(&story, 0, 6_400), "━━━━✗░░░  ···");
    story.apply(ms(6_450), 1, Action::Stop);
    story.stand_down(6_460, 1, 1_795_160_569, "left");
    story.die(6_470, 1);
    let stopped = row(&story, 1, 8_000);
    assert!(stopped.trim_end().ends_with("·━━━━■"), "{stopped}");
    story.elect(8_050, 2, 1_795_160_577);
    let lines = text(&render_final(&view_at(&story, 9_000), ms(9_000)));
    assert_eq!(lines[5], "  term            1000    …0569   1795160577");
}

#[test]
fn no_line_is_longer_than_the_terminal_and_the_picture_keeps_its_height() {
    let story = started();
    for now in (0..60_000).step_by(7_000) {
        let lines = render_live(&view_at(&story, now), ms(now), 40);
        assert!(text(&lines).iter().all(|line| line.chars().count() < WIDTH), "{now}");
        assert_eq!(lines.len(), 11, "{now}");
    }
}

#[test]
fn problems_are_shown_as_far_as_there_is_room() {
    let mut story = started();
    story.die(1_000, 1);
    story.die(2_000, 2);
    let last = |height| {
        let lines = render_live(&view_at(&story, 3_000), ms(3_000), height);
        text(&lines[11..])
    };
    let (ben, cleo) = (
        "  ! ben has ended unexpectedly: exit status: 1.",
        "  ! cleo has ended unexpectedly: exit status: 1.",
    );
    assert_eq!(last(24), [cleo, ben]);
    assert_eq!(last(13), [cleo]);
    assert!(last(12).is_empty());
}

/// Returns the spans of a lane, each with its ages in tenths of a second.
fn spans_of(view: &View, index: usize) -> Vec<(Kind, u64, Option<u64>)> {
    let spans = view.lanes[index].spans.iter();
    spans.map(|span| (span.kind, span.from_ms / 100, span.to_ms.map(|to| to / 100))).collect()
}

#[test]
fn a_leader_at_work() {
    let mut story = started();
    story.run_turn(2_000, 0, 1000);
    story.start_turn(4_000, 0, 1000);
    story.lanes[1].requests.add(ms(5_000), 20);
    let page_view = view_at(&story, 5_200);
    let leader = page_view.leader.as_ref().unwrap();
    assert_eq!((leader.name.as_str(), leader.term, leader.seen_ms), ("anna", 1000, 5_000));
    assert_eq!(leader.validity.unwrap(), Validity { left_ms: 1_700, whole_ms: 1_700 });
    let replacement = page_view.replacement.as_ref().unwrap();
    assert!(replacement.starts_with("A machine that dies is replaced within about 3s;"));
    assert_eq!((page_view.lanes[0].state, page_view.lanes[1].state), ("leads", "follows"));
    assert_eq!(page_view.lanes[1].requests_per_minute, Some(20));
    assert_eq!(spans_of(&page_view, 0), [(Kind::Leads, 50, None)]);
    assert_eq!(spans_of(&page_view, 1), [(Kind::Follows, 49, None)]);
    let turns = page_view.lanes[0].turns.iter().map(|turn| (turn.outcome.as_str(), turn.age_ms));
    assert_eq!(turns.collect::<Vec<_>>(), [("succeeded", 3_200), ("running", 1_200)]);
    assert_eq!(page_view.changes[0].text, "anna leads, with term 1000. Only anna runs the turns.");
}

#[test]
fn the_promise_of_a_killed_leader_is_seen_until_another_one_takes_over() {
    let mut story = started();
    story.start_turn(2_000, 0, 1000);
    story.apply(ms(2_300), 0, Action::KillMachine);
    story.die(2_300, 0);
    let page_view = view_at(&story, 3_300);
    assert_eq!(page_view.leader, None);
    assert_eq!(page_view.vacancy, Some(Validity { left_ms: 1_100, whole_ms: 2_100 }));
    let leads = (Kind::Leads, 31, Some(10));
    assert_eq!(
        spans_of(&page_view, 0),
        [(Kind::Gone, 10, None), leads, (Kind::LeaseRuns, 10, None)]
    );
    assert_eq!(page_view.last_turn.as_ref().unwrap().outcome, "cut-off");
    story.elect(4_600, 1, 1015);
    let page_view = view_at(&story, 4_600);
    assert_eq!(spans_of(&page_view, 0)[2], (Kind::LeaseRuns, 23, Some(2)));
    assert_eq!(page_view.leader.unwrap().name, "ben");
    let after: Vec<_> = page_view.lanes[1].spans.iter().map(|span| span.after_ms).collect();
    assert_eq!(after, [None, Some(2_300)]);
    let takeover = TakeOver { after_ms: 2_300, cause: "after the leader's machine died" };
    assert_eq!(page_view.take_over, Some(takeover));
}

#[test]
fn a_frozen_leader_is_covered() {
    let mut story = started();
    story.apply(ms(2_200), 0, Action::Freeze);
    let page_view = view_at(&story, 5_200);
    assert_eq!(page_view.leader, None);
    let lines = text(&render_final(&page_view, ms(5_200)));
    assert!(lines[1].starts_with("  anna   expired  ━━━"), "{}", lines[1]);
    let lane = &page_view.lanes[0];
    assert_eq!((lane.state, &lane.faults[..]), ("expired", &["frozen"][..]));
    assert_eq!(
        spans_of(&page_view, 0),
        [(Kind::Leads, 50, Some(13)), (Kind::LeaseRuns, 13, Some(9)), (Kind::Frozen, 30, None)]
    );
}

#[test]
fn a_lease_that_was_given_back_keeps_no_candidate_out() {
    let mut story = started();
    story.apply(ms(2_000), 0, Action::Resign);
    story.stand_down(2_200, 0, 1000, "resigned");
    let page_view = view_at(&story, 3_200);
    assert_eq!((&page_view.leader, page_view.vacancy), (&None, None));
    assert_eq!(spans_of(&page_view, 0), [(Kind::Follows, 10, None), (Kind::Leads, 30, Some(10))]);
}
