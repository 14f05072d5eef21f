//! Values with a fingerprint, computed once, that replaces comparison and hashing.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::rc::Rc;

/// Returns a fingerprint that is the same in every run, and very likely unique.
pub fn digest(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Immutable value with its fingerprint. Cheap to clone.
pub struct Hashed<T> {
    value: Rc<T>,
    digest: u64,
}

impl<T> Hashed<T> {
    /// Creates a value with a fingerprint that covers all relevant parts.
    pub fn with_digest(value: T, digest: u64) -> Self {
        Self { value: Rc::new(value), digest }
    }
}

impl<T: Hash> Hashed<T> {
    pub fn new(value: T) -> Self {
        let digest = digest(&value);
        Self::with_digest(value, digest)
    }
}

impl<T> Clone for Hashed<T> {
    fn clone(&self) -> Self {
        Self { value: self.value.clone(), digest: self.digest }
    }
}

impl<T> Deref for Hashed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Hash for Hashed<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.digest.hash(state);
    }
}

/// Results of a pure function, by the fingerprint of its input.
///
/// Most states differ in only one part, so most results of parts are already known.
pub struct Memo<T>(RefCell<HashMap<u64, T>>);

impl<T: Clone> Memo<T> {
    pub fn get(&self, key: u64, compute: impl FnOnce() -> T) -> T {
        let known = self.0.borrow().get(&key).cloned();
        known.unwrap_or_else(|| {
            let result = compute();
            self.0.borrow_mut().insert(key, result.clone());
            result
        })
    }
}

impl<T> Default for Memo<T> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<T> fmt::Debug for Memo<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} results", self.0.borrow().len())
    }
}
