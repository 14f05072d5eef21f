use super::*;
use tenure_shares::Share;

fn sign(member: &str, weight: u32, most: Option<u32>) -> Sign {
    Sign { member: member.to_owned(), weight, most, pace: Pace::of(Duration::from_secs(15)) }
}

fn plan() -> Plan {
    let members = vec!["ada".to_owned()];
    Plan { term: 7, version: 3, members, shares: vec![Some(0), None], ..Plan::first(2) }
}

fn tag() -> Tag {
    Tag("\"1\"".to_owned())
}

fn close() -> Ask {
    let share = |index| Share { split: 2, index };
    Ask::Close { shares: vec![share(0), share(3)], of: 4 }
}

fn all() -> Vec<Ask> {
    vec![
        Ask::Sign(sign("ada", 1, None)),
        Ask::TakeBack,
        Ask::ReadPlan(None),
        Ask::ReadPlan(Some(tag())),
        Ask::List,
        Ask::WritePlan(plan(), None),
        Ask::WritePlan(plan(), Some(tag())),
        close(),
        Ask::Remove("ben".to_owned(), tag()),
    ]
}

fn problem(class: ProblemClass) -> Outcome {
    Err(Problem { class, detail: String::new() })
}

fn of(ask: &Ask, outcome: Outcome) -> Answer {
    let (answer, unread) = answer(ask, "ada", vec![outcome]);
    assert_eq!(unread, None);
    answer
}

#[test]
fn each_is_about_the_blobs_of_the_protocol() {
    let text = |request: &Request| match request {
        Request::Read { suffix, unless } => {
            format!("read {suffix} unless {:?}", unless.as_ref().map(|ETag(tag)| tag))
        }
        Request::Write(Write { suffix, content, metadata, over }) => {
            format!("write {suffix} {content:?} {metadata:?} over {over:?}")
        }
        Request::Delete { suffix, tag } => {
            format!("delete {suffix} {:?}", tag.as_ref().map(|ETag(tag)| tag))
        }
        Request::List(suffix) => format!("list {suffix}"),
    };
    let one = |ask: &Ask| requests(ask, "a.d/ä").iter().map(text).collect::<Vec<_>>().join("; ");
    assert_eq!(one(&Ask::TakeBack), "delete member.a%2Ed%2F%C3%A4 None");
    assert_eq!(one(&Ask::Remove("ben".into(), tag())), r#"delete member.ben Some("\"1\"")"#);
    assert_eq!(one(&Ask::List), "list member.");
    assert_eq!(one(&Ask::ReadPlan(None)), "read plan unless None");
    assert_eq!(one(&Ask::ReadPlan(Some(tag()))), r#"read plan unless Some("\"1\"")"#);
    let sent = one(&Ask::Sign(sign("ada", 2, Some(9))));
    let expected = r#"write member.ada "" [("tenureweight", "2"), ("tenureinterval", "5000"), ("tenuremaxshares", "9")] over Anything"#;
    assert_eq!(sent, expected);
    for (over, how) in [(None, "Nothing"), (Some(tag()), r#"This(ETag("\"1\""))"#)] {
        let sent = one(&Ask::WritePlan(plan(), over));
        assert!(
            sent.starts_with("write plan \"{") && sent.ends_with(&format!("over {how}")),
            "{sent}"
        );
    }
    let closed = |index| {
        format!(r#"write share.2.{index}-of-4 "" [("tenureformat", "closed")] over Anything"#)
    };
    assert_eq!(one(&close()), format!("{}; {}", closed(0), closed(3)));
}

#[test]
fn what_was_done_is_told() {
    let written = || Ok(Done::Written(ETag("\"2\"".to_owned())));
    let new = || Tag("\"2\"".to_owned());
    assert_eq!(of(&Ask::Sign(sign("ada", 1, None)), written()), Answer::Signed(new()));
    for gone in [Done::Deleted, Done::Missing] {
        assert_eq!(of(&Ask::TakeBack, Ok(gone.clone())), Answer::Done);
        assert_eq!(of(&Ask::Remove("ben".to_owned(), tag()), Ok(gone)), Answer::Done);
    }
    assert_eq!(of(&Ask::ReadPlan(Some(tag())), Ok(Done::Unchanged)), Answer::SamePlan);
    assert_eq!(of(&Ask::ReadPlan(None), Ok(Done::Missing)), Answer::NoPlan);
    assert_eq!(of(&Ask::List, Ok(Done::Missing)), Answer::Signs(Vec::new()));
    assert_eq!(of(&Ask::WritePlan(plan(), None), written()), Answer::Plan(plan(), new()));
}

#[test]
fn a_plan_is_read_as_it_was_written() {
    let Request::Write(sent) = requests(&Ask::WritePlan(plan(), None), "ada").remove(0) else {
        panic!("no write");
    };
    let read = Ok(Done::Content(sent.content, ETag("\"2\"".to_owned())));
    assert_eq!(of(&Ask::ReadPlan(None), read), Answer::Plan(plan(), Tag("\"2\"".to_owned())));
    let foreign = Ok(Done::Content("<html>".to_owned(), ETag("\"2\"".to_owned())));
    let (told, unread) = answer(&Ask::ReadPlan(None), "ada", vec![foreign]);
    assert_eq!(told, Answer::Unknown);
    assert!(unread.unwrap().detail.contains("the plan of the shares cannot be read"));
    // Of so many shares a leader would make 34 GB.
    let huge = r#"{"term":7,"version":3,"split":1,"members":[],"shares":[null],"next":4294967295}"#;
    let huge = Ok(Done::Content(huge.to_owned(), ETag("\"2\"".to_owned())));
    let (told, unread) = answer(&Ask::ReadPlan(None), "ada", vec![huge]);
    assert_eq!(told, Answer::Unknown);
    assert!(unread.unwrap().detail.contains("no leader writes such a plan"));
}

fn blob(suffix: &str, metadata: Vec<(String, String)>) -> ListedBlob {
    let (suffix, tag) = (suffix.to_owned(), ETag("\"1\"".to_owned()));
    ListedBlob { suffix, tag, age: Duration::from_secs(4), metadata }
}

#[test]
fn signs_are_read_as_they_were_written_and_others_are_left_out() {
    let signs = [sign("a.d/ä %", 1, None), sign("ben", 0, Some(0)), sign("", 7, Some(3))];
    let listed = |sign: &Sign| {
        let Request::Write(sent) = requests(&Ask::Sign(sign.clone()), "x").remove(0) else {
            panic!("no write");
        };
        blob(&sent.suffix, sent.metadata)
    };
    let mut blobs = signs.iter().map(listed).collect::<Vec<_>>();
    let expected = signs
        .into_iter()
        .map(|sign| Listed { sign, tag: tag(), age: Duration::from_secs(4) })
        .collect::<Vec<_>>();
    assert_eq!(of(&Ask::List, Ok(Done::Listed(blobs.clone()))), Answer::Signs(expected.clone()));
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
    assert_eq!(of(&Ask::List, Ok(Done::Listed(blobs))), Answer::Signs(expected));
}

/// A candidate without shares finds members and holders of shares by these names and fields (docs/protocol.md §14.6).
#[test]
fn signs_and_shares_keep_a_candidate_without_shares_from_leading() {
    let second = Duration::from_secs(1);
    let periods = [1, 3, 15, 60].map(|lease| Pace::of(second * lease));
    let periods =
        periods.into_iter().chain([Pace::signing(second / 9), Pace::signing(second * 900)]);
    for (member, pace) in
        ["ada", "a.d/ä %", "b\u{7}"].iter().flat_map(|m| periods.clone().map(move |p| (*m, p)))
    {
        let sign = Sign { member: member.to_owned(), weight: 1, most: None, pace };
        let Request::Write(sent) = requests(&Ask::Sign(sign.clone()), "x").remove(0) else {
            panic!("no write");
        };
        let fields = || sent.metadata.iter().map(|(name, value)| (&**name, &**value)).collect();
        for age in (0..200).map(Duration::from_secs) {
            let found = tenure_core::at_work(&sent.suffix, &fields(), age, false);
            let listed = Listed { sign: sign.clone(), tag: tag(), age };
            assert_eq!(found.is_some(), listed.is_alive(), "{member} {pace:?} {age:?}");
            let shown = if member.starts_with('b') { "b%07" } else { member };
            assert!(found.is_none_or(|found| found.contains(shown)), "{member}");
        }
    }
    for (share, of) in [
        (Share { split: 1, index: 0 }, 1),
        (Share { split: 12, index: 99_999 }, super::super::MOST_SHARES),
    ] {
        let at_work = |leased| {
            let none = std::iter::empty::<(&str, &str)>().collect();
            tenure_core::at_work(&share.suffix(of), &none, second * 1_000, leased)
        };
        let text = format!("share {} of {of} is held", share.index);
        assert_eq!((at_work(true), at_work(false)), (Some(text), None));
    }
}

#[test]
fn unknown_stays_unknown_and_refused_stays_refused() {
    use ProblemClass::{Clock, Configuration, Nonsense, Refused, Unavailable, Unreachable};
    for ask in all().into_iter().filter(|ask| !matches!(ask, Ask::Close { .. })) {
        for class in [Unreachable, Unavailable, Nonsense] {
            assert_eq!(of(&ask, problem(class)), Answer::Unknown, "{ask:?} {class:?}");
        }
        for class in [Clock, Configuration, Refused] {
            assert_eq!(of(&ask, problem(class)), Answer::Refused, "{ask:?} {class:?}");
        }
        assert_eq!(of(&ask, Ok(Done::Declined)), Answer::Refused, "{ask:?}");
    }
}

#[test]
fn only_shares_that_were_written_to_are_closed() {
    let Ask::Close { shares, .. } = close() else { panic!("another one") };
    let written = || Ok(Done::Written(ETag("\"2\"".to_owned())));
    for (outcome, first) in [
        (written(), true),
        (Ok(Done::Declined), false),
        (Ok(Done::Leased), false),
        (Ok(Done::Missing), false),
        (problem(ProblemClass::Unreachable), false),
        (problem(ProblemClass::Refused), false),
    ] {
        let (told, _) = answer(&close(), "ada", vec![outcome, written()]);
        let closed = if first { shares.clone() } else { vec![shares[1]] };
        assert_eq!(told, Answer::Closed(closed));
    }
}
