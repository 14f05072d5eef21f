//! The components of handlers in use. Each is compiled once for all elections with that handler.

use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use wasmtime::component::Component;

/// The slot of one component; `None` while it is being compiled or if that failed.
type CompiledSlot = Mutex<Option<Component>>;

/// Keeps a component available to other handlers.
pub(crate) type ComponentGuard = Arc<CompiledSlot>;

/// All slots, by the hash of the component's bytes.
#[derive(Default)]
pub(super) struct Compiled(Mutex<HashMap<[u8; 32], Weak<CompiledSlot>>>);

impl Compiled {
    /// Returns the component, and compiles it if no handler has it. Concurrent callers wait.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be compiled.
    pub(super) fn get(
        &self,
        binary: &[u8],
        compile: impl FnOnce() -> wasmtime::Result<Component>,
    ) -> wasmtime::Result<(Component, ComponentGuard)> {
        let guard = {
            let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            entries.retain(|_, entry| entry.strong_count() > 0);
            let slot = entries.entry(Sha256::digest(binary).into()).or_default();
            slot.upgrade().unwrap_or_else(|| {
                let guard = ComponentGuard::default();
                *slot = Arc::downgrade(&guard);
                guard
            })
        };
        let mut slot = guard.lock().unwrap_or_else(PoisonError::into_inner);
        let component = match &*slot {
            Some(component) => component.clone(),
            None => slot.insert(compile()?).clone(),
        };
        drop(slot);
        Ok((component, guard))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// An empty component.
    const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";

    #[test]
    fn a_component_in_use_is_compiled_once() {
        let (engine, all, count) = (wasmtime::Engine::default(), Compiled::default(), Cell::new(0));
        let get = || {
            let compile = || {
                count.set(count.get() + 1);
                Component::from_binary(&engine, EMPTY)
            };
            all.get(EMPTY, compile).unwrap()
        };
        let both = (get(), get());
        assert_eq!(count.get(), 1);
        drop(both);
        let _again = get();
        assert_eq!(count.get(), 2, "nobody had it any more");
    }

    #[test]
    fn a_failed_compilation_is_not_kept() {
        let (engine, all) = (wasmtime::Engine::default(), Compiled::default());
        assert!(all.get(b"x", || Component::from_binary(&engine, b"x")).is_err());
        assert!(all.get(b"x", || Component::from_binary(&engine, EMPTY)).is_ok());
    }
}
