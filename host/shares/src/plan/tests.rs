use super::{Plan, Share};

fn plan() -> Plan {
    let members = ["anna".to_owned(), "ben".to_owned()].into();
    Plan {
        term: 7,
        version: 3,
        members,
        shares: vec![Some(1), None, Some(0), Some(1)],
        ..Plan::first(0)
    }
}

fn share(split: u32, index: u32) -> Share {
    Share { split, index }
}

#[test]
fn it_says_who_should_hold_what() {
    let plan = plan();
    assert_eq!(plan.of("ben").collect::<Vec<_>>(), [share(1, 0), share(1, 3)]);
    assert_eq!(plan.of("cleo").count(), 0);
    assert_eq!(plan.holder(share(1, 2)), Some("anna"));
    assert_eq!(plan.holder(share(1, 1)), None);
    assert_eq!(plan.holder(share(2, 2)), None, "a share of another split");
    assert_eq!(plan.holder(share(1, 4)), None);
}

#[test]
fn nobody_should_hold_anything_while_another_number_is_asked_for() {
    let plan = plan().reshare(6);
    assert_eq!((plan.version, plan.of("ben").count(), plan.holder(share(1, 2))), (4, 0, None));
    let next = plan.resplit().expect("it was asked for");
    assert_eq!((next.split, next.shares, next.next), (2, vec![None; 6], None));
    assert_eq!(super::Plan::first(3).resplit(), None);
}

#[test]
fn it_names_members_once_on_the_wire() {
    let text = serde_json::to_string(&plan()).expect("JSON");
    assert_eq!(
        text,
        r#"{"term":7,"version":3,"split":1,"members":["anna","ben"],"shares":[1,null,0,1]}"#
    );
    assert_eq!(serde_json::from_str::<Plan>(&text).expect("the same"), plan());
}

#[test]
fn a_place_that_no_member_has_is_nobodys() {
    let plan = Plan { shares: vec![Some(9)], ..plan() };
    assert_eq!((plan.holder(share(1, 0)), plan.of("anna").count()), (None, 0));
}

#[test]
fn each_share_of_each_split_has_a_blob_of_its_own() {
    assert_eq!(share(1, 3).suffix(plan().count()), "share.1.3-of-4");
}

#[test]
fn a_share_is_known_by_the_suffix_of_its_election() {
    let share = Share { split: 2, index: 31 };
    assert_eq!(share.suffix(32), "share.2.31-of-32");
    assert_eq!(Share::of_suffix("share.2.31-of-32"), Some(share));
    for other in ["plan", "share.2.31", "share.2.x-of-32", "share.2.31-of-", "share.02.31-of-32"] {
        assert_eq!(Share::of_suffix(other), None, "{other}");
    }
}

#[test]
fn what_no_leader_writes_is_not_sound() {
    let with = |change: fn(&mut Plan)| {
        let mut plan = plan();
        change(&mut plan);
        plan.is_sound(4)
    };
    assert!(with(|_| {}) && with(|plan| plan.next = Some(4)));
    assert!(with(|plan| plan.shares = vec![None]));
    for change in [
        |plan: &mut Plan| plan.shares.clear(),
        |plan: &mut Plan| plan.shares.push(None),
        |plan: &mut Plan| plan.next = Some(5),
        |plan: &mut Plan| plan.next = Some(0),
        |plan: &mut Plan| plan.members.push("anna".to_owned()),
        |plan: &mut Plan| plan.shares[0] = Some(2),
        |plan: &mut Plan| plan.version = u64::MAX,
        |plan: &mut Plan| plan.split = u32::MAX,
    ] {
        assert!(!with(change));
    }
}
