use super::{Act, Running, acts};
use crate::Plan;

fn plan(shares: &[&str]) -> Plan {
    let member = |name: &&str| (!name.is_empty()).then(|| (*name).to_owned());
    Plan { shares: shares.iter().map(member).collect(), ..Plan::default() }
}

fn running(share: u32, leads: bool) -> Running {
    Running { share, leads, gives_to: None }
}

#[test]
fn what_is_planned_begins_and_goes_on() {
    let plan = plan(&["anna", "ben", "anna"]);
    assert_eq!(acts("anna", &plan, &[running(2, false)]), [Act::Begin(0)]);
    assert_eq!(acts("anna", &plan, &[running(0, true), running(2, true)]), []);
    assert_eq!(acts("dora", &plan, &[]), []);
}

#[test]
fn what_another_one_should_hold_is_handed_over_once() {
    let plan = plan(&["ben"]);
    let held = running(0, true);
    assert_eq!(acts("anna", &plan, &[held.clone()]), [Act::HandOver(0, "ben".to_owned())]);
    let giving = Running { gives_to: Some("ben".to_owned()), ..held.clone() };
    assert_eq!(acts("anna", &plan, &[giving]), []);
    let to_another = Running { gives_to: Some("cleo".to_owned()), ..held };
    assert_eq!(acts("anna", &plan, &[to_another]), [Act::HandOver(0, "ben".to_owned())]);
}

#[test]
fn what_is_not_held_is_left() {
    assert_eq!(acts("anna", &plan(&["ben"]), &[running(0, false)]), [Act::End(0)]);
}

#[test]
fn what_nobody_should_hold_is_given_up() {
    assert_eq!(acts("anna", &plan(&[""]), &[running(0, true)]), [Act::End(0)]);
    assert_eq!(acts("anna", &plan(&[]), &[running(0, true)]), [Act::End(0)]);
}
