//! What is judged here, and how it is told.

use super::*;
use std::time::Duration;
use tenure::contract;
use tenure::egress::TermHeader;

fn complaint(setting: &str) -> contract::Complaint {
    contract::Complaint {
        setting: setting.to_owned(),
        problem: "wrong".to_owned(),
        advice: "mend it".to_owned(),
    }
}

#[test]
fn a_complaint_names_where_the_value_came_from() {
    let mut configuration = Configuration::default();
    configuration.flag(names::LEASE, "--lease", Some("5s"));
    configuration.settings.set(names::RENEW, "1s");
    configuration.add(vec![
        complaint(names::LEASE),
        complaint(names::RENEW),
        complaint(names::ELECTION),
    ]);
    let sources: Vec<_> = configuration.complaints.iter().map(|c| c.source.as_str()).collect();
    assert_eq!(sources, ["--lease 5s", "TENURE_RENEW", "--election, or TENURE_ELECTION"]);
}

/// What the component says of these, given as flags and as variables.
fn told(flags: &[(&'static str, &'static str, &str)], variables: &[(&str, &str)]) -> Vec<String> {
    let mut configuration = Configuration::default();
    for (name, value) in variables {
        configuration.settings.set(name, *value);
    }
    for (setting, flag, value) in flags {
        configuration.flag(setting, flag, Some(value));
    }
    let settings = configuration.settings.clone();
    let read = tenure_core::Settings::read(|name: &str| match name {
        names::ELECTION => Some("any/any".to_owned()),
        names::CONNECTION_STRING => Some("UseDevelopmentStorage=true".to_owned()),
        _ => settings.get(name).map(str::to_owned),
    });
    configuration.add(read.err().unwrap_or_default().into_iter().map(of_component).collect());
    let told = configuration.complaints.iter().map(|c| format!("{}: {}", c.source, c.problem));
    told.collect()
}

fn of_component(complaint: tenure_core::Complaint) -> contract::Complaint {
    contract::Complaint {
        setting: complaint.setting.to_owned(),
        problem: complaint.problem,
        advice: complaint.advice,
    }
}

#[test]
fn a_conflict_names_both_settings_as_they_were_given() {
    let flag = (names::WHILE_LEADING, "--while-leading", "true");
    for (name, option, value) in [
        (names::EVERY, "--every", "5s"),
        (names::CRON, "--cron", "* * * * *"),
        (names::MISSED, "--missed", "skip"),
        (names::TURN_TIMEOUT, "--turn-timeout", "5m"),
    ] {
        let of_flags = told(&[flag, (name, option, value)], &[]);
        let problem = "is set beside --while-leading, which has no timer";
        assert_eq!(of_flags, [format!("{option} {value}: {problem}")]);
        assert_eq!(told(&[flag], &[(name, value)]), [format!("{name}: {problem}")]);
        let variable = [(names::WHILE_LEADING, "true")];
        let problem = "is set beside TENURE_WHILE_LEADING, which has no timer";
        assert_eq!(
            told(&[(name, option, value)], &variable),
            [format!("{option} {value}: {problem}")]
        );
    }
    let (every, cron) = ((names::EVERY, "--every", "5s"), (names::CRON, "--cron", "* * * * *"));
    assert_eq!(told(&[every, cron], &[]), ["--cron * * * * *: is set beside --every"]);
}

#[test]
fn a_file_is_named_to_the_component_by_its_whole_path() {
    let mut configuration = Configuration::default();
    configuration.connection_string(Path::new("secret.txt"));
    let path = configuration.settings.get(names::CONNECTION_STRING_FILE).unwrap();
    assert_eq!(Path::new(path), std::path::absolute("secret.txt").unwrap());
    configuration.add(vec![complaint(names::CONNECTION_STRING_FILE)]);
    let [only] = configuration.complaints.as_slice() else { panic!("one complaint") };
    assert_eq!(only.source, "--connection-string-file secret.txt");
}

#[test]
fn a_connection_string_is_no_file_and_never_shown() {
    let mut configuration = Configuration::default();
    configuration.connection_string(Path::new("AccountName=a;AccountKey=c2VjcmV0"));
    let text = crate::complaint::report(&configuration.complaints);
    assert!(text.contains("not a file"), "{text}");
    assert!(!text.contains("c2VjcmV0"), "{text}");
}

#[test]
fn the_grace_is_judged_at_its_bounds() {
    let mut configuration = Configuration::default();
    for (good, seconds) in [("0s", 0.0), ("2.5s", 2.5), ("1h", 3600.0), (" 1m 30s ", 90.0)] {
        let grace = configuration.grace(Some(good));
        assert_eq!(grace, Some(Duration::from_secs_f64(seconds)), "{good}");
    }
    assert_eq!(configuration.complaints, []);
    for bad in ["", "5", "soon", "-1s", "1h 1ms", "99999999999999999999s"] {
        assert_eq!(configuration.grace(Some(bad)), None, "{bad}");
    }
    assert_eq!(configuration.complaints.len(), 6);
    assert_eq!(configuration.complaints[1].source, "--grace 5");
    configuration.grace(Some("AccountKey=c2VjcmV0"));
    assert!(!format!("{:?}", configuration.complaints).contains("c2VjcmV0"));
}

#[test]
fn the_memory_limit_is_judged_at_its_bounds() {
    let mut configuration = Configuration::default();
    for (good, bytes) in [("1MiB", 1 << 20), ("4GiB", 4 << 30), (" 64 MiB ", 64 << 20)] {
        assert_eq!(configuration.memory_limit(Some(good)), Some(bytes), "{good}");
    }
    assert_eq!(configuration.complaints, []);
    for bad in ["", "much", "1023KiB", "5GiB", "-1MiB", "1"] {
        assert_eq!(configuration.memory_limit(Some(bad)), None, "{bad}");
    }
    assert_eq!(configuration.complaints.len(), 6);
    assert_eq!(configuration.complaints[2].source, "--memory-limit 1023KiB");
}

#[test]
fn a_header_that_cannot_carry_the_term_is_told() {
    let mut configuration = Configuration::default();
    assert_eq!(configuration.term_header(None), TermHeader::default());
    assert_eq!(configuration.term_header(Some("X-Fence")), "x-fence".parse().unwrap());
    for wrong in ["", "a b", "Host"] {
        assert_eq!(configuration.term_header(Some(wrong)), TermHeader::default());
    }
    let sources: Vec<_> = configuration.complaints.iter().map(|c| c.source.as_str()).collect();
    assert_eq!(sources, ["--term-header ", "--term-header a b", "--term-header Host"]);
}

#[test]
fn every_wrong_entry_for_the_handler_is_told() {
    let mut configuration = Configuration::default();
    let list = ["a/b".to_owned(), "*".to_owned(), "ok".to_owned()];
    configuration.allow_list(&list);
    let env = ["A=b=c".to_owned(), "B".to_owned(), "=secret".to_owned()];
    assert_eq!(configuration.handler_env(&env), [("A".to_owned(), "b=c".to_owned())]);
    let sources: Vec<_> = configuration.complaints.iter().map(|c| c.source.as_str()).collect();
    assert_eq!(sources, ["--allow-host a/b", "--allow-host *", "--env …", "--env …"]);
}
