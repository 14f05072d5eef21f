//! Where settings came from, for the complaints of the component.

use super::Configuration;
use crate::cli::complaint::Complaint;
use crate::contract;
use crate::settings::names;

impl Configuration {
    /// Adds what the component complains about.
    pub(in crate::cli) fn add(&mut self, complaints: Vec<contract::Complaint>) {
        for complaint in complaints {
            let origin = self.origins.iter().find(|(setting, _)| *setting == complaint.setting);
            let source = match origin {
                Some((_, told)) if told.is_empty() => continue,
                Some((_, source)) => source.clone(),
                None => match flag_of(&complaint.setting) {
                    Some(flag) if self.settings.get(&complaint.setting).is_none() => {
                        format!("{flag}, or {}", complaint.setting)
                    }
                    _ => complaint.setting,
                },
            };
            self.complaints.push(Complaint::new(source, complaint.problem, complaint.advice));
        }
    }
}

fn flag_of(setting: &str) -> Option<&'static str> {
    match setting {
        names::ELECTION => Some("--election"),
        names::CONNECTION_STRING => Some("--connection-string-file"),
        _ => None,
    }
}
