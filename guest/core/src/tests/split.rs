//! Elections whose work is split into shares: the mark of their coordinators, and candidates
//! without shares. protocol.md §14.6.

use super::*;
use tenure_azure::answer::Page;

/// Returns a record in which the leader of term 9 is a coordinator, or an earlier leader was.
fn split(coordinator_term: u64) -> Metadata {
    let record = Record::from_metadata(&incumbent(9)).unwrap().unwrap();
    Record { coordinator_term: Some(coordinator_term), ..record }.to_metadata()
}

/// Returns a page of a list. Each blob has a suffix, its age in seconds, the state of its lease,
/// and its metadata.
fn page(o: &Operation, at: Moment, blobs: &[(&str, u64, &str, &str)], next: &str) -> Reply {
    let blobs = blobs.iter().map(|(name, age, lease, metadata)| {
        let modified = tenure_azure::encoding::format_http_date(instant(at - seconds(*age)));
        format!(
            "<Blob><Name>leader.{name}</Name><Properties><Last-Modified>{modified}</Last-Modified><Etag>1</Etag>\
             <LeaseState>{lease}</LeaseState></Properties><Metadata>{metadata}</Metadata></Blob>"
        )
    });
    let body = format!(
        "<EnumerationResults><Blobs>{}</Blobs><NextMarker>{next}</NextMarker></EnumerationResults>",
        blobs.collect::<String>()
    );
    let answer = answer(o, at, 200, &[]).unwrap().with_page(body.as_bytes());
    assert!(answer.page.is_some(), "{body}");
    Ok(answer)
}

/// Returns the requested list and its marker.
fn listed(o: &Operation) -> Option<(&str, Option<&str>)> {
    match o {
        Operation::List { prefix, marker } => {
            Some((prefix.strip_prefix("leader.").unwrap(), marker.as_deref()))
        }
        _ => None,
    }
}

const SIGN: &str = "<tenureinterval>5000</tenureinterval>";

/// Runs one step of a candidate without shares that finds the lease free. `lists` answers depending
/// on the number of earlier requests.
fn plain(mut lists: impl FnMut(usize, &Operation, Moment) -> Reply) -> (Report, Vec<&'static str>) {
    let (mut candidate, mut requests) = (Candidate::new(&[]), 0);
    let report = candidate.step(None, |o, at| match o {
        Operation::Read { .. } => blob_answer(o, at, "expired", &split(9)),
        Operation::List { .. } => {
            requests += 1;
            lists(requests - 1, o, at)
        }
        _ => available(o, at),
    });
    let verbs = candidate.verbs();
    (report, verbs)
}

#[test]
fn coordinator_mark_is_kept_by_other_leaders() {
    let mut candidate = Candidate::new(&[(variable::COORDINATES, "true")]);
    candidate.lead();
    assert_eq!(candidate.verbs()[..3], ["read blob", "acquire lease", "write record"]);
    let record = written_record(&candidate.requests[2]);
    assert_eq!(record.coordinator_term, Some(record.term));
    assert!(record.incumbent().coordinates);

    let mut candidate = Candidate::new(&[]);
    let none = |o: &Operation, at| match o {
        Operation::Read { .. } => blob_answer(o, at, "expired", &split(9)),
        Operation::List { .. } => page(o, at, &[], ""),
        _ => available(o, at),
    };
    assert!(matches!(candidate.step(None, none).role, Role::Leading(_)));
    let record =
        candidate.requests.iter().find(|request| request.operation.name() == "write record");
    let record = written_record(record.unwrap());
    assert_eq!(record.coordinator_term, Some(9), "the next one without shares looks again");
    assert!(!record.incumbent().coordinates);
}

#[test]
fn work_that_was_never_split_is_led_without_a_list() {
    let mut candidate = Candidate::new(&[]);
    candidate.lead();
    assert!(!candidate.verbs().contains(&"list blobs"), "{:?}", candidate.verbs());
}

#[test]
fn candidate_without_shares_lists_signs_and_shares_before_acquiring_and_before_leading() {
    let mut suffixes = Vec::new();
    let (report, verbs) = plain(|request, o, at| {
        let (suffix, marker) = listed(o).unwrap();
        suffixes.push((suffix.to_owned(), marker.map(str::to_owned)));
        // Each list has two pages. Their blobs are old, free, or not a member's.
        let old = [("member.ada", 17, "available", SIGN), ("member.ben", 0, "available", "")];
        let free = [
            ("share.1.0-of-2", 0, "broken", ""),
            ("share.1.1-of-2", 0, "expired", ""),
            ("share.of the.profits-of-2", 0, "leased", ""),
        ];
        let blobs = if suffix == "member." { &old[..] } else { &free[..] };
        page(o, at, blobs, if request % 2 == 0 { "more" } else { "" })
    });
    assert!(matches!(report.role, Role::Leading(_)), "{report:?}");
    assert_eq!(report.problems, []);
    let lists = ["list blobs"; 4];
    let expected =
        [&["read blob"][..], &lists, &["acquire lease", "write record"], &lists].concat();
    assert_eq!(verbs[..expected.len()], expected);
    let more = Some("more".to_owned());
    let once = [("member.", None), ("member.", more.clone()), ("share.", None), ("share.", more)];
    let once = once.map(|(suffix, marker)| (suffix.to_owned(), marker));
    assert_eq!(suffixes, [once.clone(), once].concat());
}

#[test]
fn a_young_sign_and_a_share_that_is_held_keep_it_from_acquiring() {
    let found: [(&str, u64, &str, &str); 6] = [
        ("member.ada", 16, "available", SIGN),
        ("member.a%2Ed%2F%C3%A4", 16, "available", SIGN),
        ("member.a%0A", 16, "available", SIGN),
        ("member.ada", 60, "available", "<tenureinterval>3600000</tenureinterval>"),
        ("share.1.0-of-2", 90, "leased", ""),
        ("share.1.0-of-2", 90, "breaking", ""),
    ];
    for blob in found {
        let (report, verbs) = plain(|_, o, at| match blob.0.starts_with(listed(o).unwrap().0) {
            true => page(o, at, &[blob], ""),
            false => page(o, at, &[], ""),
        });
        assert!(!verbs.contains(&"acquire lease"), "{blob:?}: {verbs:?}");
        assert_eq!(report.role, Role::Undecided);
        let [problem] = report.problems.as_slice() else { panic!("{report:?}") };
        assert_eq!(problem.class, ProblemClass::Configuration);
        let reason = match blob.0 {
            "member.ada" => "the member ada left a sign of life",
            "member.a%2Ed%2F%C3%A4" => "the member a.d/ä left a sign of life",
            "member.a%0A" => "the member a%0A left a sign of life",
            _ => "share 0 of 2 is held",
        };
        assert!(problem.detail.contains(reason), "{}", problem.detail);
    }
}

/// A member read the record before the term was raised, and has acquired the lease of a share.
#[test]
fn a_share_that_is_held_once_the_term_is_on_record_keeps_it_from_leading() {
    let (report, verbs) = plain(|request, o, at| match request {
        3 => page(o, at, &[("share.2.1-of-2", 0, "leased", "")], ""),
        _ => page(o, at, &[], ""),
    });
    assert_eq!(verbs[5..], ["list blobs", "list blobs", "release lease"], "{verbs:?}");
    assert!(!matches!(report.role, Role::Leading(_)), "{report:?}");
    assert!(report.problems[0].detail.contains("share 1 of 2 is held"), "{report:?}");
}

/// Returns a service whose lists end before the lease is acquired, and never end after it.
fn endless() -> impl FnMut(&Operation, Moment) -> Reply {
    let mut is_acquired = false;
    move |o, at| match o {
        Operation::Read { lease: None } => {
            is_acquired = false;
            blob_answer(o, at, "expired", &split(9))
        }
        Operation::List { .. } => page(o, at, &[], if is_acquired { "more" } else { "" }),
        _ => {
            is_acquired |= matches!(o, Operation::Acquire { .. });
            available(o, at)
        }
    }
}

#[test]
fn lists_that_take_longer_than_the_lease_is_valid_are_reported() {
    // The last request ends in time, or at its time-out.
    for (takes, ends) in [(seconds(2), true), (seconds(3), false)] {
        let (mut candidate, mut service) = (Candidate::new(&[]), endless());
        candidate.slow = Some(("list blobs", takes));
        let (mut problems, mut verbs, first) = (Vec::new(), Vec::new(), candidate.now);
        while !verbs.contains(&"release lease") {
            let began = candidate.now;
            assert!(began < first + seconds(60), "{verbs:?}");
            let report = candidate.step(None, |o, at| match o {
                Operation::List { .. } if !ends && at > first + seconds(15) => {
                    failure(FailureKind::Timeout)
                }
                _ => service(o, at),
            });
            assert!(!matches!(report.role, Role::Leading(_)), "{report:?}");
            problems.extend(report.problems);
            verbs.extend(candidate.verbs());
            candidate.now = candidate.now.max(began + report.again_in);
        }
        let [problem] = problems.as_slice() else { panic!("{problems:?}") };
        assert_eq!(problem.class, ProblemClass::Configuration);
        assert!(problem.detail.contains("could not all be listed"), "{}", problem.detail);
    }
}

#[test]
fn slow_listing_backs_off_longer_each_time() {
    let won = failed_raises::acquires(endless());
    assert!((2..40).contains(&won), "{won}");
}

#[test]
fn candidate_without_list_permission_does_not_lead_and_reports_why() {
    for (status, class) in [(403, ProblemClass::Refused), (500, ProblemClass::Unavailable)] {
        let (report, verbs) = plain(|_, o, at| error_answer(o, at, status, "x"));
        assert_eq!(verbs, ["read blob", "list blobs"]);
        let [problem] = report.problems.as_slice() else { panic!("{report:?}") };
        assert_eq!(problem.class, class);
        assert!(problem.detail.contains("was split into shares before"), "{}", problem.detail);
    }
    // An answer that is not a list proves nothing.
    let (report, verbs) = plain(|_, o, at| answer(o, at, 200, &[]));
    assert_eq!(verbs, ["read blob", "list blobs"]);
    assert_eq!(report.problems[0].class, ProblemClass::Nonsense);
    assert_eq!(Page::parse(b"<html/>", None), None);
}

#[test]
fn a_member_reports_a_leader_that_runs_all_of_the_work() {
    for (coordinator_term, problem_count) in [(9, 0), (8, 1)] {
        let mut candidate = Candidate::new(&[(variable::COORDINATES, "true")]);
        let report =
            candidate.step(None, |o, at| blob_answer(o, at, "leased", &split(coordinator_term)));
        assert_eq!(report.problems.len(), problem_count, "{report:?}");
        let Role::Following(Some(leader)) = report.role else { panic!("{report:?}") };
        assert_eq!(leader.coordinates, problem_count == 0);
        let whole =
            report.problems.iter().all(|p| p.detail.contains("without --shares, and runs all"));
        assert!(whole, "{:?}", report.problems);
    }
}
