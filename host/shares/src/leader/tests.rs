use super::{Leader, MOST_AHEAD, Trouble};
use crate::{Answer, Ask, Listed, Pace, Plan, Share, Sign, Tag};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// A leader, and the plan as the store has it.
struct Play {
    leader: Leader,
    stored: Option<(Plan, u64)>,
    written: u64,
    held: Vec<Share>,
    /// Plans are refused.
    refuses: bool,
    members: Vec<&'static str>,
    /// Whose sign is 17 s old.
    silent: &'static str,
    /// When it signed itself.
    own: Vec<(Tag, Duration)>,
    now: u64,
    asked: Vec<Ask>,
}

impl Play {
    fn of(shares: u32, members: &[&'static str]) -> Self {
        let leader =
            Leader::begin("anna", 7, shares, Pace::of(15 * SECOND), 30 * SECOND, Duration::ZERO);
        Self {
            leader,
            stored: None,
            written: 0,
            held: Vec::new(),
            refuses: false,
            members: members.into(),
            silent: "",
            own: Vec::new(),
            now: 0,
            asked: Vec::new(),
        }
    }

    fn answer(&mut self, ask: &Ask) -> Answer {
        let tag = self.stored.as_ref().map(|(_, tag)| Tag(tag.to_string()));
        match ask {
            Ask::ReadPlan(unless) if unless.is_some() && *unless == tag => Answer::SamePlan,
            Ask::ReadPlan(_) => match self.stored.clone() {
                Some((plan, tag)) => Answer::Plan(plan, Tag(tag.to_string())),
                None => Answer::NoPlan,
            },
            Ask::List => {
                let sign = |member: &&str| {
                    let pace = Pace::of(15 * SECOND);
                    let sign = Sign { member: (*member).to_owned(), weight: 1, most: None, pace };
                    let age = if *member == self.silent { 17 * SECOND } else { Duration::ZERO };
                    Listed { sign, tag: Tag(self.now.to_string()), age }
                };
                Answer::Signs(self.members.iter().map(sign).collect())
            }
            Ask::WritePlan(plan, over) if *over == tag && !self.refuses => {
                self.write(plan.clone());
                Answer::Plan(plan.clone(), Tag(self.written.to_string()))
            }
            Ask::WritePlan(..) => Answer::Refused,
            Ask::Close { shares, .. } => {
                let free = shares.iter().filter(|share| !self.held.contains(share));
                Answer::Closed(free.copied().collect())
            }
            _ => Answer::Done,
        }
    }

    fn write(&mut self, plan: Plan) {
        self.written += 1;
        self.stored = Some((plan, self.written));
    }

    /// A second later: the requests of a round.
    fn round(&mut self) -> usize {
        self.now += 1;
        self.asked.clear();
        let now = Duration::from_secs(self.now);
        let mut next = self.leader.next(now);
        while let Some(ask) = next {
            let answer = self.answer(&ask);
            next = self.leader.answered(&ask, answer, &self.own, now);
            self.asked.push(ask);
        }
        self.asked.len()
    }

    fn plan(&self) -> &Plan {
        &self.stored.as_ref().expect("a plan was written").0
    }
}

#[test]
fn it_writes_a_plan_when_members_are_there_and_then_only_looks() {
    let mut play = Play::of(4, &["anna", "ben"]);
    assert_eq!(play.round(), 2);
    assert_eq!(play.stored, None);
    assert_eq!(play.round(), 3);
    assert_eq!((play.plan().term, play.plan().of("ben").count()), (7, 2));
    for _ in 0..100 {
        assert_eq!(play.round(), 2, "{:?}", play.asked);
    }
}

#[test]
fn it_writes_nothing_over_what_it_has_not_read() {
    let mut play = Play::of(4, &["anna", "ben"]);
    play.round();
    play.round();
    play.members.push("cleo");
    play.round();
    // Another number of shares is asked for after it read the plan.
    play.now += 1;
    let now = Duration::from_secs(play.now);
    let read = play.leader.next(now).expect("it is time");
    let answer = play.answer(&read);
    let list = play.leader.answered(&read, answer, &[], now).expect("it lists");
    let answer = play.answer(&list);
    let asked = play.plan().clone().reshare(8);
    play.write(asked.clone());
    let write = play.leader.answered(&list, answer, &[], now).expect("cleo counts");
    let answer = play.answer(&write);
    assert_eq!(play.leader.answered(&write, answer, &[], now), None);
    assert_eq!(play.plan(), &asked);
}

#[test]
fn one_that_was_silent_before_its_term_is_gone_when_it_looks_for_the_first_time() {
    let mut play = Play::of(2, &["anna", "ben"]);
    (play.silent, play.now) = ("ben", 60);
    let members = ["anna".to_owned(), "ben".to_owned()].into();
    let plan =
        Plan { term: 6, version: 1, members, shares: vec![Some(0), Some(1)], ..Plan::first(2) };
    play.write(plan.clone());
    play.round();
    assert_eq!(play.plan(), &plan, "nothing is known of its own signs");
    play.leader = Play::of(2, &[]).leader;
    play.own = (40..=60).map(|at| (Tag::default(), at * SECOND)).collect();
    play.round();
    assert_eq!(play.plan().of("anna").count(), 2);
    assert!(matches!(play.asked.last(), Some(Ask::Remove(name, _)) if name == "ben"));
}

#[test]
fn those_count_whom_the_plan_names_when_it_looks_for_the_first_time() {
    let mut play = Play::of(4, &["anna", "ben"]);
    let now = Duration::ZERO;
    let read = play.leader.next(now).expect("it is time");
    let list = play.leader.answered(&read, Answer::NoPlan, &[], now).expect("it lists");
    assert_eq!(play.leader.answered(&list, Answer::Unknown, &[], now), None);
    // The leader before had written one.
    let members = ["ben".to_owned()].into();
    let plan = Plan { term: 6, version: 1, members, shares: vec![Some(0); 4], ..Plan::first(4) };
    play.write(plan.clone());
    play.round();
    assert_eq!(play.plan(), &plan);
}

#[test]
fn it_goes_on_after_a_plan_of_a_higher_term_and_keeps_that_term() {
    let mut play = Play::of(4, &["anna", "ben"]);
    play.write(Plan { term: 1_000, version: 3, ..Plan::first(4) });
    play.round();
    play.round();
    assert_eq!((play.plan().term, play.plan().of("ben").count()), (1_000, 2));
    assert_eq!((play.leader.trouble(), play.leader.left()), (None, false));
}

#[test]
fn it_reports_a_term_that_no_coordinator_reaches_and_leaves_the_plan_as_it_is() {
    let mut play = Play::of(4, &["anna", "ben"]);
    let plan = Plan { term: 7 + MOST_AHEAD + 1, ..Plan::first(4) };
    play.write(plan.clone());
    for _ in 0..3 {
        assert_eq!(play.round(), 1);
        assert_eq!(play.leader.trouble(), Some(Trouble::Term(plan.term)));
    }
    assert_eq!(play.plan(), &plan);
}

/// The rounds until it says that it is to resign.
fn rounds_until(play: &mut Play, trouble: Trouble) -> u64 {
    while play.leader.trouble() != Some(trouble) {
        play.round();
        assert!(play.now < 60, "{:?}", play.leader);
    }
    play.now
}

#[test]
fn it_resigns_when_its_signs_have_failed_for_three_periods() {
    let mut play = Play::of(4, &["anna", "ben"]);
    assert_eq!(rounds_until(&mut play, Trouble::Signs), 16, "none since the term began");
    let mut play = Play::of(4, &["anna", "ben"]);
    play.own = vec![(Tag("1".to_owned()), 5 * SECOND)];
    assert_eq!(rounds_until(&mut play, Trouble::Signs), 21);
}

#[test]
fn it_resigns_when_its_rounds_have_failed_for_three_periods() {
    let mut play = Play::of(4, &["anna", "ben"]);
    play.refuses = true;
    play.own = vec![(Tag("1".to_owned()), 60 * SECOND)];
    // The first plan is written in the second round.
    assert_eq!(rounds_until(&mut play, Trouble::Rounds), 18);
    let mut play = Play::of(4, &["anna", "ben"]);
    play.own = vec![(Tag("1".to_owned()), 60 * SECOND)];
    for round in 0..60 {
        // One that got through begins the count anew.
        play.refuses = round % 12 != 0;
        play.members = if round % 2 == 0 { vec!["anna", "ben"] } else { vec!["anna"] };
        play.round();
        assert_eq!(play.leader.trouble(), None, "{round}");
    }
}

#[test]
fn a_new_number_of_shares_waits_until_all_of_the_old_ones_are_closed() {
    let mut play = Play::of(4, &["anna", "ben"]);
    play.round();
    play.round();
    let held = Share { split: 1, index: 2 };
    play.held.push(held);
    let asked = play.plan().clone().reshare(6);
    play.write(asked);
    for _ in 0..5 {
        play.round();
        assert_eq!(play.plan().split, 1);
    }
    assert_eq!(play.asked.last(), Some(&Ask::Close { shares: vec![held], of: 4 }));
    play.held.clear();
    play.round();
    let plan = play.plan();
    assert_eq!((plan.split, plan.shares.len(), plan.next), (2, 6, None));
    assert_eq!(plan.of("anna").count(), 3);
}

#[test]
fn the_lease_of_a_share_that_is_not_given_up_in_time_is_broken_and_again_after_as_long() {
    let mut play = Play::of(4, &["anna", "ben"]);
    play.own = vec![(Tag("1".to_owned()), 600 * SECOND)];
    play.round();
    play.round();
    let [one, other] = [1, 3].map(|index| Share { split: 1, index });
    play.held = vec![one, other];
    let asked = play.plan().clone().reshare(6);
    play.write(asked);
    let (mut broken, first) = (Vec::new(), play.now + 1);
    for _ in 0..70 {
        play.round();
        let breaks = play.asked.iter().filter(|ask| matches!(ask, Ask::Break { .. })).cloned();
        broken.extend(breaks.map(|ask| (play.now - first, ask)));
    }
    let lease = |share| Ask::Break { share, of: 4 };
    assert_eq!(
        broken,
        [(31, lease(other)), (31, lease(one)), (62, lease(other)), (62, lease(one))]
    );
    // A split that is asked for later has its own time.
    play.held.clear();
    play.round();
    assert_eq!(play.plan().split, 2);
    play.held = vec![Share { split: 2, index: 0 }];
    let asked = play.plan().clone().reshare(3);
    play.write(asked);
    for _ in 0..30 {
        play.round();
        assert!(play.asked.iter().all(|ask| !matches!(ask, Ask::Break { .. })), "{:?}", play.asked);
    }
}

#[test]
fn it_leaves_its_own_shares_to_others_before_it_is_left() {
    let mut play = Play::of(4, &["anna", "ben"]);
    play.round();
    play.round();
    assert!(!play.leader.left());
    play.leader.leave(Duration::from_secs(play.now));
    play.members.remove(0);
    play.round();
    assert!(play.leader.left());
    assert_eq!(play.plan().of("ben").count(), 4);
}

#[test]
fn a_plan_that_was_on_its_way_is_not_the_one_without_itself() {
    let mut play = Play::of(4, &["anna", "ben"]);
    play.round();
    play.round();
    play.members.push("cleo");
    play.round();
    play.now += 1;
    let now = Duration::from_secs(play.now);
    let mut ask = play.leader.next(now).expect("it is time");
    while !matches!(ask, Ask::WritePlan(..)) {
        let answer = play.answer(&ask);
        ask = play.leader.answered(&ask, answer, &[], now).expect("cleo counts");
    }
    play.leader.leave(now);
    let answer = play.answer(&ask);
    assert_eq!(play.leader.answered(&ask, answer, &[], now), None);
    assert!(!play.leader.left() && play.plan().names("anna"));
    play.round();
    assert!(play.leader.left() && !play.plan().names("anna"));
}

/// Among many, looks are rare.
#[test]
fn who_leaves_during_a_round_does_not_wait_for_the_next_as_long_as_others() {
    let many = (0..1_000).map(|n| &*format!("m{n}").leak()).collect::<Vec<&'static str>>();
    let mut play = Play::of(1_000, &many);
    play.round();
    play.now += 60;
    play.round();
    let begun = Duration::from_secs(play.now + 60);
    let ask = play.leader.next(begun).expect("it is time");
    play.leader.leave(begun);
    assert_eq!(play.leader.answered(&ask, Answer::Unknown, &[], begun), None);
    assert_eq!(play.leader.wake(), Some(begun + SECOND));
}

#[test]
fn a_request_that_fails_ends_the_round() {
    let mut play = Play::of(4, &["anna"]);
    for _ in 0..3 {
        play.now += 1;
        let now = Duration::from_secs(play.now);
        let ask = play.leader.next(now).expect("it is time");
        assert_eq!(ask, Ask::ReadPlan(None));
        assert_eq!(play.leader.answered(&ask, Answer::Unknown, &[], now), None);
        assert_eq!(play.leader.next(now), None, "not before its time");
    }
}
