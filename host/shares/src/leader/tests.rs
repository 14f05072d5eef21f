use super::{CoordinatorProblem, Leader, MAX_TERM_LEAD};
use crate::{ListedSign, Plan, Share, Sign, SignTiming, StoreRequest, StoreResponse, Tag};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// A leader, and the plan in the store.
struct Scenario {
    leader: Leader,
    stored: Option<(Plan, u64)>,
    written: u64,
    held_shares: Vec<Share>,
    /// True if the store refuses plans.
    refuses_writes: bool,
    members: Vec<&'static str>,
    /// Member whose sign is 17 s old.
    silent_member: &'static str,
    /// The leader's own signs, and their send times.
    own_signs: Vec<(Tag, Duration)>,
    now: u64,
    sent: Vec<StoreRequest>,
}

impl Scenario {
    fn new(shares: u32, members: &[&'static str]) -> Self {
        let leader = Leader::new(
            "anna",
            7,
            shares,
            SignTiming::from_failover(15 * SECOND),
            30 * SECOND,
            Duration::ZERO,
        );
        Self {
            leader,
            stored: None,
            written: 0,
            held_shares: Vec::new(),
            refuses_writes: false,
            members: members.into(),
            silent_member: "",
            own_signs: Vec::new(),
            now: 0,
            sent: Vec::new(),
        }
    }

    fn respond(&mut self, request: &StoreRequest) -> StoreResponse {
        let tag = self.stored.as_ref().map(|(_, tag)| Tag(tag.to_string()));
        match request {
            StoreRequest::ReadPlan(unless) if unless.is_some() && *unless == tag => {
                StoreResponse::PlanUnchanged
            }
            StoreRequest::ReadPlan(_) => match self.stored.clone() {
                Some((plan, tag)) => StoreResponse::Plan(plan, Tag(tag.to_string())),
                None => StoreResponse::NoPlan,
            },
            StoreRequest::ListSigns => {
                let sign = |member: &&str| {
                    let pace = SignTiming::from_failover(15 * SECOND);
                    let sign = Sign {
                        member: (*member).to_owned(),
                        weight: 1,
                        max_shares: None,
                        timing: pace,
                    };
                    let age =
                        if *member == self.silent_member { 17 * SECOND } else { Duration::ZERO };
                    ListedSign { sign, tag: Tag(self.now.to_string()), age }
                };
                StoreResponse::Signs(self.members.iter().map(sign).collect())
            }
            StoreRequest::WritePlan(plan, over) if *over == tag && !self.refuses_writes => {
                self.write(plan.clone());
                StoreResponse::Plan(plan.clone(), Tag(self.written.to_string()))
            }
            StoreRequest::WritePlan(..) => StoreResponse::Refused,
            StoreRequest::CloseShares { shares, .. } => {
                let free = shares.iter().filter(|share| !self.held_shares.contains(share));
                StoreResponse::Closed(free.copied().collect())
            }
            _ => StoreResponse::Done,
        }
    }

    fn write(&mut self, plan: Plan) {
        self.written += 1;
        self.stored = Some((plan, self.written));
    }

    /// Runs the requests of a round, one second later.
    fn round(&mut self) -> usize {
        self.now += 1;
        self.sent.clear();
        let now = Duration::from_secs(self.now);
        let mut next_request = self.leader.next_request(now);
        while let Some(request) = next_request {
            let answer = self.respond(&request);
            next_request = self.leader.on_response(&request, answer, &self.own_signs, now);
            self.sent.push(request);
        }
        self.sent.len()
    }

    fn plan(&self) -> &Plan {
        &self.stored.as_ref().expect("a plan was written").0
    }
}

#[test]
fn a_plan_is_written_once_members_count_and_then_only_read() {
    let mut play = Scenario::new(4, &["anna", "ben"]);
    assert_eq!(play.round(), 2);
    assert_eq!(play.stored, None);
    assert_eq!(play.round(), 3);
    assert_eq!((play.plan().term, play.plan().shares_of("ben").count()), (7, 2));
    for _ in 0..100 {
        assert_eq!(play.round(), 2, "{:?}", play.sent);
    }
}

#[test]
fn a_plan_changed_meanwhile_is_not_overwritten() {
    let mut play = Scenario::new(4, &["anna", "ben"]);
    play.round();
    play.round();
    play.members.push("cleo");
    play.round();
    // Another number of shares is requested after the leader has read the plan.
    play.now += 1;
    let now = Duration::from_secs(play.now);
    let read = play.leader.next_request(now).expect("it is time");
    let answer = play.respond(&read);
    let list = play.leader.on_response(&read, answer, &[], now).expect("it lists");
    let answer = play.respond(&list);
    let reshared = play.plan().clone().reshare(8);
    play.write(reshared.clone());
    let write = play.leader.on_response(&list, answer, &[], now).expect("cleo counts");
    let answer = play.respond(&write);
    assert_eq!(play.leader.on_response(&write, answer, &[], now), None);
    assert_eq!(play.plan(), &reshared);
}

#[test]
fn a_member_silent_before_the_term_is_gone_at_the_first_list() {
    let mut play = Scenario::new(2, &["anna", "ben"]);
    (play.silent_member, play.now) = ("ben", 60);
    let members = ["anna".to_owned(), "ben".to_owned()].into();
    let plan = Plan {
        term: 6,
        version: 1,
        members,
        shares: vec![Some(0), Some(1)],
        ..Plan::unassigned(2)
    };
    play.write(plan.clone());
    play.round();
    assert_eq!(play.plan(), &plan, "nothing is known of its own signs");
    play.leader = Scenario::new(2, &[]).leader;
    play.own_signs = (40..=60).map(|at| (Tag::default(), at * SECOND)).collect();
    play.round();
    assert_eq!(play.plan().shares_of("anna").count(), 2);
    assert!(matches!(play.sent.last(), Some(StoreRequest::RemoveSign(name, _)) if name == "ben"));
}

#[test]
fn members_of_the_plan_count_at_the_first_list() {
    let mut play = Scenario::new(4, &["anna", "ben"]);
    let now = Duration::ZERO;
    let read = play.leader.next_request(now).expect("it is time");
    let list = play.leader.on_response(&read, StoreResponse::NoPlan, &[], now).expect("it lists");
    assert_eq!(play.leader.on_response(&list, StoreResponse::Unknown, &[], now), None);
    // The previous leader had written a plan.
    let members = ["ben".to_owned()].into();
    let plan =
        Plan { term: 6, version: 1, members, shares: vec![Some(0); 4], ..Plan::unassigned(4) };
    play.write(plan.clone());
    play.round();
    assert_eq!(play.plan(), &plan);
}

#[test]
fn a_plan_of_a_higher_term_keeps_its_term() {
    let mut play = Scenario::new(4, &["anna", "ben"]);
    play.write(Plan { term: 1_000, version: 3, ..Plan::unassigned(4) });
    play.round();
    play.round();
    assert_eq!((play.plan().term, play.plan().shares_of("ben").count()), (1_000, 2));
    assert_eq!((play.leader.problem(), play.leader.has_left()), (None, false));
}

#[test]
fn an_unreachable_term_is_reported_and_the_plan_stays() {
    let mut play = Scenario::new(4, &["anna", "ben"]);
    let plan = Plan { term: 7 + MAX_TERM_LEAD + 1, ..Plan::unassigned(4) };
    play.write(plan.clone());
    for _ in 0..3 {
        assert_eq!(play.round(), 1);
        assert_eq!(play.leader.problem(), Some(CoordinatorProblem::Term(plan.term)));
    }
    assert_eq!(play.plan(), &plan);
}

/// Runs rounds until the leader must resign, and returns their number.
fn rounds_until(play: &mut Scenario, problem: CoordinatorProblem) -> u64 {
    while play.leader.problem() != Some(problem) {
        play.round();
        assert!(play.now < 60, "{:?}", play.leader);
    }
    play.now
}

#[test]
fn failing_signs_are_reported_after_three_periods() {
    let mut play = Scenario::new(4, &["anna", "ben"]);
    assert_eq!(rounds_until(&mut play, CoordinatorProblem::Signs), 16, "none since the term began");
    let mut play = Scenario::new(4, &["anna", "ben"]);
    play.own_signs = vec![(Tag("1".to_owned()), 5 * SECOND)];
    assert_eq!(rounds_until(&mut play, CoordinatorProblem::Signs), 21);
}

#[test]
fn failing_rounds_are_reported_after_three_periods() {
    let mut play = Scenario::new(4, &["anna", "ben"]);
    play.refuses_writes = true;
    play.own_signs = vec![(Tag("1".to_owned()), 60 * SECOND)];
    // The first plan is written in the second round.
    assert_eq!(rounds_until(&mut play, CoordinatorProblem::Rounds), 18);
    let mut play = Scenario::new(4, &["anna", "ben"]);
    play.own_signs = vec![(Tag("1".to_owned()), 60 * SECOND)];
    for round in 0..60 {
        // A successful round restarts the count.
        play.refuses_writes = round % 12 != 0;
        play.members = if round % 2 == 0 { vec!["anna", "ben"] } else { vec!["anna"] };
        play.round();
        assert_eq!(play.leader.problem(), None, "{round}");
    }
}

#[test]
fn a_new_number_of_shares_waits_until_all_of_the_old_ones_are_closed() {
    let mut play = Scenario::new(4, &["anna", "ben"]);
    play.round();
    play.round();
    let held_share = Share { split: 1, index: 2 };
    play.held_shares.push(held_share);
    let reshared = play.plan().clone().reshare(6);
    play.write(reshared);
    for _ in 0..5 {
        play.round();
        assert_eq!(play.plan().split, 1);
    }
    assert_eq!(
        play.sent.last(),
        Some(&StoreRequest::CloseShares { shares: vec![held_share], count: 4 })
    );
    play.held_shares.clear();
    play.round();
    let plan = play.plan();
    assert_eq!((plan.split, plan.shares.len(), plan.next), (2, 6, None));
    assert_eq!(plan.shares_of("anna").count(), 3);
}

#[test]
fn an_overdue_share_lease_is_broken_and_again_after_the_same_time() {
    let mut play = Scenario::new(4, &["anna", "ben"]);
    play.own_signs = vec![(Tag("1".to_owned()), 600 * SECOND)];
    play.round();
    play.round();
    let [one, other] = [1, 3].map(|index| Share { split: 1, index });
    play.held_shares = vec![one, other];
    let reshared = play.plan().clone().reshare(6);
    play.write(reshared);
    let (mut broken, first) = (Vec::new(), play.now + 1);
    for _ in 0..70 {
        play.round();
        let breaks = play
            .sent
            .iter()
            .filter(|request| matches!(request, StoreRequest::BreakLease { .. }))
            .cloned();
        broken.extend(breaks.map(|request| (play.now - first, request)));
    }
    let break_of = |share| StoreRequest::BreakLease { share, count: 4 };
    assert_eq!(
        broken,
        [(31, break_of(other)), (31, break_of(one)), (62, break_of(other)), (62, break_of(one))]
    );
    // A later split has its own time limit.
    play.held_shares.clear();
    play.round();
    assert_eq!(play.plan().split, 2);
    play.held_shares = vec![Share { split: 2, index: 0 }];
    let reshared = play.plan().clone().reshare(3);
    play.write(reshared);
    for _ in 0..30 {
        play.round();
        assert!(
            play.sent.iter().all(|request| !matches!(request, StoreRequest::BreakLease { .. })),
            "{:?}",
            play.sent
        );
    }
}

#[test]
fn a_leaving_coordinator_reassigns_its_own_shares_first() {
    let mut play = Scenario::new(4, &["anna", "ben"]);
    play.round();
    play.round();
    assert!(!play.leader.has_left());
    play.leader.leave(Duration::from_secs(play.now));
    play.members.remove(0);
    play.round();
    assert!(play.leader.has_left());
    assert_eq!(play.plan().shares_of("ben").count(), 4);
}

#[test]
fn a_write_in_flight_does_not_count_as_the_leaving_plan() {
    let mut play = Scenario::new(4, &["anna", "ben"]);
    play.round();
    play.round();
    play.members.push("cleo");
    play.round();
    play.now += 1;
    let now = Duration::from_secs(play.now);
    let mut request = play.leader.next_request(now).expect("it is time");
    while !matches!(request, StoreRequest::WritePlan(..)) {
        let answer = play.respond(&request);
        request = play.leader.on_response(&request, answer, &[], now).expect("cleo counts");
    }
    play.leader.leave(now);
    let answer = play.respond(&request);
    assert_eq!(play.leader.on_response(&request, answer, &[], now), None);
    assert!(!play.leader.has_left() && play.plan().has_member("anna"));
    play.round();
    assert!(play.leader.has_left() && !play.plan().has_member("anna"));
}

/// With many members, lists are rare.
#[test]
fn leaving_during_a_round_shortens_the_next_wait() {
    let many = (0..1_000).map(|n| &*format!("m{n}").leak()).collect::<Vec<&'static str>>();
    let mut play = Scenario::new(1_000, &many);
    play.round();
    play.now += 60;
    play.round();
    let round_start = Duration::from_secs(play.now + 60);
    let request = play.leader.next_request(round_start).expect("it is time");
    play.leader.leave(round_start);
    assert_eq!(play.leader.on_response(&request, StoreResponse::Unknown, &[], round_start), None);
    assert_eq!(play.leader.wake_at(), Some(round_start + SECOND));
}

#[test]
fn a_request_that_fails_ends_the_round() {
    let mut play = Scenario::new(4, &["anna"]);
    for _ in 0..3 {
        play.now += 1;
        let now = Duration::from_secs(play.now);
        let request = play.leader.next_request(now).expect("it is time");
        assert_eq!(request, StoreRequest::ReadPlan(None));
        assert_eq!(play.leader.on_response(&request, StoreResponse::Unknown, &[], now), None);
        assert_eq!(play.leader.next_request(now), None, "not before its time");
    }
}
