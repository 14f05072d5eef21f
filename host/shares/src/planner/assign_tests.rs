use super::{Worker, assign};
use proptest::collection::vec;
use proptest::prelude::*;

const ONE: Worker = Worker { weight: 1, max_shares: None };

/// Returns the number of shares of each member.
fn counts(plan: &[Option<usize>], members: usize) -> Vec<usize> {
    (0..members).map(|member| plan.iter().filter(|share| **share == Some(member)).count()).collect()
}

fn moves(before: &[Option<usize>], after: &[Option<usize>]) -> usize {
    before.iter().zip(after).filter(|(before, after)| before.is_some() && before != after).count()
}

#[test]
fn without_members_no_share_is_assigned() {
    assert_eq!(assign(&[None, None], &[]), [None, None]);
    assert_eq!(assign(&[None], &[Worker { weight: 0, max_shares: None }]), [None]);
    assert_eq!(assign(&[], &[ONE]), []);
}

#[test]
fn three_share_32_and_a_fourth_takes_8() {
    let three = assign(&[None; 32], &[ONE; 3]);
    assert_eq!(
        {
            let mut c = counts(&three, 3);
            c.sort_unstable();
            c
        },
        [10, 11, 11]
    );
    let four = assign(&three, &[ONE; 4]);
    assert_eq!(counts(&four, 4), [8, 8, 8, 8]);
    assert_eq!(moves(&three, &four), 8);
}

#[test]
fn only_shares_of_a_gone_member_move() {
    let four = assign(&[None; 32], &[ONE; 4]);
    let gone = four.iter().map(|share| share.filter(|member| *member != 3)).collect::<Vec<_>>();
    let three = assign(&gone, &[ONE; 3]);
    assert_eq!(moves(&gone, &three), 0, "no other share moves");
    assert!(three.iter().all(Option::is_some));
}

#[test]
fn a_heavier_member_holds_more() {
    let members = [Worker { weight: 3, ..ONE }, ONE];
    assert_eq!(counts(&assign(&[None; 8], &members), 2), [6, 2]);
}

#[test]
fn a_member_above_its_whole_part_gives_the_surplus_away() {
    let worker_of = |weight| Worker { weight, ..ONE };
    let members = [worker_of(2), worker_of(3), worker_of(1), worker_of(3)];
    let before = (0..24).map(|share| Some(if share < 9 { 1 } else { 3 })).collect::<Vec<_>>();
    assert_eq!(counts(&assign(&before, &members), 4)[1..=3], [8, 3, 8]);
}

#[test]
fn a_limited_member_holds_its_limit_and_the_others_the_remainder() {
    let members = [Worker { max_shares: Some(2), ..ONE }, ONE, ONE];
    assert_eq!(counts(&assign(&[None; 12], &members), 3), [2, 5, 5]);
    let all = [Worker { max_shares: Some(2), ..ONE }; 3];
    let plan = assign(&[None; 12], &all);
    assert_eq!(counts(&plan, 3), [2, 2, 2]);
    assert_eq!(plan.iter().filter(|share| share.is_none()).count(), 6);
}

fn member() -> impl Strategy<Value = Worker> {
    let max_shares = prop_oneof![3 => Just(None), 1 => (0_u32..12).prop_map(Some)];
    (0_u32..4, max_shares).prop_map(|(weight, most)| Worker { weight, max_shares: most })
}

fn equal() -> impl Strategy<Value = (Vec<Option<usize>>, usize)> {
    (1_usize..12).prop_flat_map(|members| {
        (vec(prop_oneof![1 => Just(None), 4 => (0..members).prop_map(Some)], 0..70), Just(members))
    })
}

fn any_members() -> impl Strategy<Value = (Vec<Option<usize>>, Vec<Worker>)> {
    vec(member(), 1..10).prop_flat_map(|members| {
        let one = prop_oneof![1 => Just(None), 4 => (0..members.len()).prop_map(Some)];
        (vec(one, 0..60), Just(members))
    })
}

proptest! {
    #[test]
    fn equals_differ_by_one_at_most_and_nothing_moves_in_vain((before, members) in equal()) {
        let after = assign(&before, &vec![ONE; members]);
        let (had, has) = (counts(&before, members), counts(&after, members));
        prop_assert!(after.iter().all(Option::is_some));
        let (low, high) = (before.len() / members, before.len().div_ceil(members));
        prop_assert!(has.iter().all(|count| (low..=high).contains(count)), "{has:?}");
        // The fewest moves of any even plan. Members above the upper number lose the excess. All
        // others lose the excess above the lower number, except those that may keep one more.
        let above = |limit: usize| had.iter().map(|had| had.saturating_sub(limit)).sum::<usize>();
        let may = before.len() % members;
        let fuller = had.iter().filter(|had| **had > low).count();
        let least = above(low) - if high > low { fuller.min(may) } else { 0 };
        prop_assert_eq!(moves(&before, &after), least);
    }

    #[test]
    fn what_is_assigned_stays((before, members) in any_members()) {
        let once = assign(&before, &members);
        prop_assert_eq!(&assign(&once, &members), &once);
    }

    #[test]
    fn nobody_gets_more_than_its_part_or_its_most((before, members) in any_members()) {
        let after = assign(&before, &members);
        let has = counts(&after, members.len());
        let mut room = 0;
        for (member, has) in members.iter().zip(&has) {
            let most = member.max_shares.map_or(usize::MAX, |most| most as usize);
            prop_assert!(*has <= most, "{members:?} {has:?}");
            prop_assert!(member.weight > 0 || *has == 0);
            room += if member.weight > 0 { most.saturating_sub(*has).min(1) } else { 0 };
        }
        // A share has no member only if all members have their maximum.
        prop_assert!(room == 0 || after.iter().all(Option::is_some), "{members:?} {has:?}");
        // The stronger of two unlimited members has no fewer shares, apart from the remainder.
        for (one, a) in members.iter().zip(&has) {
            for (other, b) in members.iter().zip(&has) {
                if one.max_shares.is_none() && other.max_shares.is_none() && one.weight >= other.weight {
                    prop_assert!(a + 1 >= *b, "{members:?} {has:?}");
                }
            }
        }
    }
}
