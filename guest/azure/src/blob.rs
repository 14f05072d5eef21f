//! The blob of an election: its name (`container/blob`), the ids of its lease (protocol.md §1), and
//! its metadata.

use core::fmt;

use super::encoding::{self, AsciiSet};
use serde::{Deserialize, Serialize};
use tenure_base::prelude::*;
use uuid::{Builder, Uuid};

/// The names of a container and of a blob in it, both valid by Azure's rules (REST: *Naming and
/// referencing containers, blobs, and metadata*).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobName {
    container: String,
    blob: String,
}

/// Maximum characters of a blob's name.
const LONGEST: usize = 1024;

/// Characters that are encoded in a path: all except the slash and the unreserved characters of
/// RFC 3986.
const ENCODED: &AsciiSet = &encoding::EXCEPT_UNRESERVED.remove(b'/');

/// The longest suffix of a side blob.
const MAX_SUFFIX: &str = ".candidates";

impl BlobName {
    /// Parses `container/blob`; the blob's own name may contain more slashes.
    ///
    /// # Errors
    /// Returns one sentence for each rule that the name breaks.
    pub fn parse(text: &str) -> Result<BlobName, Vec<String>> {
        let Some((container, blob)) = text.split_once('/') else {
            return Err(vec![
                "an election is named container/blob, and this name has no slash".into(),
            ]);
        };
        let mut broken_rules = Vec::new();
        check_container(container, &mut broken_rules);
        check_blob(blob, &mut broken_rules);
        if broken_rules.is_empty() {
            Ok(BlobName { container: container.into(), blob: blob.into() })
        } else {
            Err(broken_rules.into_iter().map(String::from).collect())
        }
    }

    /// Returns the container's name.
    pub fn container(&self) -> &str {
        &self.container
    }

    /// Returns the blob's name inside its container.
    pub fn blob(&self) -> &str {
        &self.blob
    }

    /// Returns `/container`, percent-encoded for the wire.
    pub fn container_path(&self) -> String {
        encoded_path(&[&self.container])
    }

    /// Returns `/container/blob`, percent-encoded for the wire.
    pub fn path(&self) -> String {
        encoded_path(&[&self.container, &self.blob])
    }

    /// Returns the path of a side blob, such as `/container/blob.successor`, percent-encoded.
    pub fn side_blob_path(&self, blob: SideBlob) -> String {
        self.path() + blob.suffix()
    }

    /// Returns the name of a side blob for messages.
    pub fn side_blob_name(&self, blob: SideBlob) -> String {
        self.to_string() + blob.suffix()
    }

    /// Returns the name of the blob next to this one with a suffix: `container/blob.SUFFIX`.
    ///
    /// # Errors
    /// Returns one sentence for each rule that the name breaks.
    pub fn side_blob(&self, suffix: &str) -> Result<BlobName, Vec<String>> {
        Self::parse(&format!("{self}.{suffix}"))
    }

    /// Returns true if the name of every [`SideBlob`] of this blob is within the maximum length.
    pub fn may_have_side_blobs(&self) -> bool {
        self.blob.chars().count() + MAX_SUFFIX.len() <= LONGEST
    }
}

/// A small blob without a lease, next to the election's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SideBlob {
    /// `.successor`: the announcement of the candidate that is to lead next.
    Successor,
    /// `.candidates`: the recently seen candidates.
    Candidates,
    /// `.orders`: the triggers and the transfer that operators placed.
    Orders,
}

impl SideBlob {
    fn suffix(self) -> &'static str {
        match self {
            Self::Successor => ".successor",
            Self::Candidates => ".candidates",
            Self::Orders => ".orders",
        }
    }
}

impl fmt::Display for BlobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.container)?;
        f.write_str("/")?;
        f.write_str(&self.blob)
    }
}

fn encoded_path(parts: &[&str]) -> String {
    let mut path = String::new();
    for part in parts {
        path.push('/');
        path.push_str(&encoding::percent_encode(part, ENCODED));
    }
    path
}

fn check_container(name: &str, broken_rules: &mut Vec<&'static str>) {
    if name == "$root" {
        return;
    }
    if name.starts_with('$') {
        broken_rules.push("a container whose name starts with a dollar sign, except $root, cannot hold an election");
        return;
    }
    if !(3..=63).contains(&name.chars().count()) {
        broken_rules.push("a container's name has 3 to 63 characters");
    }
    if !name.bytes().all(|byte| is_lower_or_digit(byte) || byte == b'-') {
        broken_rules.push("a container's name holds only lower-case letters, digits and hyphens");
    }
    if name.starts_with('-') || name.ends_with('-') {
        broken_rules.push("a container's name starts and ends with a letter or a digit");
    }
    if name.as_bytes().windows(2).any(|two| two == b"--") {
        broken_rules.push("a container's name has no two hyphens in a row");
    }
}

fn is_lower_or_digit(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn check_blob(name: &str, broken_rules: &mut Vec<&'static str>) {
    if !(1..=LONGEST).contains(&name.chars().count()) {
        broken_rules.push("a blob's name has 1 to 1024 characters");
    }
    if name.ends_with(['/', '\\', ' ']) {
        broken_rules.push("a blob's name does not end with a slash, a backslash or a space");
    }
    if name.contains(char::is_control) {
        broken_rules.push("a blob's name holds no control characters");
    }
    if name.split('/').count() > 254 {
        broken_rules.push("a blob's name has at most 254 parts between slashes");
    }
    // Clients remove the parts "." and ".." from a URL, and the service removes a dot at the end.
    if name.split('/').any(|part| part.ends_with('.')) {
        broken_rules.push("no part of a blob's name ends with a dot");
    }
}

/// A lease id in Azure's form: a GUID, sent in lower case with dashes. Each attempt to win a term
/// has its own.
///
/// A lease id is a secret: any client that knows the current one can renew and release the lease.
/// `Debug` prints nothing of it; `Display` is for the wire only.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LeaseId(Uuid);

impl LeaseId {
    /// Creates an id from 16 random bytes; sets the version (4) and variant bits.
    pub fn from_random(bytes: [u8; 16]) -> LeaseId {
        LeaseId(Builder::from_random_bytes(bytes).into_uuid())
    }

    /// Parses every spelling that the service accepts: dashed, plain hex, `{braced}`,
    /// `(parenthesised)`, in any case.
    ///
    /// Returns `None` for everything else. Blanks are not trimmed.
    pub fn parse(text: &str) -> Option<LeaseId> {
        let unbraced = match text.as_bytes() {
            [b'{', .., b'}'] | [b'(', .., b')'] => text.get(1..text.len() - 1)?,
            _ => text,
        };
        // The library accepts more spellings than the service.
        let is_known_form = unbraced.len() == 36 || text.len() == 32;
        Uuid::try_parse(unbraced).ok().filter(|_| is_known_form).map(LeaseId)
    }
}

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_hyphenated().fmt(f)
    }
}

impl fmt::Debug for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeaseId(..)")
    }
}

/// The metadata of a blob: names and values, sorted by name. Each name occurs once.
///
/// A sorted list is enough, since there are a dozen entries at most. The standard map would make up
/// a twentieth of the component.
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

    /// Returns the index of `name`. If it is absent, the error is the index to insert it at.
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
mod lease_id_tests;
#[cfg(test)]
mod metadata_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_name_is_container_and_blob() {
        let name = BlobName::parse("leases/team a/leader").unwrap();
        assert_eq!((name.container(), name.blob()), ("leases", "team a/leader"));
        assert_eq!(name.to_string(), "leases/team a/leader");
    }

    #[test]
    fn the_path_is_encoded_as_the_sdks_do() {
        let name = BlobName::parse("leases/dir a/ü 100%+x~(1)&=?#é中.txt").unwrap();
        assert_eq!(
            name.path(),
            "/leases/dir%20a/%C3%BC%20100%25%2Bx~%281%29%26%3D%3F%23%C3%A9%E4%B8%AD.txt"
        );
        let root = BlobName::parse("$root/leader").unwrap();
        assert_eq!(
            (root.path().as_str(), root.container_path().as_str()),
            ("/%24root/leader", "/%24root")
        );
    }

    #[test]
    fn side_blob_names_fit_while_the_blob_name_is_short() {
        let name = BlobName::parse("leases/dir a/ü").unwrap();
        assert_eq!(name.side_blob_path(SideBlob::Orders), "/leases/dir%20a/%C3%BC.orders");
        for (length, is_allowed) in [(1, true), (1013, true), (1014, false), (1024, false)] {
            // Characters count, not bytes.
            let name = BlobName::parse(&format!("abc/{}", "é".repeat(length))).unwrap();
            assert_eq!(name.may_have_side_blobs(), is_allowed, "{length}");
        }
        let short = BlobName::parse("abc/a/b").unwrap();
        assert_eq!(short.side_blob("plan").unwrap().to_string(), "abc/a/b.plan");
        assert!(short.side_blob("x.").unwrap_err()[0].contains("ends with a dot"));
    }

    #[test]
    fn good_names() {
        let valid = [
            "abc/x".to_string(),
            "a-1/x".into(),
            "0-0/x".into(),
            "$root/x".into(),
            format!("{}/x", "a".repeat(63)),
            format!("abc/{}", "é".repeat(1024)),
            format!("abc/{}x", "a/".repeat(253)),
            "abc/.x".into(),
            "abc/x..y".into(),
        ];
        for name in valid {
            assert!(BlobName::parse(&name).is_ok(), "{name}");
        }
    }

    #[test]
    fn bad_names_break_the_rule_that_is_named() {
        let invalid = [
            ("leader".to_string(), vec!["no slash"]),
            ("".into(), vec!["no slash"]),
            ("/x".into(), vec!["3 to 63"]),
            ("ab/x".into(), vec!["3 to 63"]),
            (format!("{}/x", "a".repeat(64)), vec!["3 to 63"]),
            ("Abc/x".into(), vec!["lower-case"]),
            ("a_b/x".into(), vec!["lower-case"]),
            ("äbc/x".into(), vec!["lower-case"]),
            ("-ab/x".into(), vec!["starts and ends"]),
            ("ab-/x".into(), vec!["starts and ends"]),
            ("a--b/x".into(), vec!["two hyphens"]),
            ("$web/x".into(), vec!["except $root"]),
            ("$logs/x".into(), vec!["except $root"]),
            ("abc/".into(), vec!["1 to 1024"]),
            (format!("abc/{}", "x".repeat(1025)), vec!["1 to 1024"]),
            ("abc/x/".into(), vec!["a slash, a backslash or a space"]),
            ("abc/x\\".into(), vec!["a slash, a backslash or a space"]),
            ("abc/x ".into(), vec!["a slash, a backslash or a space"]),
            ("abc/x\u{7f}y".into(), vec!["control"]),
            ("abc/x\ny".into(), vec!["control"]),
            (format!("abc/{}x", "a/".repeat(254)), vec!["254 parts"]),
            ("abc/x.".into(), vec!["ends with a dot"]),
            ("abc/./x".into(), vec!["ends with a dot"]),
            ("abc/a/../x".into(), vec!["ends with a dot"]),
            ("abc/v1./x".into(), vec!["ends with a dot"]),
            (
                "A--/..".into(),
                vec!["lower-case", "starts and ends", "two hyphens", "ends with a dot"],
            ),
        ];
        for (name, rules) in invalid {
            let broken = BlobName::parse(&name).unwrap_err();
            assert_eq!(broken.len(), rules.len(), "{name}: {broken:?}");
            for (sentence, rule) in broken.iter().zip(rules) {
                assert!(sentence.contains(rule), "{name}: {sentence}");
            }
        }
    }

    proptest! {
        #[test]
        fn nothing_panics_and_good_names_come_back(text in any::<String>()) {
            match BlobName::parse(&text) {
                Ok(name) => prop_assert_eq!(name.to_string(), text),
                Err(broken) => prop_assert!(!broken.is_empty()),
            }
        }

        #[test]
        fn paths_are_plain_ascii(blob in "[^/.][^./]{0,20}") {
            if let Ok(name) = BlobName::parse(&format!("abc/{blob}")) {
                prop_assert!(name.path().bytes().all(|byte| byte.is_ascii_graphic() && !b"?#+= ".contains(&byte)));
            }
        }
    }
}
