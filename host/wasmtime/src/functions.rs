//! The functions of the election component that the host calls.

use super::error::ComponentError;
use wasmtime::component::{Component, ComponentExportIndex};

const INTERFACE: &str = "tenure:election/election@0.1.0";

/// Their positions in the component's exports.
#[derive(Clone)]
pub(super) struct Functions {
    pub files: ComponentExportIndex,
    pub check: ComponentExportIndex,
    pub step: ComponentExportIndex,
}

impl Functions {
    pub fn from_component(component: &Component) -> Result<Self, ComponentError> {
        let find_function = |interface: &str, name: &str| {
            let found = component.get_export_index(None, interface);
            let found = found.ok_or_else(|| {
                ComponentError::new(format!("the component does not export {interface}"))
            })?;
            component.get_export_index(Some(&found), name).ok_or_else(|| {
                ComponentError::new(format!("{interface} lacks the function {name}"))
            })
        };
        let function = |name: &str| find_function(INTERFACE, name);
        Ok(Self { files: function("files")?, check: function("check")?, step: function("step")? })
    }
}
