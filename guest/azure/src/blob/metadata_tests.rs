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
