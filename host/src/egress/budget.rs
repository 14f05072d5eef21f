//! What the host holds for one turn, in bytes: requests and answers under way, and what the turn's
//! handles stand for. A handler's own memory is limited elsewhere.

use http::{HeaderMap, HeaderName, HeaderValue};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that one turn may make the host hold. Clones are the same turn's.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Account>);

#[derive(Debug)]
struct Account {
    limit: usize,
    /// What is under way.
    charged: AtomicUsize,
    /// What the handles stood for when they were last counted.
    handle_bytes: AtomicUsize,
}

impl Budget {
    /// Bytes of the headers of one message, as they lie in memory.
    pub const FIELDS: usize = 64 * 1024;

    /// Bytes of a body that a guest may write before they are taken.
    pub const CHUNK: usize = 16 * 1024;

    /// The most that is held of a body which a guest has not finished: a chunk, and trailers.
    pub const OPEN_BODY: usize = Self::CHUNK + Self::FIELDS;

    /// One of so many bytes.
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Account { limit, charged: AtomicUsize::new(0), handle_bytes: AtomicUsize::new(0) }))
    }

    /// For code that is trusted.
    pub fn unlimited() -> Self {
        Self::new(usize::MAX)
    }

    /// What headers take in memory, roughly: their places, and their texts.
    pub fn weight(headers: &HeaderMap) -> usize {
        const ENTRY_SIZE: usize = size_of::<HeaderName>() + size_of::<HeaderValue>() + 40;
        /// Every value of a name but the first one, in a list that doubles when it is full.
        const EXTRA_VALUE_SIZE: usize = 2 * (size_of::<HeaderValue>() + 32);
        const TEXT_OVERHEAD: usize = 32;
        let text_sizes = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + TEXT_OVERHEAD);
        let extra_values = headers.len() - headers.keys_len();
        headers.capacity() * ENTRY_SIZE + extra_values * EXTRA_VALUE_SIZE + text_sizes.sum::<usize>()
    }

    /// One of which requests may have `limit`.
    #[cfg(test)]
    pub fn for_requests(limit: usize) -> Self {
        Self::new(limit + limit / 3)
    }

    /// Whether it has no limit.
    pub fn is_unlimited(&self) -> bool {
        self.0.limit == usize::MAX
    }

    /// The limit, for people.
    pub fn limit(&self) -> String {
        format!("{} MiB", self.0.limit / (1024 * 1024))
    }

    /// Takes `bytes` until what is returned is dropped; none when there are not so many left.
    pub fn charge(&self, bytes: usize) -> Option<Charge> {
        let mut charge = Charge { budget: self.clone(), bytes: 0 };
        charge.resize(bytes).then_some(charge)
    }

    /// Takes note of what the handles stand for; false when that and what is under way are more than
    /// the limit.
    pub fn set_handle_bytes(&self, bytes: usize) -> bool {
        self.0.handle_bytes.store(bytes, Ordering::SeqCst);
        bytes.saturating_add(self.0.charged.load(Ordering::SeqCst)) <= self.0.limit
    }
}

/// A part of a budget. Given back when it is dropped.
#[derive(Debug)]
pub struct Charge {
    budget: Budget,
    bytes: usize,
}

impl Charge {
    /// Makes it as large as `bytes`; false when there are not so many left, and it stays as it is.
    pub fn resize(&mut self, bytes: usize) -> bool {
        let Account { limit, charged, handle_bytes: held } = &*self.budget.0;
        // A quarter is for handles alone: a turn that has as many requests under way as there is room
        // for may go on holding handles, that of the refused one among them.
        let available = limit.saturating_sub(held.load(Ordering::SeqCst).max(limit / 4));
        let growth = bytes.saturating_sub(self.bytes);
        let changed = charged.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |charged| {
            let total = charged.checked_add(bytes)?.checked_sub(self.bytes)?;
            // To give back is always possible.
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

/// Bytes that are charged for as long as they are there.
pub(super) struct ChargedBytes {
    pub bytes: Vec<u8>,
    /// There to be dropped.
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
        // More than there is: it can be made less all the same.
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
