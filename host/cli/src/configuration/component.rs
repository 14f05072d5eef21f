//! What the component reads of the settings.

use super::Configuration;
#[cfg(unix)]
use crate::stop_time;
use tenure::clock::BootClock;
use tenure::component::{CheckError, ElectionComponent};
use tenure::settings::names;

impl Configuration {
    /// The election component with these settings, for a command that runs no handler; what it
    /// complains about is added.
    ///
    /// # Errors
    ///
    /// Why there is none, for people.
    pub(crate) async fn component(
        &mut self,
        clock: &BootClock,
    ) -> Result<ElectionComponent, String> {
        let engine = crate::engine()?;
        let component = ElectionComponent::new(&engine, self.settings.clone(), clock);
        let component = component.map_err(|error| error.to_string())?;
        let component = component.trusting(self.authorities.clone());
        match component.check().await {
            Ok(_) => {}
            Err(CheckError::Settings(complaints)) => self.add(complaints),
            Err(CheckError::Component(error)) => return Err(error.to_string()),
        }
        Ok(component)
    }

    /// The periods as the component reads them; none where it complains about one of them.
    #[cfg(unix)]
    pub(super) fn periods(&self) -> Option<stop_time::Periods> {
        let variable = |name: &str| match name {
            names::ELECTION => Some("any/any".to_owned()),
            names::CONNECTION_STRING => Some("UseDevelopmentStorage=true".to_owned()),
            names::LEASE | names::MARGIN | names::RENEW | names::POLL => {
                self.settings.get(name).map(str::to_owned)
            }
            names::REQUEST_TIMEOUT | names::TURN_TIMEOUT => {
                self.settings.get(name).map(str::to_owned)
            }
            _ => None,
        };
        let read = tenure_core::Settings::read(variable).ok()?;
        Some(stop_time::Periods {
            validity: read.timings.lease.saturating_sub(read.timings.margin),
            renew: read.timings.renew,
            turn_timeout: read.watchdog.turn_timeout,
        })
    }

    /// The timer as the record of a leader with these settings has it; none without one.
    pub(crate) fn schedule(&self) -> Option<String> {
        let variable = |name: &str| match name {
            names::ELECTION => Some("any/any".to_owned()),
            names::CONNECTION_STRING => Some("UseDevelopmentStorage=true".to_owned()),
            names::EVERY | names::CRON | names::TIME_ZONE => {
                self.settings.get(name).map(str::to_owned)
            }
            _ => None,
        };
        tenure_core::Settings::read(variable).ok()?.agenda.words()
    }
}
