//! Instances of the election component, and its functions.
//!
//! After a call, an instance is kept for the next call of any candidate, because creating and
//! dropping an instance costs more than most steps. An instance is dropped if it trapped, still
//! holds host resources, or has grown. The memory of a candidate is in its state, not in an
//! instance.

use super::context::{Context, Grant, store};
use super::engine::Engine;
use super::error::ComponentError;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::OwnedSemaphorePermit;
use wasmtime::component::{
    Component, ComponentExportIndex, ComponentNamedList, Instance, InstancePre, Lift, Lower,
};
use wasmtime::{Result, Store, format_err};

const INTERFACE: &str = "tenure:election/election@0.1.0";

/// Maximum number of calls of an instance. Dropping it then frees memory that it has leaked.
const MAX_CALLS: u32 = 10_000;

/// Maximum bytes that the component passes to the host in one result, or in one call of a host
/// function. A list of blobs is the largest.
const MAX_COPIED_BYTES: usize = 16 * 1024 * 1024;

/// Maximum memory of an idle instance, in bytes. A new one has a few hundred KiB.
const MAX_IDLE_MEMORY: usize = 2 * 1024 * 1024;

/// A component and its idle instances.
pub(super) struct Instances {
    engine: Engine,
    component: InstancePre<Context>,
    idle: Mutex<Vec<IdleInstance>>,
}

struct IdleInstance {
    instance: LiveInstance,
    /// A permit of the engine for an idle instance.
    _permit: OwnedSemaphorePermit,
}

struct LiveInstance {
    store: Store<Context>,
    instance: Instance,
    /// The number of finished calls.
    calls: u32,
}

impl Instances {
    pub(super) fn new(engine: Engine, component: InstancePre<Context>) -> Self {
        Self { engine, component, idle: Mutex::default() }
    }

    /// Calls a function with these capabilities. Evaluates the arguments at the last moment, when
    /// the instance is ready.
    ///
    /// # Errors
    ///
    /// Returns an error if the component trapped or broke its contract.
    pub(super) async fn call<P, R>(
        &self,
        grant: Grant<'_>,
        function: &ComponentExportIndex,
        arguments: impl FnOnce() -> P + Send,
    ) -> Result<R>
    where
        P: ComponentNamedList + Lower + Send + Sync,
        R: ComponentNamedList + Lift + Send + Sync + 'static,
    {
        let mut live = self.get_or_create(grant).await?;
        let LiveInstance { store, instance, calls } = &mut live;
        let function = instance.get_func(&mut *store, function);
        let function = function.ok_or_else(|| format_err!("no such function"))?;
        let function = function.typed::<P, R>(&*store)?;
        let call = function.call_async(&mut *store, arguments());
        let result = self.engine.run_interruptible(None, call).await?;
        *calls += 1;
        // Clears the environment, whether the instance is kept or not. The next call replaces the
        // rest of the grant.
        if store.data_mut().end_call() < MAX_IDLE_MEMORY && *calls < MAX_CALLS {
            self.keep_idle(live);
        }
        Ok(result)
    }

    async fn get_or_create(&self, grant: Grant<'_>) -> Result<LiveInstance> {
        // The most recently used instance: its memory is most likely in the processor's caches.
        let idle = self.idle().pop();
        if let Some(IdleInstance { mut instance, .. }) = idle {
            instance.store.data_mut().resume(grant);
            instance.store.set_epoch_deadline(1);
            return Ok(instance);
        }
        let mut store = store(&self.engine, grant);
        store.set_hostcall_fuel(MAX_COPIED_BYTES);
        let instantiation = self.component.instantiate_async(&mut store);
        let instance = self.engine.run_interruptible(None, instantiation).await?;
        Ok(LiveInstance { store, instance, calls: 0 })
    }

    /// Keeps an instance for another call, unless it holds a handle or the engine has enough idle
    /// instances.
    fn keep_idle(&self, instance: LiveInstance) {
        let Ok(permit) = self.engine.idle_permits().clone().try_acquire_owned() else { return };
        if instance.store.data().has_no_handles() {
            self.idle().push(IdleInstance { instance, _permit: permit });
        }
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.idle().len()
    }

    fn idle(&self) -> MutexGuard<'_, Vec<IdleInstance>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The functions of the election component that the host calls, as positions in its exports.
#[derive(Clone)]
pub(super) struct Functions {
    pub files: ComponentExportIndex,
    pub check: ComponentExportIndex,
    pub step: ComponentExportIndex,
}

impl Functions {
    pub fn from_component(component: &Component) -> std::result::Result<Self, ComponentError> {
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
