use super::*;
use tenure::Elector;
use tenure::settings::Credential;

fn complaints(settings: Settings, count: u32) -> Vec<&'static str> {
    match Shares::new(&Elector::new(settings).unwrap(), count) {
        Ok(_) => Vec::new(),
        Err(InvalidSettings(complaints)) => {
            complaints.into_iter().map(|complaint| complaint.setting.variable()).collect()
        }
    }
}

#[test]
fn all_complaints_are_reported_together() {
    let credential = || Credential::ConnectionString("UseDevelopmentStorage=true".into());
    let settings = Settings::new("jobs/orders", credential());
    for count in [0, MAX_SHARES + 1] {
        let reported = complaints(settings.clone(), count);
        assert_eq!(reported, [variable::NAME, "TENURE_SHARES"], "{count}");
    }
    let mut settings = Settings::new("jobs/orders", credential());
    settings.name = Some("ada".to_owned());
    for count in [1, MAX_SHARES] {
        assert_eq!(complaints(settings.clone(), count), [""; 0], "{count}");
    }
}

#[test]
fn max_tenure_is_ignored_for_shares() {
    let credential = Credential::ConnectionString("UseDevelopmentStorage=true".into());
    let mut settings = Settings::new("jobs/orders", credential);
    settings.max_tenure = Some(Duration::from_secs(86_400));
    settings.name = Some("ada".to_owned());
    let shares = Shares::new(&Elector::new(settings).unwrap(), 1).unwrap();
    assert_eq!(shares.settings.max_tenure, None);
}
