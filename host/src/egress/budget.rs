//! Memory budget of a turn in the host: running requests and responses, and the objects behind the
//! turn's WASI handles. The memory limit of the component itself is separate.

use http::{HeaderMap, HeaderName, HeaderValue};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that the host may hold for one turn. Clones belong to the same turn.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Account>);

#[derive(Debug)]
struct Account {
    limit: usize,
    /// Bytes of running requests and responses.
    charged: AtomicUsize,
    /// Bytes behind the handles at the last count.
    handle_bytes: AtomicUsize,
}

impl Budget {
    /// Maximum bytes of the headers of one message, in memory.
    pub const FIELDS: usize = 64 * 1024;

    /// Bytes that a guest may write to a body before the host takes them.
    pub const CHUNK: usize = 16 * 1024;

    /// Maximum bytes of a body that a guest has not finished: a chunk, and trailers.
    pub const OPEN_BODY: usize = Self::CHUNK + Self::FIELDS;

    /// Creates a budget of `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Account {
            limit,
            charged: AtomicUsize::new(0),
            handle_bytes: AtomicUsize::new(0),
        }))
    }

    /// Creates a budget without a limit, for trusted code.
    pub fn unlimited() -> Self {
        Self::new(usize::MAX)
    }

    /// Returns the approximate memory of headers: their entries and their texts.
    pub fn weight(headers: &HeaderMap) -> usize {
        // The sizes fit `http` 1.5. An entry of a `HeaderMap` has its hash (8 bytes) and links (24)
        // too, and a place in the index (6).
        const ENTRY_SIZE: usize = size_of::<HeaderName>() + size_of::<HeaderValue>() + 40;
        // A further value of a name has two links of 16 bytes. Its list doubles when it is full.
        const EXTRA_VALUE_SIZE: usize = 2 * (size_of::<HeaderValue>() + 32);
        // The reference count of a `Bytes` (24 bytes), rounded up by the allocator.
        const TEXT_OVERHEAD: usize = 32;
        let text_sizes =
            headers.iter().map(|(name, value)| name.as_str().len() + value.len() + TEXT_OVERHEAD);
        let extra_values = headers.len() - headers.keys_len();
        headers.capacity() * ENTRY_SIZE
            + extra_values * EXTRA_VALUE_SIZE
            + text_sizes.sum::<usize>()
    }

    /// Creates a budget whose requests may use `limit`.
    #[cfg(test)]
    pub fn for_requests(limit: usize) -> Self {
        Self::new(limit + limit / 3)
    }

    /// Returns true if the budget has no limit.
    pub fn is_unlimited(&self) -> bool {
        self.0.limit == usize::MAX
    }

    /// Returns the limit as text.
    pub fn limit(&self) -> String {
        format!("{} MiB", self.0.limit / (1024 * 1024))
    }

    /// Charges `bytes` until the returned value is dropped. Returns `None` if fewer are available.
    pub fn charge(&self, bytes: usize) -> Option<Charge> {
        let mut charge = Charge { budget: self.clone(), bytes: 0 };
        charge.resize(bytes).then_some(charge)
    }

    /// Records the bytes behind the handles. Returns false if they and the charges exceed the
    /// limit.
    pub fn set_handle_bytes(&self, bytes: usize) -> bool {
        self.0.handle_bytes.store(bytes, Ordering::SeqCst);
        bytes.saturating_add(self.0.charged.load(Ordering::SeqCst)) <= self.0.limit
    }
}

/// A part of a budget, returned on drop.
#[derive(Debug)]
pub struct Charge {
    budget: Budget,
    bytes: usize,
}

impl Charge {
    /// Changes the charge to `bytes`. Returns false and keeps the former charge if fewer bytes are
    /// available.
    pub fn resize(&mut self, bytes: usize) -> bool {
        let Account { limit, charged, handle_bytes } = &*self.budget.0;
        // A quarter is reserved for handles. A turn with as many requests as fit can then still
        // hold handles, including that of a denied request.
        let available = limit.saturating_sub(handle_bytes.load(Ordering::SeqCst).max(limit / 4));
        let growth = bytes.saturating_sub(self.bytes);
        let changed = charged.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |charged| {
            let total = charged.checked_add(bytes)?.checked_sub(self.bytes)?;
            // A charge can always be reduced.
            (growth == 0 || total <= available).then_some(total)
        });
        if changed.is_ok() {
            self.bytes = bytes;
        }
        changed.is_ok()
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.0.charged.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

/// Bytes with their charge.
pub(super) struct ChargedBytes {
    pub bytes: Vec<u8>,
    /// Held until the bytes are dropped.
    pub _charge: Charge,
}

impl AsRef<[u8]> for ChargedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_charge_is_available_again() {
        let budget = Budget::for_requests(100);
        let mut first = budget.charge(60).unwrap();
        assert!(budget.charge(41).is_none());
        let second = budget.charge(40).unwrap();
        assert!(!first.resize(61));
        drop(second);
        assert!(first.resize(100) && first.resize(10));
        assert!(budget.charge(90).is_some());
    }

    #[test]
    fn bytes_of_handles_count_too() {
        let budget = Budget::new(100);
        let mut charge = budget.charge(60).unwrap();
        assert!(budget.set_handle_bytes(40));
        assert!(budget.charge(1).is_none());
        assert!(!budget.set_handle_bytes(41));
        // An exceeded budget can still be reduced.
        assert!(!charge.resize(61) && charge.resize(59));
    }

    #[test]
    fn requests_leave_a_quarter_to_the_handles() {
        let budget = Budget::new(100);
        let _charge = budget.charge(75).unwrap();
        assert!(budget.charge(1).is_none());
        assert!(budget.set_handle_bytes(25) && !budget.set_handle_bytes(26));
    }

    #[test]
    fn headers_weigh_more_than_their_texts() {
        let mut headers = HeaderMap::new();
        assert_eq!(Budget::weight(&headers), 0);
        headers.insert("name", HeaderValue::from_static("value"));
        let one = Budget::weight(&headers);
        assert!(one > "namevalue".len());
        (0..1000).for_each(|_| _ = headers.append("name", HeaderValue::from_static("value")));
        assert!(Budget::weight(&headers) > 1000 * ("value".len() + 2 * 72));
    }
}
