//! Unconfirmed dates of the service.

use super::*;

/// 2100-01-01T00:00:00Z.
const FUTURE: u64 = 4_102_444_800;

/// Returns the answer with another date.
fn dated(reply: Reply, seconds: u64) -> Reply {
    let mut answer = reply.unwrap();
    answer.date = DateTime::from_timestamp(i64::try_from(seconds).unwrap(), 0);
    Ok(answer)
}

fn term(report: &Report) -> u64 {
    let Role::Leading(leadership) = &report.role else { panic!("{report:?}") };
    leadership.term
}

#[test]
fn a_term_does_not_follow_a_date_that_nothing_confirms() {
    for strange in [FUTURE, 0] {
        for odd in 0..3 {
            let (mut candidate, mut answers) = (Candidate::new(&[]), 0);
            let report = candidate.step(None, |o, at| {
                let reply = available(o, at);
                answers += 1;
                if answers == odd + 1 { dated(reply, strange) } else { reply }
            });
            assert_eq!(term(&report), ORIGIN_SECONDS + 101, "{odd}");
            let written = candidate.requests.iter().rfind(|a| a.operation.name() == "write record");
            assert_eq!(
                written.map(|a| self::written_record(a).since.seconds()),
                Some(ORIGIN_SECONDS + 100)
            );
            // Normally two dates agree, and there are no further requests.
            let more = [1, 2, 0][odd];
            assert_eq!(candidate.requests.len(), 3 + more, "{:?}", candidate.verbs());
        }
    }
}

#[test]
fn a_service_whose_dates_never_agree_has_no_leader_and_is_not_asked_hotly() {
    let (mut candidate, mut date) = (Candidate::new(&[]), 0);
    let (mut requests, mut reported) = (0, Vec::new());
    while candidate.now < seconds(160) {
        let called = candidate.now;
        let report = candidate.step(None, |o, at| {
            date += 3_600;
            dated(available(o, at), ORIGIN_SECONDS + date)
        });
        assert!(!matches!(report.role, Role::Leading(_)), "{report:?}");
        let last = candidate.requests.last().map(|request| request.operation.name());
        assert!(last != Some("acquire lease") || report.again_in < seconds(1), "it gives back");
        requests += candidate.requests.len();
        reported.extend(report.problems);
        candidate.now = candidate.now.max(called + report.again_in);
    }
    assert!((10..300).contains(&requests), "{requests}");
    assert!(reported.iter().any(|problem| problem.class == ProblemClass::Clock), "{reported:?}");
}

#[test]
fn one_date_from_the_future_moves_no_slot() {
    let mut candidate = Candidate::new(&[(variable::EVERY, "5s")]);
    candidate.lead();
    let (mut renewals, mut slots) = (0, Vec::new());
    while candidate.now < seconds(160) {
        let called = candidate.now;
        let event = (!slots.is_empty()).then_some(Event::TurnEnded(Outcome::Succeeded.into()));
        let report = candidate.step(event, |o, at| {
            renewals += usize::from(matches!(o, Operation::Renew { .. }));
            let odd = matches!(o, Operation::Renew { .. }) && renewals % 3 == 0;
            if odd { dated(available(o, at), FUTURE) } else { available(o, at) }
        });
        slots.extend(report.run.map(|turn| turn.slot));
        candidate.now = candidate.now.max(called + report.again_in);
    }
    assert!((8..=14).contains(&slots.len()), "{slots:?}");
    let end = Timestamp::parse(ORIGIN).unwrap().plus(seconds(161));
    assert!(slots.iter().all(|slot| *slot < end), "{slots:?}");
}

#[test]
fn a_clock_of_the_service_that_was_set_is_followed_with_its_second_answer() {
    for ahead in [3_600, 40] {
        let mut candidate = Candidate::new(&[(variable::EVERY, "10s")]);
        candidate.lead();
        let mut slots = Vec::new();
        while candidate.now < seconds(140) {
            let called = candidate.now;
            let event = (!slots.is_empty()).then_some(Event::TurnEnded(Outcome::Succeeded.into()));
            let report = candidate.step(event, |o, at| {
                dated(available(o, at), ORIGIN_SECONDS + at.as_secs() + ahead)
            });
            slots.extend(report.run.map(|turn| turn.slot));
            candidate.now = candidate.now.max(called + report.again_in);
        }
        let newest = slots.last().unwrap().seconds();
        assert!(newest >= ORIGIN_SECONDS + 120 + ahead, "{slots:?}");
    }
}

#[test]
fn a_slot_ahead_does_not_keep_the_work_of_a_leader_waiting() {
    let slot = Timestamp::parse("2100-01-01T00:00:00Z").unwrap();
    for attempt in [0, 1] {
        let record = Record {
            last_slot: Some(LastSlot { slot, attempt }),
            schedule: Some("while leading".into()),
            ..Record::from_metadata(&incumbent(9)).unwrap().unwrap()
        };
        let mut candidate = Candidate::new(&[(variable::WHILE_LEADING, "true")]);
        let (mut ran, mut reported) = (Vec::new(), Vec::new());
        for _ in 0..6 {
            let called = candidate.now;
            let report = candidate.step(None, |o, at| match o {
                Operation::Read { .. } => blob_answer(o, at, "expired", &record.to_metadata()),
                _ => available(o, at),
            });
            ran.extend(report.run.map(|turn| turn.slot.seconds()));
            reported.extend(report.problems);
            candidate.now = candidate.now.max(called + report.again_in);
        }
        assert_eq!(ran, [ORIGIN_SECONDS + 100]);
        assert_eq!(reported, [], "{attempt}");
        let read = Operation::Read { lease: None };
        let reply = blob_answer(&read, seconds(100), "expired", &record.to_metadata()).unwrap();
        let inspection =
            Inspection::from_answer(&reply, &candidate.settings, instant(seconds(100))).unwrap();
        assert_eq!(inspection.snapshot.ahead, None, "nothing waits for it");
    }
}
