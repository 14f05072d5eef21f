use super::super::tests::at;
use super::*;
use crate::output::ranges;
use serde_json::{Value, json};
use std::time::Duration;
use tenure_shares::SignTiming;

/// Returns the holder of a share since this many seconds after 1970, read at 72 s.
fn held_record(name: &str, since: u64) -> Record {
    Ok(Some(Holder { name: name.to_owned(), term: 9, since: at(since), observed_at: at(72) }))
}

fn failed() -> Record {
    Err(Problem { class: ProblemClass::Unreachable, detail: "no answer".to_owned() })
}

/// Returns eight shares with their planned holders.
fn shares_state() -> Shares {
    let sign = |member: &str, weight, most| {
        let pace = SignTiming::from_failover(Duration::from_secs(15));
        (
            member.to_owned(),
            Sign { member: member.to_owned(), weight, max_shares: most, timing: pace },
        )
    };
    let shares = [0, 0, 0, 1, 0, 1, 0, 1].map(Some).to_vec();
    let members = vec!["ada".to_owned(), "ben\u{1b}".to_owned()];
    let plan = Plan { term: 7, version: 3, split: 1, members, shares, next: None };
    let signs = BTreeMap::from([sign("ada", 2, None), sign("cleo", 1, Some(4))]);
    let (ada, ben) = (held_record("ada", 12), held_record("ben\u{1b}", 60));
    let late = held_record("ada", 11);
    let records = [&ada, &late, &ada, &ben, &ada, &ben, &ada, &ben].map(Clone::clone).to_vec();
    Shares { plan: Some(plan), signs, records: Some(records) }
}

/// Returns the same shares with some other records.
fn moved(others: impl IntoIterator<Item = (usize, Record)>) -> Shares {
    let mut state = shares_state();
    for (share, record) in others {
        state.records.as_mut().unwrap()[share] = record;
    }
    state
}

#[test]
fn numbers_that_follow_each_other_are_one_range() {
    for (numbers, expected) in
        [(&[][..], ""), (&[3], "3"), (&[3, 4], "3–4"), (&[0, 1, 2, 5, 7, 8], "0–2, 5, 7–8")]
    {
        assert_eq!(ranges(numbers), expected);
    }
}

#[test]
fn each_member_has_a_row_and_nothing_that_a_terminal_obeys() {
    assert_eq!(
        as_text(&shares_state()),
        "8 shares\n\
         \n\
         member     capacity  most  holds  which      since\n\
         ada        2         -     5      0–2, 4, 6  1m ago\n\
         ben\\u{1b}  no sign   -     3      3, 5, 7    12s ago\n\
         cleo       1         4     0      -          -\n"
    );
    assert!(shares_state().is_as_planned());
    let object = as_json(&shares_state());
    let ada = &object["members"][0];
    assert_eq!((&ada["planned"], &ada["holds"]), (&json!([0, 1, 2, 4, 6]), &ada["planned"]));
    assert_eq!(ada["since"], "1970-01-01T00:00:12Z");
    assert_eq!(object["members"][1]["has_sign"], false);
    assert_eq!(object["count"], 8);
    let third = json!({
        "index": 3, "planned": "ben\u{1b}", "holder": "ben\u{1b}", "term": 9, "since": "1970-01-01T00:01:00Z",
    });
    assert_eq!(object["each"][3], third);
}

#[test]
fn shares_held_against_the_plan_are_moves() {
    let state = moved([
        (0, Ok(None)),
        (3, held_record("ada", 12)),
        (5, held_record("dan", 70)),
        (7, held_record("ada", 12)),
    ]);
    assert!(!state.is_as_planned());
    assert_eq!(
        as_text(&state),
        "8 shares\n\
         \n\
         member     capacity  most  holds  which     since\n\
         ada        2         -     6      1–4, 6–7  1m ago\n\
         ben\\u{1b}  no sign   -     0      -         -\n\
         cleo       1         4     0      -         -\n\
         dan        no sign   -     1      5         2s ago\n\
         \n\
         share  moves\n\
         0      none → ada\n\
         3, 7   ada → ben\\u{1b}\n\
         5      dan → ben\\u{1b}\n"
    );
    let object = as_json(&state);
    assert_eq!(object["members"][1]["planned"], json!([3, 5, 7]));
    assert_eq!(object["members"][1]["holds"], json!([]));
    let nobody =
        json!({ "index": 0, "planned": "ada", "holder": null, "term": null, "since": null });
    assert_eq!(object["each"][0], nobody);
}

#[test]
fn unassigned_shares_are_reported() {
    let mut state = moved([(7, Ok(None))]);
    let plan = state.plan.as_mut().unwrap();
    plan.shares[1] = None;
    plan.shares[7] = None;
    assert!(!state.is_as_planned());
    let text = as_text(&state);
    let expected = "\nshare  moves\n1      ada → none\n\nThe plan has no holder for 1, 7.\n";
    assert!(text.ends_with(expected), "{text}");
    assert_eq!(as_json(&state)["each"][7]["planned"], Value::Null);
}

#[test]
fn requested_share_count_is_reported() {
    let state =
        Shares { plan: shares_state().plan.map(|plan| plan.reshare(5)), ..moved([(0, Ok(None))]) };
    assert!(!state.is_as_planned());
    let text = as_text(&state);
    let expected = "8 shares\nAll shares are being closed, since 5 shares were requested.";
    assert!(text.contains(expected) && text.contains(" 1–2, 4, 6  1m ago\n"), "{text}");
    assert!(!text.contains("moves") && !text.contains("The plan has no holder for 0"), "{text}");
    assert_eq!(as_json(&state)["next_count"], 5);
}

#[test]
fn unread_records_differ_from_shares_without_holder() {
    let state = moved([(2, failed()), (3, failed())]);
    let (shares, problem) = state.unread().unwrap();
    assert_eq!((shares, &*problem.detail), (vec![2, 3], "no answer"));
    assert!(!state.is_as_planned());
    assert!(!as_text(&state).contains("moves"));
    let second = &as_json(&state)["each"][2];
    assert_eq!(
        (second["problem"]["detail"].as_str(), second.get("holder")),
        (Some("no answer"), None)
    );
}

#[test]
fn with_too_many_shares_only_the_plan_is_shown() {
    let mut state = Shares { records: None, ..shares_state() };
    let text = as_text(&state);
    assert!(
        text.contains("8 shares\nThis is the plan. ") && text.contains("  planned  which "),
        "{text}"
    );
    assert!(text.contains("  5        0–2, 4, 6  -\n"), "{text}");
    let object = as_json(&state);
    assert_eq!(object["each"][0], json!({ "index": 0, "planned": "ada" }));
    assert_eq!(object["members"][0]["holds"], Value::Null);
    // A holder without a sign of life.
    assert!(!state.is_as_planned());
    let sign = Sign { member: "ben\u{1b}".to_owned(), ..state.signs["ada"].clone() };
    state.signs.insert(sign.member.clone(), sign);
    assert!(state.is_as_planned());
}

#[test]
fn unsplit_work_has_no_plan() {
    let state = Shares::default();
    assert!(as_text(&state).contains("no plan yet"));
    assert!(!state.is_as_planned());
    assert_eq!(as_json(&state)["each"], Value::Null);
}
