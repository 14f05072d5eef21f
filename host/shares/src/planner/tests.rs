use super::Planner;
use crate::{Listed, Pace, Plan, Sign, Tag};
use std::collections::HashMap;
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(15);

/// What the leader's clock says at first, in seconds.
const BEGUN: u64 = 10_000;

/// Members that leave signs, the leader among them, and what the leader makes of them, second by second.
struct Play {
    planner: Planner,
    plan: Plan,
    now: u64,
    members: Vec<(String, u64)>,
    /// How many seconds ago those signed that did not sign just before the look.
    ages: HashMap<String, u64>,
    /// The leader, and its signs.
    leader: &'static str,
    own: Vec<(Tag, Duration)>,
    /// How long lists take.
    late: u64,
    /// Of those that sign at another pace than that of the lease.
    paces: HashMap<String, Pace>,
}

impl Play {
    fn of(shares: u32, members: &[&str]) -> Self {
        let plan = Plan::first(shares);
        let members = members.iter().map(|name| ((*name).to_owned(), 0)).collect();
        Self {
            planner: Planner::begin("anna", Pace::of(LEASE), &plan),
            plan,
            now: BEGUN,
            members,
            ages: HashMap::new(),
            leader: "anna",
            own: (BEGUN - 60..=BEGUN).map(|at| (Tag::default(), Duration::from_secs(at))).collect(),
            late: 0,
            paces: HashMap::new(),
        }
    }

    /// The next second: those who are `silent` leave no sign. The plan, if it changes.
    fn second(&mut self, silent: &[&str]) -> Option<Plan> {
        self.look(silent);
        let plan = self.planner.plan(&self.plan, 7)?;
        self.plan = plan.clone();
        Some(plan)
    }

    /// The signs that are to be removed.
    fn look(&mut self, silent: &[&str]) -> Vec<String> {
        self.now += 1;
        for (name, mark) in &mut self.members {
            *mark += u64::from(!silent.contains(&name.as_str()));
        }
        let sign = |(name, mark): &(String, u64)| {
            let pace = self.paces.get(name).copied().unwrap_or(Pace::of(LEASE));
            let sign = Sign { member: name.clone(), weight: 1, most: None, pace };
            let age = Duration::from_secs(self.ages.get(name).copied().unwrap_or(0));
            Listed { sign, tag: Tag(mark.to_string()), age }
        };
        let signs = self.members.iter().map(sign).collect::<Vec<_>>();
        let now = Duration::from_secs(self.now);
        if !silent.contains(&self.leader) {
            let own = signs.iter().find(|listed| listed.sign.member == self.leader);
            self.own.extend(own.map(|own| (own.tag.clone(), now)));
        }
        let answered = now + Duration::from_secs(self.late);
        let gone = self.planner.looked(signs, &self.own, now, answered);
        gone.into_iter().map(|(name, _)| name).collect()
    }

    /// How many shares each one should hold.
    fn counts(&self) -> Vec<usize> {
        self.members.iter().map(|(name, _)| self.plan.of(name).count()).collect()
    }

    fn without(&mut self, name: &str) {
        self.members.retain(|(member, _)| member != name);
    }
}

#[test]
fn a_member_counts_after_its_second_sign() {
    let mut play = Play::of(4, &["anna", "ben"]);
    assert_eq!(play.second(&[]), None);
    assert_eq!(play.counts(), [0, 0]);
    let plan = play.second(&["ben"]).expect("anna counts");
    assert_eq!((plan.term, plan.version), (7, 1));
    assert_eq!(play.counts(), [4, 0]);
    assert_eq!(play.second(&[]).map(|plan| plan.version), Some(2));
    assert_eq!(play.counts(), [2, 2]);
}

#[test]
fn a_sign_that_was_left_by_the_dead_never_counts() {
    let mut play = Play::of(4, &["anna", "dead"]);
    for _ in 0..100 {
        play.second(&["dead"]);
        assert_ne!(play.counts()[1], 1);
    }
    assert_eq!(play.counts(), [4, 0]);
}

#[test]
fn nothing_changes_in_quiet_minutes() {
    let mut play = Play::of(32, &["anna", "ben", "cleo"]);
    let plans = (0..600).filter_map(|_| play.second(&[])).count();
    assert_eq!(plans, 1);
}

#[test]
fn who_is_silent_for_too_long_is_gone() {
    let mut play = Play::of(6, &["anna", "ben", "cleo"]);
    play.second(&[]);
    play.second(&[]);
    for second in 1..=15 {
        assert_eq!(play.second(&["cleo"]), None, "{second}");
    }
    assert!(play.second(&["cleo"]).is_some());
    assert_eq!(play.counts(), [3, 3, 0]);
    // It was only frozen: it counts again with its next sign.
    assert!(play.second(&[]).is_some());
    assert_eq!(play.counts(), [2, 2, 2]);
}

#[test]
fn who_takes_its_sign_back_is_gone_at_once() {
    let mut play = Play::of(6, &["anna", "ben", "cleo"]);
    play.second(&[]);
    play.second(&[]);
    play.without("cleo");
    assert!(play.second(&[]).is_some());
    assert_eq!(play.counts(), [3, 3]);
}

#[test]
fn silence_of_all_is_not_held_against_the_others() {
    let mut play = Play::of(6, &["anna", "ben", "cleo"]);
    play.second(&[]);
    play.second(&[]);
    // The store was down, or anna was frozen, until she signed a moment ago.
    play.now += 60;
    assert_eq!(play.second(&["ben", "cleo"]), None);
    for second in 1..=10 {
        assert_eq!(play.second(&["cleo"]), None, "{second}");
    }
    assert!(play.second(&["cleo"]).is_some());
    assert_eq!(play.counts(), [3, 3, 0]);
}

#[test]
fn members_that_sign_more_often_than_the_leader_are_judged_by_its_pace() {
    let mut play = Play::of(6, &["anna", "ben", "cleo"]);
    play.paces.insert("ben".to_owned(), Pace::of(Duration::from_secs(3)));
    play.second(&[]);
    play.second(&[]);
    for second in 1..=15 {
        assert_eq!(play.look(&["ben"]).len(), 0, "{second}");
    }
    assert_eq!(play.look(&["ben"]), ["ben"]);
}

#[test]
fn what_comes_while_a_list_is_on_its_way_does_not_count() {
    let mut play = Play::of(6, &["anna", "ben", "cleo"]);
    play.second(&[]);
    play.second(&[]);
    play.late = 10;
    for second in 1..=15 {
        assert_eq!(play.second(&["cleo"]), None, "{second}");
    }
    assert!(play.second(&["cleo"]).is_some());
}

#[test]
fn a_member_is_judged_by_the_pace_at_which_it_signs() {
    let mut play = Play::of(6, &["anna", "ben", "cleo"]);
    play.paces.insert("anna".to_owned(), Pace::of(Duration::from_secs(3)));
    play.paces.insert("ben".to_owned(), Pace::of(Duration::from_secs(3)));
    play.planner = Planner::begin("anna", Pace::of(Duration::from_secs(3)), &play.plan);
    play.second(&[]);
    play.second(&[]);
    assert_eq!(play.counts(), [2, 2, 2]);
    // Cleo signs every five seconds only, and ben no more.
    for second in 1..=3 {
        assert_eq!(play.look(&["ben", "cleo"]).len(), 0, "{second}");
    }
    assert_eq!(play.look(&["ben", "cleo"]), ["ben"]);
    for second in 5..15 {
        assert!(!play.look(&["ben", "cleo"]).contains(&"cleo".to_owned()), "{second}");
    }
    play.look(&["ben", "cleo"]);
    assert!(play.look(&["ben", "cleo"]).contains(&"cleo".to_owned()));
}

#[test]
fn a_list_without_the_leaders_own_sign_sends_nobody_away() {
    let mut play = Play::of(6, &["anna", "ben", "cleo"]);
    play.second(&[]);
    play.second(&[]);
    let all = std::mem::take(&mut play.members);
    assert_eq!(play.second(&[]), None);
    play.members = all;
    assert_eq!(play.second(&[]), None);
    assert_eq!(play.counts(), [2, 2, 2]);
}

#[test]
fn the_next_leader_goes_on_with_the_plan() {
    let mut play = Play::of(6, &["anna", "ben", "cleo"]);
    play.second(&[]);
    play.second(&[]);
    play.planner = Planner::begin("ben", Pace::of(LEASE), &play.plan);
    play.leader = "ben";
    for _ in 0..=15 {
        assert_eq!(play.second(&["anna"]), None);
    }
    assert!(play.second(&["anna"]).is_some());
    assert_eq!(play.counts(), [0, 3, 3]);
    assert_eq!((play.plan.term, play.plan.version), (7, 2));
}

/// Ben coordinates after anna, whose last sign is so many seconds old, as the service says. None of ben's has been missing
/// for so long.
fn after_anna(age: u64, steady: u64) -> Play {
    let mut play = Play::of(6, &["anna", "ben", "cleo"]);
    play.second(&[]);
    play.second(&[]);
    play.planner = Planner::begin("ben", Pace::of(LEASE), &play.plan);
    play.ages.insert("anna".to_owned(), age);
    play.leader = "ben";
    let since = Duration::from_secs(play.now - steady);
    play.own.retain(|(_, sent)| *sent >= since);
    play
}

#[test]
fn the_next_leader_takes_the_silence_before_its_term_from_the_service() {
    // The service's dates are in whole seconds.
    let mut play = after_anna(16, 60);
    assert_eq!(play.second(&["anna"]), None);
    assert!(play.second(&["anna"]).is_some());
    assert_eq!(play.counts(), [0, 3, 3]);
    assert!(after_anna(17, 60).second(&["anna"]).is_some());
    // From then on its own clock counts, whatever the service's does.
    let mut play = after_anna(0, 60);
    play.second(&["anna"]);
    play.ages.insert("anna".to_owned(), 3_600);
    assert_eq!(play.second(&["anna"]), None);
}

#[test]
fn the_leaders_next_sign_may_be_answered_before_the_list_that_does_not_show_it() {
    // The one that the list shows was sent 5 s ago.
    let mut play = after_anna(18, 60);
    let now = Duration::from_secs(play.now + 1);
    play.own.retain(|(_, sent)| *sent <= now - Duration::from_secs(5));
    let shown =
        play.members.iter().find(|(name, _)| name == "ben").map(|(_, mark)| mark.to_string());
    play.own.last_mut().unwrap().0 = Tag(shown.unwrap());
    play.own.push((Tag("next".to_owned()), now));
    play.ages.insert("ben".to_owned(), 5);
    assert!(play.second(&["anna", "ben"]).is_some());
    assert_eq!(play.counts(), [0, 3, 3]);
}

#[test]
fn nobody_is_gone_because_the_clock_of_the_service_is_wrong() {
    let mut play = after_anna(100, 60);
    play.ages.extend(["ben", "cleo"].map(|name| (name.to_owned(), 100)));
    assert_eq!(play.second(&["anna"]), None);
    assert_eq!(play.counts(), [2, 2, 2]);
}

#[test]
fn silence_of_all_before_a_term_is_not_held_against_the_others() {
    // The account was down until a moment ago.
    let mut play = after_anna(60, 0);
    for second in 1..=10 {
        assert_eq!(play.second(&["anna"]), None, "{second}");
    }
    assert!(play.second(&["anna"]).is_some());
    assert_eq!(play.counts(), [0, 3, 3]);
}

#[test]
fn the_next_leader_knows_who_is_there_and_holds_nothing() {
    let mut play = Play::of(2, &["anna", "ben", "cleo"]);
    play.second(&[]);
    play.second(&[]);
    assert_eq!(play.counts(), [1, 1, 0]);
    play.planner = Planner::begin("ben", Pace::of(LEASE), &play.plan);
    play.without("anna");
    assert!(play.second(&[]).is_some());
    assert_eq!(play.counts(), [1, 1]);
}

#[test]
fn the_sign_of_one_that_is_gone_is_removed() {
    let mut play = Play::of(6, &["anna", "ben", "cleo"]);
    play.second(&[]);
    play.second(&[]);
    let mut gone = Vec::new();
    for _ in 0..16 {
        gone.extend(play.look(&["cleo"]));
    }
    assert_eq!(gone, ["cleo"]);
}

#[test]
fn one_that_leaves_plans_the_others_only() {
    let mut play = Play::of(6, &["anna", "ben", "cleo"]);
    play.second(&[]);
    play.second(&[]);
    play.planner.leaves = true;
    play.without("anna");
    assert!(play.second(&[]).is_some());
    assert_eq!(play.counts(), [3, 3]);
}
