//! Checks that the table agrees with the code that validates the settings.

use super::*;
use crate::settings::command_line::{range, to_text};
use tenure_base::duration::{format_duration, parse_duration};
use tenure_core::Complaint;

fn component_settings() -> impl Iterator<Item = &'static Setting> {
    TABLE.iter().copied().filter(|setting| setting.component && !setting.name.is_empty())
}

/// Returns the component's result for a setting, along with others that it requires.
fn read(setting: &Setting, value: Option<&str>) -> Result<String, Vec<Complaint>> {
    let settings = tenure_core::Settings::read(|name: &str| {
        let required = match name {
            variable::ELECTION => Some("any/any"),
            variable::CONNECTION_STRING => Some("UseDevelopmentStorage=true"),
            variable::DELIVERY if setting.is(&MAX_ATTEMPTS) => Some("at-least-once"),
            variable::CRON if setting.is(&TIME_ZONE) => Some("* * * * *"),
            variable::EVERY if setting.is(&JITTER) => Some("366d"),
            _ => None,
        };
        let value = if name == setting.variable { value.or(required) } else { required };
        value.map(str::to_owned)
    });
    settings.map(|settings| format!("{settings:?}"))
}

/// Returns true if the value itself is refused, and not its combination with others.
fn is_refused(setting: &Setting, value: &str) -> bool {
    let is_range_complaint =
        |c: &Complaint| c.setting.variable() == setting.variable && !c.problem.contains("exceed");
    read(setting, Some(value)).is_err_and(|complaints| complaints.iter().any(is_range_complaint))
}

#[test]
fn component_allows_the_ranges_of_the_table() {
    const STEP: Duration = Duration::from_millis(1);
    let mut checked = 0;
    for setting in component_settings() {
        let (good, bad): (Vec<String>, Vec<String>) = match (&setting.range, setting.kind) {
            (Range::Durations(range), _) => {
                let (least, most) = (*range.start(), *range.end());
                let below = least.checked_sub(STEP).map(format_duration);
                let above = Some(format_duration(most + STEP));
                let good = [least, most].map(format_duration).to_vec();
                (good, below.into_iter().chain(above).collect())
            }
            (Range::From(least), _) => {
                (vec![format_duration(*least)], vec![format_duration(*least - STEP)])
            }
            (Range::Numbers(range), _) => {
                let (least, most) = (i64::from(*range.start()), i64::from(*range.end()));
                let good = [least, most].map(|n| n.to_string()).to_vec();
                (good, [least - 1, most + 1].map(|n| n.to_string()).to_vec())
            }
            (Range::Bytes(most), _) => (vec!["x".repeat(*most)], vec!["x".repeat(most + 1)]),
            (_, Kind::Rule(words)) => {
                (words.iter().map(|w| (*w).to_owned()).collect(), vec!["never".to_owned()])
            }
            _ => continue,
        };
        checked += 1;
        for value in &good {
            assert!(!is_refused(setting, value), "{} {value}", setting.name);
        }
        for value in &bad {
            assert!(is_refused(setting, value), "{} {value}", setting.name);
        }
    }
    assert!(checked >= 16, "{checked}");
}

#[test]
fn defaults_are_those_of_the_component() {
    let mut checked = 0;
    for setting in component_settings() {
        // A default with another setting follows after the first.
        let default = to_text(setting.default);
        let default = default.split([',', ';']).next().unwrap_or_default();
        let is_value = match setting.kind {
            Kind::Duration => parse_duration(default).is_some(),
            Kind::Number => default.parse::<u32>().is_ok(),
            Kind::Rule(_) => true,
            _ => setting.is(&TIME_ZONE),
        };
        if is_value {
            checked += 1;
            let (set, unset) = (read(setting, Some(default)), read(setting, None));
            assert_eq!(set.unwrap(), unset.unwrap(), "{}", setting.name);
        }
    }
    assert!(checked >= 10, "{checked}");
}

#[test]
fn defaults_are_those_of_the_program() {
    #[cfg(unix)]
    assert_eq!(
        to_text(STOP_TIME.default).split([',', ';']).next().and_then(parse_duration),
        Some(tenure_supervisor::STOP_TIME)
    );
    for setting in [&LOG, &LOG_LEVEL] {
        let (words, default) = (setting.kind, to_text(setting.default));
        assert!(matches!(words, Kind::OneOf(words) if words.contains(&&*default)));
    }
}

#[test]
fn every_variable_of_the_component_has_a_row() {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../guest/core/src/step/variable.rs");
    let source = std::fs::read_to_string(source).unwrap();
    // The second part of the module contains the variables that hosts set.
    let user_section = source.split("The host sets the remaining variables").next().unwrap();
    let names = user_section.lines().filter_map(|line| {
        line.trim().strip_prefix("pub const ")?.split_once(": &str = \"")?.1.strip_suffix("\";")
    });
    let names: Vec<_> = names.collect();
    assert!(names.len() > 30, "{names:?}");
    for name in names {
        let row = TABLE.iter().find(|setting| setting.variables().any(|known| known == name));
        assert!(row.is_some_and(|setting| setting.component), "{name}");
    }
}

#[test]
fn check_takes_all_that_run_takes() {
    for setting in TABLE.iter().filter(|setting| setting.is_option_of("run")) {
        assert!(setting.is_option_of("check"), "{}", setting.id());
    }
}

#[test]
fn rows_make_sense() {
    for (at, setting) in TABLE.iter().enumerate() {
        let id = setting.id();
        assert!(!id.is_empty() && !setting.help.is_empty() && !setting.help.ends_with('.'), "{id}");
        assert!(HEADINGS.contains(&setting.heading), "{id}");
        assert!(!setting.component || !setting.variable.is_empty(), "{id}");
        let has_range =
            matches!(setting.range, Range::Durations(_) | Range::From(_) | Range::Sizes(_));
        assert!(setting.component || !has_range || !setting.advice.is_empty(), "{id}");
        if !setting.content.is_empty() {
            assert_eq!(setting.variable, format!("{}_FILE", setting.content), "{id}");
        }
        for other in &TABLE[at + 1..] {
            let commands = setting.commands.iter().any(|name| other.commands.contains(name));
            assert!(!commands || setting.id() != other.id(), "{id}");
            assert!(setting.variables().all(|name| other.variables().all(|n| n != name)), "{id}");
        }
    }
}

#[test]
fn the_variable_of_an_option_has_its_name() {
    for setting in TABLE.iter().filter(|s| !s.name.is_empty() && !s.variable.is_empty()) {
        let owner = if setting.is(&CONNECTION_STRING_FILE) { "AZURE_STORAGE" } else { "TENURE" };
        // Uses the names of the component for platforms.
        let name = match setting.name {
            "webhook" => "handler-url".to_owned(),
            name => name.replace("webhook-", "handler-"),
        };
        let expected = format!("{owner}_{}", name.replace('-', "_").to_uppercase());
        assert_eq!(setting.variable, expected);
    }
}

#[test]
fn ranges_are_described_in_words() {
    for (setting, expected) in [
        (&LEASE, Some("15s to 60s")),
        (&MARGIN, Some("at least 2s 500ms")),
        (&MEMORY_LIMIT, Some("1MiB to 4GiB")),
        (&MAX_FAILURES, Some("0 to 1000")),
        (&DELIVERY, Some("at-most-once or at-least-once")),
        (&CA_FILE, None),
    ] {
        assert_eq!(range(setting).as_deref(), expected);
    }
    assert_eq!(GRACE.allowed().unwrap(), "between 0s and 1h");
}

/// The settings of the component that have options, as a program that embeds the library writes
/// them.
#[test]
fn library_has_a_value_for_each_component_setting() {
    use tenure::engine::{CandidateSettings, Variables};
    use tenure::settings::{Credential, Delivery, Missed, Schedule, Settings};
    let period = Duration::from_secs(60);
    let mut all = Settings::new("jobs/report", Credential::ConnectionStringFile("file".into()));
    all.jitter = period;
    all.delivery = Delivery::AtLeastOnce { max_attempts: 2 };
    all.missed = Missed::Skip;
    all.max_failures = Some(1);
    for text in [&mut all.name, &mut all.address] {
        *text = Some("text".to_owned());
    }
    for duration in [
        &mut all.lease,
        &mut all.margin,
        &mut all.renew,
        &mut all.poll,
        &mut all.failover,
        &mut all.request_timeout,
        &mut all.turn_timeout,
        &mut all.cool_down,
        &mut all.max_tenure,
    ] {
        *duration = Some(period);
    }
    let (expression, time_zone) = ("0 9 * * *".to_owned(), Some("UTC".to_owned()));
    let cron = Schedule::Cron { expression, time_zone };
    let written = [Schedule::Every(period), cron, Schedule::WhileLeading].map(|schedule| {
        Variables::from(CandidateSettings::from(all.clone()).with_schedule(schedule))
    });
    for setting in component_settings() {
        let is_written = written.iter().any(|variables| variables.get(setting.variable).is_some());
        assert!(is_written, "{}", setting.name);
    }
}
