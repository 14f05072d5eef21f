use super::*;
use crate::schedule::agenda::Missed;
use crate::schedule::slots::Delivery;

fn read(pairs: &[(&str, &str)]) -> Result<Settings, Vec<Complaint>> {
    let found = |name: &str| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| v.to_string());
    Settings::read(found)
}

const AZURITE: (&str, &str) = (variable::CONNECTION_STRING, "UseDevelopmentStorage=true");

#[test]
fn an_election_and_an_account_are_enough() {
    let settings = read(&[(variable::ELECTION, "leases/leader"), AZURITE]).unwrap();
    assert_eq!(settings.agenda.schedule, None);
    let cool_down = Duration::from_secs(30);
    let policy = FailurePolicy { turn_timeout: None, max_failures: 3, cool_down };
    assert_eq!(settings.failure_policy, policy);
    let needs = settings.needs(DateTime::UNIX_EPOCH);
    assert_eq!(needs.origins, ["http://127.0.0.1:10000"]);
    assert_eq!(needs.credential, "the key in the connection string");
    assert_eq!(needs.notes, [""; 0]);
}

#[test]
fn all_complaints_are_reported_at_once() {
    let complaints = read(&[
        (variable::ELECTION, "L/"),
        (variable::NAME, &"n".repeat(129)),
        (variable::ADDRESS, &"a".repeat(257)),
        (variable::LEASE, "14s"),
        (variable::MARGIN, "soon"),
        (variable::RENEW, "5"),
        (variable::POLL, "0s"),
        (variable::REQUEST_TIMEOUT, "1h"),
        (variable::EVERY, "10ms"),
        (variable::TURN_TIMEOUT, "99ms"),
        (variable::MAX_FAILURES, "-1"),
        (variable::COOL_DOWN, "2h"),
        (variable::CONNECTION_STRING, "AccountName=a"),
    ])
    .unwrap_err();
    for setting in [
        variable::ELECTION,
        variable::NAME,
        variable::ADDRESS,
        variable::LEASE,
        variable::MARGIN,
        variable::RENEW,
        variable::POLL,
        variable::REQUEST_TIMEOUT,
        variable::EVERY,
        variable::TURN_TIMEOUT,
        variable::MAX_FAILURES,
        variable::COOL_DOWN,
        variable::CONNECTION_STRING,
    ] {
        assert!(
            complaints.iter().any(|c| c.setting.variable() == setting),
            "{setting}: {complaints:#?}"
        );
    }
    assert!(complaints.iter().all(|c| !c.problem.is_empty() && !c.advice.is_empty()));
}

#[test]
fn failure_policy_is_validated_at_its_bounds() {
    let read_policy = |name, value| {
        read(&[(variable::ELECTION, "leases/leader"), AZURITE, (name, value)])
            .map(|settings| settings.failure_policy)
            .map_err(|complaints| {
                complaints.into_iter().map(|c| c.setting.variable()).collect::<Vec<_>>()
            })
    };
    for (name, good, bad) in [
        (variable::TURN_TIMEOUT, ["100ms", "24h"], ["99.9ms", "24h 1ms", "0s"]),
        (variable::COOL_DOWN, ["1s", "1h"], ["999ms", "3601s", "often"]),
        (variable::MAX_FAILURES, ["0", "1000"], ["1001", "three", "1.5"]),
    ] {
        assert!(good.iter().all(|value| read_policy(name, value).is_ok()), "{name}");
        for value in bad {
            assert_eq!(read_policy(name, value), Err(vec![name]), "{value}");
        }
    }
    let strict = read_policy(variable::TURN_TIMEOUT, "90s").unwrap();
    assert_eq!(strict.turn_timeout, Some(Duration::from_secs(90)));
    assert_eq!(read_policy(variable::MAX_FAILURES, "0").unwrap().max_failures, 0);
    assert_eq!(read_policy(variable::COOL_DOWN, "5s").unwrap().cool_down, Duration::from_secs(5));
}

fn read_agenda(pairs: &[(&str, &str)]) -> Result<Agenda, Vec<(&'static str, String)>> {
    let needed = [(variable::ELECTION, "leases/leader"), AZURITE];
    read(&[&needed, pairs].concat()).map(|settings| settings.agenda).map_err(|complaints| {
        complaints.into_iter().map(|c| (c.setting.variable(), c.problem)).collect()
    })
}

#[test]
fn the_agenda_is_read() {
    let agenda = read_agenda(&[
        (variable::CRON, "0 9 * * MON-FRI"),
        (variable::TIME_ZONE, "europe/berlin"),
        (variable::DELIVERY, "at-least-once"),
        (variable::MAX_ATTEMPTS, "7"),
        (variable::MISSED, "all 12"),
        (variable::JITTER, "5m"),
        (variable::LEASE, "60s"),
    ])
    .unwrap();
    let description = "cron 0 9 * * MON-FRI Europe/Berlin";
    assert_eq!(agenda.description().as_deref(), Some(description));
    assert_eq!(agenda.delivery, Delivery::AtLeastOnce { max_attempts: 7 });
    assert_eq!(agenda.missed, Missed::All(12));
    assert_eq!(agenda.delay, Agenda::jittered_delay("leases/leader", Duration::from_secs(300)));
    assert_eq!(agenda.tolerance, Duration::from_secs(120));
    let agenda = read_agenda(&[(variable::EVERY, "5s")]).unwrap();
    assert_eq!((agenda.delivery, agenda.missed), (Delivery::AtMostOnce, Missed::Once));
    assert_eq!((agenda.delay, agenda.tolerance), (Duration::ZERO, Duration::from_secs(60)));
    let skips = read_agenda(&[(variable::EVERY, "5s"), (variable::MISSED, "skip")]).unwrap();
    assert_eq!(skips.missed, Missed::Skip);
}

#[test]
fn a_secret_in_the_place_of_a_cron_expression_is_not_shown() {
    let secret = "DefaultEndpointsProtocol=https; AccountName=acc; AccountKey=c2VjcmV0; a; b";
    let complaints = read_agenda(&[(variable::CRON, secret)]).unwrap_err();
    assert!(complaints.len() > 2 && !format!("{complaints:?}").contains("c2Vj"), "{complaints:?}");
}

#[test]
fn an_agenda_that_cannot_be_followed_is_complained_about() {
    for (pairs, setting, problem) in [
        (&[(variable::EVERY, "5s"), (variable::CRON, "@daily")][..], variable::CRON, "excludes"),
        (
            &[(variable::CRON, "0 25 * * *")],
            variable::CRON,
            "at character 3: \"25\": the hour is not between 0 and 23",
        ),
        (&[(variable::CRON, &"0,".repeat(129))], variable::CRON, "258 bytes"),
        (
            &[(variable::CRON, "@daily"), (variable::TIME_ZONE, "Europe/Bonn")],
            variable::TIME_ZONE,
            "\"Europe/Bonn\" is not a time zone of IANA's 20",
        ),
        (&[(variable::TIME_ZONE, "Asia/Tokyo")], variable::TIME_ZONE, "is set without"),
        (&[(variable::DELIVERY, "exactly-once")], variable::DELIVERY, "not a rule of delivery"),
        (&[(variable::MAX_ATTEMPTS, "3")], variable::MAX_ATTEMPTS, "each slot is tried once"),
        (
            &[(variable::DELIVERY, "at-least-once"), (variable::MAX_ATTEMPTS, "0")],
            variable::MAX_ATTEMPTS,
            "\"0\" is not a whole number from 1 to 100",
        ),
        (&[(variable::MISSED, "all")], variable::MISSED, "not a rule for missed slots"),
        (&[(variable::MISSED, "all 1001")], variable::MISSED, "not a rule"),
        (&[(variable::MISSED, "once 2")], variable::MISSED, "not a rule"),
        (
            &[(variable::EVERY, "5s"), (variable::JITTER, "5s")],
            variable::JITTER,
            "5s is not less than 5s",
        ),
        (
            &[(variable::CRON, "0,1 9 * * *"), (variable::JITTER, "61s")],
            variable::JITTER,
            "1m 1s is not less than 1m",
        ),
    ] {
        let complaints = read_agenda(pairs).unwrap_err();
        let found = complaints.iter().any(|(s, p)| *s == setting && p.contains(problem));
        assert!(found, "{pairs:?}: {complaints:?}");
    }
}

#[test]
fn empty_settings_name_the_required_ones() {
    let complaints = read(&[]).unwrap_err();
    let settings: Vec<_> = complaints.iter().map(|c| c.setting.variable()).collect();
    assert_eq!(settings, [variable::ELECTION, variable::CONNECTION_STRING]);
}
