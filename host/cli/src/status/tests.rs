use super::*;
use std::time::Duration;
use tenure_core::{End, Ended, LeaseState, NextTurn, Outcome};

/// Returns the instant this many seconds after 1970.
pub(super) fn at(seconds: u64) -> Timestamp {
    Timestamp(seconds * 1_000_000_000)
}

/// Returns the end of a turn at this many seconds after 1970, with its duration in milliseconds.
pub(super) fn end(outcome: Outcome, seconds: u64, took: Option<u64>) -> End {
    End { outcome, at: at(seconds), took: took.map(Duration::from_millis) }
}

/// Returns a leader with this term, since this many seconds after 1970.
pub(super) fn incumbent(name: &str, term: u64, since: u64) -> Incumbent {
    let since = at(since);
    Incumbent { name: name.to_owned(), term, since, address: None, coordinates: false }
}

/// Returns an election without a schedule and without turns.
pub(super) fn idle(lease: LeaseState, incumbent: Option<Incumbent>) -> Snapshot {
    Snapshot {
        lease,
        incumbent,
        turns: Turns {
            schedule: None,
            last_slot: None,
            finished: None,
            triggered: None,
            last_success: None,
            last_failure: None,
            failure_detail: None,
            missed: None,
            next: None,
        },
        ahead: None,
        history: Vec::new(),
        changes: 1,
        successor: None,
        promise: None,
        problem: None,
        answered_at: at(65),
    }
}

fn turns() -> Turns {
    let ended = |slot: u64, outcome, took| Ended {
        slot: at(slot),
        triggered: false,
        end: end(outcome, slot + 3, Some(took)),
    };
    Turns {
        schedule: Some("every 5s".to_owned()),
        last_slot: Some(LastSlot { slot: at(60), attempt: 1 }),
        finished: Some(Finished { slot: at(55), outcome: Outcome::Failed }),
        triggered: None,
        last_success: Some(ended(50, Outcome::Succeeded, 2_950)),
        last_failure: Some(ended(55, Outcome::Failed, 12)),
        failure_detail: None,
        missed: None,
        next: Some(NextTurn { slot: at(70), at: at(70) }),
    }
}

fn snapshot(lease: LeaseState) -> Snapshot {
    let leader = incumbent("a", 7, 5);
    Snapshot { turns: turns(), changes: 0, ..idle(lease, Some(leader)) }
}

#[test]
fn leader_is_the_holder_of_the_lease() {
    for (state, leads) in [
        (LeaseState::Leased, true),
        (LeaseState::Breaking, true),
        (LeaseState::Infinite, false),
        (LeaseState::Broken, false),
        (LeaseState::Expired, false),
        (LeaseState::Available, false),
    ] {
        assert_eq!(snapshot(state).leader().is_some(), leads, "{state:?}");
    }
}

#[test]
fn text_for_people() {
    assert_eq!(
        as_text("c/b", &snapshot(LeaseState::Leased), None),
        "election     c/b\n\
         lease        leased\n\
         leader       a\n\
         term         7\n\
         since        1970-01-01T00:00:05Z (1m ago)\n\
         schedule     every 5s\n\
         last turn    failed 7s ago, after 12 ms: the slot 1970-01-01T00:00:55Z\n\
         last success succeeded 12s ago, after 2.9 s: the slot 1970-01-01T00:00:50Z\n\
         claimed      1970-01-01T00:01:00Z (5s ago): it is running, or its outcome is not recorded yet\n\
         next turn    1970-01-01T00:01:10Z (in 5s)\n"
    );
    let second = Snapshot {
        history: vec![incumbent("ben", 6, 0)],
        changes: 2,
        ..snapshot(LeaseState::Leased)
    };
    let second = as_text("c/b", &second, None);
    assert!(
        second.contains("before       ben, term 6 (2 changes: tenure status --history)\n"),
        "{second}"
    );
    let mut since = snapshot(LeaseState::Leased);
    since.incumbent.as_mut().unwrap().since = at(61);
    let since = as_text("c/b", &since, None);
    let either = "it is running, or the leader that ran it is gone and no outcome was recorded\n";
    assert!(since.contains(either), "{since}");
    let without_leader = as_text("c/b", &snapshot(LeaseState::Expired), None);
    assert!(
        without_leader.contains("leader       none; the last one was a, term 7\n"),
        "{without_leader}"
    );
}

#[test]
fn replacement_time_is_shown_while_there_is_a_leader() {
    let by_settings = TakeoverTime {
        promise: Some(Duration::from_millis(700)),
        lease: Duration::from_secs(20),
        poll: Duration::from_secs(4),
        is_supervised: false,
        is_watched: true,
    };
    let replacement_text =
        |snapshot: &Snapshot| replacement(snapshot, by_settings).map(|value| value.to_string());
    let mut snapshot = snapshot(LeaseState::Leased);
    let by_lease = replacement_text(&snapshot).unwrap();
    assert!(
        by_lease.contains("when its lease expires, within about 26s (--failover 3s shortens that)"),
        "{by_lease}"
    );
    assert!(
        by_lease.ends_with("a process that dies while its supervisor lives, within 4s"),
        "{by_lease}"
    );
    snapshot.promise = Some(Duration::from_millis(2_100));
    snapshot.incumbent.as_mut().unwrap().address = Some("http://a".to_owned());
    let promised = replacement_text(&snapshot).unwrap();
    assert_eq!(
        promised,
        "a machine that dies is replaced within about 3s; a process that dies while its supervisor lives, at once"
    );
    // An address without a scheme is only displayed: no follower watches it.
    snapshot.incumbent.as_mut().unwrap().address = Some("ada:8080".to_owned());
    let unwatched = replacement_text(&snapshot).unwrap();
    assert!(unwatched.ends_with("its supervisor lives, within 500ms"), "{unwatched}");
    snapshot.lease = LeaseState::Expired;
    assert_eq!(replacement_text(&snapshot), None);
}

#[test]
fn future_slot_is_not_past() {
    let slot = LastSlot { slot: at(265), attempt: 2 };
    let turns = Turns { last_slot: Some(slot), ..turns() };
    let ahead = Snapshot { turns, ..snapshot(LeaseState::Leased) };
    let text = as_text("c/b", &ahead, None);
    let row = "claimed      1970-01-01T00:04:25Z (in 3m 20s), attempt 2: it is running";
    assert!(text.contains(row), "{text}");
}

#[test]
fn turn_times_are_in_the_zone_of_the_schedule() {
    let triggered = Triggered {
        id: "rerun".to_owned(),
        slot: at(40),
        attempt: 1,
        outcome: Some(Outcome::Succeeded),
    };
    let turns = Turns {
        schedule: Some("cron 0 3 * * * Europe/Berlin".to_owned()),
        triggered: Some(triggered),
        ..turns()
    };
    let text = as_text("c/b", &Snapshot { turns, ..snapshot(LeaseState::Leased) }, None);
    for (row, instant) in [
        ("since ", "1970-01-01T01:00:05+01:00[Europe/Berlin] (1m ago)"),
        ("claimed ", "1970-01-01T01:01:00+01:00[Europe/Berlin] (5s ago): "),
        ("triggered ", "rerun, requested at 1970-01-01T01:00:40+01:00[Europe/Berlin] (25s ago), "),
    ] {
        let found = text.lines().find(|line| line.starts_with(row)).unwrap();
        assert!(found.contains(instant), "{found}");
    }
}

#[test]
fn whether_the_last_turn_succeeded_is_one_row() {
    let text_of =
        |lease, turns: Turns| as_text("c/b", &Snapshot { turns, ..snapshot(lease) }, None);
    let finished = Some(Finished { slot: at(60), outcome: Outcome::Succeeded });
    let end = end(Outcome::Succeeded, 61, None);
    let success = Ended { slot: at(60), triggered: false, end };
    let good = Turns { finished, last_success: Some(success), ..turns() };
    let text = text_of(LeaseState::Leased, good);
    assert!(
        text.contains("last turn    succeeded 4s ago: the slot 1970-01-01T00:01:00Z\n"),
        "{text}"
    );
    assert!(text.contains("last failure failed 7s ago"), "{text}");
    assert!(!text.contains("claimed") && !text.contains("last success"), "{text}");
    let text = text_of(
        LeaseState::Expired,
        Turns { next: Some(NextTurn { slot: at(1), at: at(1) }), ..turns() },
    );
    assert!(text.contains("(as soon as there is a leader)\n"), "{text}");
    assert!(
        text.contains("no outcome was recorded, and the leader that ran it is gone\n"),
        "{text}"
    );
    let new = Turns {
        last_slot: None,
        finished: None,
        last_success: None,
        last_failure: None,
        ..turns()
    };
    let text = text_of(LeaseState::Leased, new);
    assert!(text.contains("last turn    none is over yet\n"), "{text}");
}

#[test]
fn json_for_programs() {
    let value = as_json("c/b", &snapshot(LeaseState::Expired));
    assert_eq!(value["last_turn"]["outcome"], "failed");
    assert_eq!(value["last_turn"]["took_ms"], 12);
    assert_eq!(value["last_success"]["ended"], "1970-01-01T00:00:53Z");
    assert_eq!(value["next_turn"]["in_ms"], 5_000);
    assert_eq!(value["leader"], Value::Null);
    assert_eq!(value["last_leader"]["term"], 7);
    assert_eq!(value["last_slot"]["slot"], "1970-01-01T00:01:00Z");
    assert_eq!(value["lease"], "expired");
    assert_eq!((&value["history"], &value["changes"]), (&json!([]), &json!(0)));
    assert_eq!(value["answered_at"], "1970-01-01T00:01:05Z");
}
