//! Work that lasts as long as the leadership.

use super::*;

fn daemon(more: &[(&str, &'static str)]) -> Candidate {
    let mut variables = vec![(variable::WHILE_LEADING, "true")];
    variables.extend(more.iter().map(|(name, value)| (*name, *value)));
    let variables: Vec<(&str, &str)> = variables;
    Candidate::new(&variables)
}

/// Steps until a turn is to run.
fn runs(candidate: &mut Candidate) -> Turn {
    for _ in 0..100 {
        let report = candidate.step(None, available);
        if let Some(turn) = report.run {
            return turn;
        }
        candidate.now += report.again_in;
    }
    panic!("it never ran");
}

#[test]
fn there_is_one_turn_for_each_leadership() {
    let mut candidate = daemon(&[]);
    let turn = runs(&mut candidate);
    assert_eq!((turn.attempt, turn.past_due), (1, false));
    for _ in 0..50 {
        let report = candidate.step(None, available);
        assert!(report.run.is_none() && !report.wind_down, "{report:?}");
        candidate.now += report.again_in;
    }
}

#[test]
fn the_next_leader_has_a_turn_of_its_own_with_a_later_slot() {
    let record = Record {
        term: 9,
        leader: "there".into(),
        nonce: 1,
        since: Timestamp::parse(ORIGIN).unwrap(),
        schedule: Some("while leading".into()),
        // The clock went back a little since.
        last_slot: Some(LastSlot {
            slot: Timestamp::parse(ORIGIN).unwrap().plus(seconds(105)),
            attempt: 1,
        }),
        ..Record::default()
    };
    let mut candidate = daemon(&[]);
    let report = candidate.step(None, |o, at| match o {
        Operation::Read { .. } => blob_answer(o, at, "available", &record.to_metadata()),
        _ => available(o, at),
    });
    let turn = report.run.unwrap_or_else(|| runs(&mut candidate));
    assert!(turn.slot > record.last_slot.unwrap().slot, "{turn:?}");
}

#[test]
fn successful_end_of_work_ends_the_leadership() {
    let mut candidate = daemon(&[]);
    runs(&mut candidate);
    let report = candidate.step(Some(Event::TurnEnded(Outcome::Succeeded.into())), available);
    let reason = report.ending.map(|ending| ending.reason);
    assert_eq!(reason, Some(EndingReason::Resigned));
    assert_eq!(candidate.verbs(), ["write record", "release lease"]);
}

#[test]
fn failed_work_starts_a_cool_down() {
    let mut candidate = daemon(&[]);
    runs(&mut candidate);
    let report = candidate.step(Some(Event::TurnEnded(Outcome::Failed.into())), available);
    let reason = report.ending.map(|ending| ending.reason);
    assert_eq!(reason, Some(EndingReason::WorkFailed));
    assert_eq!(report.problems[0].class, ProblemClass::Work);
}

#[test]
fn longest_tenure_ends_the_turn() {
    let mut candidate = daemon(&[(variable::MAX_TENURE, "1m")]);
    runs(&mut candidate);
    let since = candidate.now;
    while !candidate.step(None, available).wind_down {
        candidate.now += millis(500);
    }
    assert!(candidate.now - since >= seconds(59));
}

#[test]
fn timer_settings_are_refused_with_while_leading() {
    let variables = [
        (variable::ELECTION, "leases/leader"),
        (variable::CONNECTION_STRING, "UseDevelopmentStorage=true"),
        (variable::WHILE_LEADING, "true"),
        (variable::EVERY, "5s"),
        (variable::DELIVERY, "at-least-once"),
        (variable::TURN_TIMEOUT, "5s"),
    ];
    let get = |name: &str| {
        variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string())
    };
    let complaints = Settings::read(get).unwrap_err();
    let settings: Vec<_> =
        complaints.iter().map(|complaint| complaint.setting.variable()).collect();
    assert_eq!(settings, [variable::EVERY, variable::DELIVERY, variable::TURN_TIMEOUT]);
}

/// The first claim is applied after the read that did not find it: its turn runs all the same.
#[test]
fn a_claim_that_is_applied_late_has_its_turn() {
    let mut candidate = daemon(&[]);
    let (mut on_blob, mut late, mut claims) = (Metadata::default(), None, 0);
    let mut runs = None;
    for _ in 0..100 {
        let report = candidate.step(None, |o, at| match o {
            Operation::WriteMetadata { metadata, .. } => {
                let record = Record::from_metadata(metadata).unwrap().unwrap();
                claims += u32::from(record.last_slot.is_some_and(|last| last.attempt > 0));
                match claims {
                    1 if late.is_none() => {
                        late = Some(metadata.clone());
                        failure(FailureKind::Timeout)
                    }
                    2.. if late.is_some() => {
                        on_blob = late.clone().unwrap();
                        error_answer(o, at, 412, "ConditionNotMet")
                    }
                    _ => {
                        on_blob = metadata.clone();
                        available(o, at)
                    }
                }
            }
            Operation::Read { lease: Some(_) } => blob_answer(o, at, "leased", &on_blob),
            _ => available(o, at),
        });
        runs = runs.or(report.run);
        candidate.now += report.again_in;
    }
    let claimed = Record::from_metadata(&late.unwrap()).unwrap().unwrap().last_slot.unwrap();
    assert_eq!(runs.expect("it never ran").slot, claimed.slot);
    assert_eq!(claims, 2);
}
