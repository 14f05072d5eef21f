//! Hints: protocol.md §4.5.

use super::*;

/// Returns a poll of a blob that another candidate holds.
fn led(operation: &Operation, at: Moment) -> Reply {
    blob_answer(operation, at, "leased", &incumbent(5))
}

/// Returns a candidate that follows, between two polls.
fn follower() -> Candidate {
    let mut candidate = Candidate::new(&[]);
    let report = candidate.step(None, led);
    assert!(matches!(report.role, Role::Following(Some(_))), "{report:?}");
    candidate.now += millis(700);
    candidate
}

#[test]
fn a_true_hint_leads_to_a_leadership_at_once() {
    let mut candidate = follower();
    let report = candidate.step(Some(Event::Hint), available);
    assert!(matches!(report.role, Role::Leading(_)), "{report:?}");
    assert_eq!(candidate.verbs()[..3], ["read blob", "acquire lease", "write record"]);
}

#[test]
fn a_false_hint_brings_five_polls_forward() {
    let mut candidate = follower();
    let mut event = Some(Event::Hint);
    let mut waits = Vec::new();
    for _ in 0..5 {
        let began = candidate.now;
        let report = candidate.step(event.take(), led);
        assert_eq!(candidate.verbs(), ["read blob"]);
        waits.push(report.again_in);
        candidate.now = began + report.again_in;
    }
    // Counted from the answer, which takes 10 ms.
    assert_eq!(waits[..4], [60, 110, 210, 410].map(millis));
    assert!(waits[4] >= seconds(2), "{waits:?}");
}

#[test]
fn a_hint_ends_with_another_leader() {
    let mut candidate = follower();
    let report =
        candidate.step(Some(Event::Hint), |o, at| blob_answer(o, at, "leased", &incumbent(6)));
    assert!(report.again_in >= seconds(2), "{report:?}");
}

#[test]
fn many_hints_cost_ten_polls_a_minute_and_ordinary_ones_go_on() {
    let mut candidate = follower();
    let (mut polls, mut next) = (0, candidate.now);
    let end = candidate.now + seconds(60);
    while candidate.now < end {
        let began = candidate.now;
        let due = began >= next;
        let report = candidate.step(Some(Event::Hint), led);
        polls += candidate.requests.len();
        assert!(!due || !candidate.requests.is_empty(), "an ordinary poll is left out");
        next = began + report.again_in;
        candidate.now += millis(5);
    }
    // A normal poll each 2 s at most.
    assert!((10..=10 + 30).contains(&polls), "{polls}");
}

/// Each of these ends a poll without a leader to follow.
#[test]
fn hinted_polls_count_even_if_they_fail() {
    let deleted = |o: &Operation, at| match o {
        Operation::CreateContainer => error_answer(o, at, 409, "ContainerBeingDeleted"),
        _ => error_answer(o, at, 404, "ContainerNotFound"),
    };
    let lost = |o: &Operation, at| match o {
        Operation::Acquire { .. } => error_answer(o, at, 409, "LeaseAlreadyPresent"),
        _ => available(o, at),
    };
    let busy = |o: &Operation, at| error_answer(o, at, 503, "ServerBusy");
    let services: [fn(&Operation, Moment) -> Reply; 3] = [deleted, lost, busy];
    for service in services {
        let mut candidate = follower();
        let end = candidate.now + seconds(30);
        let mut polls = 0;
        while candidate.now < end {
            candidate.step(Some(Event::Hint), service);
            polls += candidate.verbs().iter().filter(|verb| **verb == "read blob").count();
            candidate.now += millis(5);
        }
        // A normal poll each 2 s at most, and one more after a poll without an answer.
        assert!((10..=10 + 2 * 15).contains(&polls), "{polls}");
    }
}

#[test]
fn many_hints_do_not_keep_a_successor_from_announcing_itself() {
    let mut candidate = follower();
    for _ in 0..20 {
        candidate.step(Some(Event::Hint), led);
    }
    let mut record = Record::from_metadata(&incumbent(5)).unwrap().unwrap();
    record.successor = Some("here".into());
    let named = record.to_metadata();
    // The step ends before the announcement.
    candidate.now += seconds(4);
    candidate.slow = Some(("read blob", millis(1_200)));
    let mut service = |o: &Operation, at: Moment| match o {
        Operation::Read { .. } => blob_answer(o, at, "leased", &named),
        _ => available(o, at),
    };
    candidate.step(None, &mut service);
    assert_eq!(candidate.verbs(), ["read blob"]);
    candidate.step(Some(Event::Hint), &mut service);
    assert_eq!(candidate.verbs(), ["read announcement", "announce"]);
}

#[test]
fn leaders_and_ineligible_candidates_ignore_hints() {
    let mut leader = Candidate::new(&[]);
    leader.lead();
    leader.step(Some(Event::Hint), available);
    assert_eq!(leader.verbs(), [""; 0]);

    let mut paused = follower();
    paused.step(Some(Event::Ready(false)), led);
    paused.step(Some(Event::Hint), available);
    assert_eq!(paused.verbs(), [""; 0]);
}

#[test]
fn an_observer_follows_a_hint_and_sends_nothing_but_polls() {
    let mut observer = Candidate::new(&[(variable::OBSERVE, "true")]);
    let missing = |o: &Operation, at| error_answer(o, at, 404, "ContainerNotFound");
    let mut record = Record::from_metadata(&incumbent(5)).unwrap().unwrap();
    record.successor = Some("here".into());
    let named = record.to_metadata();
    let names_it = |o: &Operation, at: Moment| blob_answer(o, at, "leased", &named);
    for service in 0..4 {
        for _ in 0..3 {
            let report = observer.step(None, |o: &Operation, at| match service {
                0 => missing(o, at),
                1 => available(o, at),
                2 => led(o, at),
                _ => names_it(o, at),
            });
            assert!(!matches!(report.role, Role::Leading(_)), "{report:?}");
            assert_eq!(observer.verbs(), ["read blob"]);
            observer.now += report.again_in;
        }
        observer.now += seconds(60);
    }
    observer.step(None, led);
    observer.now += millis(700);
    observer
        .step(Some(Event::Hint), |o: &Operation, at| blob_answer(o, at, "leased", &incumbent(6)));
    assert_eq!(observer.verbs(), ["read blob"]);
}
