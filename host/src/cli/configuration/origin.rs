//! Where settings came from, for the complaints of the component.

use super::Configuration;
use crate::cli::complaint::{Complaint, reworded};
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
            // The other setting of two that do not go together is called as it was given, too.
            let problem = reworded(&complaint.problem, |word| self.typed(word));
            self.complaints.push(Complaint::new(source, problem, complaint.advice));
        }
    }

    /// The flag that gave a setting; none when it comes from a variable.
    fn typed(&self, setting: &str) -> Option<String> {
        let (_, source) = self.origins.iter().find(|(known, _)| *known == setting)?;
        source.split(' ').next().filter(|flag| !flag.is_empty()).map(str::to_owned)
    }
}

fn flag_of(setting: &str) -> Option<&'static str> {
    match setting {
        names::ELECTION => Some("--election"),
        names::CONNECTION_STRING => Some("--connection-string-file"),
        _ => None,
    }
}
