//! The answers to requests: a status and JSON. They hold no secret, and nothing that helps to guess
//! one.

use tenure_base::json::{Object, Value, array};

use tenure_base::prelude::*;
use tenure_core::{Complaint, Incumbent, Inspection, OneTurnOutcome, OneTurnResult, Problem};

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status. Entry points other than HTTP succeed only with 200.
    pub status: u16,
    /// One JSON object.
    pub body: String,
}

impl Answer {
    fn new(status: u16, object: Object) -> Self {
        Self { status, body: object.finish() }
    }
}

/// Returns the answer for the result of a turn.
#[must_use]
pub fn turn_answer(result: &OneTurnResult) -> Answer {
    let (status, outcome) = match result.outcome {
        OneTurnOutcome::Succeeded => (200, "succeeded"),
        OneTurnOutcome::NothingDue => (200, "nothing-due"),
        OneTurnOutcome::Followed => (200, "followed"),
        OneTurnOutcome::Failed => (500, "failed"),
        OneTurnOutcome::Overran => (500, "overran"),
        OneTurnOutcome::Undecided => (503, "undecided"),
        OneTurnOutcome::Unanswered => (503, "unanswered"),
    };
    let slot = result.turn.as_ref().map(|turn| turn.slot.to_rfc3339());
    let leading = result.term.is_some();
    let term = result.term.or(result.leader.as_ref().map(|leader| leader.term));
    let mut object = Object::new()
        .with("leading", leading)
        .with("term", term)
        .with("slot", slot.as_ref())
        .with("ran", result.handler_called)
        .with("outcome", outcome)
        .with("next", result.next.map(|next| next.to_rfc3339()).as_ref());
    if let Some(turn) = &result.turn {
        object = object
            .with("trigger", turn.trigger.as_ref())
            .with("attempt", u64::from(turn.attempt))
            .with("past_due", turn.past_due)
            .with("missed", u64::from(turn.missed));
    }
    if let Some(recorded) = result.outcome_recorded {
        object = object.with("recorded", recorded);
    }
    if let Some(leader) = &result.leader {
        object = object.with("leader", &leader.name);
    }
    if let Some(error) = &result.error {
        object = object.with("error", error);
    }
    Answer::new(status, with_problems(object, &result.problems))
}

/// Returns the answer about the current leader.
#[must_use]
pub fn leader_answer(Inspection { snapshot, next_turn }: &Inspection) -> Answer {
    let leader = snapshot.leader().map(incumbent);
    let object = Object::new()
        .with("lease", snapshot.lease.name())
        .with("leader", json(leader.as_ref()))
        .with("last_leader", json(snapshot.incumbent.as_ref().map(incumbent).as_ref()))
        .with("next", next_turn.map(|next| next.to_rfc3339()).as_ref())
        .with("asked_at", &snapshot.answered_at.to_rfc3339());
    Answer::new(200, object)
}

fn incumbent(incumbent: &Incumbent) -> String {
    Object::new()
        .with("name", &incumbent.name)
        .with("term", incumbent.term)
        .with("since", &incumbent.since.to_rfc3339())
        .with("address", incumbent.address.as_ref())
        .finish()
}

/// Returns the answer if the election could not be read.
#[must_use]
pub fn unreachable_answer(problem: &Problem) -> Answer {
    let object = Object::new().with("error", "the storage service could not be reached");
    Answer::new(503, with_problems(object, core::slice::from_ref(problem)))
}

/// Returns the answer for valid settings.
#[must_use]
pub fn healthy_answer() -> Answer {
    Answer::new(200, Object::new().with("healthy", true))
}

/// Returns the answer for invalid settings, with all complaints.
#[must_use]
pub fn invalid_settings_answer(complaints: &[Complaint]) -> Answer {
    with_complaints(complaints, true)
}

/// Returns the public answer for invalid settings: only their names, and in full the complaint that
/// closes the access.
#[must_use]
pub fn public_settings_answer(complaints: &[Complaint]) -> Answer {
    with_complaints(complaints, false)
}

fn with_complaints(complaints: &[Complaint], for_operator: bool) -> Answer {
    let complaints = array(complaints.iter().map(|complaint| {
        let setting = complaint.setting.variable();
        let object = Object::new().with("setting", setting);
        let object = match for_operator || setting.starts_with("TENURE_TICK_") {
            true => object.with("problem", &complaint.problem).with("advice", &complaint.advice),
            false => object,
        };
        object.finish()
    }));
    let object = Object::new()
        .with("error", "settings are wrong; nothing was sent")
        .with("complaints", Value::Json(&complaints));
    Answer::new(503, object)
}

/// Returns the answer to a request that is not served.
#[must_use]
pub fn refusal_answer(status: u16, error: &str) -> Answer {
    Answer::new(status, Object::new().with("error", error))
}

fn with_problems(object: Object, problems: &[Problem]) -> Object {
    if problems.is_empty() {
        return object;
    }
    let problems = array(problems.iter().map(|problem| {
        Object::new().with("class", problem.class.name()).with("detail", &problem.detail).finish()
    }));
    object.with("problems", Value::Json(&problems))
}

fn json(object: Option<&String>) -> Value<'_> {
    object.map_or(Value::Null, |object| Value::Json(object))
}

#[cfg(test)]
mod tests {
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
        assert_eq!(
            read(&public_answer)["complaints"],
            json!([{ "setting": "A" }, { "setting": "B" }])
        );
        let access_answer =
            super::public_settings_answer(&[complaint("A"), complaint("TENURE_TICK_TOKEN")]);
        assert_eq!(
            read(&access_answer)["complaints"],
            json!([{ "setting": "A" }, { "setting": "TENURE_TICK_TOKEN", "problem": "p", "advice": "a" }])
        );
    }
}
