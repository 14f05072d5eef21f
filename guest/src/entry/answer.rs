//! What a request is answered: a status and JSON, for programs; no secret and nothing that helps to guess one.

use tenure_base::json::{Object, Value, array};

use tenure_base::prelude::*;
use tenure_core::{Complaint, Course, Incumbent, Look, Problem, Turned};

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status, as HTTP counts it. Entries that are not HTTP succeed with 200 alone.
    pub status: u16,
    /// One JSON object.
    pub body: String,
}

impl Answer {
    fn new(status: u16, object: Object) -> Self {
        Self { status, body: object.end() }
    }
}

/// What became of a turn.
#[must_use]
pub fn turned(turned: &Turned) -> Answer {
    let (status, outcome) = match turned.course {
        Course::Succeeded => (200, "succeeded"),
        Course::NothingDue => (200, "nothing-due"),
        Course::Followed => (200, "followed"),
        Course::Failed => (500, "failed"),
        Course::Overran => (500, "overran"),
        Course::Undecided => (503, "undecided"),
        Course::Unanswered => (503, "unanswered"),
    };
    let slot = turned.turn.as_ref().map(|turn| turn.slot.to_rfc3339());
    let leading = turned.term.is_some();
    let term = turned.term.or(turned.leader.as_ref().map(|leader| leader.term));
    let mut object = Object::new()
        .with("leading", leading)
        .with("term", term)
        .with("slot", slot.as_ref())
        .with("ran", turned.ran)
        .with("outcome", outcome)
        .with("next", turned.next.map(|next| next.to_rfc3339()).as_ref());
    if let Some(turn) = &turned.turn {
        object = object
            .with("trigger", turn.trigger.as_ref())
            .with("attempt", u64::from(turn.attempt))
            .with("past_due", turn.past_due)
            .with("missed", u64::from(turn.missed));
    }
    if let Some(recorded) = turned.recorded {
        object = object.with("recorded", recorded);
    }
    if let Some(leader) = &turned.leader {
        object = object.with("leader", &leader.name);
    }
    if let Some(error) = &turned.error {
        object = object.with("error", error);
    }
    Answer::new(status, with_problems(object, &turned.problems))
}

/// Who leads.
#[must_use]
pub fn leader(Look { snapshot, next_turn }: &Look) -> Answer {
    let leader = snapshot.leader().map(incumbent);
    let object = Object::new()
        .with("lease", snapshot.lease.name())
        .with("leader", json(leader.as_ref()))
        .with("last_leader", json(snapshot.incumbent.as_ref().map(incumbent).as_ref()))
        .with("next", next_turn.map(|next| next.to_rfc3339()).as_ref())
        .with("asked_at", &snapshot.asked_at.to_rfc3339());
    Answer::new(200, object)
}

fn incumbent(incumbent: &Incumbent) -> String {
    Object::new()
        .with("name", &incumbent.name)
        .with("term", incumbent.term)
        .with("since", &incumbent.since.to_rfc3339())
        .with("address", incumbent.address.as_ref())
        .end()
}

/// A look that failed.
#[must_use]
pub fn could_not_look(problem: &Problem) -> Answer {
    let object = Object::new().with("error", "the storage service could not be reached");
    Answer::new(503, with_problems(object, core::slice::from_ref(problem)))
}

/// The settings are fine.
#[must_use]
pub fn healthy() -> Answer {
    Answer::new(200, Object::new().with("healthy", true))
}

/// Settings that cannot be used: all complaints.
#[must_use]
pub fn complained(complaints: &[Complaint]) -> Answer {
    with_complaints(complaints, true)
}

/// The same for anybody: only which settings they are, and in full what keeps everybody from calling.
#[must_use]
pub fn named(complaints: &[Complaint]) -> Answer {
    with_complaints(complaints, false)
}

fn with_complaints(complaints: &[Complaint], to_operator: bool) -> Answer {
    let complaints = array(complaints.iter().map(|complaint| {
        let setting = complaint.setting.variable();
        let object = Object::new().with("setting", setting);
        let object = match to_operator || setting.starts_with("TENURE_TICK_") {
            true => object.with("problem", &complaint.problem).with("advice", &complaint.advice),
            false => object,
        };
        object.end()
    }));
    let object = Object::new()
        .with("error", "settings are wrong; nothing was sent")
        .with("complaints", Value::Json(&complaints));
    Answer::new(503, object)
}

/// A request that is not served.
#[must_use]
pub fn refused(status: u16, error: &str) -> Answer {
    Answer::new(status, Object::new().with("error", error))
}

fn with_problems(object: Object, problems: &[Problem]) -> Object {
    if problems.is_empty() {
        return object;
    }
    let problems = array(problems.iter().map(|problem| {
        Object::new().with("class", problem.class.name()).with("detail", &problem.detail).end()
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

    fn result(course: Course) -> Turned {
        Turned {
            course,
            term: None,
            leader: None,
            turn: None,
            ran: false,
            error: None,
            recorded: None,
            next: None,
            problems: Vec::new(),
        }
    }

    fn there() -> Incumbent {
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
        let turned = super::turned(&Turned {
            term: Some(9),
            turn: Some(turn),
            ran: true,
            error: Some("\"no\"".into()),
            recorded: Some(true),
            next: Some(SEVEN.plus(Duration::from_secs(600))),
            problems: vec![Problem { class: ProblemClass::Clock, detail: "late".into() }],
            ..result(Course::Failed)
        });
        assert_eq!(turned.status, 500);
        let expected = json!({
            "leading": true, "term": 9, "slot": "2026-11-20T07:00:00Z", "ran": true,
            "outcome": "failed", "next": "2026-11-20T07:10:00Z", "trigger": null,
            "attempt": 2, "past_due": true, "missed": 3, "recorded": true, "error": "\"no\"",
            "problems": [{ "class": "clock", "detail": "late" }],
        });
        assert_eq!(read(&turned), expected);
    }

    #[test]
    fn a_turn_of_another() {
        let turned = super::turned(&Turned { leader: Some(there()), ..result(Course::Followed) });
        let expected = json!({
            "leading": false, "term": 7, "slot": null, "ran": false, "outcome": "followed",
            "next": null, "leader": "there",
        });
        assert_eq!((turned.status, read(&turned)), (200, expected));
    }

    #[test]
    fn a_leader_is_one_who_holds_the_lease() {
        let snapshot = Snapshot {
            lease: LeaseState::Leased,
            incumbent: Some(there()),
            turns: Turns::default(),
            ahead: None,
            history: Vec::new(),
            changes: 0,
            successor: None,
            promise: None,
            problem: None,
            asked_at: SEVEN,
        };
        let there = json!({
            "name": "there", "term": 7, "since": "2026-11-20T07:00:00Z", "address": null
        });
        let mut look = Look { snapshot, next_turn: None };
        assert_eq!(read(&leader(&look))["leader"], there);
        look.snapshot.lease = LeaseState::Expired;
        let answer = read(&leader(&look));
        assert_eq!((&answer["leader"], &answer["last_leader"]), (&json!(null), &there));
    }

    #[test]
    fn complaints_come_all_at_once() {
        let complaint = |setting: &'static str| Complaint {
            setting: SettingId::of(setting),
            problem: "p".into(),
            advice: "a".into(),
        };
        let answer = complained(&[complaint("A"), complaint("B")]);
        assert_eq!(answer.status, 503);
        let complaints = &read(&answer)["complaints"];
        assert_eq!(complaints[1], json!({ "setting": "B", "problem": "p", "advice": "a" }));
        let named = named(&[complaint("A"), complaint("B")]);
        assert_eq!(read(&named)["complaints"], json!([{ "setting": "A" }, { "setting": "B" }]));
        let access = super::named(&[complaint("A"), complaint("TENURE_TICK_TOKEN")]);
        assert_eq!(
            read(&access)["complaints"],
            json!([{ "setting": "A" }, { "setting": "TENURE_TICK_TOKEN", "problem": "p", "advice": "a" }])
        );
    }
}
