//! Damaged states: they never cause a panic or an endless step.

use super::*;
use proptest::prelude::*;

/// Returns states of a candidate in many phases.
fn states() -> Vec<Vec<u8>> {
    let mut states = Vec::new();
    let mut candidate = Candidate::new(&[(variable::EVERY, "5s")]);
    for seconds_on in [0, 0, 1, 4, 4, 9] {
        candidate.now += seconds(seconds_on);
        candidate.step(None, available);
        states.extend(candidate.state.clone());
    }
    let unanswered = |_: &Operation, _| failure(FailureKind::Timeout);
    for _ in 0..3 {
        candidate.now += seconds(2);
        candidate.step(None, unanswered);
        states.extend(candidate.state.clone());
    }
    let mut acquiring = Candidate::new(&[]);
    acquiring.step(None, |o, at| match o {
        Operation::Read { .. } => available(o, at),
        _ => failure(FailureKind::Timeout),
    });
    states.extend(acquiring.state.clone());
    states
}

/// The state of a leader whose turn runs, as this version writes it.
const LEADER: &str = include_str!("fixtures/leader.hex");

/// Postcard writes no names: with one field more or less, the same bytes mean something else. So
/// the layout and its version change together.
#[test]
fn a_state_of_this_version_has_the_layout_of_this_version() {
    let mut candidate = Candidate::new(&[(variable::EVERY, "5s")]);
    candidate.lead();
    candidate.now += seconds(5);
    candidate.step(None, available);
    let leading = candidate.step(None, available);
    assert!(leading.run.is_some(), "{leading:?}");
    let hex = |state: &[u8]| state.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let now = hex(leading.state.as_bytes());
    let fixture = LEADER
        .trim()
        .as_bytes()
        .chunks(2)
        .map(|digits| u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap());
    candidate.state = Some(fixture.collect());
    candidate.now += seconds(4);
    let report = candidate.step(None, available);
    let term = |report: &Report| match &report.role {
        Role::Leading(leadership) => Some(leadership.term),
        _ => None,
    };
    let goes_on = candidate.verbs() == ["renew lease"] && term(&report) == term(&leading);
    assert!(
        goes_on,
        "the layout of the state has changed: raise VERSION in candidate.rs, and put into \
         tests/fixtures/leader.hex what is written now:\n{now}"
    );
}

fn survives(state: Vec<u8>, now: Moment, event: Option<Event>) {
    let mut candidate = Candidate::new(&[(variable::EVERY, "5s")]);
    candidate.now = now;
    candidate.state = Some(state);
    let report = candidate.step(event, available);
    candidate.now += report.again_in.min(seconds(60));
    candidate.step(None, available);
    candidate.now += seconds(1);
    candidate.step(Some(Event::Leave(None)), available);
}

proptest! {
    #[test]
    fn any_bytes(bytes: Vec<u8>, version: bool) {
        let mut state = bytes;
        if version {
            state.insert(0, states()[0][0]);
        }
        survives(state, seconds(1000), None);
    }

    #[test]
    fn a_good_one_with_other_bytes(
        which: prop::sample::Index,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        now in 0_u64..10_000,
        event in 0..4,
    ) {
        let states = states();
        let mut state = which.get(&states).clone();
        for (at, byte) in changes {
            let at = at.index(state.len());
            state[at] = byte;
        }
        let event = match event {
            0 => None,
            1 => Some(Event::TurnEnded(Outcome::Failed.into())),
            2 => Some(Event::Leave(Some(Outcome::Succeeded.into()))),
            _ => Some(Event::ResetSlot),
        };
        survives(state, seconds(now), event);
    }

    /// Replaces one number by the largest one: an instant becomes the end of time.
    #[test]
    fn a_good_one_with_a_huge_number(
        which: prop::sample::Index,
        at: prop::sample::Index,
        now in 0_u64..10_000,
    ) {
        let states = states();
        let mut state = which.get(&states).clone();
        let at = at.index(state.len() - 8) + 1;
        state[at..at + 8].fill(0xff);
        survives(state, seconds(now), None);
    }

    #[test]
    fn a_part_of_a_good_one(which: prop::sample::Index, length: prop::sample::Index) {
        let states = states();
        let mut state = which.get(&states).clone();
        state.truncate(length.index(state.len()));
        survives(state, seconds(5000), None);
    }
}
