//! Attempts count runs, and not claims.

use super::one_turn::Blob;
use super::triggers::waiting;
use super::*;

const TWICE: &[(&str, &str)] = &[
    (variable::EVERY, "10m"),
    (variable::DELIVERY, "at-least-once"),
    (variable::MAX_ATTEMPTS, "2"),
];

/// The same state for a trigger.
const TRIGGERED: &[(&str, &str)] = &[
    (variable::ON_TRIGGER, "true"),
    (variable::DELIVERY, "at-least-once"),
    (variable::MAX_ATTEMPTS, "2"),
];

/// A long-running candidate, with a blob that keeps all writes.
struct Life {
    candidate: Candidate,
    blob: Blob,
    report: Option<Report>,
    problems: Vec<Problem>,
}

impl Life {
    fn new(settings: &[(&str, &str)]) -> Self {
        let is_triggered = settings.contains(&(variable::ON_TRIGGER, "true"));
        let orders = (variable::ORDERS, if is_triggered { "10s" } else { "never" });
        let mut candidate = Candidate::new(&[settings, &[orders]].concat());
        candidate.now = seconds(590);
        candidate.orders = is_triggered.then(|| waiting(&[("a", 580)]));
        Self { candidate, blob: Blob::default(), report: None, problems: Vec::new() }
    }

    /// Runs one step when it is due; with an event at once.
    fn step(&mut self, event: Option<Event>) -> Report {
        let blob = &mut self.blob;
        let called = self.candidate.now;
        let report = self.candidate.step(event, |o, at| blob.answer(o, at));
        self.candidate.now = self.candidate.now.max(called + report.again_in);
        self.problems.extend(report.problems.clone());
        self.report = Some(report.clone());
        report
    }

    /// Steps until a turn is to be run.
    fn turn(&mut self) -> Turn {
        for _ in 0..200 {
            if let Some(turn) = self.step(None).run {
                return turn;
            }
        }
        panic!("no turn: {:?}", self.problems);
    }

    /// Returns the turn after one with this outcome.
    fn turn_after(&mut self, outcome: Outcome) -> Turn {
        let report = self.step(Some(Event::TurnEnded(outcome.into())));
        report.run.unwrap_or_else(|| self.turn())
    }

    /// Writes a claim whose answer comes too late to start the turn.
    fn claims_without_a_turn(&mut self) {
        self.candidate.slow = Some(("write record", seconds(20)));
        for _ in 0..200 {
            let report = self.step(None);
            assert_eq!(report.run, None);
            if report.ending.is_some() {
                self.candidate.slow = None;
                return;
            }
            // Only claims are late; the write that wins the term is not.
            let leads = matches!(report.role, Role::Leading(_));
            self.candidate.slow = leads.then_some(("write record", seconds(20)));
        }
        panic!("it leads on");
    }
}

#[test]
fn a_claim_whose_turn_the_same_candidate_never_began_is_no_attempt() {
    for settings in [TWICE, TRIGGERED] {
        let mut life = Life::new(settings);
        life.step(None);
        for _ in 0..4 {
            life.claims_without_a_turn();
        }
        let turn = life.turn();
        assert_eq!(turn.attempt, 1, "{:?}", life.problems);
        assert_eq!(life.turn_after(Outcome::Failed).attempt, 2);
    }
}

#[test]
fn a_turn_that_the_host_never_began_is_no_attempt() {
    let mut life = Life::new(TWICE);
    let mut turn = life.turn();
    for _ in 0..4 {
        assert_eq!(turn.attempt, 1);
        turn = life.turn_after(Outcome::NotStarted);
    }
    // After the claim, other candidates cannot tell that the turn did not start.
    assert_eq!((turn.attempt, life.blob.record().finished), (1, None));
    assert_eq!(life.turn_after(Outcome::Failed).attempt, 2);
    assert_eq!(life.turn_after(Outcome::NotStarted).attempt, 2, "the last one is not lost either");
}

#[test]
fn unstarted_turn_is_recorded_for_the_next_leader() {
    let mut life = Life::new(TWICE);
    let turn = life.turn();
    life.step(Some(Event::Leave(Some(Outcome::NotStarted.into()))));
    let finished = Finished { slot: turn.slot, outcome: Outcome::NotStarted };
    assert_eq!(life.blob.record().finished, Some(finished));
    let mut next = Life { blob: std::mem::take(&mut life.blob), ..Life::new(TWICE) };
    next.candidate.now = life.candidate.now + seconds(20);
    next.candidate.chance = Counter(99);
    let again = next.turn();
    assert_eq!((again.slot, again.attempt), (turn.slot, 1));
}

/// Otherwise readers would see it as over, with a further attempt due.
#[test]
fn an_attempt_is_not_over_since_the_one_before_is() {
    let mut life = Life::new(TWICE);
    let first = life.turn();
    let second = life.turn_after(Outcome::Failed);
    assert_eq!((second.slot, second.attempt), (first.slot, 2));
    let record = life.blob.record();
    assert!(!record.is_ended(), "{record:?}");
    assert_eq!(record.failure.map(|failure| failure.slot), Some(first.slot));
}

#[test]
fn a_turn_that_began_and_was_cut_off_is_an_attempt() {
    let mut life = Life::new(TWICE);
    assert_eq!(life.turn().attempt, 1);
    assert_eq!(life.turn_after(Outcome::CutOff).attempt, 2);
    // Its end is not on record, although it ran.
    life.candidate.slow = Some(("renew lease", seconds(20)));
    assert!((0..20).any(|_| life.step(None).ending.is_some()), "it leads on");
    life.candidate.slow = None;
    life.step(Some(Event::TurnEnded(Outcome::CutOff.into())));
    for _ in 0..30 {
        assert_eq!(life.step(None).run, None);
    }
    assert!(
        life.problems.iter().any(|t| t.detail.contains("abandoned after its last attempt (2)")),
        "{:?}",
        life.problems
    );
}

#[test]
fn a_claim_of_another_candidate_without_an_end_is_an_attempt() {
    let mut life = Life::new(TWICE);
    assert_eq!(life.turn().attempt, 1);
    // The candidate died: whether its turn had started is unknown.
    let mut next = Life { blob: std::mem::take(&mut life.blob), ..Life::new(TWICE) };
    next.candidate.now = life.candidate.now + seconds(20);
    next.candidate.chance = Counter(99);
    assert_eq!(next.turn().attempt, 2);
}

/// Returns another candidate, some time after the previous one died or lost its lease.
fn after(life: &mut Life, settings: &[(&str, &str)], seed: u64) -> Life {
    let mut next = Life { blob: std::mem::take(&mut life.blob), ..Life::new(settings) };
    next.candidate.now = life.candidate.now + seconds(20);
    next.candidate.chance = Counter(seed);
    next
}

#[test]
fn claim_of_another_candidate_is_not_recorded_as_unstarted() {
    for settings in [TWICE, TRIGGERED] {
        let mut life = Life::new(settings);
        assert_eq!(life.turn().attempt, 1);
        // The candidate died while its turn ran. The next one raises the term twice before it
        // claims.
        let mut next = after(&mut life, settings, 99);
        for _ in 0..2 {
            let leads = |report: Report| matches!(report.role, Role::Leading(_));
            assert!((0..50).any(|_| leads(next.step(None))), "{:?}", next.problems);
            assert_eq!(next.step(Some(Event::Resign)).run, None);
        }
        assert_eq!(next.turn().attempt, 2);
    }
}

#[test]
fn a_claim_that_did_not_arrive_does_not_make_another_candidates_the_same_turn() {
    let mut first = Life::new(TWICE);
    let leads = |report: Report| matches!(report.role, Role::Leading(_));
    assert!((0..50).any(|_| leads(first.step(None))), "{:?}", first.problems);
    // Its claim is lost, and another candidate makes the same claim and dies.
    for _ in 0..60 {
        let called = first.candidate.now;
        let blob = &mut first.blob;
        let report = first.candidate.step(None, |o, at| match o {
            Operation::WriteMetadata { .. } => failure(FailureKind::Reset),
            _ => blob.answer(o, at),
        });
        assert_eq!(report.run, None);
        first.candidate.now = first.candidate.now.max(called + report.again_in);
        if first.candidate.now > seconds(605) {
            break;
        }
    }
    let mut second = after(&mut first, TWICE, 99);
    assert_eq!(second.turn().attempt, 1);
    std::mem::swap(&mut first.blob, &mut second.blob);
    first.candidate.now = second.candidate.now + seconds(20);
    let mut won = 0;
    for _ in 0..100 {
        if leads(first.step(None)) {
            won += 1;
            assert_eq!(first.step(Some(Event::Resign)).run, None);
        }
        if won == 2 {
            break;
        }
    }
    assert_eq!(first.turn().attempt, 2);
}

#[test]
fn a_later_attempt_whose_turn_never_began_is_no_attempt_either() {
    for settings in [TWICE, TRIGGERED] {
        let settings = &[settings, &[(variable::MAX_ATTEMPTS, "3")]].concat();
        let mut life = Life::new(settings);
        assert_eq!(life.turn().attempt, 1);
        assert_eq!(life.step(Some(Event::TurnEnded(Outcome::Failed.into()))).run, None);
        for _ in 0..5 {
            if !life.blob.record().is_ended() {
                assert_eq!(life.step(None).run, None);
            }
        }
        assert!(life.blob.record().is_ended(), "the end of the first one is on record");
        life.claims_without_a_turn();
        assert_eq!(life.turn().attempt, 2);
        assert_eq!(life.turn_after(Outcome::Failed).attempt, 3);
    }
}

#[test]
fn a_turn_that_the_host_never_began_is_no_attempt_when_it_says_so_too_late() {
    for settings in [TWICE, TRIGGERED] {
        let mut life = Life::new(settings);
        assert_eq!(life.turn().attempt, 1);
        life.candidate.slow = Some(("renew lease", seconds(20)));
        assert!((0..20).any(|_| life.step(None).ending.is_some()), "it leads on");
        life.candidate.slow = None;
        life.step(Some(Event::TurnEnded(Outcome::NotStarted.into())));
        assert_eq!(life.turn().attempt, 1);
    }
}

#[test]
fn a_claim_of_another_candidate_is_an_attempt_also_for_one_that_led_in_between() {
    for settings in [TWICE, TRIGGERED] {
        let mut life = Life::new(settings);
        assert_eq!(life.turn().attempt, 1);
        // The candidate died. The next one raises its term, and records nothing more.
        let mut next = Life { blob: std::mem::take(&mut life.blob), ..Life::new(settings) };
        next.candidate.now = life.candidate.now + seconds(20);
        next.candidate.chance = Counter(99);
        let mut writes = 0;
        let ended = (0..500).any(|_| {
            let (called, blob) = (next.candidate.now, &mut next.blob);
            let report = next.candidate.step(None, |operation, at| {
                writes += u32::from(matches!(operation, Operation::WriteMetadata { .. }));
                match operation {
                    Operation::WriteMetadata { .. } if writes > 1 => {
                        error_answer(operation, at, 403, "AuthorizationFailure")
                    }
                    _ => blob.answer(operation, at),
                }
            });
            assert_eq!(report.run, None);
            next.candidate.now = next.candidate.now.max(called + report.again_in);
            report.ending.is_some()
        });
        assert!(ended && writes > 1, "it leads on after {writes} writes");
        assert_eq!(next.turn().attempt, 2, "{:?}", next.problems);
    }
}

#[test]
fn a_turn_that_may_run_once_is_not_claimed_again_though_it_never_began() {
    let mut life = Life::new(&[(variable::EVERY, "10m")]);
    let first = life.turn();
    assert!(life.turn_after(Outcome::NotStarted).slot > first.slot);
}
