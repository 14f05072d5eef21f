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
fn all_complaints_come_at_once() {
    let credential = || Credential::ConnectionString("UseDevelopmentStorage=true".into());
    let settings = Settings::new("jobs/orders", credential());
    for count in [0, MOST_SHARES + 1] {
        let told = complaints(settings.clone(), count);
        assert_eq!(told, [variable::NAME, "TENURE_SHARES"], "{count}");
    }
    let mut settings = Settings::new("jobs/orders", credential());
    settings.name = Some("ada".to_owned());
    for count in [1, MOST_SHARES] {
        assert_eq!(complaints(settings.clone(), count), [""; 0], "{count}");
    }
}

#[test]
fn only_the_plan_says_who_leads() {
    let credential = Credential::ConnectionString("UseDevelopmentStorage=true".into());
    let mut settings = Settings::new("jobs/orders", credential);
    settings.max_tenure = Some(Duration::from_secs(86_400));
    settings.name = Some("ada".to_owned());
    let shares = Shares::new(&Elector::new(settings).unwrap(), 1).unwrap();
    assert_eq!(shares.settings.max_tenure, None);
}
