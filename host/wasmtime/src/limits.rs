//! Limits of a guest's memory and tables.

use wasmtime::{Error, ResourceLimiter, Result, format_err};

/// Instances, memories and tables of one guest: a composed one has several.
const INSTANCES: usize = 64;

/// Maximum number of elements in all of its tables together.
const ELEMENTS: usize = 1_000_000;

/// Counts all memories and tables of a guest together. A guest that exceeds the limit traps, with a
/// text that explains it.
pub(super) struct Limits {
    /// In bytes.
    memory: usize,
    memory_used: usize,
    elements_used: usize,
}

impl Limits {
    pub(super) fn new(memory: usize) -> Self {
        Self { memory, memory_used: 0, elements_used: 0 }
    }

    /// Returns the size of all memories, in bytes.
    pub(super) fn used(&self) -> usize {
        self.memory_used
    }
}

/// Adds growth to `used` if that stays within the limit.
fn grow(
    used: &mut usize,
    limit: usize,
    (current, desired): (usize, usize),
    maximum: Option<usize>,
    too_much: impl FnOnce() -> Error,
) -> Result<bool> {
    // Beyond the guest's own declared maximum, growth fails as on any host.
    if maximum.is_some_and(|maximum| desired > maximum) {
        return Ok(false);
    }
    let wanted = used.saturating_add(desired.saturating_sub(current));
    if wanted > limit {
        return Err(too_much());
    }
    *used = wanted;
    Ok(true)
}

impl ResourceLimiter for Limits {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> Result<bool> {
        let limit = self.memory;
        grow(&mut self.memory_used, limit, (current, desired), maximum, || {
            format_err!("it needs more memory than its limit, {} MiB", limit / (1024 * 1024))
        })
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> Result<bool> {
        grow(&mut self.elements_used, ELEMENTS, (current, desired), maximum, || {
            format_err!("its tables need more than {ELEMENTS} elements")
        })
    }

    fn instances(&self) -> usize {
        INSTANCES
    }

    fn tables(&self) -> usize {
        INSTANCES
    }

    fn memories(&self) -> usize {
        INSTANCES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memories_are_counted_together() {
        let mut limits = Limits::new(1024 * 1024);
        assert!(limits.memory_growing(0, 600_000, None).unwrap());
        assert!(limits.memory_growing(0, 400_000, None).unwrap());
        let error = limits.memory_growing(400_000, 500_000, None).unwrap_err();
        assert_eq!(error.to_string(), "it needs more memory than its limit, 1 MiB");
        assert!(limits.memory_growing(400_000, 440_000, None).unwrap());
    }

    #[test]
    fn tables_are_counted_together() {
        let mut limits = Limits::new(0);
        assert!(limits.table_growing(0, ELEMENTS / 2, None).unwrap());
        assert!(limits.table_growing(0, ELEMENTS / 2 + 1, None).is_err());
    }

    #[test]
    fn growth_beyond_the_guests_own_maximum_is_no_trap() {
        let mut limits = Limits::new(1024);
        assert!(!limits.memory_growing(0, 2048, Some(1024)).unwrap());
        assert!(!limits.table_growing(0, 2, Some(1)).unwrap());
    }
}
