//! The election component with the settings of a command.

use super::Configuration;
use crate::engine;
use crate::output::{fail, refuse};
use std::process::ExitCode;
use tenure::clock::BootClock;
use tenure::component::{CheckError, ElectionComponent};
use tenure::settings::Variables;

/// The election component, without settings: the elections of a process share it.
///
/// # Errors
///
/// Why there is none, for people.
pub(crate) fn component(clock: &BootClock) -> Result<ElectionComponent, String> {
    let engine = engine::unlogged()?;
    ElectionComponent::new(&engine, Variables::new(), clock).map_err(|error| error.to_string())
}

impl Configuration {
    /// Returns the election component with these settings, for an operator's command.
    ///
    /// # Errors
    ///
    /// The exit code, once it was written why there is none, or what is wrong with the settings.
    pub(crate) async fn component(
        &mut self,
        clock: &BootClock,
    ) -> Result<ElectionComponent, ExitCode> {
        let shared = component(clock).map_err(fail)?;
        let component = self.component_on(&shared, clock).await.map_err(fail)?;
        if self.complaints.is_empty() { Ok(component) } else { Err(refuse(&self.complaints)) }
    }

    /// Returns `shared` with these settings, for a command that runs no handler. Adds what it complains about.
    ///
    /// # Errors
    ///
    /// Why there is none, for people.
    pub(crate) async fn component_on(
        &mut self,
        shared: &ElectionComponent,
        clock: &BootClock,
    ) -> Result<ElectionComponent, String> {
        let component = shared.for_candidate(self.settings.clone(), clock);
        let component = component.trusting(self.authorities.clone());
        match component.check().await {
            Ok(_) => {}
            Err(CheckError::Settings(complaints)) => self.add(complaints),
            Err(CheckError::Component(error)) => return Err(error.to_string()),
        }
        Ok(component)
    }
}
