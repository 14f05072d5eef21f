use super::Planner;
use crate::{ListedSign, Plan, Sign, SignTiming, Tag};
use std::collections::HashMap;
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(15);

/// Initial time of the leader's clock, in seconds.
const START: u64 = 10_000;

/// Members that write signs, including the leader, and the leader's planning, second by second.
struct Scenario {
    planner: Planner,
    plan: Plan,
    now: u64,
    members: Vec<(String, u64)>,
    /// Age in seconds of the signs that were not written just before the list.
    ages: HashMap<String, u64>,
    /// The leader, and its signs.
    leader: &'static str,
    own_signs: Vec<(Tag, Duration)>,
    /// Duration of lists.
    late: u64,
    /// Members whose interval between signs differs from that of the lease.
    timings: HashMap<String, SignTiming>,
}

impl Scenario {
    fn new(shares: u32, members: &[&str]) -> Self {
        let plan = Plan::unassigned(shares);
        let members = members.iter().map(|name| ((*name).to_owned(), 0)).collect();
        Self {
            planner: Planner::new("anna", SignTiming::from_failover(LEASE), &plan),
            plan,
            now: START,
            members,
            ages: HashMap::new(),
            leader: "anna",
            own_signs: (START - 60..=START)
                .map(|at| (Tag::default(), Duration::from_secs(at)))
                .collect(),
            late: 0,
            timings: HashMap::new(),
        }
    }

    /// Advances by a second in which the `silent` members write no sign. Returns a new plan if it
    /// changed.
    fn next_second(&mut self, silent: &[&str]) -> Option<Plan> {
        self.list(silent);
        let plan = self.planner.plan(&self.plan, 7)?;
        self.plan = plan.clone();
        Some(plan)
    }

    /// Returns the signs to remove.
    fn list(&mut self, silent: &[&str]) -> Vec<String> {
        self.now += 1;
        for (name, mark) in &mut self.members {
            *mark += u64::from(!silent.contains(&name.as_str()));
        }
        let sign = |(name, mark): &(String, u64)| {
            let timing =
                self.timings.get(name).copied().unwrap_or(SignTiming::from_failover(LEASE));
            let sign = Sign { member: name.clone(), weight: 1, max_shares: None, timing };
            let age = Duration::from_secs(self.ages.get(name).copied().unwrap_or(0));
            ListedSign { sign, tag: Tag(mark.to_string()), age }
        };
        let signs = self.members.iter().map(sign).collect::<Vec<_>>();
        let now = Duration::from_secs(self.now);
        if !silent.contains(&self.leader) {
            let own_sign = signs.iter().find(|listed| listed.sign.member == self.leader);
            self.own_signs.extend(own_sign.map(|own_sign| (own_sign.tag.clone(), now)));
        }
        let answered = now + Duration::from_secs(self.late);
        let gone = self.planner.on_list(signs, &self.own_signs, now, answered);
        gone.into_iter().map(|(name, _)| name).collect()
    }

    /// Returns the number of shares of each member.
    fn share_counts(&self) -> Vec<usize> {
        self.members.iter().map(|(name, _)| self.plan.shares_of(name).count()).collect()
    }

    fn remove_member(&mut self, name: &str) {
        self.members.retain(|(member, _)| member != name);
    }
}

#[test]
fn a_member_counts_after_its_second_sign() {
    let mut play = Scenario::new(4, &["anna", "ben"]);
    assert_eq!(play.next_second(&[]), None);
    assert_eq!(play.share_counts(), [0, 0]);
    let plan = play.next_second(&["ben"]).expect("anna counts");
    assert_eq!((plan.term, plan.version), (7, 1));
    assert_eq!(play.share_counts(), [4, 0]);
    assert_eq!(play.next_second(&[]).map(|plan| plan.version), Some(2));
    assert_eq!(play.share_counts(), [2, 2]);
}

#[test]
fn a_stale_sign_never_counts() {
    let mut play = Scenario::new(4, &["anna", "dead"]);
    for _ in 0..100 {
        play.next_second(&["dead"]);
        assert_ne!(play.share_counts()[1], 1);
    }
    assert_eq!(play.share_counts(), [4, 0]);
}

#[test]
fn a_stable_membership_keeps_its_plan() {
    let mut play = Scenario::new(32, &["anna", "ben", "cleo"]);
    let plans = (0..600).filter_map(|_| play.next_second(&[])).count();
    assert_eq!(plans, 1);
}

#[test]
fn a_silent_member_is_gone_after_the_timeout() {
    let mut play = Scenario::new(6, &["anna", "ben", "cleo"]);
    play.next_second(&[]);
    play.next_second(&[]);
    for second in 1..=15 {
        assert_eq!(play.next_second(&["cleo"]), None, "{second}");
    }
    assert!(play.next_second(&["cleo"]).is_some());
    assert_eq!(play.share_counts(), [3, 3, 0]);
    // The member was only frozen: its next sign makes it count again.
    assert!(play.next_second(&[]).is_some());
    assert_eq!(play.share_counts(), [2, 2, 2]);
}

#[test]
fn a_withdrawn_sign_removes_its_member_at_once() {
    let mut play = Scenario::new(6, &["anna", "ben", "cleo"]);
    play.next_second(&[]);
    play.next_second(&[]);
    play.remove_member("cleo");
    assert!(play.next_second(&[]).is_some());
    assert_eq!(play.share_counts(), [3, 3]);
}

#[test]
fn silence_of_all_members_removes_none() {
    let mut play = Scenario::new(6, &["anna", "ben", "cleo"]);
    play.next_second(&[]);
    play.next_second(&[]);
    // The store was down, or anna was frozen, and her last sign is recent.
    play.now += 60;
    assert_eq!(play.next_second(&["ben", "cleo"]), None);
    for second in 1..=10 {
        assert_eq!(play.next_second(&["cleo"]), None, "{second}");
    }
    assert!(play.next_second(&["cleo"]).is_some());
    assert_eq!(play.share_counts(), [3, 3, 0]);
}

#[test]
fn the_slower_timing_of_the_leader_applies_to_a_faster_member() {
    let mut play = Scenario::new(6, &["anna", "ben", "cleo"]);
    play.timings.insert("ben".to_owned(), SignTiming::from_failover(Duration::from_secs(3)));
    play.next_second(&[]);
    play.next_second(&[]);
    for second in 1..=15 {
        assert_eq!(play.list(&["ben"]).len(), 0, "{second}");
    }
    assert_eq!(play.list(&["ben"]), ["ben"]);
}

#[test]
fn time_while_a_list_is_in_flight_does_not_count() {
    let mut play = Scenario::new(6, &["anna", "ben", "cleo"]);
    play.next_second(&[]);
    play.next_second(&[]);
    play.late = 10;
    for second in 1..=15 {
        assert_eq!(play.next_second(&["cleo"]), None, "{second}");
    }
    assert!(play.next_second(&["cleo"]).is_some());
}

#[test]
fn the_timeout_of_a_member_follows_its_own_timing() {
    let mut play = Scenario::new(6, &["anna", "ben", "cleo"]);
    play.timings.insert("anna".to_owned(), SignTiming::from_failover(Duration::from_secs(3)));
    play.timings.insert("ben".to_owned(), SignTiming::from_failover(Duration::from_secs(3)));
    play.planner =
        Planner::new("anna", SignTiming::from_failover(Duration::from_secs(3)), &play.plan);
    play.next_second(&[]);
    play.next_second(&[]);
    assert_eq!(play.share_counts(), [2, 2, 2]);
    // Cleo signs only every five seconds, and ben does not sign any more.
    for second in 1..=3 {
        assert_eq!(play.list(&["ben", "cleo"]).len(), 0, "{second}");
    }
    assert_eq!(play.list(&["ben", "cleo"]), ["ben"]);
    for second in 5..15 {
        assert!(!play.list(&["ben", "cleo"]).contains(&"cleo".to_owned()), "{second}");
    }
    play.list(&["ben", "cleo"]);
    assert!(play.list(&["ben", "cleo"]).contains(&"cleo".to_owned()));
}

#[test]
fn a_list_without_the_leaders_sign_removes_no_member() {
    let mut play = Scenario::new(6, &["anna", "ben", "cleo"]);
    play.next_second(&[]);
    play.next_second(&[]);
    let all = std::mem::take(&mut play.members);
    assert_eq!(play.next_second(&[]), None);
    play.members = all;
    assert_eq!(play.next_second(&[]), None);
    assert_eq!(play.share_counts(), [2, 2, 2]);
}

#[test]
fn the_next_leader_goes_on_with_the_plan() {
    let mut play = Scenario::new(6, &["anna", "ben", "cleo"]);
    play.next_second(&[]);
    play.next_second(&[]);
    play.planner = Planner::new("ben", SignTiming::from_failover(LEASE), &play.plan);
    play.leader = "ben";
    for _ in 0..=15 {
        assert_eq!(play.next_second(&["anna"]), None);
    }
    assert!(play.next_second(&["anna"]).is_some());
    assert_eq!(play.share_counts(), [0, 3, 3]);
    assert_eq!((play.plan.term, play.plan.version), (7, 2));
}

/// Ben coordinates after anna, whose last sign is `age` seconds old on the service's clock. Ben's
/// own signs have been complete for `steady` seconds.
fn successor_of_anna(age: u64, steady: u64) -> Scenario {
    let mut play = Scenario::new(6, &["anna", "ben", "cleo"]);
    play.next_second(&[]);
    play.next_second(&[]);
    play.planner = Planner::new("ben", SignTiming::from_failover(LEASE), &play.plan);
    play.ages.insert("anna".to_owned(), age);
    play.leader = "ben";
    let since = Duration::from_secs(play.now - steady);
    play.own_signs.retain(|(_, sent)| *sent >= since);
    play
}

#[test]
fn the_next_leader_takes_the_silence_before_its_term_from_the_service() {
    // The service's dates are whole seconds.
    let mut play = successor_of_anna(16, 60);
    assert_eq!(play.next_second(&["anna"]), None);
    assert!(play.next_second(&["anna"]).is_some());
    assert_eq!(play.share_counts(), [0, 3, 3]);
    assert!(successor_of_anna(17, 60).next_second(&["anna"]).is_some());
    // From then on only the leader's own clock counts.
    let mut play = successor_of_anna(0, 60);
    play.next_second(&["anna"]);
    play.ages.insert("anna".to_owned(), 3_600);
    assert_eq!(play.next_second(&["anna"]), None);
}

#[test]
fn the_leaders_next_sign_may_be_answered_before_the_list_that_does_not_show_it() {
    // The listed sign was sent 5 s ago.
    let mut play = successor_of_anna(18, 60);
    let now = Duration::from_secs(play.now + 1);
    play.own_signs.retain(|(_, sent)| *sent <= now - Duration::from_secs(5));
    let shown =
        play.members.iter().find(|(name, _)| name == "ben").map(|(_, mark)| mark.to_string());
    play.own_signs.last_mut().unwrap().0 = Tag(shown.unwrap());
    play.own_signs.push((Tag("next".to_owned()), now));
    play.ages.insert("ben".to_owned(), 5);
    assert!(play.next_second(&["anna", "ben"]).is_some());
    assert_eq!(play.share_counts(), [0, 3, 3]);
}

#[test]
fn a_wrong_service_clock_removes_no_member() {
    let mut play = successor_of_anna(100, 60);
    play.ages.extend(["ben", "cleo"].map(|name| (name.to_owned(), 100)));
    assert_eq!(play.next_second(&["anna"]), None);
    assert_eq!(play.share_counts(), [2, 2, 2]);
}

#[test]
fn silence_of_all_before_a_term_removes_none() {
    // The account was down until a moment ago.
    let mut play = successor_of_anna(60, 0);
    for second in 1..=10 {
        assert_eq!(play.next_second(&["anna"]), None, "{second}");
    }
    assert!(play.next_second(&["anna"]).is_some());
    assert_eq!(play.share_counts(), [0, 3, 3]);
}

#[test]
fn the_next_leader_keeps_members_without_shares() {
    let mut play = Scenario::new(2, &["anna", "ben", "cleo"]);
    play.next_second(&[]);
    play.next_second(&[]);
    assert_eq!(play.share_counts(), [1, 1, 0]);
    play.planner = Planner::new("ben", SignTiming::from_failover(LEASE), &play.plan);
    play.remove_member("anna");
    assert!(play.next_second(&[]).is_some());
    assert_eq!(play.share_counts(), [1, 1]);
}

#[test]
fn the_sign_of_a_gone_member_is_removed() {
    let mut play = Scenario::new(6, &["anna", "ben", "cleo"]);
    play.next_second(&[]);
    play.next_second(&[]);
    let mut gone = Vec::new();
    for _ in 0..16 {
        gone.extend(play.list(&["cleo"]));
    }
    assert_eq!(gone, ["cleo"]);
}

#[test]
fn a_leaving_leader_plans_only_the_others() {
    let mut play = Scenario::new(6, &["anna", "ben", "cleo"]);
    play.next_second(&[]);
    play.next_second(&[]);
    play.planner.is_leaving = true;
    play.remove_member("anna");
    assert!(play.next_second(&[]).is_some());
    assert_eq!(play.share_counts(), [3, 3]);
}
