use super::*;

#[test]
fn a_renewal_is_no_change_and_the_end_of_a_leadership_is_one() {
    let clock = BootClock::new().reading();
    let (mut role, second) = (Role::default(), Duration::from_secs(1));
    let leading = |term| contract::Role::Leading(contract::Leadership { term, valid_for: second });
    let now = clock.now();
    assert!(!role.becomes(&contract::Role::Undecided, now, &clock));
    assert!(role.becomes(&leading(7), now, &clock));
    let Role::Leading(lease) = &role else { panic!("it leads") };
    let lease = lease.clone();
    assert!(!role.becomes(&leading(7), now + second, &clock));
    assert_eq!(lease.until(), now + 2 * second);
    assert!(!role.ends(Some(6)), "that was over already");
    lease.set(Duration::MAX);
    assert_eq!(role.leads(), Some(7));
    // Its role stays until a step reports another one.
    lease.set(now);
    assert_eq!((role.leads(), matches!(role, Role::Leading(_))), (None, true));
    assert!(role.ends(Some(7)) && lease.is_lost() && matches!(role, Role::Undecided));
    assert!(!role.ends(Some(7)));
    assert!(role.becomes(&leading(8), now, &clock));
    let follows = contract::Role::Following(None);
    assert!(role.becomes(&follows, now, &clock) && !role.becomes(&follows, now, &clock));
    let mut ben = contract::Incumbent {
        name: "ben".to_owned(),
        term: 9,
        since: contract::Timestamp(0),
        address: None,
        coordinates: false,
    };
    for address in [None, Some("https://ben".to_owned())] {
        ben.address = address;
        let follows = contract::Role::Following(Some(ben.clone()));
        assert!(role.becomes(&follows, now, &clock) && !role.becomes(&follows, now, &clock));
        let Role::Following { leader: Some(leader) } = &role else { panic!("it follows") };
        assert_eq!((&leader.name, leader.term, &leader.address), (&ben.name, 9, &ben.address));
    }
    assert!(role.becomes(&contract::Role::Left, now, &clock));
}

#[test]
fn a_candidate_that_could_not_leave_in_time_has_left_too() {
    let clock = BootClock::new().reading();
    let (mut role, valid_for) = (Role::default(), Duration::from_secs(1));
    let leading = contract::Role::Leading(contract::Leadership { term: 7, valid_for });
    role.becomes(&leading, clock.now(), &clock);
    let Role::Leading(lease) = &role else { panic!("it leads") };
    let lease = lease.clone();
    assert!(role.leaves() && lease.is_lost() && matches!(role, Role::Left));
    assert!(!role.leaves());
}
