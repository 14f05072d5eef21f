use super::super::application::Application;
use super::super::page::view::{Kind, WINDOW};
use super::super::tests::NOW;
use super::super::tests::{board, following, leading, report, seconds, turn};
use super::*;
use tenure::handler::TurnEnd;
use tenure::status::TakeoverTime;
use tenure::{Event, ProblemKind, StandDownReason};
use tenure_clock::BootClock;
use tenure_core::ExchangeResult::{Declined, Done, Unavailable};
use tenure_core::{
    End, Ended, EndingReason, Finished, Incumbent, LastSlot, Listed, NextTurn, Outcome, Report,
    Role, Timestamp, Turns,
};

#[test]
fn a_leader_with_a_turn_that_failed() {
    let board = board();
    board.on_step(&report(leading(), &[Done, Done]), NOW, NOW);
    board.on_event(&Event::Elected { term: 7, valid_for: seconds(12), next_turn: None }, NOW);
    let turn = turn();
    let slot = turn.slot;
    let started = Event::TurnStarted { turn: turn.clone() };
    board.on_event(&started, NOW + seconds(1));
    assert_eq!(view(&board, NOW + seconds(1)).last_turn.unwrap().outcome, "running");
    let end = TurnEnd::Failed("no paper".to_owned());
    let before = Box::default();
    let ended = Event::TurnEnded { turn, end, elapsed: seconds(1), other_turns: before };
    board.on_event(&ended, NOW + seconds(2));

    let page_view = view(&board, NOW + seconds(3));
    let leader = page_view.leader.unwrap();
    assert_eq!((leader.name.as_str(), leader.term, leader.seen_ms), ("ada", 7, 3_000));
    assert_eq!(leader.validity.unwrap(), Validity { left_ms: 9_000, whole_ms: 12_000 });
    let last = page_view.last_turn.unwrap();
    assert_eq!((last.outcome.as_str(), last.took_ms), ("failed", Some(1_000)));
    assert_eq!(page_view.lanes[0].requests_per_minute, Some(2));
    assert_eq!(page_view.lanes[0].turns[0].outcome, "failed");
    assert_eq!(page_view.changes, [Note::new(seconds(3), "ada leads, with term 7.")]);
    let problem = "The turn of 2000-01-01T00:00:00Z failed: no paper";
    assert_eq!(page_view.problems, [Note::new(seconds(1), problem)]);
    // A renewal restores the full validity.
    board.on_step(&report(leading(), &[Done]), NOW + seconds(4), NOW + seconds(4));
    let validity = view(&board, NOW + seconds(4)).leader.unwrap().validity.unwrap();
    assert_eq!((validity.left_ms, validity.whole_ms), (12_000, 12_000));
    // Without a renewal, the leadership expires.
    let page_view = view(&board, NOW + seconds(16));
    assert_eq!((page_view.leader, page_view.unseen), (None, false));
    // Another candidate ran its slot again.
    let (outcome, took) = (Outcome::Succeeded, None);
    let end = End { outcome, at: slot.plus(seconds(5)), took };
    let end = Ended { slot, triggered: false, end };
    let (claimed, finished) = (LastSlot { slot, attempt: 2 }, Finished { slot, outcome });
    let (last_slot, finished) = (Some(claimed), Some(finished));
    let ends = Turns { last_success: Some(end), last_failure: None, ..nightly() };
    let again = Turns { last_slot, finished, ..ends };
    let again = Report { turns: Some(again), ..report(following(None), &[Done]) };
    board.on_step(&again, NOW + seconds(16), NOW + seconds(16));
    let last = view(&board, NOW + seconds(16)).last_turn.unwrap();
    assert_eq!((last.slot, last.outcome), (slot.to_rfc3339(), "succeeded".to_owned()));
    // Another candidate ran a newer turn that is on record.
    let newer = Report { turns: Some(nightly()), ..report(following(None), &[Done]) };
    board.on_step(&newer, NOW + seconds(16), NOW + seconds(16));
    let last = view(&board, NOW + seconds(17)).last_turn.unwrap();
    let slot = nightly().last_slot.unwrap().slot.to_rfc3339();
    assert_eq!((last.slot, last.candidate, last.took_ms), (slot, None, None));
    let still = &view(&board, NOW + seconds(900)).problems[0];
    let stalled = "This candidate has made no step for 884 s: its main loop is stalled.";
    assert_eq!(still.text, stalled);
}

#[test]
fn the_leader_is_unknown_before_the_first_response() {
    let board = board();
    assert!(view(&board, NOW).unseen);
    board.on_step(&report(Role::Undecided, &[Done]), NOW, NOW);
    assert!(!view(&board, NOW).unseen, "nobody leads");
    board.on_step(&report(Role::Following(None), &[Declined]), NOW, NOW);
    assert!(view(&board, NOW).unseen, "it has no record yet");
}

#[test]
fn leader_becomes_unknown_while_account_is_unavailable() {
    let board = board();
    board.on_step(&report(following(None), &[Done]), NOW, NOW);
    assert_eq!(view(&board, NOW).leader.unwrap().name, "<script>");
    board.on_step(&report(following(None), &[Unavailable]), NOW + seconds(4), NOW + seconds(4));
    assert!(view(&board, NOW + seconds(4)).leader.is_some(), "one answer may be lost");
    board.on_step(&report(following(None), &[Unavailable]), NOW + seconds(8), NOW + seconds(8));
    let page_view = view(&board, NOW + seconds(20));
    assert_eq!(
        (page_view.leader, page_view.unseen, page_view.lanes[0].state),
        (None, true, "undecided")
    );
    assert_eq!(
        (page_view.lanes[1].state, page_view.lanes[1].spans[0].to_ms),
        ("led", Some(12_000))
    );
    let row = row(&board, NOW + seconds(20));
    assert_eq!((row.leader, row.unseen, row.role), (None, true, "undecided"));
    board.on_step(&report(following(None), &[Done]), NOW + seconds(30), NOW + seconds(30));
    assert_eq!(view(&board, NOW + seconds(31)).leader.unwrap().seen_ms, 1_000);
}

#[test]
fn a_follower_shows_the_present_leader_and_earlier_ones() {
    let board = board();
    board.on_step(&report(leading(), &[Done]), NOW, NOW);
    let reason = StandDownReason::Election(EndingReason::LeaseLost);
    board.on_event(&Event::StoodDown { term: 7, reason }, NOW + seconds(2));
    board.on_step(&report(following(None), &[Declined]), NOW + seconds(3), NOW + seconds(3));
    let page_view = view(&board, NOW + seconds(5));
    let leader = page_view.leader.unwrap();
    assert_eq!((leader.name.as_str(), leader.term, leader.seen_ms), ("<script>", 6, 2_000));
    assert_eq!(leader.validity, None, "only the leader knows");
    let lanes: Vec<_> =
        page_view.lanes.iter().map(|lane| (lane.name.as_str(), lane.state)).collect();
    assert_eq!(lanes, [("ada", "follows"), ("<script>", "leads")]);
    let own_spans: Vec<_> =
        page_view.lanes[0].spans.iter().map(|span| (span.kind, span.to_ms)).collect();
    assert_eq!(own_spans, [(Kind::Leads, Some(3_000)), (Kind::Follows, None)]);
    assert_eq!(page_view.changes[0].text, "ada no longer leads: the lease was lost.");

    board.on_step(&report(Role::Undecided, &[]), NOW + seconds(6), NOW + seconds(6));
    let page_view = view(&board, NOW + seconds(7));
    assert_eq!((page_view.leader, page_view.lanes[1].state), (None, "led"));
    assert!(view(&board, NOW + WINDOW + seconds(7)).lanes.len() == 1, "out of sight");
}

#[test]
fn the_replacement_time_comes_from_the_record_or_the_settings() {
    let by_settings = TakeoverTime {
        promise: None,
        lease: seconds(15),
        poll: seconds(4),
        is_supervised: true,
        is_watched: true,
    };
    let board = board().with_replacement(by_settings);
    let replacement = |at| view(&board, NOW + at).replacement.unwrap();
    assert!(
        replacement(seconds(0))
            .starts_with("A machine that dies is replaced when its lease expires")
    );
    let promises = |role| {
        let promise = Some(Duration::from_millis(2_100));
        board.on_step(&Report { promise, ..report(role, &[Declined]) }, NOW, NOW);
    };
    promises(leading());
    let at_once = "A machine that dies is replaced within about 3s; a process that dies while its supervisor lives, at once.";
    assert_eq!(replacement(seconds(1)), at_once);
    // The leader published no address.
    promises(following(None));
    assert!(
        replacement(seconds(1)).ends_with("its supervisor lives, within 500ms."),
        "{}",
        replacement(seconds(1))
    );
    promises(following(Some("http://10.0.0.4")));
    assert_eq!(replacement(seconds(1)), at_once);
    // The leader makes no promise, whatever this candidate's settings are.
    board.on_step(&report(leading(), &[Done]), NOW, NOW);
    assert!(replacement(seconds(1)).contains("within about 21s"), "{}", replacement(seconds(1)));
}

/// Returns the record of an election with daily slots, whose last turn failed.
fn nightly() -> Turns {
    const DAY: Duration = Duration::from_secs(86_400);
    let midnight =
        Timestamp::from_date(chrono::Utc::now()).seconds() / DAY.as_secs() * DAY.as_secs();
    let slot = Timestamp(midnight * 1_000_000_000);
    let ended = |slot: Timestamp, outcome| {
        let end = End { outcome, at: slot.plus(Duration::from_millis(7)), took: None };
        Ended { slot, triggered: false, end }
    };
    Turns {
        schedule: Some("every 1d".to_owned()),
        last_slot: Some(LastSlot { slot, attempt: 1 }),
        finished: Some(Finished { slot, outcome: Outcome::Failed }),
        triggered: None,
        last_success: Some(ended(slot.minus(DAY), Outcome::Succeeded)),
        last_failure: Some(ended(slot, Outcome::Failed)),
        failure_detail: None,
        missed: None,
        next: Some(NextTurn { slot: slot.plus(DAY), at: slot.plus(DAY) }),
    }
}

#[test]
fn lanes_show_the_last_ten_turns_and_the_recorded_leader() {
    let board = board();
    board.on_step(&report(following(None), &[Declined]), NOW, NOW);
    let page_view = view(&board, NOW + seconds(5));
    assert_eq!((page_view.window_ms, page_view.began_ms), (120_000, Some(5_000)));
    assert_eq!((page_view.schedule, page_view.turns.len()), (None, 0));

    // A schedule without any turn yet.
    let new = Turns {
        last_slot: None,
        finished: None,
        last_success: None,
        last_failure: None,
        ..nightly()
    };
    board.on_step(&Report { turns: Some(new), ..report(following(None), &[Declined]) }, NOW, NOW);
    let page_view = view(&board, NOW + seconds(5));
    assert_eq!((page_view.window_ms, page_view.turns.len()), (12 * 86_400_000, 0));

    let role = Role::Following(Some(Incumbent {
        name: "ben".to_owned(),
        term: 8,
        since: Timestamp::from_date(chrono::Utc::now()).minus(seconds(30 * 3_600)),
        address: None,
        coordinates: false,
    }));
    board.on_step(&Report { turns: Some(nightly()), ..report(role, &[Declined]) }, NOW, NOW);
    let page_view = view(&board, NOW + seconds(5));
    assert_eq!(page_view.window_ms, 12 * 86_400_000);
    assert_eq!(page_view.schedule.as_deref(), Some("every day at 00:00 UTC"));
    let outcomes: Vec<_> = page_view.turns.iter().map(|turn| turn.outcome.as_str()).collect();
    assert_eq!(outcomes, ["succeeded", "failed"]);
    let ben = &page_view.lanes[1];
    assert_eq!((ben.name.as_str(), ben.spans[0].from_ms / 3_600_000), ("ben", 30));
    // A problem of last night is still shown in the morning.
    board.on_event(&Event::Problem { class: ProblemKind::Log, detail: "slow".to_owned() }, NOW);
    assert_eq!(view(&board, NOW + seconds(20 * 3_600)).problems.len(), 2, "and it stands still");
    // The former leader is shown only from when it was observed.
    assert_eq!((page_view.lanes[2].state, page_view.lanes[2].spans[0].from_ms), ("led", 5_000));
}

#[test]
fn commands_name_the_known_candidates_but_the_leader() {
    let board = board();
    let successors = |at| view(&board, NOW + seconds(at)).commands.unwrap().successors;
    assert_eq!(successors(0), ["ada"]);
    for name in ["cleo", "ada", "ben", "cleo"] {
        board.on_event(&Event::Following { leader: Some(name.to_owned()), term: None }, NOW);
    }
    board.on_step(&report(leading(), &[Done]), NOW, NOW);
    assert_eq!(successors(1), ["ben", "cleo"]);
    board.on_step(&report(following(None), &[Done]), NOW, NOW);
    assert_eq!(successors(1), ["ada", "ben", "cleo"]);
    // Candidates that never led are known from the list.
    let listed = |name: &str| Listed {
        name: name.to_owned(),
        address: None,
        ready: true,
        failover: None,
        seen_at: Timestamp::from_date(chrono::Utc::now()),
    };
    let gone = Listed {
        seen_at: Timestamp::from_date(chrono::Utc::now()).minus(seconds(31 * 60)),
        ..listed("gone")
    };
    let list = vec![listed("dora"), listed("ada"), gone, listed("ben")];
    let list = Report { candidates: Some(list), ..report(following(None), &[Done]) };
    board.on_step(&list, NOW, NOW);
    assert_eq!(successors(1), ["ada", "ben", "dora", "cleo"]);
    // Half an hour later the list has expired.
    assert_eq!(successors(31 * 60), ["ada", "ben", "cleo"]);
    // A step without a new list changes nothing.
    board.on_step(&report(following(None), &[Done]), NOW, NOW);
    assert_eq!(successors(1).len(), 4);
}

#[test]
fn an_application_has_no_turns_to_trigger() {
    assert!(view(&board(), NOW).commands.unwrap().triggers);
    let board = Arc::new(board());
    let _application = Application::new(board.clone(), BootClock::new());
    assert!(!view(&board, NOW).commands.unwrap().triggers);
}

#[test]
fn an_overview_row_shows_the_health_of_an_election() {
    let board = board();
    let line = |at| row(&board, NOW + seconds(at));
    let new = line(0);
    assert_eq!((new.health, new.role, new.leader), (ElectionHealth::Unknown, "undecided", None));
    assert_eq!(new.problem.as_deref(), Some("the storage account has not answered yet"));

    board.on_step(&report(Role::Undecided, &[Done]), NOW, NOW);
    assert_eq!((line(0).health, line(0).problem), (ElectionHealth::NoLeader, None));
    board.on_step(&report(following(None), &[Declined]), NOW, NOW);
    assert_eq!(line(0).health, ElectionHealth::Healthy);
    board.on_step(&Report { turns: Some(nightly()), ..report(leading(), &[Done]) }, NOW, NOW);
    let failed = line(1);
    assert_eq!(
        (failed.health, failed.role, failed.term),
        (ElectionHealth::LastTurnFailed, "leads", Some(7))
    );
    assert_eq!(
        (failed.leader.as_deref(), failed.outcome.as_deref()),
        (Some("ada"), Some("failed"))
    );
    let slot = nightly().next.unwrap().slot.0 / 1_000_000;
    assert_eq!((failed.next_at, failed.ended_at), (Some(slot), Some(slot - 86_400_000 + 7)));
    // A renewal or the passing of time does not change the row.
    board.on_step(&report(leading(), &[Done]), NOW + seconds(4), NOW + seconds(4));
    assert_eq!(line(5), failed);
    // The validity has expired.
    assert_eq!(line(17).health, ElectionHealth::NoLeader);
    assert_eq!(line(17).role, "undecided");
    assert_eq!(line(900).health, ElectionHealth::Unknown, "the loop stands still");
}

#[test]
fn a_view_stays_small_whatever_happens() {
    let board = Board::new("jobs/report", &"n".repeat(10_000), NOW);
    for number in 0..1_000 {
        let now = NOW + Duration::from_millis(number);
        board.on_event(&Event::TurnStarted { turn: turn() }, now);
        let detail = "d".repeat(10_000);
        board.on_event(&Event::Problem { class: ProblemKind::Log, detail }, now);
        board.on_event(&Event::Following { leader: Some("x".repeat(9_000)), term: None }, now);
    }
    let text = serde_json::to_string(&view(&board, NOW + seconds(1))).unwrap();
    assert!(text.len() < 30_000, "{}", text.len());
}
