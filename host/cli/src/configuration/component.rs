//! The election component with the settings of a command.

use super::Configuration;
use tenure::clock::BootClock;
use tenure::component::{CheckError, ElectionComponent};

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
}
