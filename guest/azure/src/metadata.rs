//! The metadata of a blob: a few names, each with a value.

use serde::{Deserialize, Serialize};
use tenure_base::prelude::*;

/// Names and values, sorted by name, without duplicates.
///
/// A sorted list, since there are a dozen entries at most, and the standard map would be a
/// twentieth of the component.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata(Vec<(String, String)>);

impl Metadata {
    /// Returns the value of `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        let index = self.position(name).ok()?;
        self.0.get(index).map(|(_, value)| value.as_str())
    }

    /// Sets the value of `name`.
    pub fn insert(&mut self, name: String, value: String) {
        match self.position(&name) {
            Ok(index) => self.0[index].1 = value,
            Err(index) => self.0.insert(index, (name, value)),
        }
    }

    /// Removes `name`, and returns its value.
    pub fn remove(&mut self, name: &str) -> Option<String> {
        let index = self.position(name).ok()?;
        Some(self.0.remove(index).1)
    }

    /// Returns true if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns all names and values, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns all names and values, in the order of the names.
    pub fn into_pairs(self) -> Vec<(String, String)> {
        self.0
    }

    /// Returns the position of `name`, or where to insert it.
    fn position(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(other, _)| other.as_str().cmp(name))
    }
}

/// If a name has several values, the last one remains.
impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Metadata {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(entries: I) -> Self {
        let mut metadata = Self::default();
        for (name, value) in entries {
            metadata.insert(name.into(), value.into());
        }
        metadata
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn behaves_as_a_map(steps in proptest::collection::vec(("[a-c]{0,2}", ".?", any::<bool>()), 0..20)) {
            let (mut metadata, mut map) = (Metadata::default(), BTreeMap::new());
            for (name, value, insert) in steps {
                if insert {
                    metadata.insert(name.clone(), value.clone());
                    map.insert(name.clone(), value);
                } else {
                    prop_assert_eq!(metadata.remove(&name), map.remove(&name));
                }
                prop_assert_eq!(metadata.get(&name), map.get(&name).map(String::as_str));
                prop_assert_eq!(metadata.is_empty(), map.is_empty());
            }
            let entries = map.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            prop_assert!(metadata.iter().eq(entries));
        }
    }
}
