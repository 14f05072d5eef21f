//! protocol.md §4.

use super::*;

#[test]
fn wins_a_free_lease_and_raises_the_term() {
    let mut candidate = Candidate::new(&[(variable::ORDERS, "never")]);
    let report = candidate.lead();
    assert_eq!(candidate.verbs(), ["read blob", "acquire lease", "write record"]);
    let Operation::Acquire { if_match, .. } = &candidate.requests[1].operation else { panic!() };
    assert_eq!(if_match.as_ref().unwrap().0, "\"1\"");
    let Role::Leading(leadership) = report.role else { panic!() };
    assert_eq!(leadership.term, ORIGIN_SECONDS + 101);
    // Counted from before the acquire was sent, 10 ms after the step began.
    assert_eq!(leadership.valid_for, seconds(12) + millis(10));
    assert_eq!(report.again_in, seconds(4) + millis(10));
    assert_eq!(report.problems, []);
}

#[test]
fn creates_missing_container_and_blob() {
    let mut candidate = Candidate::new(&[]);
    let mut container = false;
    candidate.step(None, |o, at| match o {
        Operation::Read { .. } => error_answer(o, at, 404, "ContainerNotFound"),
        Operation::CreateBlob if !container => error_answer(o, at, 404, "ContainerNotFound"),
        Operation::CreateContainer => {
            container = true;
            available(o, at)
        }
        _ => available(o, at),
    });
    let verbs = ["read blob", "create container", "create blob", "acquire lease"];
    assert_eq!(candidate.verbs(), verbs);
}

#[test]
fn without_a_record_the_second_is_waited_out() {
    let mut candidate = Candidate::new(&[]);
    let nothing = |o: &Operation, at| match o {
        Operation::Read { .. } => blob_answer(o, at, "available", &Metadata::default()),
        _ => available(o, at),
    };
    let called = candidate.now;
    let report = candidate.step(None, nothing);
    assert_eq!(candidate.verbs(), ["read blob", "acquire lease"]);
    assert_eq!(report.role, Role::Undecided);
    // The lease runs meanwhile: a host must not delay the next step.
    assert_eq!(report.wins_within, Some(candidate.requests[1].sent + seconds(12) - called));
    candidate.now = called + report.again_in;
    let report = candidate.step(None, nothing);
    assert_eq!(candidate.verbs(), ["write record"]);
    assert_eq!(report.wins_within, None);
    assert!(
        candidate.requests[0].sent >= seconds(101) + millis(10),
        "also by a clock that is fast by 1 %"
    );
    // A leader that was elected in the same second had at most ORIGIN_SECONDS + 101.
    let Role::Leading(leadership) = report.role else { panic!("{report:?}") };
    assert_eq!(leadership.term, ORIGIN_SECONDS + 102);
}

#[test]
fn a_blob_that_another_candidate_made_exists() {
    for (status, code) in [(409, "BlobAlreadyExists"), (412, "LeaseIdMissing")] {
        let mut candidate = Candidate::new(&[]);
        let mut looks = 0;
        let report = candidate.step(None, |o, at| match o {
            Operation::Read { .. } => {
                looks += 1;
                match looks {
                    1 => error_answer(o, at, 404, "BlobNotFound"),
                    _ => blob_answer(o, at, "leased", &incumbent(9)),
                }
            }
            _ => error_answer(o, at, status, code),
        });
        let Role::Following(Some(leader)) = report.role else { panic!("{report:?}") };
        assert_eq!((leader.name.as_str(), leader.term), ("there", 9));
        assert_eq!(report.problems, []);
    }
}

#[test]
fn follows_lease_holder_and_polls_again_in_time() {
    for state in ["leased", "breaking"] {
        let mut candidate = Candidate::new(&[]);
        let report = candidate.step(None, |o, at| blob_answer(o, at, state, &incumbent(9)));
        let Role::Following(Some(leader)) = report.role else { panic!("{report:?}") };
        assert_eq!(leader.address.as_deref(), Some("http://10.0.0.9"));
        assert!((seconds(2)..=seconds(4) + millis(10)).contains(&report.again_in));
        assert_eq!(candidate.verbs(), ["read blob"]);
    }
}

/// No candidate holds such a lease, regardless of the record.
#[test]
fn a_lease_without_an_end_is_nobodys() {
    let mut beats = incumbent(9);
    for (name, value) in
        [("tenureheartbeat", "7"), ("tenurefailoverwindow", "1000"), ("tenureheartbeatterm", "9")]
    {
        beats.insert(name.into(), value.into());
    }
    for (settings, record) in [(&[][..], incumbent(9)), (&[(variable::FAILOVER, "3s")], beats)] {
        let mut candidate = Candidate::new(settings);
        for read in 0..20 {
            let report = candidate.step(None, |o, at| match o {
                Operation::Read { .. } => blob_answer(o, at, "infinite", &record),
                _ => available(o, at),
            });
            assert_eq!(report.role, Role::Undecided);
            // The lease is neither acquired nor broken, even after the promise on record.
            assert_eq!(candidate.verbs(), ["read blob"], "{read}");
            if read == 0 {
                assert_eq!(report.problems[0].class, ProblemClass::ForeignLease);
                assert!(report.problems[0].detail.contains("tenure break"), "{report:?}");
            }
            candidate.now += report.again_in;
        }
        let report = candidate.step(None, |o, at| match o {
            Operation::Read { .. } => blob_answer(o, at, "broken", &record),
            _ => available(o, at),
        });
        assert!(matches!(report.role, Role::Leading(_)), "{report:?}");
    }
}

#[test]
fn acquires_any_free_lease() {
    for state in ["available", "expired", "broken"] {
        let mut candidate = Candidate::new(&[]);
        candidate.step(None, |o, at| match o {
            Operation::Read { .. } => blob_answer(o, at, state, &incumbent(9)),
            _ => available(o, at),
        });
        assert_eq!(written_record(&candidate.requests[2]).leader, "here", "{state}");
        assert_eq!(
            written_record(&candidate.requests[2]).unknown.get("tenurelater"),
            Some("x"),
            "kept as it was"
        );
    }
}

#[test]
fn the_term_rises_above_the_record_and_above_the_service_time() {
    for (recorded, won) in
        [(9, ORIGIN_SECONDS + 101), (ORIGIN_SECONDS + 5_000, ORIGIN_SECONDS + 5_001)]
    {
        let mut candidate = Candidate::new(&[]);
        let report = candidate.step(None, |o, at| match o {
            Operation::Read { .. } => blob_answer(o, at, "expired", &incumbent(recorded)),
            _ => available(o, at),
        });
        let Role::Leading(leadership) = report.role else { panic!("{report:?}") };
        assert_eq!(leadership.term, won);
    }
}

#[test]
fn losing_the_race_is_no_problem() {
    let mut candidate = Candidate::new(&[]);
    let report = candidate.step(None, |o, at| match o {
        Operation::Acquire { .. } => error_answer(o, at, 409, "LeaseAlreadyPresent"),
        _ => available(o, at),
    });
    assert_eq!(report.role, Role::Undecided);
    assert_eq!(report.problems, []);
    assert!(report.again_in >= seconds(2));
}

#[test]
fn a_blob_that_changed_is_looked_at_again_but_not_for_ever() {
    let mut candidate = Candidate::new(&[]);
    let report = candidate.step(None, |o, at| match o {
        Operation::Acquire { .. } => error_answer(o, at, 412, "ConditionNotMet"),
        _ => available(o, at),
    });
    assert_eq!(candidate.requests.len(), 8, "{:?}", candidate.verbs());
    assert!(report.again_in >= seconds(2));
}

#[test]
fn an_acquire_without_answer_is_repeated_with_the_same_id_and_counts_from_its_own_sending() {
    let mut candidate = Candidate::new(&[]);
    let mut acquires = 0;
    let report = candidate.step(None, |o, at| match o {
        Operation::Acquire { .. } => {
            acquires += 1;
            if acquires == 1 { failure(FailureKind::Timeout) } else { available(o, at) }
        }
        _ => available(o, at),
    });
    let ids: Vec<_> = candidate.requests[1..3]
        .iter()
        .map(|request| match &request.operation {
            Operation::Acquire { lease, .. } => *lease,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(ids[0], ids[1]);
    let Role::Leading(leadership) = report.role else { panic!("{report:?}") };
    assert_eq!(leadership.valid_for, candidate.requests[2].sent - seconds(100) + seconds(12));
    assert_eq!(report.problems, []);
}

#[test]
fn every_attempt_has_a_lease_id_of_its_own() {
    let mut candidate = Candidate::new(&[]);
    let mut ids = Vec::new();
    for _ in 0..5 {
        let report = candidate.step(None, |o, at| match o {
            Operation::Acquire { lease, .. } => {
                ids.push(*lease);
                error_answer(o, at, 409, "LeaseAlreadyPresent")
            }
            _ => available(o, at),
        });
        candidate.now = candidate.now.max(seconds(100)) + report.again_in;
    }
    assert_eq!(ids.len(), 5);
    assert!((1..5).all(|n| !ids[..n].contains(&ids[n])));
}

#[test]
fn foreign_lease_id_is_never_adopted() {
    let mut candidate = Candidate::new(&[]);
    let other = "11111111-2222-4333-8444-555555555555";
    let report = candidate.step(None, |o, at| match o {
        Operation::Acquire { .. } => {
            answer(o, at, 201, &[("x-ms-lease-id", other), ("etag", "\"1\"")])
        }
        _ => available(o, at),
    });
    assert_eq!(report.role, Role::Undecided);
    assert_eq!(report.problems[0].class, ProblemClass::Nonsense);
    assert_eq!(candidate.verbs(), ["read blob", "acquire lease"]);
}

#[test]
fn a_write_of_the_term_in_doubt_is_looked_up_under_the_lease() {
    let mut candidate = Candidate::new(&[]);
    let mut on_blob = Metadata::default();
    let report = candidate.step(None, |o, at| match o {
        Operation::WriteMetadata { metadata, .. } => {
            on_blob = metadata.clone(); // Written, but the answer is lost.
            failure(FailureKind::Reset)
        }
        Operation::Read { lease: Some(_) } => blob_answer(o, at, "leased", &on_blob),
        _ => available(o, at),
    });
    assert!(matches!(report.role, Role::Leading(_)), "{report:?}");
    let verbs = ["read blob", "acquire lease", "write record", "read blob"];
    assert_eq!(candidate.verbs(), verbs);
}

#[test]
fn a_write_that_did_not_happen_is_repeated_with_the_new_tag() {
    let mut candidate = Candidate::new(&[]);
    let mut writes = 0;
    let report = candidate.step(None, |o, at| match o {
        Operation::WriteMetadata { .. } => {
            writes += 1;
            if writes == 1 { error_answer(o, at, 412, "ConditionNotMet") } else { available(o, at) }
        }
        Operation::Read { lease: Some(_) } => {
            let found = incumbent(3);
            let mut headers: Vec<(String, String)> =
                found.iter().map(|(n, v)| (format!("x-ms-meta-{n}"), v.to_string())).collect();
            headers.push(("etag".into(), "\"7\"".into()));
            headers.push(("x-ms-lease-state".into(), "leased".into()));
            let headers: Vec<_> = headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
            answer(o, at, 200, &headers)
        }
        _ => available(o, at),
    });
    assert!(matches!(report.role, Role::Leading(_)), "{report:?}");
    let Operation::WriteMetadata { if_match, .. } = &candidate.requests[4].operation else {
        panic!("{:?}", candidate.verbs())
    };
    assert_eq!(if_match.0, "\"7\"");
}

#[test]
fn a_newer_term_on_the_blob_means_that_the_race_was_lost() {
    let mut candidate = Candidate::new(&[]);
    let report = candidate.step(None, |o, at| match o {
        Operation::WriteMetadata { .. } => error_answer(o, at, 412, "ConditionNotMet"),
        Operation::Read { lease: Some(_) } => {
            blob_answer(o, at, "leased", &incumbent(ORIGIN_SECONDS + 9_999))
        }
        Operation::Read { lease: None } if at > seconds(100) => {
            blob_answer(o, at, "leased", &incumbent(ORIGIN_SECONDS + 9_999))
        }
        _ => available(o, at),
    });
    assert_eq!(candidate.verbs().last(), Some(&"release lease"));
    assert!(!matches!(report.role, Role::Leading(_)), "{report:?}");
    assert_eq!(report.ending, None, "it never led");
    assert!(report.again_in >= seconds(2), "and looks again like any follower");
}

#[test]
fn late_raise_releases_the_lease_without_leading() {
    let mut candidate = Candidate::new(&[]);
    let mut service = |o: &Operation, at| match o {
        Operation::WriteMetadata { .. } | Operation::Read { lease: Some(_) } => {
            error_answer(o, at, 503, "ServerBusy")
        }
        _ => available(o, at),
    };
    let mut verbs = Vec::new();
    let began = candidate.now;
    while candidate.now < began + seconds(13) {
        let called = candidate.now;
        let report = candidate.step(None, &mut service);
        assert!(!matches!(report.role, Role::Leading(_)));
        assert_eq!(report.run, None);
        verbs.extend(candidate.verbs());
        if verbs.contains(&"release lease") {
            return;
        }
        candidate.now = candidate.now.max(called + report.again_in);
    }
    panic!("not released: {verbs:?}");
}

#[test]
fn foreign_blob_is_left_untouched() {
    let foreign = Metadata::from_iter([("owner", "x")]);
    let newer = Metadata::from_iter([("tenureformat", "2")]);
    for metadata in [foreign, newer] {
        let mut candidate = Candidate::new(&[]);
        let report = candidate.step(None, |o, at| blob_answer(o, at, "available", &metadata));
        assert_eq!(report.problems[0].class, ProblemClass::UnusableBlob);
        assert_eq!(candidate.verbs(), ["read blob"]);
        assert!(report.again_in >= seconds(2), "and looks again, for ever");
    }
    let mut candidate = Candidate::new(&[]);
    let full = [("etag", "\"1\""), ("x-ms-lease-state", "available"), ("content-length", "9")];
    let report = candidate.step(None, |o, at| answer(o, at, 200, &full));
    assert_eq!(report.problems[0].class, ProblemClass::UnusableBlob);
    assert_eq!(candidate.verbs(), ["read blob"]);
}

#[test]
fn a_closed_election_is_left_alone_in_silence() {
    for lease in ["available", "expired", "broken", "leased"] {
        let mut candidate = Candidate::new(&[]);
        let report = candidate.step(None, |o, at| blob_answer(o, at, lease, &Record::closed()));
        assert_eq!(report.problems, [], "{lease}");
        assert_eq!(candidate.verbs(), ["read blob"], "{lease}");
        assert!(report.again_in >= seconds(2), "and looks again, for ever");
    }
}

#[test]
fn no_answer_makes_a_follower_stop_contending() {
    let mut candidate = Candidate::new(&[]);
    let replies: [fn(&Operation, Moment) -> Reply; 8] = [
        |o, at| error_answer(o, at, 400, "InvalidHeaderValue"),
        |o, at| error_answer(o, at, 401, "NoAuthenticationInformation"),
        |o, at| error_answer(o, at, 403, "AuthenticationFailed"),
        |o, at| error_answer(o, at, 409, "ContainerBeingDeleted"),
        |o, at| error_answer(o, at, 429, ""),
        |o, at| error_answer(o, at, 503, "ServerBusy"),
        |o, at| answer(o, at, 200, &[]),
        |_, _| failure(FailureKind::Timeout),
    ];
    for reply in replies {
        let called = candidate.now;
        let report = candidate.step(None, reply);
        assert!(!report.problems.is_empty(), "{:?}", candidate.requests);
        assert!(report.again_in <= seconds(11), "{report:?}");
        assert!(candidate.requests.len() <= 2, "{:?}", candidate.verbs());
        candidate.now = candidate.now.max(called + report.again_in);
    }
    candidate.lead();
}

#[test]
fn an_idle_connection_that_died_is_not_even_a_problem() {
    let mut candidate = Candidate::new(&[]);
    let mut first = true;
    let report = candidate.step(None, |o, at| match std::mem::take(&mut first) {
        true => failure(FailureKind::Reset),
        false => available(o, at),
    });
    assert!(matches!(report.role, Role::Leading(_)));
    assert_eq!(report.problems, []);
}

#[test]
fn without_a_date_there_is_no_term() {
    let mut candidate = Candidate::new(&[]);
    let report = candidate.step(None, |o, at| {
        let mut reply = available(o, at).unwrap();
        reply.date = None;
        Ok(reply)
    });
    assert!(!matches!(report.role, Role::Leading(_)));
    assert_eq!(candidate.verbs(), ["read blob"], "nothing is acquired that cannot be used");
    assert!(report.problems.iter().any(|problem| problem.class == ProblemClass::Nonsense));
    assert!(report.again_in >= seconds(2), "{:?}", report.again_in);
}

#[test]
fn a_term_raised_too_late_is_released_and_never_led() {
    let mut candidate = Candidate::new(&[]);
    candidate.slow = Some(("write record", seconds(12)));
    let report = candidate.step(None, available);
    let verbs = ["read blob", "acquire lease", "write record", "release lease"];
    assert_eq!(candidate.verbs(), verbs);
    assert_eq!(report.ending, None);
    assert!(!matches!(report.role, Role::Leading(_)), "{report:?}");
    assert!(report.again_in >= seconds(2), "{:?}", report.again_in);
}

#[test]
fn unknown_conflict_is_reported_and_retried_with_back_off() {
    for refused in ["create blob", "acquire lease", "write record"] {
        let mut candidate = Candidate::new(&[]);
        let (began, mut reported, mut requests) = (candidate.now, Vec::new(), 0);
        while candidate.now < began + seconds(30) {
            let called = candidate.now;
            let report = candidate.step(None, |o, at| match o {
                Operation::Read { .. } if refused == "create blob" => {
                    error_answer(o, at, 404, "BlobNotFound")
                }
                _ if o.name() == refused => error_answer(o, at, 409, "BlobImmutableDueToPolicy"),
                _ => available(o, at),
            });
            assert!(!matches!(report.role, Role::Leading(_)), "{refused}: {report:?}");
            reported.extend(report.problems);
            requests += candidate.requests.len();
            candidate.now = candidate.now.max(called + report.again_in);
        }
        assert!(!reported.is_empty(), "{refused}");
        assert!(requests < 160, "{refused}: {requests} requests in 30 s");
    }
}

#[test]
fn a_term_that_cannot_rise_is_refused() {
    let mut candidate = Candidate::new(&[]);
    let report = candidate.step(None, |o, at| blob_answer(o, at, "expired", &incumbent(u64::MAX)));
    assert_eq!(report.problems[0].class, ProblemClass::UnusableBlob);
    // One date alone is not trusted for that.
    assert_eq!(candidate.verbs(), ["read blob", "read blob"]);
}
