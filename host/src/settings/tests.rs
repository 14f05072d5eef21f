//! The component reads typed settings like the core.

use super::*;
use tenure_core::{Cron, Schedule as Timer, Zone};

const AZURITE: &str = "UseDevelopmentStorage=true";

fn settings() -> Settings {
    Settings::new("jobs/report", Credential::ConnectionString(AZURITE.into()))
}

type ReadResult = Result<tenure_core::Settings, Vec<tenure_core::Complaint>>;

fn read_settings(settings: &Settings, schedule: Option<Schedule>) -> ReadResult {
    let mut settings = CandidateSettings::from(settings.clone());
    if let Some(schedule) = schedule {
        settings = settings.with_schedule(schedule);
    }
    let variables = Variables::from(settings.clone());
    let read = tenure_core::Settings::read(|name: &str| variables.get(name).map(str::to_owned));
    // The component reads the same values as the core.
    assert_eq!(format!("{read:?}"), format!("{:?}", tenure_core::Settings::read_from(&settings)));
    read
}

/// Returns settings with all options of a timer.
fn full() -> Settings {
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    Settings {
        name: Some("replica-1".to_owned()),
        address: Some("http://replica-1".to_owned()),
        jitter: Duration::from_millis(1_500),
        delivery: Delivery::AtLeastOnce { max_attempts: 7 },
        missed: Missed::All(9),
        lease: seconds(30),
        margin: seconds(5),
        renew: Some(Duration::from_millis(4_500)),
        poll: seconds(2),
        failover: seconds(3),
        request_timeout: seconds(4),
        turn_timeout: seconds(3_600),
        max_failures: Some(0),
        cool_down: seconds(60),
        max_tenure: seconds(86_400),
        ..settings()
    }
}

#[test]
fn the_component_reads_the_written_settings() {
    let period = Duration::from_secs(90);
    let read = read_settings(&full(), Some(Schedule::Every(period))).unwrap();
    assert_eq!(read.election.to_string(), "jobs/report");
    assert_eq!(
        (read.name.as_str(), read.address.as_deref()),
        ("replica-1", Some("http://replica-1"))
    );
    let timings = read.timings;
    let periods = [timings.lease, timings.margin, timings.renew, timings.poll];
    assert_eq!(periods.map(|period| period.as_millis()), [30_000, 5_000, 4_500, 2_000]);
    assert_eq!(timings.failover.map(|failover| failover.within), Some(Duration::from_secs(3)));
    assert_eq!(timings.request_timeout, Duration::from_secs(4));
    let agenda = read.agenda;
    assert_eq!(agenda.schedule, Timer::every(period));
    assert_eq!(agenda.delivery, Delivery::AtLeastOnce { max_attempts: 7 });
    assert_eq!(agenda.missed, Missed::All(9));
    assert_eq!(read.failure_policy.turn_timeout, Some(Duration::from_secs(3_600)));
    assert_eq!(read.max_tenure, Some(Duration::from_secs(86_400)));
}

#[test]
fn defaults_are_those_of_the_component() {
    let bare = |name: &str| match name {
        variable::ELECTION => Some("jobs/report".to_owned()),
        variable::CONNECTION_STRING => Some(AZURITE.to_owned()),
        variable::NAME => Some(Settings::default_name()),
        _ => None,
    };
    let bare = tenure_core::Settings::read(bare).unwrap();
    assert_eq!(format!("{:?}", read_settings(&settings(), None).unwrap()), format!("{bare:?}"));
}

#[test]
fn other_schedules_are_read() {
    let scheduled =
        |schedule| read_settings(&settings(), Some(schedule)).unwrap().agenda.schedule.unwrap();
    let cron = Box::new(Cron::parse("0 9 * * MON").unwrap());
    let berlin = Zone::from_name("Europe/Berlin").unwrap();
    let zoned = |zone: &str| Schedule::Cron {
        expression: "0 9 * * MON".to_owned(),
        time_zone: Some(zone.to_owned()),
    };
    assert_eq!(scheduled(zoned("Europe/Berlin")), Timer::Cron(cron, berlin));
    assert_eq!(scheduled(Schedule::WhileLeading), Timer::WhileLeading);
    assert_eq!(scheduled(Schedule::OnTrigger), Timer::OnTrigger);
}

#[test]
fn all_complaints_are_reported_together() {
    let settings = Settings {
        lease: Some(Duration::from_secs(5)),
        ..Settings::new("report", Credential::ConnectionString(AZURITE.into()))
    };
    let complaints = read_settings(&settings, Some(Schedule::Every(Duration::ZERO))).unwrap_err();
    let mut invalid: Vec<_> = complaints.iter().map(|c| c.setting.variable()).collect();
    invalid.sort_unstable();
    assert_eq!(invalid, [variable::ELECTION, variable::EVERY, variable::LEASE]);
}

#[test]
fn only_the_credential_is_taken_from_the_environment() {
    let variables = Variables::new()
        .with(variable::ACCOUNT, "acme")
        .with(variable::IDENTITY_ENDPOINT, "http://127.0.0.1/token")
        .with(variable::LEASE, "60s")
        .with(variable::ELECTION, "jobs/other");
    let credentials = variables.credentials_only();
    assert_eq!(credentials.entries().len(), 2);
    assert_eq!(
        (credentials.get(variable::LEASE), credentials.get(variable::ELECTION)),
        (None, None)
    );
}

#[test]
fn no_secret_is_printed() {
    let credential = Credential::ConnectionString("AccountKey=c2VjcmV0".into());
    let settings = Settings::new("jobs/report", credential);
    assert!(!format!("{settings:?}").contains("c2VjcmV0"), "{settings:?}");
}

#[test]
fn a_credential_file_has_an_absolute_path() {
    let credential = Credential::ConnectionStringFile("secrets/storage".into());
    let variables = CandidateSettings::from(Settings::new("jobs/report", credential)).credential;
    let path = PathBuf::from(variables.get(variable::CONNECTION_STRING_FILE).unwrap());
    assert!(path.is_absolute() && path.ends_with("secrets/storage"), "{}", path.display());
}
