use super::*;
use tenure_core::{End, Ended, Finished, LastSlot, NextTurn};

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);
/// 2026-11-20T01:00:00Z, two o'clock in Berlin.
const SLOT: Timestamp = Timestamp(1_795_136_400_000_000_000);

fn nightly() -> Turns {
    Turns {
        schedule: Some("cron 0 2 * * * Europe/Berlin".to_owned()),
        last_slot: Some(LastSlot { slot: SLOT, attempt: 1 }),
        finished: Some(Finished { slot: SLOT, outcome: Outcome::Failed }),
        triggered: None,
        last_success: Some(end(SLOT.minus(2 * DAY), Outcome::Succeeded)),
        last_failure: Some(end(SLOT, Outcome::Failed)),
        failure_detail: None,
        missed: None,
        next: Some(NextTurn { slot: SLOT.plus(DAY), at: SLOT.plus(DAY) }),
    }
}

fn end(slot: Timestamp, outcome: Outcome) -> Ended {
    let end = End { outcome, at: slot.plus(60 * SECOND), took: Some(60 * SECOND) };
    Ended { slot, triggered: false, end }
}

fn turn(slot: Timestamp, missed: u32) -> Turn {
    Turn { slot, missed, ..super::super::tests::turn() }
}

/// Returns the day of the month and the outcome of each turn.
fn days_and_outcomes(recent: &RecentTurns, now: Timestamp, turns: &Turns) -> Vec<(String, String)> {
    let day = |turn: PastTurn| (turn.local[8..10].to_owned(), turn.outcome);
    recent.last_turns(now, Some(turns)).into_iter().map(day).collect()
}

fn outcomes(recent: &RecentTurns, now: Timestamp, turns: &Turns) -> String {
    days_and_outcomes(recent, now, turns).into_iter().map(|(_, outcome)| outcome + " ").collect()
}

#[test]
fn after_a_restart_two_turns_are_known_from_the_record() {
    let (mut recent, turns) = (RecentTurns::default(), nightly());
    recent.on_record(&turns);
    let shown = days_and_outcomes(&recent, SLOT.plus(3_600 * SECOND), &turns);
    let days: Vec<_> = shown.iter().map(|(day, _)| day.as_str()).collect();
    assert_eq!(days, ["11", "12", "13", "14", "15", "16", "17", "18", "19", "20"]);
    let known: Vec<_> = shown.iter().filter(|(_, outcome)| outcome != "unknown").collect();
    let expected = [("18", "succeeded"), ("20", "failed")];
    assert_eq!(known, expected.map(|(day, o)| (day.to_owned(), o.to_owned())).each_ref());
    let last = recent.last_turns(SLOT.plus(3_600 * SECOND), Some(&turns)).pop().unwrap();
    assert_eq!(last.local, "2026-11-20T02:00:00+01:00[Europe/Berlin]");
    assert_eq!((last.took_ms, last.age_ms), (Some(60_000), 3_600_000));
}

#[test]
fn a_running_turn_is_shown_as_running_until_it_ends() {
    let mut recent = RecentTurns::default();
    let every = |finished| Turns {
        schedule: Some("every 1d".to_owned()),
        last_slot: Some(LastSlot { slot: SLOT, attempt: 2 }),
        finished,
        last_success: None,
        last_failure: Some(end(SLOT, Outcome::Failed)),
        failure_detail: None,
        missed: None,
        next: None,
        triggered: None,
    };
    let finished = |outcome| Some(Finished { slot: SLOT, outcome });
    recent.started(&turn(SLOT, 0));
    recent.on_record(&every(finished(Outcome::Failed)));
    let last = |recent: &RecentTurns| recent.last_turns(SLOT, None).pop().unwrap().outcome;
    assert_eq!(last(&recent), "running");
    recent.ended(&turn(SLOT, 0), &TurnEnd::TimedOut, Duration::from_secs(3));
    assert_eq!(last(&recent), "timed-out");
    recent.on_record(&every(finished(Outcome::Abandoned)));
    assert_eq!(last(&recent), "abandoned");
}

#[test]
fn slots_that_the_leader_missed_are_shown_as_missed() {
    let (mut recent, turns) = (RecentTurns::default(), nightly());
    recent.on_record(&turns);
    let now = SLOT.plus(4 * DAY);
    recent.started(&turn(now, 2));
    let later = Turns { next: Some(NextTurn { slot: now.plus(DAY), at: now.plus(DAY) }), ..turns };
    let shown = outcomes(&recent, now, &later);
    assert!(shown.ends_with("succeeded unknown failed unknown missed missed running "), "{shown}");
}

#[test]
fn a_slot_that_waits_for_its_turn_is_no_past_one_and_a_claimed_one_is() {
    let (mut recent, mut turns) = (RecentTurns::default(), nightly());
    recent.on_record(&turns);
    // No candidate could run it yet, or it is delayed by its jitter.
    let now = SLOT.plus(DAY + SECOND);
    assert!(outcomes(&recent, now, &turns).ends_with("succeeded unknown failed "));
    turns.next = Some(NextTurn { slot: SLOT.plus(2 * DAY), at: SLOT.plus(2 * DAY) });
    turns.last_slot = Some(LastSlot { slot: SLOT.plus(DAY), attempt: 1 });
    assert!(outcomes(&recent, now, &turns).ends_with("unknown failed claimed "));
}

#[test]
fn without_a_schedule_the_newest_known_turns_are_shown() {
    let mut recent = RecentTurns::default();
    assert_eq!(recent.last_turns(SLOT, None), []);
    for day in 0..20 {
        recent.ended(&turn(SLOT.plus(day * DAY), 0), &TurnEnd::Succeeded, Duration::ZERO);
    }
    let shown = recent.last_turns(SLOT.plus(20 * DAY), None);
    assert_eq!((shown.len(), recent.known.len()), (MAX_TURNS, MAX_TURNS));
    assert_eq!(shown[0].slot, "2026-11-30T01:00:00Z", "in UTC");
}
