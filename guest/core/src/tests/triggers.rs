//! Turns that somebody asks for: protocol.md §6.1.

use super::*;
use crate::record::Started;

/// What waits beside the election, as commands write it.
pub(super) fn waiting(triggers: &[(&str, u64)]) -> Metadata {
    let word = |(id, second): &(&str, u64)| format!("{id}@{}", (ORIGIN_SECONDS + second) * 1000);
    let words: Vec<_> = triggers.iter().map(word).collect();
    let words = words.join(",");
    Metadata::from_iter([("tenurewriter", "an%20operator"), ("tenuretriggers", words.as_str())])
}

/// A leader with a slot each hour, that sees these triggers.
fn leader(more: &[(&str, &str)], triggers: &[(&str, u64)]) -> (Candidate, Report) {
    let mut candidate = Candidate::new(
        &[&[(variable::EVERY, "24h"), (variable::MAX_FAILURES, "0")], more].concat(),
    );
    candidate.orders = Some(waiting(triggers));
    let report = until(&mut candidate, |report| matches!(report.role, Role::Leading(_)));
    (candidate, report)
}

/// Steps that are due, until one has such a report.
fn until(candidate: &mut Candidate, is: impl Fn(&Report) -> bool) -> Report {
    for _ in 0..40 {
        let report = candidate.step(None, available);
        if is(&report) {
            return report;
        }
        candidate.now = candidate.now.max(candidate.began + report.again_in);
    }
    panic!("it does not come about");
}

fn runs(candidate: &mut Candidate) -> Turn {
    until(candidate, |report| report.run.is_some()).run.unwrap()
}

fn ends(candidate: &mut Candidate, outcome: Outcome) -> Report {
    candidate.step(Some(Event::TurnEnded(outcome.into())), available)
}

/// The record as a leader wrote it last.
fn left_by(leader: &Candidate) -> Metadata {
    let claim = leader.asked.iter().rfind(|asked| asked.operation.name() == "write record");
    written(claim.unwrap()).write()
}

/// A service whose lease is free, with that record.
fn before(found: &Metadata) -> impl FnMut(&Operation, Moment) -> Reply {
    |o, at| match o {
        Operation::Read { .. } => seen(o, at, "available", found),
        _ => available(o, at),
    }
}

fn is_idle(candidate: &mut Candidate, long: Duration) {
    let end = candidate.now + long;
    while candidate.now < end {
        let report = candidate.step(None, available);
        assert_eq!(report.run, None);
        candidate.now = candidate.now.max(candidate.began + report.again_in);
    }
}

#[test]
fn a_new_leader_runs_what_waits_in_order_and_each_once() {
    let (mut candidate, _) = leader(&[], &[("b", 80), ("a", 90)]);
    let first = runs(&mut candidate);
    assert_eq!(first.trigger.as_deref(), Some("b"));
    assert_eq!((first.attempt, first.missed), (1, 0));
    let claim = candidate.asked.iter().find(|asked| asked.operation.name() == "write record");
    let record = written(claim.unwrap());
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
        candidate.asked.iter().filter(|asked| asked.operation == ORDERS).count()
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
            reads += candidate.asked.iter().filter(|asked| asked.operation == ORDERS).count();
            candidate.now = candidate.now.max(candidate.began + report.again_in);
        }
        assert!((least..=most).contains(&reads), "{reads} in ten minutes");
    }
}

/// The election goes on, and it is told what triggers would need.
#[test]
fn a_leader_that_may_not_look_says_so_and_leads_on() {
    let mut candidate = Candidate::new(&[(variable::EVERY, "5s")]);
    candidate.orders = Some(Metadata::default());
    candidate.refusal_of_orders = Some("AuthorizationPermissionMismatch");
    let report = until(&mut candidate, |report| !report.problems.is_empty());
    let problem = &report.problems[0];
    assert_eq!(problem.class, ProblemClass::Refused);
    assert!(problem.detail.contains("takes no orders"), "{}", problem.detail);
    let (mut looks, mut turns, end) = (0, 0, candidate.now + seconds(2000));
    while candidate.now < end {
        let report = candidate.step(None, available);
        assert_eq!(report.problems, [], "it is told once");
        looks += candidate.asked.iter().filter(|asked| asked.operation == ORDERS).count();
        let again = candidate.began + report.again_in;
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
fn what_waits_runs_after_the_turn_that_runs() {
    let (mut candidate, _) = leader(&[], &[("a", 90), ("b", 91)]);
    assert_eq!(runs(&mut candidate).trigger.as_deref(), Some("a"));
    is_idle(&mut candidate, seconds(20));
    let next = ends(&mut candidate, Outcome::Succeeded).run;
    let next = next.unwrap_or_else(|| runs(&mut candidate));
    assert_eq!(next.trigger.as_deref(), Some("b"));
}

#[test]
fn one_that_is_too_old_or_of_another_century_has_no_turn() {
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

/// What the next leader finds on record is all that it knows of the one before.
#[test]
fn the_next_leader_runs_only_what_was_not_claimed() {
    let (mut candidate, _) = leader(&[], &[("a", 90), ("b", 91)]);
    runs(&mut candidate);
    let found = left_by(&candidate);
    let mut next = Candidate::new(&[(variable::EVERY, "24h"), (variable::NAME, "next")]);
    (next.orders, next.now, next.chance) =
        (Some(waiting(&[("a", 90), ("b", 91)])), seconds(130), Counter(99));
    let mut service = before(&found);
    let mut ran = None;
    for _ in 0..10 {
        let report = next.step(None, &mut service);
        ran = ran.or(report.run);
        next.now = next.began + report.again_in;
    }
    assert_eq!(ran.unwrap().trigger.as_deref(), Some("b"));
}

/// A leader whose work is split, or that resets a slot, would say that it ran what it did not.
#[test]
fn a_leader_without_turns_makes_no_other_attempt() {
    let at_least = (variable::DELIVERY, "at-least-once");
    let (mut candidate, _) = leader(&[at_least], &[("again", 90)]);
    runs(&mut candidate);
    ends(&mut candidate, Outcome::Failed);
    let found = left_by(&candidate);
    let mut next = Candidate::new(&[at_least, (variable::NAME, "next")]);
    (next.now, next.chance) = (seconds(130), Counter(99));
    let mut service = before(&found);
    let mut led = false;
    for _ in 0..10 {
        let report = next.step(None, &mut service);
        led |= matches!(report.role, Role::Leading(_));
        assert_eq!(report.run, None);
        next.now = next.began + report.again_in;
    }
    assert!(led);
}

#[test]
fn work_that_lasts_abandons_what_was_not_finished() {
    let at_least = (variable::DELIVERY, "at-least-once");
    let (mut candidate, _) = leader(&[at_least], &[("again", 90)]);
    runs(&mut candidate);
    let found = left_by(&candidate);
    let mut next = Candidate::new(&[(variable::WHILE_LEADING, "true"), (variable::NAME, "next")]);
    (next.now, next.chance) = (seconds(130), Counter(99));
    let mut service = before(&found);
    while !next.asked.iter().any(|asked| asked.operation.name() == "write record") {
        let report = next.step(None, &mut service);
        next.now = next.began + report.again_in;
    }
    let wins = next.asked.iter().find(|asked| asked.operation.name() == "write record");
    let newest = written(wins.unwrap()).triggers.newest.unwrap();
    assert_eq!((newest.id.as_str(), newest.outcome), ("again", Some(Outcome::Abandoned)));
}

#[test]
fn work_without_a_timer_runs_for_triggers_alone() {
    let mut candidate = Candidate::new(&[(variable::ON_TRIGGER, "true")]);
    candidate.orders = Some(waiting(&[("release-42", 90)]));
    let turn = runs(&mut candidate);
    assert_eq!((turn.trigger.as_deref(), turn.attempt), (Some("release-42"), 1));
    let found = Record::read(&left_by(&candidate)).unwrap().unwrap();
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
        candidate.now = candidate.began + report.again_in;
    }
}

/// What a command finds, and what it does about it.
mod placing {
    use super::*;

    fn settings() -> Settings {
        Candidate::new(&[]).settings
    }

    fn beside(found: Option<&Metadata>) -> Answer {
        let at = seconds(100);
        match found {
            Some(found) => seen(&ORDERS, at, "available", found).unwrap(),
            None => refusal(&ORDERS, at, 404, "BlobNotFound").unwrap(),
        }
    }

    fn record() -> Record {
        let record = Record::read(&incumbent(9)).unwrap().unwrap();
        Record { schedule: Some("every 5s".into()), orders_term: Some(9), ..record }
    }

    fn asks(
        id: &str,
        found: Option<&Metadata>,
        record: &Record,
        place: bool,
    ) -> Result<Placing<TriggerState>, Problem> {
        let read = Operation::Read { lease: None };
        let election = seen(&read, seconds(100), "leased", &record.write()).unwrap();
        let wall = instant(seconds(0));
        trigger((id, place), (&beside(found), &election), &settings(), wall)
    }

    fn placed(placing: Result<Placing<TriggerState>, Problem>) -> Metadata {
        match placing {
            Ok(Placing::Write(Operation::WriteSideBlob { metadata, .. }, _)) => metadata,
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
        let first = placed(asks("a", None, &record(), true));
        assert_eq!(first.get("tenuretriggers"), Some("a@1795158100000"));
        // In the same second: a millisecond later, so that their order is certain.
        let second = placed(asks("b", Some(&first), &record(), true));
        let words = second.get("tenuretriggers").unwrap();
        assert_eq!(words, "a@1795158100000,b@1795158100001");
        let again = asks("a", Some(&second), &record(), true).unwrap();
        let until = Timestamp::parse("2026-11-20T08:01:40Z").unwrap();
        assert_eq!(again, Placing::Known(TriggerState::Waiting(until)));
    }

    #[test]
    fn what_had_its_turn_or_is_too_old_is_cleared_away_by_the_next() {
        let found = waiting(&[("a", 90), ("b", 91)]);
        let record = claimed("a", 90, Delivery::AtMostOnce, None);
        let left = placed(asks("c", Some(&found), &record, true));
        assert_eq!(left.get("tenuretriggers").unwrap(), "b@1795158091000,c@1795158100000");
        let old = waiting(&[("a", 90)]);
        let read = Operation::Read { lease: None };
        let election = seen(&read, seconds(3_691), "leased", &super::incumbent(9)).unwrap();
        let wall = instant(seconds(0));
        let answers = (&beside(Some(&old)), &election);
        let state = trigger(("a", false), answers, &settings(), wall);
        assert_eq!(state, Ok(Placing::Known(TriggerState::Missing)));
    }

    #[test]
    fn it_is_told_what_became_of_one() {
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
            let told = asks("a", None, &claimed("a", 90, delivery, outcome), true);
            assert_eq!(told, Ok(Placing::Known(state)), "{delivery:?} {outcome:?}");
        }
        let next = Record { term: 10, ..claimed("a", 90, once, None) };
        assert_eq!(asks("a", None, &next, true), Ok(Placing::Known(S::Unknown)));
        assert_eq!(asks("b", None, &next, false), Ok(Placing::Known(S::Missing)));
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
        let record = Record::read(&record.write()).unwrap().unwrap();
        let state = |n: u64| asks(&format!("t{n}"), None, &record, false).unwrap();
        assert_eq!(state(2), Placing::Known(TriggerState::Missing));
        assert_eq!(state(3), Placing::Known(TriggerState::Unknown));
        assert_eq!(state(4), Placing::Known(TriggerState::Ended(Outcome::TimedOut)));
        assert_eq!(state(19), Placing::Known(TriggerState::Claimed(9)));
    }

    #[test]
    fn what_cannot_be_done_is_refused_with_the_reason() {
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
            let problem = asks(id, found.as_ref(), &record, true).unwrap_err();
            assert!(problem.detail.contains(words), "{problem:?}");
        }
    }

    #[test]
    fn the_first_one_creates_the_blob_of_an_election_that_nobody_led() {
        let read = Operation::Read { lease: None };
        let asks = |place, found: Option<&Metadata>, election: &Answer| {
            let wall = instant(seconds(100));
            trigger(("a", place), (&beside(found), election), &settings(), wall).unwrap()
        };
        for (code, creates) in [
            ("ContainerNotFound", Operation::CreateContainer),
            ("BlobNotFound", Operation::CreateBlob),
        ] {
            let missing = refusal(&read, seconds(100), 404, code).unwrap();
            assert_eq!(asks(true, None, &missing), Placing::Create(creates));
            assert_eq!(asks(false, None, &missing), Placing::Known(TriggerState::Missing));
        }
        // As a candidate creates it: without a record.
        let empty = seen(&read, seconds(100), "available", &Metadata::default()).unwrap();
        let left = placed(Ok(asks(true, None, &empty)));
        assert_eq!(left.get("tenuretriggers"), Some("a@1795158100000"));
        let again = asks(true, Some(&left), &empty);
        assert!(matches!(again, Placing::Known(TriggerState::Waiting(_))), "{again:?}");
    }
}
