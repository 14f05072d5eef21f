use super::Pace;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn signs_come_three_times_while_a_leader_is_replaced_but_no_more_than_one_a_second() {
    assert_eq!(Pace::of(15 * SECOND).sign(), 5 * SECOND);
    assert_eq!(Pace::of(15 * SECOND).gone_after(), 15 * SECOND);
    assert_eq!(Pace::of(SECOND).sign(), SECOND);
}

#[test]
fn a_plan_is_read_250_times_a_second_at_most() {
    let pace = Pace::of(15 * SECOND);
    assert_eq!(pace.look(0), SECOND);
    assert_eq!(pace.look(250), SECOND);
    assert_eq!(pace.look(1_000), 4 * SECOND);
    assert_eq!(pace.first_signs(3), SECOND / 2);
    assert_eq!(pace.first_signs(10_000), pace.sign());
}
