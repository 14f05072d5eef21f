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
const CALLS: u32 = 10_000;

/// The most bytes that a call copies between host and instance: those of a list of blobs.
const COPIED: usize = 16 * 1024 * 1024;

/// Bytes of memory with which an instance is kept. One that has just begun has a few hundred KiB.
const GROWN: usize = 2 * 1024 * 1024;

/// A component, and those of its instances that wait for a call.
pub(super) struct Instances {
    engine: Engine,
    component: InstancePre<Context>,
    resting: Mutex<Vec<Resting>>,
}

/// An instance that nobody calls.
struct Resting {
    instance: Running,
    /// One of those that may rest on this engine.
    _room: OwnedSemaphorePermit,
}

struct Running {
    store: Store<Context>,
    instance: Instance,
    calls: u32,
}

impl Instances {
    pub(super) fn new(engine: Engine, component: InstancePre<Context>) -> Self {
        Self { engine, component, resting: Mutex::default() }
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
        let Running { store, instance, calls } = &mut running;
        let function = instance.get_func(&mut *store, function);
        let function = function.ok_or_else(|| format_err!("no such function"))?;
        let function = function.typed::<P, R>(&*store)?;
        let answer = function.call_async(&mut *store, arguments());
        let answer = self.engine.interrupting(None, answer).await?;
        *calls += 1;
        // What it was granted ends here, whatever becomes of it.
        if store.data_mut().rest() < GROWN && *calls < CALLS {
            self.keep(running);
        }
        Ok(answer)
    }

    async fn get(&self, grant: Grant<'_>) -> Result<Running> {
        // The one that rested last: what it needs is most likely still at hand.
        let resting = self.resting().pop();
        if let Some(Resting { mut instance, .. }) = resting {
            instance.store.data_mut().resume(grant);
            instance.store.set_epoch_deadline(1);
            return Ok(instance);
        }
        let mut store = store(&self.engine, grant);
        store.set_hostcall_fuel(COPIED);
        let instance = self.component.instantiate_async(&mut store);
        let instance = self.engine.interrupting(None, instance).await?;
        Ok(Running { store, instance, calls: 0 })
    }

    fn keep(&self, instance: Running) {
        let Ok(room) = self.engine.room().clone().try_acquire_owned() else { return };
        if instance.store.data().holds_nothing() {
            self.resting().push(Resting { instance, _room: room });
        }
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.resting().len()
    }

    fn resting(&self) -> MutexGuard<'_, Vec<Resting>> {
        self.resting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
