//! The doctor's component: the election component of another build, which examines instead of leading.

use super::ElectionComponent;
use super::bindings::doctor::exports::tenure::election::examination;
use super::engine::Engine;
use super::error::{CheckError, ComponentError};
use crate::clock::Clock;
use crate::contract::{Complaint, Needs};
use crate::egress::Authorities;
use crate::settings::Settings;
use wasmtime::component::ComponentExportIndex;

pub use examination::{Finding, Verdict};

/// The doctor's component that this crate was built with: the WIT world `doctor`.
pub const DOCTOR_COMPONENT: &[u8] = include_bytes!(env!("TENURE_DOCTOR"));

const INTERFACE: &str = "tenure:election/examination@0.1.0";

/// The doctor, with the settings of one candidate.
#[derive(Debug)]
pub struct Doctor {
    component: ElectionComponent,
    examine: ComponentExportIndex,
}

impl Doctor {
    /// The embedded component.
    ///
    /// # Errors
    ///
    /// When the component cannot be compiled.
    pub fn new(
        engine: &Engine,
        settings: Settings,
        clock: &impl Clock,
    ) -> Result<Self, ComponentError> {
        let component = ElectionComponent::with_binary(engine, DOCTOR_COMPONENT, settings, clock)?;
        let examine = component.function(INTERFACE, "examine")?;
        Ok(Self { component, examine })
    }

    /// Trusts servers that `authorities` vouch for too, as
    /// [`ElectionComponent::trusting`] does.
    #[must_use]
    pub fn trusting(self, authorities: Authorities) -> Self {
        Self { component: self.component.trusting(authorities), ..self }
    }

    /// Judges the settings, as [`ElectionComponent::check`] does. Sends nothing.
    ///
    /// # Errors
    ///
    /// All complaints at once, or the failure of the component itself.
    pub async fn check(&self) -> Result<Needs, CheckError> {
        self.component.check().await
    }

    /// Tries all that an election needs, on a blob of its own. Takes some seconds, and at most a minute
    /// or so. Dropped, it may leave that blob behind.
    ///
    /// # Errors
    ///
    /// All complaints about the settings, or the failure of the component itself.
    pub async fn examine(&self) -> Result<Vec<Finding>, CheckError> {
        let (answer,): (Result<Vec<Finding>, Vec<Complaint>>,) =
            self.component.call(&self.examine, ()).await?;
        answer.map_err(CheckError::Settings)
    }
}
