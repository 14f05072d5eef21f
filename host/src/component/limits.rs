//! How much memory a guest may take.

use wasmtime::{ResourceLimiter, Result, format_err};

/// Instances, memories and tables of one guest: a composed one has several.
const INSTANCES: usize = 64;

/// Elements that all of its tables may have together.
const ELEMENTS: usize = 1_000_000;

/// Counts what all memories and tables of a guest take together. A guest that wants more traps,
/// with a text that tells people why.
pub(super) struct Limits {
    /// Bytes.
    memory: usize,
    memory_used: usize,
    elements_used: usize,
}

impl Limits {
    pub(super) fn new(memory: usize) -> Self {
        Self { memory, memory_used: 0, elements_used: 0 }
    }
}

impl ResourceLimiter for Limits {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> Result<bool> {
        // More than the memory itself declares: the guest is told, as on any host.
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        let wanted = self.memory_used.saturating_add(desired.saturating_sub(current));
        if wanted > self.memory {
            let limit = self.memory / (1024 * 1024);
            return Err(format_err!("it needs more memory than its limit, {limit} MiB"));
        }
        self.memory_used = wanted;
        Ok(true)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        let wanted = self.elements_used.saturating_add(desired.saturating_sub(current));
        if wanted > ELEMENTS {
            return Err(format_err!("its tables need more than {ELEMENTS} elements"));
        }
        self.elements_used = wanted;
        Ok(true)
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
    fn what_the_guest_itself_forbids_is_no_trap() {
        let mut limits = Limits::new(1024);
        assert!(!limits.memory_growing(0, 2048, Some(1024)).unwrap());
        assert!(!limits.table_growing(0, 2, Some(1)).unwrap());
    }
}
