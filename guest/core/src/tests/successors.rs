//! Successors with an unusable lease, and the time limits for giving them the lease.

use super::*;
use tenure_azure::blob::SideBlob;

/// Returns the side blob of a candidate that announced itself.
fn side_blob_answer(o: &Operation, at: Moment, modified: Moment, fields: &[(&str, &str)]) -> Reply {
    let modified = tenure_azure::encoding::format_http_date(instant(modified));
    let names: Vec<String> = fields.iter().map(|(name, _)| format!("x-ms-meta-{name}")).collect();
    let mut headers = vec![
        ("etag", "\"5\""),
        ("x-ms-lease-state", "available"),
        ("content-length", "0"),
        ("last-modified", modified.as_str()),
    ];
    headers.extend(names.iter().map(String::as_str).zip(fields.iter().map(|(_, value)| *value)));
    answer(o, at, 200, &headers)
}

/// Returns the record of a leader that names this candidate.
fn record_naming_successor() -> Record {
    Record {
        successor: Some("here".into()),
        ..Record::from_metadata(&incumbent(9)).unwrap().unwrap()
    }
}

#[test]
fn a_successor_gives_back_at_once_a_lease_with_whose_record_it_cannot_lead() {
    let foreign = Metadata::from_iter([("somebody", "else")]);
    let mut full = record_naming_successor().to_metadata();
    full.insert("tenurelater".into(), "x".repeat(6_500));
    for (found, words) in [(foreign, "that is not Tenure's"), (full, "too large")] {
        let mut candidate = Candidate::new(&[]);
        let (mut granted, mut reported, mut requests) = (None, Vec::new(), Vec::new());
        let mut released = false;
        while candidate.now < seconds(130) && !released {
            let called = candidate.now;
            let report = candidate.step(None, |o, at| match o {
                Operation::Read { lease: Some(lease) } => {
                    granted = Some(*lease);
                    blob_answer(o, at, "leased", &found)
                }
                Operation::Read { .. } => {
                    blob_answer(o, at, "leased", &record_naming_successor().to_metadata())
                }
                Operation::Release { lease } => {
                    released = Some(*lease) == granted;
                    available(o, at)
                }
                _ => available(o, at),
            });
            requests.extend(candidate.verbs());
            reported.extend(report.problems);
            candidate.now = candidate.now.max(called + report.again_in);
        }
        assert!(released, "{words}: {requests:?}");
        assert!(!requests.contains(&"acquire lease"), "{words}: {requests:?}");
        assert!(!requests.contains(&"write record"), "{words}: {requests:?}");
        let is_reported = reported
            .iter()
            .any(|t| t.class == ProblemClass::UnusableBlob && t.detail.contains(words));
        assert!(is_reported, "{words}");
    }
}

/// A successor polls for its lease for 60 s after its announcement was written, every half second.
#[test]
fn no_lease_is_given_to_a_successor_that_looks_for_it_no_more() {
    const CALLED: &str = "11111111-2222-4333-8444-555555555555";
    let (looks, mut grants) = (seconds(60) - millis(500), 0);
    // With the longest lease and the shortest margin, 27.75 s is the longest request time-out.
    for (timeout, took) in [3, 6, 10, 15, 20, 27].into_iter().flat_map(|t| [(t, 0), (t, t)]) {
        for age in 0..40 {
            let timeout_text = format!("{timeout}s");
            let mut leader = Candidate::new(&[
                (variable::LEASE, "60s"),
                (variable::MARGIN, "2500ms"),
                (variable::RENEW, "1s"),
                (variable::REQUEST_TIMEOUT, &timeout_text),
            ]);
            let report = leader.lead();
            let Role::Leading(leadership) = report.role else { panic!("{report:?}") };
            let term = leadership.term.to_string();
            let fields = [
                ("tenurewriter", "second"),
                ("tenureleaseid", CALLED),
                ("tenureterm", term.as_str()),
            ];
            leader.slow =
                Some(("read announcement", millis(took * 1_000).max(millis(10)) - millis(5)));
            let (mut event, mut written) = (Some(Event::HandOver("second".into())), None);
            for _ in 0..60 {
                let called = leader.now;
                let report = leader.step(event.take(), |o, at| match o {
                    Operation::ReadSideBlob(SideBlob::Successor) => {
                        // The announcement has this age at the first read, and is never renewed.
                        let written = *written.get_or_insert(at.saturating_sub(seconds(age)));
                        side_blob_answer(o, at, written, &fields)
                    }
                    Operation::Change { .. } => failure(FailureKind::Timeout),
                    _ => available(o, at),
                });
                for request in &leader.requests {
                    if let Operation::Change { .. } = request.operation {
                        // The dates have whole seconds.
                        let written = written.unwrap().as_secs();
                        let late = request.sent + request.timeout - seconds(written);
                        assert!(late <= looks, "{late:?} with {timeout} s, {took} s, {age} s");
                        grants += 1;
                    }
                }
                leader.now = leader.now.max(called + report.again_in);
                if report.ending.is_some() && !leader.verbs().contains(&"change lease") {
                    break;
                }
            }
        }
    }
    assert!(grants > 100, "{grants}");
}

#[test]
fn an_event_that_ends_an_announcement_does_not_put_off_the_next_poll() {
    let mut candidate = Candidate::new(&[]);
    candidate.slow = Some(("read announcement", millis(1_500)));
    let named = |o: &Operation, at| match o {
        Operation::ReadSideBlob(_) => error_answer(o, at, 404, "BlobNotFound"),
        _ => blob_answer(o, at, "leased", &record_naming_successor().to_metadata()),
    };
    // The step ends before the announcement, and the next one is due at once.
    assert!(candidate.step(None, named).again_in <= millis(1_510));
    assert_eq!(candidate.verbs(), ["read blob", "read announcement"]);
    let report = candidate.step(Some(Event::Ready(false)), named);
    assert_eq!(candidate.verbs(), [""; 0]);
    assert!(report.again_in <= candidate.settings.timings.poll / 2);
}
