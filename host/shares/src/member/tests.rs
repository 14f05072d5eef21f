use super::{Action, Member, RunningShare};
use crate::{Plan, Share, Sign, SignTiming, StoreRequest, StoreResponse, Tag};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn sign(name: &str) -> Sign {
    Sign {
        member: name.to_owned(),
        weight: 1,
        max_shares: None,
        timing: SignTiming::from_failover(15 * SECOND),
    }
}

fn member(name: &str) -> Member {
    Member::new_joined(sign(name), Duration::ZERO)
}

/// Creates a plan with one share for each of these members; "" means no holder.
fn plan(shares: &[&str]) -> Plan {
    let mut members =
        shares.iter().filter(|name| !name.is_empty()).map(|n| (*n).to_owned()).collect::<Vec<_>>();
    members.sort();
    members.dedup();
    let index_of = |name: &&str| members.iter().position(|member| member == name);
    let shares = shares
        .iter()
        .map(|name| index_of(name).and_then(|place| u32::try_from(place).ok()))
        .collect();
    Plan { members, shares, ..Plan::unassigned(0) }
}

/// Returns the actions of a member that has read this plan.
fn actions(name: &str, plan: Plan, running: &[RunningShare]) -> Vec<Action> {
    let mut member = member(name);
    read(&mut member, plan, Duration::ZERO);
    member.actions(running, true)
}

fn read(member: &mut Member, plan: Plan, now: Duration) {
    let tag = Tag(plan.version.to_string());
    for request in member.next_requests(now) {
        let answer = match request {
            StoreRequest::ReadPlan(_) => StoreResponse::Plan(plan.clone(), tag.clone()),
            _ => StoreResponse::Signed(Tag("sign".to_owned())),
        };
        member.on_response(&request, answer, now);
    }
}

fn share(index: u32) -> Share {
    Share { split: 1, index }
}

fn running(index: u32, is_leading: bool) -> RunningShare {
    RunningShare { share: share(index), is_leading, successor: None }
}

#[test]
fn nothing_is_sent_before_the_member_joins() {
    let mut member = Member::new_joined(sign("anna"), 60 * SECOND);
    assert_eq!(member.next_requests(59 * SECOND), []);
    assert_eq!(
        member.next_requests(60 * SECOND),
        [StoreRequest::WriteSign(sign("anna")), StoreRequest::ReadPlan(None)]
    );
}

#[test]
fn an_inactive_member_sends_nothing_until_it_joins() {
    let mut member = Member::new(sign("anna"));
    assert_eq!((member.next_requests(9 * SECOND), member.wake_at()), (vec![], None));
    member.join(10 * SECOND);
    assert_eq!(member.wake_at(), Some(10 * SECOND));
    assert_eq!(member.next_requests(10 * SECOND).len(), 2);

    let mut member = Member::new(sign("anna"));
    member.leave(SECOND);
    member.join(2 * SECOND);
    assert_eq!(member.next_requests(2 * SECOND), [StoreRequest::WithdrawSign], "it leaves");
}

#[test]
fn acknowledged_signs_are_remembered() {
    let mut member = member("anna");
    let sign = |member: &mut Member, at: u32, answer: &StoreResponse| {
        for request in member.next_requests(at * SECOND) {
            let answer = if matches!(request, StoreRequest::WriteSign(_)) {
                answer.clone()
            } else {
                StoreResponse::PlanUnchanged
            };
            member.on_response(&request, answer, at * SECOND);
        }
    };
    let tag = Tag("sign".to_owned());
    let signed = StoreResponse::Signed(tag.clone());
    sign(&mut member, 1, &signed);
    sign(&mut member, 6, &StoreResponse::Unknown);
    sign(&mut member, 8, &signed);
    assert_eq!(member.signs(), [(tag.clone(), SECOND), (tag.clone(), 8 * SECOND)]);
    for at in 2..400 {
        sign(&mut member, at * 5, &signed);
    }
    assert_eq!(member.signs().len(), 128);
    assert_eq!(member.signs().last(), Some(&(tag, 1_995 * SECOND)));
}

#[test]
fn planned_shares_start_and_continue() {
    let plan = plan(&["anna", "ben", "anna"]);
    assert_eq!(actions("anna", plan.clone(), &[running(2, false)]), [Action::Begin(share(0))]);
    assert_eq!(actions("anna", plan.clone(), &[running(0, true), running(2, true)]), []);
    assert_eq!(actions("dora", plan, &[]), []);
}

#[test]
fn a_share_of_another_member_is_handed_over_once() {
    let plan = plan(&["ben"]);
    let leading_share = running(0, true);
    let hands_over = [Action::HandOver(share(0), "ben".to_owned())];
    assert_eq!(actions("anna", plan.clone(), std::slice::from_ref(&leading_share)), hands_over);
    let giving = RunningShare { successor: Some("ben".to_owned()), ..leading_share.clone() };
    assert_eq!(actions("anna", plan.clone(), &[giving]), []);
    let to_another = RunningShare { successor: Some("cleo".to_owned()), ..leading_share };
    assert_eq!(actions("anna", plan, &[to_another]), hands_over);
}

#[test]
fn a_planned_away_share_without_leadership_ends() {
    assert_eq!(actions("anna", plan(&["ben"]), &[running(0, false)]), [Action::End(share(0))]);
}

#[test]
fn a_share_without_a_holder_is_given_up() {
    assert_eq!(actions("anna", plan(&[""]), &[running(0, true)]), [Action::End(share(0))]);
    assert_eq!(actions("anna", plan(&[]), &[running(0, true)]), [Action::End(share(0))]);
    assert_eq!(
        actions("anna", plan(&["anna"]).reshare(2), &[running(0, true)]),
        [Action::End(share(0))]
    );
}

#[test]
fn a_leaving_member_hands_over_and_starts_nothing() {
    let mut member = member("anna");
    read(&mut member, plan(&["ben", "anna", "anna"]), Duration::ZERO);
    member.leave(Duration::ZERO);
    let actions = member.actions(&[running(0, true), running(1, true)], true);
    assert_eq!(actions, [Action::HandOver(share(0), "ben".to_owned())]);
}

#[test]
fn an_unreadable_plan_changes_nothing() {
    let mut member = member("anna");
    read(&mut member, plan(&["anna"]), Duration::ZERO);
    for answer in [
        StoreResponse::Unknown,
        StoreResponse::Refused,
        StoreResponse::NoPlan,
        StoreResponse::PlanUnchanged,
    ] {
        member.on_response(&StoreRequest::ReadPlan(None), answer, SECOND);
        assert_eq!(member.actions(&[], true), [Action::Begin(share(0))]);
    }
}

#[test]
fn a_member_without_a_recent_plan_keeps_its_shares_and_contends_for_none() {
    let mut member = member("anna");
    read(&mut member, plan(&["anna", "anna", "anna"]), Duration::ZERO);
    let mut fail_read = |second| {
        let now = second * SECOND;
        let requests = member.next_requests(now);
        let request =
            requests.iter().find(|ask| matches!(ask, StoreRequest::ReadPlan(_))).expect("it reads");
        member.on_response(request, StoreResponse::Unknown, now);
        member.actions(&[running(0, true), running(1, false)], true)
    };
    for second in 1..=15 {
        assert_eq!(fail_read(second), [Action::Begin(share(2))], "{second}");
    }
    assert_eq!(fail_read(16), [Action::End(share(1))]);
    let request = member
        .next_requests(17 * SECOND)
        .into_iter()
        .find(|ask| matches!(ask, StoreRequest::ReadPlan(_)));
    member.on_response(&request.expect("it reads"), StoreResponse::PlanUnchanged, 17 * SECOND);
    assert_eq!(
        member.actions(&[running(0, true)], true),
        [1, 2].map(|index| Action::Begin(share(index)))
    );
}

/// Returns the times of the signs within a minute, if each is answered at once.
fn sign_times(member: &mut Member, from: Duration) -> Vec<u128> {
    let mut times = Vec::new();
    let mut now = from;
    while now < from + 60 * SECOND {
        for request in member.next_requests(now) {
            if matches!(request, StoreRequest::WriteSign(_)) {
                times.push((now - from).as_millis());
                member.on_response(&request, StoreResponse::Signed(Tag("sign".to_owned())), now);
            } else {
                member.on_response(&request, StoreResponse::PlanUnchanged, now);
            }
        }
        now = member.wake_at().expect("it never ends");
    }
    times
}

#[test]
fn signs_are_frequent_at_first_until_the_plan_names_the_member() {
    let mut member = member("anna");
    let alone = sign_times(&mut member, Duration::ZERO);
    assert_eq!(alone[..4], [0, 500, 1_000, 1_500]);
    assert_eq!(alone[30..33], [15_000, 20_000, 25_000]);
    read(&mut member, plan(&["anna"]), 60 * SECOND);
    assert_eq!(sign_times(&mut member, 60 * SECOND)[..2], [5_000, 10_000]);
    // A leader assumed that the member was gone.
    read(&mut member, plan(&["ben"]), 121 * SECOND);
    assert_eq!(sign_times(&mut member, 121 * SECOND)[..3], [0, 500, 1_000]);
}

#[test]
fn a_failed_sign_is_retried() {
    let mut member = member("anna");
    let requests = member.next_requests(Duration::ZERO);
    assert_eq!(member.next_requests(SECOND), [], "both have no answer yet");
    member.on_response(&requests[0], StoreResponse::Unknown, SECOND);
    assert_eq!(member.next_requests(SECOND), [StoreRequest::WriteSign(sign("anna"))]);
}

#[test]
fn a_leaving_member_withdraws_its_sign_until_that_succeeds() {
    let mut member = member("anna");
    let requests = member.next_requests(Duration::ZERO);
    assert_eq!(requests, [StoreRequest::WriteSign(sign("anna")), StoreRequest::ReadPlan(None)]);
    member.on_response(&requests[1], StoreResponse::NoPlan, Duration::ZERO);
    member.leave(Duration::ZERO);
    assert_eq!(
        member.next_requests(Duration::ZERO),
        [],
        "the sign that is under way would come after"
    );
    member.on_response(&requests[0], StoreResponse::Signed(Tag("sign".to_owned())), SECOND / 2);
    assert_eq!(member.next_requests(SECOND / 2), [StoreRequest::WithdrawSign]);
    member.on_response(&StoreRequest::WithdrawSign, StoreResponse::Unknown, SECOND / 2);
    assert_eq!(
        member.next_requests(2 * SECOND),
        [StoreRequest::WithdrawSign, StoreRequest::ReadPlan(None)]
    );
    member.on_response(&StoreRequest::WithdrawSign, StoreResponse::Done, 2 * SECOND);
    assert_eq!(member.next_requests(9 * SECOND), []);
}

#[test]
fn the_last_will_covers_the_newest_acknowledged_sign() {
    let mut member = member("anna");
    let sign = |member: &mut Member, now, answer| {
        let requests = member.next_requests(now);
        let request = requests
            .iter()
            .find(|ask| matches!(ask, StoreRequest::WriteSign(_) | StoreRequest::WithdrawSign))
            .cloned();
        member.on_response(&request.expect("it is due"), answer, now + SECOND / 10);
    };
    let signed = |tag: &str| StoreResponse::Signed(Tag(tag.to_owned()));
    let last_will =
        |member: &Member| member.last_will().map(|will| (will.sign.0.clone(), will.until));
    assert_eq!(last_will(&member), None, "there is no sign");
    sign(&mut member, Duration::ZERO, StoreResponse::Unknown);
    assert_eq!(last_will(&member), None, "nobody knows which it is");
    sign(&mut member, SECOND, signed("one"));
    // Counts from before the sign was sent: the member's silence then lasts too long.
    assert_eq!(last_will(&member), Some(("one".to_owned(), 16 * SECOND)));
    sign(&mut member, 2 * SECOND, signed("two"));
    for answer in [StoreResponse::Unknown, StoreResponse::Refused] {
        assert_eq!(last_will(&member), Some(("two".to_owned(), 17 * SECOND)));
        let now = member.wake_at().expect("it goes on").max(3 * SECOND);
        sign(&mut member, now, answer);
    }
    assert_eq!(last_will(&member), Some(("two".to_owned(), 17 * SECOND)));
    member.leave(9 * SECOND);
    sign(&mut member, 9 * SECOND, StoreResponse::Unknown);
    assert_eq!(last_will(&member), Some(("two".to_owned(), 17 * SECOND)), "it may be there yet");
    sign(&mut member, 12 * SECOND, StoreResponse::Done);
    assert_eq!(last_will(&member), None, "it was taken back");
}
