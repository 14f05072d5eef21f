//! Memories that were damaged on the way: never a panic, and never a step without an end.

use super::*;
use proptest::prelude::*;

/// Memories of a candidate in many phases.
fn memories() -> Vec<Vec<u8>> {
    let mut memories = Vec::new();
    let mut candidate = Candidate::new(&[(variable::EVERY, "5s")]);
    for seconds_on in [0, 0, 1, 4, 4, 9] {
        candidate.now += seconds(seconds_on);
        candidate.step(None, available);
        memories.extend(candidate.memory.clone());
    }
    let unanswered = |_: &Operation, _| failure(FailureKind::Timeout);
    for _ in 0..3 {
        candidate.now += seconds(2);
        candidate.step(None, unanswered);
        memories.extend(candidate.memory.clone());
    }
    let mut acquiring = Candidate::new(&[]);
    acquiring.step(None, |o, at| match o {
        Operation::Look { .. } => available(o, at),
        _ => failure(FailureKind::Timeout),
    });
    memories.extend(acquiring.memory.clone());
    memories
}

fn survives(memory: Vec<u8>, now: Moment, event: Option<Event>) {
    let mut candidate = Candidate::new(&[(variable::EVERY, "5s")]);
    candidate.now = now;
    candidate.memory = Some(memory);
    let report = candidate.step(event, available);
    candidate.now += report.again_in.min(seconds(60));
    candidate.step(None, available);
    candidate.now += seconds(1);
    candidate.step(Some(Event::Leave(None)), available);
}

proptest! {
    #[test]
    fn any_bytes(bytes: Vec<u8>, version: bool) {
        let mut memory = bytes;
        if version {
            memory.insert(0, memories()[0][0]);
        }
        survives(memory, seconds(1000), None);
    }

    #[test]
    fn a_good_one_with_other_bytes(
        which: prop::sample::Index,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        now in 0_u64..10_000,
        event in 0..4,
    ) {
        let memories = memories();
        let mut memory = which.get(&memories).clone();
        for (at, byte) in changes {
            let at = at.index(memory.len());
            memory[at] = byte;
        }
        let event = match event {
            0 => None,
            1 => Some(Event::TurnEnded(Outcome::Failed)),
            2 => Some(Event::Leave(Some(Outcome::Succeeded))),
            _ => Some(Event::ResetSlot),
        };
        survives(memory, seconds(now), event);
    }

    /// The largest number there is, in place of any other: where it was an instant, it is now the
    /// end of time.
    #[test]
    fn a_good_one_with_a_huge_number(
        which: prop::sample::Index,
        at: prop::sample::Index,
        now in 0_u64..10_000,
    ) {
        let memories = memories();
        let mut memory = which.get(&memories).clone();
        let at = at.index(memory.len() - 8) + 1;
        memory[at..at + 8].fill(0xff);
        survives(memory, seconds(now), None);
    }

    #[test]
    fn a_part_of_a_good_one(which: prop::sample::Index, length: prop::sample::Index) {
        let memories = memories();
        let mut memory = which.get(&memories).clone();
        memory.truncate(length.index(memory.len()));
        survives(memory, seconds(5000), None);
    }
}
