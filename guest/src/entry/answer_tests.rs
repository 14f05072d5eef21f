use super::*;
use core::time::Duration;
use serde_json::json;
use tenure_core::{LeaseState, ProblemClass, SettingId, Snapshot, Timestamp, Turn, Turns};

const SEVEN: Timestamp = Timestamp(1_795_158_000_000_000_000);

fn result(outcome: OneTurnOutcome) -> OneTurnResult {
    OneTurnResult {
        outcome,
        term: None,
        leader: None,
        turn: None,
        handler_called: false,
        error: None,
        outcome_recorded: None,
        next: None,
        problems: Vec::new(),
    }
}

fn sample_incumbent() -> Incumbent {
    Incumbent { name: "there".into(), term: 7, since: SEVEN, address: None, coordinates: false }
}

fn read(answer: &Answer) -> serde_json::Value {
    serde_json::from_str(&answer.body).unwrap()
}

#[test]
fn a_turn_that_ran() {
    let turn = Turn {
        election: "jobs/report".into(),
        key: "acme/jobs/report/2026-11-20T07:00:00Z".into(),
        term: 9,
        slot: SEVEN,
        trigger: None,
        attempt: 2,
        past_due: true,
        missed: 3,
        valid_for: Duration::ZERO,
        time_limit: None,
        share: None,
    };
    let answer = super::turn_answer(&OneTurnResult {
        term: Some(9),
        turn: Some(turn),
        handler_called: true,
        error: Some("\"no\"".into()),
        outcome_recorded: Some(true),
        next: Some(SEVEN.plus(Duration::from_secs(600))),
        problems: vec![Problem { class: ProblemClass::Clock, detail: "late".into() }],
        ..result(OneTurnOutcome::Failed)
    });
    assert_eq!(answer.status, 500);
    let expected = json!({
        "leading": true, "term": 9, "slot": "2026-11-20T07:00:00Z", "ran": true,
        "outcome": "failed", "next": "2026-11-20T07:10:00Z", "trigger": null,
        "attempt": 2, "past_due": true, "missed": 3, "recorded": true, "error": "\"no\"",
        "problems": [{ "class": "clock", "detail": "late" }],
    });
    assert_eq!(read(&answer), expected);
}

#[test]
fn a_turn_of_another() {
    let answer = super::turn_answer(&OneTurnResult {
        leader: Some(sample_incumbent()),
        ..result(OneTurnOutcome::Followed)
    });
    let expected = json!({
        "leading": false, "term": 7, "slot": null, "ran": false, "outcome": "followed",
        "next": null, "leader": "there",
    });
    assert_eq!((answer.status, read(&answer)), (200, expected));
}

#[test]
fn a_leader_is_one_who_holds_the_lease() {
    let snapshot = Snapshot {
        lease: LeaseState::Leased,
        incumbent: Some(sample_incumbent()),
        turns: Turns::default(),
        ahead: None,
        history: Vec::new(),
        changes: 0,
        successor: None,
        promise: None,
        problem: None,
        answered_at: SEVEN,
    };
    let expected = json!({
        "name": "there", "term": 7, "since": "2026-11-20T07:00:00Z", "address": null
    });
    let mut inspection = Inspection { snapshot, next_turn: None };
    assert_eq!(read(&leader_answer(&inspection))["leader"], expected);
    inspection.snapshot.lease = LeaseState::Expired;
    let answer = read(&leader_answer(&inspection));
    assert_eq!((&answer["leader"], &answer["last_leader"]), (&json!(null), &expected));
    assert_eq!(answer["answered_at"], "2026-11-20T07:00:00Z");
}

#[test]
fn complaints_come_all_at_once() {
    let complaint = |setting: &'static str| Complaint {
        setting: SettingId::new(setting),
        problem: "p".into(),
        advice: "a".into(),
    };
    let answer = invalid_settings_answer(&[complaint("A"), complaint("B")]);
    assert_eq!(answer.status, 503);
    let complaints = &read(&answer)["complaints"];
    assert_eq!(complaints[1], json!({ "setting": "B", "problem": "p", "advice": "a" }));
    let public_answer = public_settings_answer(&[complaint("A"), complaint("B")]);
    assert_eq!(read(&public_answer)["complaints"], json!([{ "setting": "A" }, { "setting": "B" }]));
    let access_answer =
        super::public_settings_answer(&[complaint("A"), complaint("TENURE_TICK_TOKEN")]);
    assert_eq!(
        read(&access_answer)["complaints"],
        json!([{ "setting": "A" }, { "setting": "TENURE_TICK_TOKEN", "problem": "p", "advice": "a" }])
    );
}
