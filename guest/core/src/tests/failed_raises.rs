//! Won terms that cannot be raised, for any reason.

use super::*;

/// Returns the number of acquires in half an hour.
pub(super) fn acquires(mut service: impl FnMut(&Operation, Moment) -> Reply) -> usize {
    let (mut candidate, mut won, mut last) = (Candidate::new(&[]), 0, None);
    while candidate.now < seconds(100 + 1_800) {
        let called = candidate.now;
        let report = candidate.step(None, |o, at| {
            if let Operation::Acquire { lease, .. } = o
                && last.replace(*lease) != Some(*lease)
            {
                won += 1;
            }
            service(o, at)
        });
        assert!(!matches!(report.role, Role::Leading(_)), "{report:?}");
        candidate.now = candidate.now.max(called + report.again_in);
    }
    won
}

/// Returns the answer with another date.
fn dated(reply: Reply, seconds: u64) -> Reply {
    let mut answer = reply.unwrap();
    answer.date = DateTime::from_timestamp(i64::try_from(seconds).unwrap(), 0);
    Ok(answer)
}

#[test]
fn missing_date_backs_off_longer_each_time() {
    let mut date = 0;
    let won = acquires(|o, at| {
        date += 3_600;
        dated(available(o, at), ORIGIN_SECONDS + date)
    });
    assert!((2..40).contains(&won), "{won}");
}

#[test]
fn lease_lost_before_raise_backs_off_longer_each_time() {
    let won = acquires(|o, at| match o {
        Operation::WriteMetadata { .. } => error_answer(o, at, 412, "LeaseLost"),
        _ => available(o, at),
    });
    assert!((2..40).contains(&won), "{won}");
}

#[test]
fn lease_taken_by_another_does_not_extend_back_off() {
    let won = acquires(|o, at| match o {
        Operation::WriteMetadata { .. } => {
            error_answer(o, at, 412, "LeaseIdMismatchWithBlobOperation")
        }
        Operation::Release { .. } => error_answer(o, at, 409, "LeaseIdMismatchWithLeaseOperation"),
        _ => available(o, at),
    });
    // After half a poll each time, with jitter.
    assert!(won > 300, "{won}");
}

#[test]
fn a_release_that_may_have_been_applied_is_not_taken_for_another_ones_win() {
    let mut released = None;
    let won = acquires(|o, at| match o {
        Operation::WriteMetadata { .. } => error_answer(o, at, 412, "ConditionNotMet"),
        Operation::Read { lease: Some(_) } => {
            blob_answer(o, at, "leased", &incumbent(ORIGIN_SECONDS * 2))
        }
        Operation::Release { lease } if released.replace(*lease) != Some(*lease) => {
            failure(FailureKind::Timeout)
        }
        Operation::Release { .. } => error_answer(o, at, 409, "LeaseIdMismatchWithLeaseOperation"),
        _ => available(o, at),
    });
    assert!((2..40).contains(&won), "{won}");
}

#[test]
fn superseded_term_backs_off_longer_each_time() {
    let won = acquires(|o, at| match o {
        Operation::WriteMetadata { .. } => error_answer(o, at, 412, "ConditionNotMet"),
        Operation::Read { lease: Some(_) } => {
            blob_answer(o, at, "leased", &incumbent(ORIGIN_SECONDS * 2))
        }
        _ => available(o, at),
    });
    assert!((2..40).contains(&won), "{won}");
}
