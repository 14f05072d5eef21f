//! Foreign writes to the blob and to its side blobs: no leader loses its leadership over them.

use super::*;
use tenure_azure::blob::SideBlob;

/// Steps whenever one is due, for this span. Returns every request and every problem.
fn run_for(
    candidate: &mut Candidate,
    time: Duration,
    mut service: impl FnMut(&Operation, Moment) -> Reply,
) -> (Vec<SentRequest>, Vec<Problem>) {
    let (until, mut requests, mut reported) = (candidate.now + time, Vec::new(), Vec::new());
    while candidate.now < until {
        let called = candidate.now;
        let report = candidate.step(None, &mut service);
        requests.append(&mut candidate.requests.clone());
        reported.extend(report.problems);
        candidate.now = candidate.now.max(called + report.again_in);
        assert!(requests.len() < 2_000, "it is called without end");
    }
    (requests, reported)
}

fn size(metadata: &Metadata) -> usize {
    metadata.iter().map(|(name, value)| name.len() + value.len()).sum()
}

/// Returns every record that was to be written.
fn records(requests: &[SentRequest]) -> Vec<(Metadata, Record)> {
    let written = requests.iter().filter_map(|request| match &request.operation {
        Operation::WriteMetadata { metadata, .. } => Some(metadata.clone()),
        _ => None,
    });
    written
        .map(|metadata| (metadata.clone(), Record::from_metadata(&metadata).unwrap().unwrap()))
        .collect()
}

/// Returns the answer to a read of a side blob that was written just now.
fn side_blob_answer(o: &Operation, at: Moment, fields: &[(&str, &str)]) -> Reply {
    let written = tenure_azure::encoding::format_http_date(instant(at));
    let names: Vec<String> = fields.iter().map(|(name, _)| format!("x-ms-meta-{name}")).collect();
    let mut headers = vec![
        ("etag", "\"5\""),
        ("x-ms-lease-state", "available"),
        ("content-length", "0"),
        ("last-modified", written.as_str()),
    ];
    headers.extend(names.iter().map(String::as_str).zip(fields.iter().map(|(_, value)| *value)));
    answer(o, at, 200, &headers)
}

/// Returns names and other texts that no settings allow.
fn bad_names() -> Vec<String> {
    vec!["(".repeat(7_900), "%28".repeat(321), "ev%0Ail".into(), "a%E2%80%AEb".into(), "%20".into()]
}

#[test]
fn a_name_beside_the_blob_that_no_candidate_has_is_never_given_the_lease() {
    for name in bad_names() {
        let mut leader = Candidate::new(&[]);
        leader.lead();
        leader.step(Some(Event::HandOver("eve".into())), available);
        let term = (ORIGIN_SECONDS + 101).to_string();
        let fields = [
            ("tenurewriter", name.as_str()),
            ("tenureleaseid", "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"),
            ("tenureterm", &term),
        ];
        let (requests, reported) = run_for(&mut leader, seconds(180), |o, at| match o {
            Operation::ReadSideBlob(SideBlob::Successor) => side_blob_answer(o, at, &fields),
            _ => available(o, at),
        });
        assert!(
            requests.iter().any(|a| matches!(a.operation, Operation::ReadSideBlob(_))),
            "it looks"
        );
        assert!(
            requests.iter().all(|a| !matches!(a.operation, Operation::Change { .. })),
            "{name:.20}"
        );
        let about = |t: &&Problem| t.detail.contains("leases/leader.successor");
        assert!(
            (1..=4).contains(&reported.iter().filter(about).count()),
            "{name:.20}: {reported:?}"
        );
        assert_eq!(reported[0].class, ProblemClass::Configuration);
    }
}

/// Returns a record with such a text in `field`.
fn with(field: &str, value: &str) -> Metadata {
    let mut record = incumbent(9);
    record.insert(field.into(), value.into());
    record
}

#[test]
fn texts_of_the_record_that_no_candidate_writes_are_not_carried_on() {
    let texts =
        ["tenureleader", "tenureaddress", "tenureschedule", "tenuresuccessor", "tenuretrigger"];
    for (field, text) in texts.iter().flat_map(|f| bad_names().into_iter().map(move |n| (*f, n))) {
        let mut metadata = with(field, &text);
        metadata.insert("tenuretriggerslot".into(), "2026-11-20T07:00:00Z".into());
        // A follower leads next, and so can any other candidate.
        let mut follower = Candidate::new(&[]);
        let report = follower.step(None, |o, at| blob_answer(o, at, "leased", &metadata));
        assert!(matches!(report.role, Role::Following(Some(_))), "{field}: {report:?}");
        let classes: Vec<_> = report.problems.iter().map(|problem| problem.class).collect();
        assert_eq!(classes, [ProblemClass::Configuration], "{field} {text:.20}: {report:?}");
        assert!(report.problems[0].detail.contains(field), "{report:?}");
        let mut next = Candidate::new(&[]);
        let report = next.step(None, |o, at| match o {
            Operation::Read { .. } => blob_answer(o, at, "expired", &metadata),
            _ => available(o, at),
        });
        assert!(matches!(report.role, Role::Leading(_)), "{field}: {report:?}");
        for (metadata, record) in records(&next.requests) {
            assert!(size(&metadata) < 3_000, "{field}");
            let names = record.earlier_leaders().into_iter().map(|leader| leader.name);
            let others = [record.schedule, record.successor, record.address];
            let started = record.triggers.newest.map(|started| started.id);
            for text in names.chain(others.into_iter().flatten()).chain(started) {
                let plain = !text.chars().any(|c| c.is_control() || c == '\u{202e}');
                assert!(plain && text.len() <= 320 && !text.trim().is_empty(), "{field}: {text:?}");
            }
        }
    }
}

#[test]
fn leaders_of_the_past_whose_names_no_candidate_has_are_forgotten() {
    let history = format!("7%206%20web\n6%205%20a%0Db\n5%204%20{}", "x".repeat(129));
    let metadata = with("tenurehistory", &history.replace('\n', "%0A"));
    let record = Record::from_metadata(&metadata).unwrap().unwrap();
    let names: Vec<_> = record.earlier_leaders().into_iter().map(|leader| leader.name).collect();
    assert_eq!(names, ["web"]);
}

#[test]
fn a_term_that_no_election_reaches_is_refused_and_nothing_is_acquired() {
    let years = |years: u64| ORIGIN_SECONDS + years * 366 * 24 * 3600;
    for term in [u64::MAX / 2, u64::MAX / 2 - 1, 1 << 53, years(11)] {
        for state in ["available", "leased"] {
            let mut candidate = Candidate::new(&[]);
            let (requests, reported) = run_for(&mut candidate, seconds(60), |o, at| match o {
                Operation::Read { .. } => blob_answer(o, at, state, &incumbent(term)),
                _ => available(o, at),
            });
            assert!(
                requests.iter().all(|request| request.operation.name() == "read blob"),
                "{term}"
            );
            assert!((15..60).contains(&requests.len()), "and looks again, for ever");
            assert!(reported.iter().all(|t| t.class == ProblemClass::UnusableBlob), "{reported:?}");
            let detail = &reported[0].detail;
            assert!(detail.contains(&term.to_string()) && detail.contains("delete"), "{detail}");
        }
    }
    // Far ahead, but a clock that was wrong once can explain it.
    let mut candidate = Candidate::new(&[]);
    let report = candidate.step(None, |o, at| match o {
        Operation::Read { .. } => blob_answer(o, at, "available", &incumbent(years(9))),
        _ => available(o, at),
    });
    let Role::Leading(leadership) = report.role else { panic!("{report:?}") };
    assert_eq!(leadership.term, years(9) + 1);
}

#[test]
fn inspection_reports_an_implausible_term() {
    let candidate = Candidate::new(&[]);
    let read = Operation::Read { lease: None };
    let reply = blob_answer(&read, seconds(100), "available", &incumbent(u64::MAX / 2)).unwrap();
    let problem =
        Inspection::from_answer(&reply, &candidate.settings, instant(seconds(100))).unwrap_err();
    assert_eq!(problem.class, ProblemClass::UnusableBlob);
}

#[test]
fn record_without_room_for_leader_fields_prevents_acquisition() {
    for (field, value) in [("tenurelater", "x".repeat(7_800)), ("tenurelater", "x".repeat(6_000))] {
        let mut candidate = Candidate::new(&[(variable::EVERY, "5s")]);
        let metadata = with(field, &value);
        let (requests, reported) = run_for(&mut candidate, seconds(60), |o, at| match o {
            Operation::Read { .. } => blob_answer(o, at, "available", &metadata),
            _ => available(o, at),
        });
        assert!(requests.iter().all(|request| request.operation.name() == "read blob"));
        assert!(reported.iter().all(|t| t.class == ProblemClass::UnusableBlob), "{reported:?}");
        let reason = "too large: with the fields that this version does not know, it takes";
        assert!(reported[0].detail.contains(reason), "{reported:?}");
    }
}

/// The longest texts that settings allow, and as much foreign data as is accepted.
#[test]
fn records_written_by_a_leader_fit() {
    let longest = |byte: &str, bytes| byte.repeat(bytes);
    let texts = [longest("(", 128), longest("(", 256), longest(")", 128), longest("%", 128)];
    let variables = [
        (variable::NAME, texts[0].as_str()),
        (variable::ADDRESS, &texts[1]),
        (variable::CRON, "*/5 * * * * *"),
        (variable::TIME_ZONE, "America/Argentina/ComodRivadavia"),
        (variable::DELIVERY, "at-least-once"),
    ];
    let mut largest = 0;
    for unknown in (0..6_000).step_by(50) {
        let metadata = with("tenurelater", &"x".repeat(unknown));
        let mut candidate = Candidate::new(&variables);
        let report = candidate.step(None, |o, at| match o {
            Operation::Read { .. } => blob_answer(o, at, "available", &metadata),
            _ => available(o, at),
        });
        if !matches!(report.role, Role::Leading(_)) {
            continue;
        }
        let (mut requests, mut event, mut failed) = (Vec::new(), None, true);
        for round in 0..40 {
            let called = candidate.now;
            let report = candidate.step(event.take(), available);
            requests.append(&mut candidate.requests.clone());
            candidate.now = candidate.now.max(called + report.again_in);
            event = match round {
                _ if report.run.is_some() => {
                    let reason = failed.then(|| longest("(", 300));
                    let outcome = if failed { Outcome::Failed } else { Outcome::Succeeded };
                    failed = false;
                    Some(Event::TurnEnded(TurnResult { outcome, reason }))
                }
                20 => Some(Event::HandOver(texts[3].clone())),
                _ => None,
            };
        }
        let written = records(&requests);
        assert!(written.iter().any(|(_, record)| record.successor.is_some()), "{unknown}");
        let reason = |record: &Record| record.failure_detail.as_ref().map(|d| d.reason.len());
        assert!(written.iter().any(|(_, record)| reason(record) == Some(200)), "{unknown}");
        largest = largest.max(written.iter().map(|(written, _)| size(written)).max().unwrap());
    }
    assert!((6_500..=8_192).contains(&largest), "{largest}");
}

#[test]
fn an_unknown_field_goes_back_unharmed_or_not_at_all() {
    let read = Operation::Read { lease: None };
    let mut headers: Vec<(String, Vec<u8>)> =
        vec![("etag".into(), b"\"1\"".to_vec()), ("x-ms-lease-state".into(), b"leased".to_vec())];
    for (name, value) in incumbent(9).iter() {
        headers.push((format!("x-ms-meta-{name}"), value.as_bytes().to_vec()));
    }
    for (name, value) in [
        ("tenurebytes", &b"a\xe4b"[..]),
        ("tenureutf", "ä".as_bytes()),
        ("tenuretab", b"a\tb"),
        ("tenuregood", b"a b~%e4"),
    ] {
        headers.push((format!("x-ms-meta-{name}"), value.to_vec()));
    }
    let answer = Answer::from_parts(&read, 200, &headers);
    let record = Record::from_metadata(&answer.properties.unwrap().metadata).unwrap().unwrap();
    let written = record.to_metadata();
    assert_eq!(written.get("tenuregood"), Some("a b~%e4"));
    for name in ["tenurebytes", "tenureutf", "tenuretab"] {
        assert_eq!(written.get(name), None, "{name}");
    }
}

#[test]
fn a_successor_that_a_leader_of_an_earlier_term_named_is_none() {
    let named = Record {
        successor: Some("here".into()),
        ..Record::from_metadata(&incumbent(9)).unwrap().unwrap()
    };
    let first_record = Record::from_metadata(&named.to_metadata()).unwrap().unwrap();
    assert_eq!(first_record.successor.as_deref(), Some("here"));
    // A version that does not know successors keeps unknown fields, and wins the next term.
    let mut later = named.to_metadata();
    later.insert("tenureterm".into(), "10".into());
    let record = Record::from_metadata(&later).unwrap().unwrap();
    assert_eq!(record.successor, None);
    let mut candidate = Candidate::new(&[]);
    candidate.step(None, |o, at| blob_answer(o, at, "leased", &later));
    assert_eq!(candidate.verbs(), ["read blob"], "it does not announce itself");
    assert_eq!(Record { term: 11, ..record }.to_metadata().get("tenuresuccessor"), None);
}

#[test]
fn an_order_to_hand_over_to_a_name_that_no_candidate_has_is_refused() {
    for name in ["x".repeat(129), "ev\nil".into(), " ".into()] {
        let mut leader = Candidate::new(&[]);
        leader.lead();
        let report = leader.step(Some(Event::HandOver(name)), available);
        assert!(
            report.problems[0].detail.contains("no candidate can have that name"),
            "{report:?}"
        );
        assert_eq!((leader.verbs(), report.successor), (vec![], None));
    }
}
