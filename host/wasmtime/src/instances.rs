//! Instances of the election component. One that has answered is kept for the next call, of whichever candidate: to make one and to
//! take it down again costs more than most steps. One that has trapped, that still holds something of the host, or that has
//! grown is let go. What a candidate remembers is in its state, never in an instance.

use super::context::{Context, Grant, store};
use super::engine::Engine;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::OwnedSemaphorePermit;
use wasmtime::component::{
    ComponentExportIndex, ComponentNamedList, Instance, InstancePre, Lift, Lower,
};
use wasmtime::{Result, Store, format_err};

/// An instance that has answered so often is let go: whatever it may have lost of its memory is found again.
const MAX_CALLS: u32 = 10_000;

/// The most bytes that a call copies between host and instance: those of a list of blobs.
const MAX_COPIED_BYTES: usize = 16 * 1024 * 1024;

/// Bytes of memory with which an instance is kept. One that has just begun has a few hundred KiB.
const MAX_IDLE_MEMORY: usize = 2 * 1024 * 1024;

/// A component, and those of its instances that wait for a call.
pub(super) struct Instances {
    engine: Engine,
    component: InstancePre<Context>,
    idle: Mutex<Vec<IdleInstance>>,
}

/// An instance that nobody calls.
struct IdleInstance {
    instance: LiveInstance,
    /// One of those that may rest on this engine.
    _permit: OwnedSemaphorePermit,
}

struct LiveInstance {
    store: Store<Context>,
    instance: Instance,
    calls: u32,
}

impl Instances {
    pub(super) fn new(engine: Engine, component: InstancePre<Context>) -> Self {
        Self { engine, component, idle: Mutex::default() }
    }

    /// Calls a function with what it is granted. Asks for the arguments when everything else is ready.
    ///
    /// # Errors
    ///
    /// It trapped, or is not as it should be.
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
        let mut running = self.get(grant).await?;
        let LiveInstance { store, instance, calls } = &mut running;
        let function = instance.get_func(&mut *store, function);
        let function = function.ok_or_else(|| format_err!("no such function"))?;
        let function = function.typed::<P, R>(&*store)?;
        let answer = function.call_async(&mut *store, arguments());
        let answer = self.engine.run_interruptible(None, answer).await?;
        *calls += 1;
        // What it was granted ends here, whatever becomes of it.
        if store.data_mut().end_call() < MAX_IDLE_MEMORY && *calls < MAX_CALLS {
            self.park(running);
        }
        Ok(answer)
    }

    async fn get(&self, grant: Grant<'_>) -> Result<LiveInstance> {
        // The one that rested last: what it needs is most likely still at hand.
        let idle = self.idle().pop();
        if let Some(IdleInstance { mut instance, .. }) = idle {
            instance.store.data_mut().resume(grant);
            instance.store.set_epoch_deadline(1);
            return Ok(instance);
        }
        let mut store = store(&self.engine, grant);
        store.set_hostcall_fuel(MAX_COPIED_BYTES);
        let instance = self.component.instantiate_async(&mut store);
        let instance = self.engine.run_interruptible(None, instance).await?;
        Ok(LiveInstance { store, instance, calls: 0 })
    }

    fn park(&self, instance: LiveInstance) {
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
