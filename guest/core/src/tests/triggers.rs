//! Triggered turns: protocol.md §6.1.

use super::*;
use crate::record::metadata::Started;

/// Returns the orders as commands write them.
pub(super) fn waiting(triggers: &[(&str, u64)]) -> Metadata {
    let format_trigger =
        |(id, second): &(&str, u64)| format!("{id}@{}", (ORIGIN_SECONDS + second) * 1000);
    let entries: Vec<_> = triggers.iter().map(format_trigger).collect();
    let list = entries.join(",");
    Metadata::from_iter([("tenurewriter", "an%20operator"), ("tenuretriggers", list.as_str())])
}

/// Returns a leader with a slot each hour that reads these triggers.
fn leader(more: &[(&str, &str)], triggers: &[(&str, u64)]) -> (Candidate, Report) {
    let mut candidate = Candidate::new(
        &[&[(variable::EVERY, "24h"), (variable::MAX_FAILURES, "0")], more].concat(),
    );
    candidate.orders = Some(waiting(triggers));
    let report = run_until(&mut candidate, |report| matches!(report.role, Role::Leading(_)));
    (candidate, report)
}

/// Runs due steps until a report matches.
fn run_until(candidate: &mut Candidate, is_done: impl Fn(&Report) -> bool) -> Report {
    for _ in 0..40 {
        let report = candidate.step(None, available);
        if is_done(&report) {
            return report;
        }
        candidate.now = candidate.now.max(candidate.step_started + report.again_in);
    }
    panic!("it does not come about");
}

fn runs(candidate: &mut Candidate) -> Turn {
    run_until(candidate, |report| report.run.is_some()).run.unwrap()
}

fn ends(candidate: &mut Candidate, outcome: Outcome) -> Report {
    candidate.step(Some(Event::TurnEnded(outcome.into())), available)
}

/// Returns the newest record that a leader wrote.
fn record_left_by(leader: &Candidate) -> Metadata {
    let claim = leader.requests.iter().rfind(|request| request.operation.name() == "write record");
    written_record(claim.unwrap()).to_metadata()
}

/// Returns a service whose lease is free, with that record.
fn with_record(found: &Metadata) -> impl FnMut(&Operation, Moment) -> Reply {
    |o, at| match o {
        Operation::Read { .. } => blob_answer(o, at, "available", found),
        _ => available(o, at),
    }
}

fn is_idle(candidate: &mut Candidate, long: Duration) {
    let end = candidate.now + long;
    while candidate.now < end {
        let report = candidate.step(None, available);
        assert_eq!(report.run, None);
        candidate.now = candidate.now.max(candidate.step_started + report.again_in);
    }
}

#[test]
fn new_leader_runs_waiting_triggers_in_order_once() {
    let (mut candidate, _) = leader(&[], &[("b", 80), ("a", 90)]);
    let first = runs(&mut candidate);
    assert_eq!(first.trigger.as_deref(), Some("b"));
    assert_eq!((first.attempt, first.missed), (1, 0));
    let claim =
        candidate.requests.iter().find(|request| request.operation.name() == "write record");
    let record = written_record(claim.unwrap());
    assert_eq!(record.triggers.newest.unwrap().id, "b");
    let next = ends(&mut candidate, Outcome::Failed).run.unwrap();
    assert_eq!(next.trigger.as_deref(), Some("a"));
    ends(&mut candidate, Outcome::Succeeded);
    is_idle(&mut candidate, seconds(150));
}

#[test]
fn a_hint_has_a_leader_look_at_once_and_once_a_second() {
    let (mut candidate, _) = leader(&[], &[]);
    is_idle(&mut candidate, seconds(5));
    candidate.orders = Some(waiting(&[("now", 104)]));
    candidate.step(None, available);
    candidate.now += millis(300);
    let report = candidate.step(Some(Event::Hint), available);
    let looks = |candidate: &Candidate| {
        candidate.requests.iter().filter(|request| request.operation == ORDERS).count()
    };
    assert_eq!(looks(&candidate), 1);
    let turn = report.run.unwrap();
    assert_eq!(turn.trigger.as_deref(), Some("now"));
    let mut count = 0;
    let end = candidate.now + seconds(10);
    while candidate.now < end {
        candidate.step(Some(Event::Hint), available);
        count += looks(&candidate);
        candidate.now += millis(20);
    }
    assert!((9..=11).contains(&count), "{count}");
}

/// The default is ten seconds; a host may set another interval.
#[test]
fn a_leader_reads_orders_as_often_as_its_host_says() {
    for (more, least, most) in [
        (&[][..], 58, 60),
        (&[(variable::ORDERS, "200s")][..], 3, 3),
        (&[(variable::ORDERS, "never")][..], 0, 0),
    ] {
        let (mut candidate, _) = leader(more, &[]);
        let (mut reads, end) = (0, candidate.now + seconds(600));
        while candidate.now < end {
            let report = candidate.step(None, available);
            reads +=
                candidate.requests.iter().filter(|request| request.operation == ORDERS).count();
            candidate.now = candidate.now.max(candidate.step_started + report.again_in);
        }
        assert!((least..=most).contains(&reads), "{reads} in ten minutes");
    }
}

/// The election continues, and reports the permission that triggers need.
#[test]
fn a_leader_that_may_not_look_says_so_and_leads_on() {
    let mut candidate = Candidate::new(&[(variable::EVERY, "5s")]);
    candidate.orders = Some(Metadata::default());
    candidate.refusal_of_orders = Some("AuthorizationPermissionMismatch");
    let report = run_until(&mut candidate, |report| !report.problems.is_empty());
    let problem = &report.problems[0];
    assert_eq!(problem.class, ProblemClass::Refused);
    assert!(problem.detail.contains("takes no orders"), "{}", problem.detail);
    let (mut looks, mut turns, end) = (0, 0, candidate.now + seconds(2000));
    while candidate.now < end {
        let report = candidate.step(None, available);
        assert_eq!(report.problems, [], "it is told once");
        looks += candidate.requests.iter().filter(|request| request.operation == ORDERS).count();
        let again = candidate.step_started + report.again_in;
        if report.run.is_some() {
            turns += 1;
            ends(&mut candidate, Outcome::Succeeded);
        }
        candidate.now = candidate.now.max(again);
    }
    assert_eq!(looks, 2, "one each 15 minutes");
    assert!(turns > 350, "{turns}");
    let report = candidate.step(Some(Event::Hint), available);
    assert_eq!(report.problems.len(), 1, "somebody waits for it");
}

#[test]
fn waiting_trigger_runs_after_the_current_turn() {
    let (mut candidate, _) = leader(&[], &[("a", 90), ("b", 91)]);
    assert_eq!(runs(&mut candidate).trigger.as_deref(), Some("a"));
    is_idle(&mut candidate, seconds(20));
    let next = ends(&mut candidate, Outcome::Succeeded).run;
    let next = next.unwrap_or_else(|| runs(&mut candidate));
    assert_eq!(next.trigger.as_deref(), Some("b"));
}

#[test]
fn expired_trigger_has_no_turn() {
    let (mut candidate, _) = leader(&[], &[]);
    is_idle(&mut candidate, seconds(3700));
    candidate.step(None, available);
    candidate.orders = Some(waiting(&[("old", 100), ("future", 9_000_000)]));
    candidate.step(Some(Event::Hint), available);
    is_idle(&mut candidate, seconds(10));
    candidate.orders = Some(waiting(&[("old", 100), ("new", 3_700)]));
    let report = candidate.step(Some(Event::Hint), available);
    let turn = report.run.unwrap_or_else(|| runs(&mut candidate));
    assert_eq!(turn.trigger.as_deref(), Some("new"));
}

#[test]
fn at_least_once_it_is_tried_until_it_succeeds_and_at_most_once_it_is_not() {
    let at_least = [(variable::DELIVERY, "at-least-once"), (variable::MAX_ATTEMPTS, "3")];
    let (mut candidate, _) = leader(&at_least, &[("again", 90), ("later", 91)]);
    let mut next = None;
    for attempt in 1..=3 {
        let turn = next.unwrap_or_else(|| runs(&mut candidate));
        assert_eq!((turn.trigger.as_deref(), turn.attempt), (Some("again"), attempt));
        next = ends(&mut candidate, Outcome::Failed).run;
    }
    let later = next.unwrap_or_else(|| runs(&mut candidate));
    assert_eq!(later.trigger.as_deref(), Some("later"));

    let (mut candidate, _) = leader(&[], &[("once", 90)]);
    runs(&mut candidate);
    ends(&mut candidate, Outcome::Failed);
    is_idle(&mut candidate, seconds(120));
}

/// The next leader knows the previous one only from the record.
#[test]
fn next_leader_runs_only_unclaimed_triggers() {
    let (mut candidate, _) = leader(&[], &[("a", 90), ("b", 91)]);
    runs(&mut candidate);
    let found = record_left_by(&candidate);
    let mut next = Candidate::new(&[(variable::EVERY, "24h"), (variable::NAME, "next")]);
    (next.orders, next.now, next.chance) =
        (Some(waiting(&[("a", 90), ("b", 91)])), seconds(130), Counter(99));
    let mut service = with_record(&found);
    let mut ran = None;
    for _ in 0..10 {
        let report = next.step(None, &mut service);
        ran = ran.or(report.run);
        next.now = next.step_started + report.again_in;
    }
    assert_eq!(ran.unwrap().trigger.as_deref(), Some("b"));
}

/// A leader whose work is split, or that resets a slot, would otherwise record a turn that did not
/// run.
#[test]
fn a_leader_without_turns_makes_no_other_attempt() {
    let at_least = (variable::DELIVERY, "at-least-once");
    let (mut candidate, _) = leader(&[at_least], &[("again", 90)]);
    runs(&mut candidate);
    ends(&mut candidate, Outcome::Failed);
    let found = record_left_by(&candidate);
    let mut next = Candidate::new(&[at_least, (variable::NAME, "next")]);
    (next.now, next.chance) = (seconds(130), Counter(99));
    let mut service = with_record(&found);
    let mut led = false;
    for _ in 0..10 {
        let report = next.step(None, &mut service);
        led |= matches!(report.role, Role::Leading(_));
        assert_eq!(report.run, None);
        next.now = next.step_started + report.again_in;
    }
    assert!(led);
}

#[test]
fn long_running_work_abandons_unfinished_trigger() {
    let at_least = (variable::DELIVERY, "at-least-once");
    let (mut candidate, _) = leader(&[at_least], &[("again", 90)]);
    runs(&mut candidate);
    let found = record_left_by(&candidate);
    let mut next = Candidate::new(&[(variable::WHILE_LEADING, "true"), (variable::NAME, "next")]);
    (next.now, next.chance) = (seconds(130), Counter(99));
    let mut service = with_record(&found);
    while !next.requests.iter().any(|request| request.operation.name() == "write record") {
        let report = next.step(None, &mut service);
        next.now = next.step_started + report.again_in;
    }
    let wins = next.requests.iter().find(|request| request.operation.name() == "write record");
    let newest = written_record(wins.unwrap()).triggers.newest.unwrap();
    assert_eq!((newest.id.as_str(), newest.outcome), ("again", Some(Outcome::Abandoned)));
}

#[test]
fn work_without_a_timer_runs_for_triggers_alone() {
    let mut candidate = Candidate::new(&[(variable::ON_TRIGGER, "true")]);
    candidate.orders = Some(waiting(&[("release-42", 90)]));
    let turn = runs(&mut candidate);
    assert_eq!((turn.trigger.as_deref(), turn.attempt), (Some("release-42"), 1));
    let found = Record::from_metadata(&record_left_by(&candidate)).unwrap().unwrap();
    assert_eq!(found.schedule.as_deref(), Some("on trigger"));
    ends(&mut candidate, Outcome::Succeeded);
    is_idle(&mut candidate, seconds(1000));
    candidate.orders = Some(waiting(&[("release-42", 90), ("release-43", 1100)]));
    assert_eq!(runs(&mut candidate).trigger.as_deref(), Some("release-43"));
}

#[test]
fn work_that_lasts_has_no_other_turns() {
    let mut candidate = Candidate::new(&[(variable::WHILE_LEADING, "true")]);
    candidate.orders = Some(waiting(&[("a", 90)]));
    runs(&mut candidate);
    for _ in 0..30 {
        let report = candidate.step(None, available);
        assert_eq!(report.run, None);
        candidate.now = candidate.step_started + report.again_in;
    }
}

/// The states that a command finds, and its actions.
mod placing {
    use super::*;

    fn settings() -> Settings {
        Candidate::new(&[]).settings
    }

    fn side_blob_answer(found: Option<&Metadata>) -> Answer {
        let at = seconds(100);
        match found {
            Some(found) => blob_answer(&ORDERS, at, "available", found).unwrap(),
            None => error_answer(&ORDERS, at, 404, "BlobNotFound").unwrap(),
        }
    }

    fn record() -> Record {
        let record = Record::from_metadata(&incumbent(9)).unwrap().unwrap();
        Record { schedule: Some("every 5s".into()), orders_term: Some(9), ..record }
    }

    fn place_or_query(
        id: &str,
        found: Option<&Metadata>,
        record: &Record,
        place: bool,
    ) -> Result<OrderStep<TriggerState>, Problem> {
        let read = Operation::Read { lease: None };
        let election = blob_answer(&read, seconds(100), "leased", &record.to_metadata()).unwrap();
        let wall = instant(seconds(0));
        trigger((id, place), (&side_blob_answer(found), &election), &settings(), wall)
    }

    fn placed(placing: Result<OrderStep<TriggerState>, Problem>) -> Metadata {
        match placing {
            Ok(OrderStep::Write(Operation::WriteSideBlob { metadata, .. }, _)) => metadata,
            other => panic!("{other:?}"),
        }
    }

    fn claimed(id: &str, second: u64, delivery: Delivery, outcome: Option<Outcome>) -> Record {
        let slot = Timestamp::parse(ORIGIN).unwrap().plus(seconds(second));
        let (id, attempt) = (id.to_string(), 1);
        let newest = Some(Started { id, slot, attempt, delivery, outcome });
        let mut triggers = Triggers::default();
        (triggers.newest, triggers.term) = (newest, 9);
        Record { triggers, ..record() }
    }

    #[test]
    fn a_first_one_is_written_and_others_are_kept() {
        let first = placed(place_or_query("a", None, &record(), true));
        assert_eq!(first.get("tenuretriggers"), Some("a@1795158100000"));
        // In the same second, but a millisecond later, so that their order is certain.
        let second = placed(place_or_query("b", Some(&first), &record(), true));
        let triggers = second.get("tenuretriggers").unwrap();
        assert_eq!(triggers, "a@1795158100000,b@1795158100001");
        let again = place_or_query("a", Some(&second), &record(), true).unwrap();
        let until = Timestamp::parse("2026-11-20T08:01:40Z").unwrap();
        assert_eq!(again, OrderStep::Known(TriggerState::Waiting(until)));
    }

    #[test]
    fn placing_removes_claimed_and_expired_triggers() {
        let found = waiting(&[("a", 90), ("b", 91)]);
        let record = claimed("a", 90, Delivery::AtMostOnce, None);
        let left = placed(place_or_query("c", Some(&found), &record, true));
        assert_eq!(left.get("tenuretriggers").unwrap(), "b@1795158091000,c@1795158100000");
        let old = waiting(&[("a", 90)]);
        let read = Operation::Read { lease: None };
        let election = blob_answer(&read, seconds(3_691), "leased", &super::incumbent(9)).unwrap();
        let wall = instant(seconds(0));
        let answers = (&side_blob_answer(Some(&old)), &election);
        let state = trigger(("a", false), answers, &settings(), wall);
        assert_eq!(state, Ok(OrderStep::Known(TriggerState::Missing)));
    }

    #[test]
    fn state_of_a_claimed_trigger_is_reported() {
        use TriggerState as S;
        let (once, least) = (Delivery::AtMostOnce, Delivery::AtLeastOnce { max_attempts: 3 });
        for (delivery, outcome, state) in [
            (once, None, S::Claimed(9)),
            (once, Some(Outcome::Failed), S::Ended(Outcome::Failed)),
            (once, Some(Outcome::NotStarted), S::Ended(Outcome::NotStarted)),
            (least, None, S::Claimed(9)),
            (least, Some(Outcome::Failed), S::Claimed(9)),
            (least, Some(Outcome::Abandoned), S::Ended(Outcome::Abandoned)),
            (least, Some(Outcome::Succeeded), S::Ended(Outcome::Succeeded)),
        ] {
            let placing = place_or_query("a", None, &claimed("a", 90, delivery, outcome), true);
            assert_eq!(placing, Ok(OrderStep::Known(state)), "{delivery:?} {outcome:?}");
        }
        let next = Record { term: 10, ..claimed("a", 90, once, None) };
        assert_eq!(place_or_query("a", None, &next, true), Ok(OrderStep::Known(S::Unknown)));
        assert_eq!(place_or_query("b", None, &next, false), Ok(OrderStep::Known(S::Missing)));
    }

    #[test]
    fn sixteen_are_remembered_beside_the_newest_with_their_ends() {
        let mut record = record();
        for n in 0..20_u64 {
            let slot = Timestamp::parse(ORIGIN).unwrap().plus(seconds(n));
            let (id, delivery) = (format!("t{n}"), Delivery::AtMostOnce);
            record.start(Started { id, slot, attempt: 1, delivery, outcome: None });
            if n % 2 == 0 {
                record.triggers.newest.as_mut().unwrap().outcome = Some(Outcome::TimedOut);
            }
        }
        let record = Record::from_metadata(&record.to_metadata()).unwrap().unwrap();
        let state = |n: u64| place_or_query(&format!("t{n}"), None, &record, false).unwrap();
        assert_eq!(state(2), OrderStep::Known(TriggerState::Missing));
        assert_eq!(state(3), OrderStep::Known(TriggerState::Unknown));
        assert_eq!(state(4), OrderStep::Known(TriggerState::Ended(Outcome::TimedOut)));
        assert_eq!(state(19), OrderStep::Known(TriggerState::Claimed(9)));
    }

    #[test]
    fn impossible_triggers_are_refused_with_the_reason() {
        let full = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|id| (id, 90));
        let lasting = Record { schedule: Some("while leading".into()), ..record() };
        let foreign = Metadata::from_iter([("owner", "payroll")]);
        let idle = Record { schedule: None, ..record() };
        let invocation = Record { orders_term: None, ..record() };
        let coordinated = Record { coordinator_term: Some(idle.term), ..idle.clone() };
        for (id, found, record, words) in [
            ("x", Some(waiting(&full)), record(), "8 triggers of leases/leader wait already"),
            ("x", None, lasting, "lasts as long as a leadership"),
            ("x", None, idle, "runs no turns: it has no schedule"),
            ("x", None, coordinated, "runs no turns: its work is split into shares"),
            ("x", None, invocation, "takes no orders"),
            ("x", Some(foreign), record(), "left untouched"),
            ("a b", None, record(), "1 to 64 letters"),
            ("", None, record(), "1 to 64 letters"),
        ] {
            let problem = place_or_query(id, found.as_ref(), &record, true).unwrap_err();
            assert!(problem.detail.contains(words), "{problem:?}");
        }
    }

    #[test]
    fn first_trigger_creates_the_election_blob() {
        let read = Operation::Read { lease: None };
        let asks = |place, found: Option<&Metadata>, election: &Answer| {
            let wall = instant(seconds(100));
            trigger(("a", place), (&side_blob_answer(found), election), &settings(), wall).unwrap()
        };
        for (code, creates) in [
            ("ContainerNotFound", Operation::CreateContainer),
            ("BlobNotFound", Operation::CreateBlob),
        ] {
            let missing = error_answer(&read, seconds(100), 404, code).unwrap();
            assert_eq!(asks(true, None, &missing), OrderStep::Create(creates));
            assert_eq!(asks(false, None, &missing), OrderStep::Known(TriggerState::Missing));
        }
        // A candidate creates the blob without a record.
        let empty = blob_answer(&read, seconds(100), "available", &Metadata::default()).unwrap();
        let left = placed(Ok(asks(true, None, &empty)));
        assert_eq!(left.get("tenuretriggers"), Some("a@1795158100000"));
        let again = asks(true, Some(&left), &empty);
        assert!(matches!(again, OrderStep::Known(TriggerState::Waiting(_))), "{again:?}");
    }
}
