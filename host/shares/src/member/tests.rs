use super::{Act, Member, Running};
use crate::{Answer, Ask, Pace, Plan, Share, Sign, Tag};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn sign(name: &str) -> Sign {
    Sign { member: name.to_owned(), weight: 1, most: None, pace: Pace::of(15 * SECOND) }
}

fn member(name: &str) -> Member {
    Member::begin(sign(name), Duration::ZERO)
}

/// A plan of these members' shares; "" holds none.
fn plan(shares: &[&str]) -> Plan {
    let mut members =
        shares.iter().filter(|name| !name.is_empty()).map(|n| (*n).to_owned()).collect::<Vec<_>>();
    members.sort();
    members.dedup();
    let place = |name: &&str| members.iter().position(|member| member == name);
    let shares =
        shares.iter().map(|name| place(name).and_then(|place| u32::try_from(place).ok())).collect();
    Plan { members, shares, ..Plan::first(0) }
}

/// What the member does that read this plan.
fn acts(name: &str, plan: Plan, running: &[Running]) -> Vec<Act> {
    let mut member = member(name);
    read(&mut member, plan, Duration::ZERO);
    member.acts(running, true)
}

fn read(member: &mut Member, plan: Plan, now: Duration) {
    let tag = Tag(plan.version.to_string());
    for ask in member.next(now) {
        let answer = match ask {
            Ask::ReadPlan(_) => Answer::Plan(plan.clone(), tag.clone()),
            _ => Answer::Signed(Tag("sign".to_owned())),
        };
        member.answered(&ask, answer, now);
    }
}

fn share(index: u32) -> Share {
    Share { split: 1, index }
}

fn running(index: u32, leads: bool) -> Running {
    Running { share: share(index), leads, gives_to: None }
}

#[test]
fn nothing_is_sent_before_it_is_there() {
    let mut member = Member::begin(sign("anna"), 60 * SECOND);
    assert_eq!(member.next(59 * SECOND), []);
    assert_eq!(member.next(60 * SECOND), [Ask::Sign(sign("anna")), Ask::ReadPlan(None)]);
}

#[test]
fn one_that_is_away_asks_for_nothing_until_it_comes() {
    let mut member = Member::away(sign("anna"));
    assert_eq!((member.next(9 * SECOND), member.wake()), (vec![], None));
    member.come(10 * SECOND);
    assert_eq!(member.wake(), Some(10 * SECOND));
    assert_eq!(member.next(10 * SECOND).len(), 2);

    let mut member = Member::away(sign("anna"));
    member.leave(SECOND);
    member.come(2 * SECOND);
    assert_eq!(member.next(2 * SECOND), [Ask::TakeBack], "it leaves");
}

#[test]
fn it_remembers_its_signs_that_were_answered() {
    let mut member = member("anna");
    let sign = |member: &mut Member, at: u32, answer: &Answer| {
        for ask in member.next(at * SECOND) {
            let answer =
                if matches!(ask, Ask::Sign(_)) { answer.clone() } else { Answer::SamePlan };
            member.answered(&ask, answer, at * SECOND);
        }
    };
    let tag = Tag("sign".to_owned());
    let signed = Answer::Signed(tag.clone());
    sign(&mut member, 1, &signed);
    sign(&mut member, 6, &Answer::Unknown);
    sign(&mut member, 8, &signed);
    assert_eq!(member.signs(), [(tag.clone(), SECOND), (tag.clone(), 8 * SECOND)]);
    for at in 2..400 {
        sign(&mut member, at * 5, &signed);
    }
    assert_eq!(member.signs().len(), 128);
    assert_eq!(member.signs().last(), Some(&(tag, 1_995 * SECOND)));
}

#[test]
fn what_is_planned_begins_and_goes_on() {
    let plan = plan(&["anna", "ben", "anna"]);
    assert_eq!(acts("anna", plan.clone(), &[running(2, false)]), [Act::Begin(share(0))]);
    assert_eq!(acts("anna", plan.clone(), &[running(0, true), running(2, true)]), []);
    assert_eq!(acts("dora", plan, &[]), []);
}

#[test]
fn what_another_one_should_hold_is_handed_over_once() {
    let plan = plan(&["ben"]);
    let held = running(0, true);
    let hands_over = [Act::HandOver(share(0), "ben".to_owned())];
    assert_eq!(acts("anna", plan.clone(), std::slice::from_ref(&held)), hands_over);
    let giving = Running { gives_to: Some("ben".to_owned()), ..held.clone() };
    assert_eq!(acts("anna", plan.clone(), &[giving]), []);
    let to_another = Running { gives_to: Some("cleo".to_owned()), ..held };
    assert_eq!(acts("anna", plan, &[to_another]), hands_over);
}

#[test]
fn what_is_not_held_is_left() {
    assert_eq!(acts("anna", plan(&["ben"]), &[running(0, false)]), [Act::End(share(0))]);
}

#[test]
fn what_nobody_should_hold_is_given_up() {
    assert_eq!(acts("anna", plan(&[""]), &[running(0, true)]), [Act::End(share(0))]);
    assert_eq!(acts("anna", plan(&[]), &[running(0, true)]), [Act::End(share(0))]);
    assert_eq!(acts("anna", plan(&["anna"]).reshare(2), &[running(0, true)]), [Act::End(share(0))]);
}

#[test]
fn one_that_leaves_hands_over_and_begins_nothing() {
    let mut member = member("anna");
    read(&mut member, plan(&["ben", "anna", "anna"]), Duration::ZERO);
    member.leave(Duration::ZERO);
    let acts = member.acts(&[running(0, true), running(1, true)], true);
    assert_eq!(acts, [Act::HandOver(share(0), "ben".to_owned())]);
}

#[test]
fn all_stays_as_it_is_where_no_plan_can_be_read() {
    let mut member = member("anna");
    read(&mut member, plan(&["anna"]), Duration::ZERO);
    for answer in [Answer::Unknown, Answer::Refused, Answer::NoPlan, Answer::SamePlan] {
        member.answered(&Ask::ReadPlan(None), answer, SECOND);
        assert_eq!(member.acts(&[], true), [Act::Begin(share(0))]);
    }
}

#[test]
fn one_that_has_not_read_the_plan_for_long_keeps_what_it_holds_and_contends_for_nothing() {
    let mut member = member("anna");
    read(&mut member, plan(&["anna", "anna", "anna"]), Duration::ZERO);
    let mut unread = |second| {
        let now = second * SECOND;
        let asks = member.next(now);
        let ask = asks.iter().find(|ask| matches!(ask, Ask::ReadPlan(_))).expect("it reads");
        member.answered(ask, Answer::Unknown, now);
        member.acts(&[running(0, true), running(1, false)], true)
    };
    for second in 1..=15 {
        assert_eq!(unread(second), [Act::Begin(share(2))], "{second}");
    }
    assert_eq!(unread(16), [Act::End(share(1))]);
    let ask = member.next(17 * SECOND).into_iter().find(|ask| matches!(ask, Ask::ReadPlan(_)));
    member.answered(&ask.expect("it reads"), Answer::SamePlan, 17 * SECOND);
    assert_eq!(
        member.acts(&[running(0, true)], true),
        [1, 2].map(|index| Act::Begin(share(index)))
    );
}

/// When it leaves signs within a minute, if each is answered at once.
fn signs(member: &mut Member, from: Duration) -> Vec<u128> {
    let mut at = Vec::new();
    let mut now = from;
    while now < from + 60 * SECOND {
        for ask in member.next(now) {
            if matches!(ask, Ask::Sign(_)) {
                at.push((now - from).as_millis());
                member.answered(&ask, Answer::Signed(Tag("sign".to_owned())), now);
            } else {
                member.answered(&ask, Answer::SamePlan, now);
            }
        }
        now = member.wake().expect("it never ends");
    }
    at
}

#[test]
fn its_signs_come_quickly_until_the_plan_names_it_but_not_for_long() {
    let mut member = member("anna");
    let alone = signs(&mut member, Duration::ZERO);
    assert_eq!(alone[..4], [0, 500, 1_000, 1_500]);
    assert_eq!(alone[30..33], [15_000, 20_000, 25_000]);
    read(&mut member, plan(&["anna"]), 60 * SECOND);
    assert_eq!(signs(&mut member, 60 * SECOND)[..2], [5_000, 10_000]);
    // A leader thought that it was gone.
    read(&mut member, plan(&["ben"]), 121 * SECOND);
    assert_eq!(signs(&mut member, 121 * SECOND)[..3], [0, 500, 1_000]);
}

#[test]
fn a_sign_that_failed_comes_again() {
    let mut member = member("anna");
    let asks = member.next(Duration::ZERO);
    assert_eq!(member.next(SECOND), [], "both have no answer yet");
    member.answered(&asks[0], Answer::Unknown, SECOND);
    assert_eq!(member.next(SECOND), [Ask::Sign(sign("anna"))]);
}

#[test]
fn one_that_leaves_takes_its_sign_back_until_that_is_done() {
    let mut member = member("anna");
    let asks = member.next(Duration::ZERO);
    assert_eq!(asks, [Ask::Sign(sign("anna")), Ask::ReadPlan(None)]);
    member.answered(&asks[1], Answer::NoPlan, Duration::ZERO);
    member.leave(Duration::ZERO);
    assert_eq!(member.next(Duration::ZERO), [], "the sign that is under way would come after");
    member.answered(&asks[0], Answer::Signed(Tag("sign".to_owned())), SECOND / 2);
    assert_eq!(member.next(SECOND / 2), [Ask::TakeBack]);
    member.answered(&Ask::TakeBack, Answer::Unknown, SECOND / 2);
    assert_eq!(member.next(2 * SECOND), [Ask::TakeBack, Ask::ReadPlan(None)]);
    member.answered(&Ask::TakeBack, Answer::Done, 2 * SECOND);
    assert_eq!(member.next(9 * SECOND), []);
}

#[test]
fn its_will_is_about_the_newest_sign_that_is_known_to_be_written() {
    let mut member = member("anna");
    let sign = |member: &mut Member, now, answer| {
        let asks = member.next(now);
        let asked = asks.iter().find(|ask| matches!(ask, Ask::Sign(_) | Ask::TakeBack)).cloned();
        member.answered(&asked.expect("it is due"), answer, now + SECOND / 10);
    };
    let signed = |tag: &str| Answer::Signed(Tag(tag.to_owned()));
    let will = |member: &Member| member.will().map(|will| (will.sign.0.clone(), will.until));
    assert_eq!(will(&member), None, "there is no sign");
    sign(&mut member, Duration::ZERO, Answer::Unknown);
    assert_eq!(will(&member), None, "nobody knows which it is");
    sign(&mut member, SECOND, signed("one"));
    // From before it was sent: then it is silent for too long.
    assert_eq!(will(&member), Some(("one".to_owned(), 16 * SECOND)));
    sign(&mut member, 2 * SECOND, signed("two"));
    for answer in [Answer::Unknown, Answer::Refused] {
        assert_eq!(will(&member), Some(("two".to_owned(), 17 * SECOND)));
        let now = member.wake().expect("it goes on").max(3 * SECOND);
        sign(&mut member, now, answer);
    }
    assert_eq!(will(&member), Some(("two".to_owned(), 17 * SECOND)));
    member.leave(9 * SECOND);
    sign(&mut member, 9 * SECOND, Answer::Unknown);
    assert_eq!(will(&member), Some(("two".to_owned(), 17 * SECOND)), "it may be there yet");
    sign(&mut member, 12 * SECOND, Answer::Done);
    assert_eq!(will(&member), None, "it was taken back");
}
