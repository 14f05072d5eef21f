use super::{Plan, Share};

fn plan() -> Plan {
    let members = ["anna".to_owned(), "ben".to_owned()].into();
    Plan {
        term: 7,
        version: 3,
        members,
        shares: vec![Some(1), None, Some(0), Some(1)],
        ..Plan::unassigned(0)
    }
}

fn share(split: u32, index: u32) -> Share {
    Share { split, index }
}

#[test]
fn the_plan_maps_shares_to_members() {
    let plan = plan();
    assert_eq!(plan.shares_of("ben").collect::<Vec<_>>(), [share(1, 0), share(1, 3)]);
    assert_eq!(plan.shares_of("cleo").count(), 0);
    assert_eq!(plan.holder(share(1, 2)), Some("anna"));
    assert_eq!(plan.holder(share(1, 1)), None);
    assert_eq!(plan.holder(share(2, 2)), None, "a share of another split");
    assert_eq!(plan.holder(share(1, 4)), None);
}

#[test]
fn no_share_has_a_holder_while_a_reshare_is_pending() {
    let plan = plan().reshare(6);
    assert_eq!(
        (plan.version, plan.shares_of("ben").count(), plan.holder(share(1, 2))),
        (4, 0, None)
    );
    let next = plan.next_split().expect("it was asked for");
    assert_eq!((next.split, next.shares, next.next), (2, vec![None; 6], None));
    assert_eq!(super::Plan::unassigned(3).next_split(), None);
}

#[test]
fn members_are_serialized_once() {
    let text = serde_json::to_string(&plan()).expect("JSON");
    assert_eq!(
        text,
        r#"{"term":7,"version":3,"split":1,"members":["anna","ben"],"shares":[1,null,0,1]}"#
    );
    assert_eq!(serde_json::from_str::<Plan>(&text).expect("the same"), plan());
}

#[test]
fn an_index_out_of_range_has_no_holder() {
    let plan = Plan { shares: vec![Some(9)], ..plan() };
    assert_eq!((plan.holder(share(1, 0)), plan.shares_of("anna").count()), (None, 0));
}

#[test]
fn each_share_of_a_split_has_its_own_suffix() {
    assert_eq!(share(1, 3).suffix(plan().count()), "share.1.3-of-4");
}

#[test]
fn a_share_is_parsed_from_its_suffix() {
    let share = Share { split: 2, index: 31 };
    assert_eq!(share.suffix(32), "share.2.31-of-32");
    assert_eq!(Share::from_suffix("share.2.31-of-32"), Some(share));
    for other in ["plan", "share.2.31", "share.2.x-of-32", "share.2.31-of-", "share.02.31-of-32"] {
        assert_eq!(Share::from_suffix(other), None, "{other}");
    }
}

#[test]
fn an_invalid_plan_is_rejected() {
    let is_valid_after = |change: fn(&mut Plan)| {
        let mut plan = plan();
        change(&mut plan);
        plan.is_valid(4)
    };
    assert!(is_valid_after(|_| {}) && is_valid_after(|plan| plan.next = Some(4)));
    assert!(is_valid_after(|plan| plan.shares = vec![None]));
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
        assert!(!is_valid_after(change));
    }
}
