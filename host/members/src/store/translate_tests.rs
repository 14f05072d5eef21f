use super::*;

fn sign(member: &str, weight: u32, max_shares: Option<u32>) -> Sign {
    Sign {
        member: member.to_owned(),
        weight,
        max_shares,
        timing: SignTiming::from_failover(Duration::from_secs(15)),
    }
}

fn plan() -> Plan {
    let members = vec!["ada".to_owned()];
    Plan { term: 7, version: 3, members, shares: vec![Some(0), None], ..Plan::unassigned(2) }
}

fn tag() -> Tag {
    Tag("\"1\"".to_owned())
}

fn close() -> StoreRequest {
    let share = |index| Share { split: 2, index };
    StoreRequest::CloseShares { shares: vec![share(0), share(3)], count: 4 }
}

fn all_requests() -> Vec<StoreRequest> {
    vec![
        StoreRequest::WriteSign(sign("ada", 1, None)),
        StoreRequest::WithdrawSign,
        StoreRequest::ReadPlan(None),
        StoreRequest::ReadPlan(Some(tag())),
        StoreRequest::ListSigns,
        StoreRequest::WritePlan(plan(), None),
        StoreRequest::WritePlan(plan(), Some(tag())),
        close(),
        StoreRequest::RemoveSign("ben".to_owned(), tag()),
    ]
}

fn problem(class: ProblemClass) -> Outcome {
    Err(Problem { class, detail: String::new() })
}

fn response_to(store_request: &StoreRequest, outcome: Outcome) -> StoreResponse {
    let (response, read_problem) = to_response(store_request, "ada", vec![outcome]);
    assert_eq!(read_problem, None);
    response
}

#[test]
fn requests_address_the_blobs_of_the_protocol() {
    let text = |request: &SideRequest| match request {
        SideRequest::Read { suffix, if_none_match: unless } => {
            format!("read {suffix} unless {:?}", unless.as_ref().map(|ETag(tag)| tag))
        }
        SideRequest::Write(SideWrite { suffix, content, metadata, condition }) => {
            format!("write {suffix} {content:?} {metadata:?} over {condition:?}")
        }
        SideRequest::Delete { suffix, tag } => {
            format!("delete {suffix} {:?}", tag.as_ref().map(|ETag(tag)| tag))
        }
        SideRequest::List(suffix) => format!("list {suffix}"),
    };
    let sent_text = |ask: &StoreRequest| {
        side_requests(ask, "a.d/ä").iter().map(text).collect::<Vec<_>>().join("; ")
    };
    assert_eq!(sent_text(&StoreRequest::WithdrawSign), "delete member.a%2Ed%2F%C3%A4 None");
    assert_eq!(
        sent_text(&StoreRequest::RemoveSign("ben".into(), tag())),
        r#"delete member.ben Some("\"1\"")"#
    );
    assert_eq!(sent_text(&StoreRequest::ListSigns), "list member.");
    assert_eq!(sent_text(&StoreRequest::ReadPlan(None)), "read plan unless None");
    assert_eq!(
        sent_text(&StoreRequest::ReadPlan(Some(tag()))),
        r#"read plan unless Some("\"1\"")"#
    );
    let sent = sent_text(&StoreRequest::WriteSign(sign("ada", 2, Some(9))));
    let expected = r#"write member.ada "" [("tenureweight", "2"), ("tenureinterval", "5000"), ("tenuremaxshares", "9")] over Unconditional"#;
    assert_eq!(sent, expected);
    for (over, condition) in [(None, "IfAbsent"), (Some(tag()), r#"IfMatch(ETag("\"1\""))"#)] {
        let sent = sent_text(&StoreRequest::WritePlan(plan(), over));
        assert!(
            sent.starts_with("write plan \"{") && sent.ends_with(&format!("over {condition}")),
            "{sent}"
        );
    }
    let closed = |index| {
        format!(r#"write share.2.{index}-of-4 "" [("tenureformat", "closed")] over Unconditional"#)
    };
    assert_eq!(sent_text(&close()), format!("{}; {}", closed(0), closed(3)));
}

#[test]
fn completed_requests_are_reported() {
    let written = || Ok(SideAnswer::Written(ETag("\"2\"".to_owned())));
    let new = || Tag("\"2\"".to_owned());
    assert_eq!(
        response_to(&StoreRequest::WriteSign(sign("ada", 1, None)), written()),
        StoreResponse::Signed(new())
    );
    for deleted in [SideAnswer::Deleted, SideAnswer::Missing] {
        assert_eq!(
            response_to(&StoreRequest::WithdrawSign, Ok(deleted.clone())),
            StoreResponse::Done
        );
        assert_eq!(
            response_to(&StoreRequest::RemoveSign("ben".to_owned(), tag()), Ok(deleted)),
            StoreResponse::Done
        );
    }
    assert_eq!(
        response_to(&StoreRequest::ReadPlan(Some(tag())), Ok(SideAnswer::Unchanged)),
        StoreResponse::PlanUnchanged
    );
    assert_eq!(
        response_to(&StoreRequest::ReadPlan(None), Ok(SideAnswer::Missing)),
        StoreResponse::NoPlan
    );
    assert_eq!(
        response_to(&StoreRequest::ListSigns, Ok(SideAnswer::Missing)),
        StoreResponse::Signs(Vec::new())
    );
    assert_eq!(
        response_to(&StoreRequest::WritePlan(plan(), None), written()),
        StoreResponse::Plan(plan(), new())
    );
}

#[test]
fn a_plan_round_trips() {
    let SideRequest::Write(sent) =
        side_requests(&StoreRequest::WritePlan(plan(), None), "ada").remove(0)
    else {
        panic!("no write");
    };
    let read = Ok(SideAnswer::Content(sent.content, ETag("\"2\"".to_owned())));
    assert_eq!(
        response_to(&StoreRequest::ReadPlan(None), read),
        StoreResponse::Plan(plan(), Tag("\"2\"".to_owned()))
    );
    let foreign = Ok(SideAnswer::Content("<html>".to_owned(), ETag("\"2\"".to_owned())));
    let (response, read_problem) = to_response(&StoreRequest::ReadPlan(None), "ada", vec![foreign]);
    assert_eq!(response, StoreResponse::Unknown);
    assert!(read_problem.unwrap().detail.contains("the plan of the shares cannot be read"));
    // A leader would need 34 GB for this number of shares.
    let huge = r#"{"term":7,"version":3,"split":1,"members":[],"shares":[null],"next":4294967295}"#;
    let huge = Ok(SideAnswer::Content(huge.to_owned(), ETag("\"2\"".to_owned())));
    let (response, read_problem) = to_response(&StoreRequest::ReadPlan(None), "ada", vec![huge]);
    assert_eq!(response, StoreResponse::Unknown);
    assert!(read_problem.unwrap().detail.contains("no coordinator writes such a plan"));
}

fn blob(suffix: &str, metadata: Vec<(String, String)>) -> ListedBlob {
    let (suffix, tag) = (suffix.to_owned(), ETag("\"1\"".to_owned()));
    ListedBlob { suffix, tag, age: Duration::from_secs(4), metadata }
}

#[test]
fn signs_round_trip_and_other_blobs_are_ignored() {
    let signs = [sign("a.d/ä %", 1, None), sign("ben", 0, Some(0)), sign("", 7, Some(3))];
    let listed = |sign: &Sign| {
        let SideRequest::Write(sent) =
            side_requests(&StoreRequest::WriteSign(sign.clone()), "x").remove(0)
        else {
            panic!("no write");
        };
        blob(&sent.suffix, sent.metadata)
    };
    let mut blobs = signs.iter().map(listed).collect::<Vec<_>>();
    let expected = signs
        .into_iter()
        .map(|sign| ListedSign { sign, tag: tag(), age: Duration::from_secs(4) })
        .collect::<Vec<_>>();
    assert_eq!(
        response_to(&StoreRequest::ListSigns, Ok(SideAnswer::Listed(blobs.clone()))),
        StoreResponse::Signs(expected.clone())
    );
    let fields = |fields: &[(&str, &str)]| {
        fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    for (suffix, metadata) in [
        ("member.x", fields(&[])),
        ("member.x", fields(&[("tenureweight", "1")])),
        ("member.x", fields(&[("tenureweight", "many"), ("tenureinterval", "5000")])),
        ("member.x", fields(&[("tenureweight", "1"), ("tenureinterval", "often")])),
        (
            "member.x",
            fields(&[("tenureweight", "1"), ("tenureinterval", "1"), ("tenuremaxshares", "-1")]),
        ),
        ("member.%ff", fields(&[("tenureweight", "1"), ("tenureinterval", "5000")])),
        ("plan", fields(&[("tenureweight", "1"), ("tenureinterval", "5000")])),
    ] {
        blobs.push(blob(suffix, metadata));
    }
    assert_eq!(
        response_to(&StoreRequest::ListSigns, Ok(SideAnswer::Listed(blobs))),
        StoreResponse::Signs(expected)
    );
}

/// A candidate without shares finds members and holders of shares by these names and fields
/// (docs/protocol.md §14.6).
#[test]
fn active_signs_and_shares_block_an_unsplit_candidate() {
    let second = Duration::from_secs(1);
    let periods = [1, 3, 15, 60].map(|lease| SignTiming::from_failover(second * lease));
    let periods = periods
        .into_iter()
        .chain([SignTiming::from_interval(second / 9), SignTiming::from_interval(second * 900)]);
    for (member, pace) in
        ["ada", "a.d/ä %", "b\u{7}"].iter().flat_map(|m| periods.clone().map(move |p| (*m, p)))
    {
        let sign = Sign { member: member.to_owned(), weight: 1, max_shares: None, timing: pace };
        let SideRequest::Write(sent) =
            side_requests(&StoreRequest::WriteSign(sign.clone()), "x").remove(0)
        else {
            panic!("no write");
        };
        let fields = || sent.metadata.iter().map(|(name, value)| (&**name, &**value)).collect();
        for age in (0..200).map(Duration::from_secs) {
            let active = tenure_core::active_member_or_share(&sent.suffix, &fields(), age, false);
            let listed = ListedSign { sign: sign.clone(), tag: tag(), age };
            assert_eq!(active.is_some(), listed.is_alive(), "{member} {pace:?} {age:?}");
            let shown = if member.starts_with('b') { "b%07" } else { member };
            assert!(active.is_none_or(|found| found.contains(shown)), "{member}");
        }
    }
    for (share, count) in [
        (Share { split: 1, index: 0 }, 1),
        (Share { split: 12, index: 99_999 }, super::super::MAX_SHARES),
    ] {
        let at_work = |leased| {
            let no_metadata = std::iter::empty::<(&str, &str)>().collect();
            tenure_core::active_member_or_share(
                &share.suffix(count),
                &no_metadata,
                second * 1_000,
                leased,
            )
        };
        let text = format!("share {} of {count} is held", share.index);
        assert_eq!((at_work(true), at_work(false)), (Some(text), None));
    }
}

#[test]
fn problem_classes_map_to_unknown_or_refused() {
    use ProblemClass::{Clock, Configuration, Nonsense, Refused, Unavailable, Unreachable};
    for store_request in
        all_requests().into_iter().filter(|ask| !matches!(ask, StoreRequest::CloseShares { .. }))
    {
        for class in [Unreachable, Unavailable, Nonsense] {
            assert_eq!(
                response_to(&store_request, problem(class)),
                StoreResponse::Unknown,
                "{store_request:?} {class:?}"
            );
        }
        for class in [Clock, Configuration, Refused] {
            assert_eq!(
                response_to(&store_request, problem(class)),
                StoreResponse::Refused,
                "{store_request:?} {class:?}"
            );
        }
        assert_eq!(
            response_to(&store_request, Ok(SideAnswer::Declined)),
            StoreResponse::Refused,
            "{store_request:?}"
        );
    }
}

#[test]
fn only_written_shares_are_closed() {
    let StoreRequest::CloseShares { shares, .. } = close() else { panic!("another one") };
    let written = || Ok(SideAnswer::Written(ETag("\"2\"".to_owned())));
    for (outcome, first) in [
        (written(), true),
        (Ok(SideAnswer::Declined), false),
        (Ok(SideAnswer::Leased), false),
        (Ok(SideAnswer::Missing), false),
        (problem(ProblemClass::Unreachable), false),
        (problem(ProblemClass::Refused), false),
    ] {
        let (response, _) = to_response(&close(), "ada", vec![outcome, written()]);
        let closed = if first { shares.clone() } else { vec![shares[1]] };
        assert_eq!(response, StoreResponse::Closed(closed));
    }
}
