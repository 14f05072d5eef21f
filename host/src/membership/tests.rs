use super::*;

#[test]
fn a_renewal_keeps_the_role_and_the_end_of_a_leadership_changes_it() {
    let clock = BootClock::new().handle();
    let (mut role, second) = (Role::default(), Duration::from_secs(1));
    let leading = |term| contract::Role::Leading(contract::Leadership { term, valid_for: second });
    let now = clock.now();
    assert!(!role.update(&contract::Role::Undecided, now, &clock));
    assert!(role.update(&leading(7), now, &clock));
    let Role::Leading(lease) = &role else { panic!("it leads") };
    let lease = lease.clone();
    assert!(!role.update(&leading(7), now + second, &clock));
    assert_eq!(lease.valid_until(), now + 2 * second);
    assert!(!role.end_leadership(Some(6)), "that was over already");
    lease.set_valid_until(Duration::MAX);
    assert_eq!(role.leading_term(), Some(7));
    // The role stays until a step reports another one.
    lease.set_valid_until(now);
    assert_eq!((role.leading_term(), matches!(role, Role::Leading(_))), (None, true));
    assert!(role.end_leadership(Some(7)) && lease.is_lost() && matches!(role, Role::Undecided));
    assert!(!role.end_leadership(Some(7)));
    assert!(role.update(&leading(8), now, &clock));
    let following = contract::Role::Following(None);
    assert!(role.update(&following, now, &clock) && !role.update(&following, now, &clock));
    let mut ben = contract::Incumbent {
        name: "ben".to_owned(),
        term: 9,
        since: contract::Timestamp(0),
        address: None,
        coordinates: false,
    };
    for address in [None, Some("https://ben".to_owned())] {
        ben.address = address;
        let following = contract::Role::Following(Some(ben.clone()));
        assert!(role.update(&following, now, &clock) && !role.update(&following, now, &clock));
        let Role::Following { leader: Some(leader) } = &role else { panic!("it follows") };
        assert_eq!((&leader.name, leader.term, &leader.address), (&ben.name, 9, &ben.address));
    }
    assert!(role.update(&contract::Role::Left, now, &clock));
}

#[test]
fn a_candidate_whose_leave_timed_out_has_left() {
    let clock = BootClock::new().handle();
    let (mut role, valid_for) = (Role::default(), Duration::from_secs(1));
    let leading = contract::Role::Leading(contract::Leadership { term: 7, valid_for });
    role.update(&leading, clock.now(), &clock);
    let Role::Leading(lease) = &role else { panic!("it leads") };
    let lease = lease.clone();
    assert!(role.set_left() && lease.is_lost() && matches!(role, Role::Left));
    assert!(!role.set_left());
}
