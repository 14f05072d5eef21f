use super::SignTiming;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn three_signs_fit_into_a_failover_at_most_one_a_second() {
    assert_eq!(SignTiming::from_failover(15 * SECOND).interval(), 5 * SECOND);
    assert_eq!(SignTiming::from_failover(15 * SECOND).member_timeout(), 15 * SECOND);
    assert_eq!(SignTiming::from_failover(SECOND).interval(), SECOND);
}

#[test]
fn a_plan_is_read_250_times_a_second_at_most() {
    let timing = SignTiming::from_failover(15 * SECOND);
    assert_eq!(timing.plan_read_interval(0), SECOND);
    assert_eq!(timing.plan_read_interval(250), SECOND);
    assert_eq!(timing.plan_read_interval(1_000), 4 * SECOND);
    assert_eq!(timing.first_sign_interval(3), SECOND / 2);
    assert_eq!(timing.first_sign_interval(10_000), timing.interval());
}
