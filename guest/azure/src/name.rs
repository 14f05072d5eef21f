//! The name of an election: one blob, `container/blob` (protocol.md §1).

use core::fmt;

use super::percent::{self, AsciiSet};
use serde::{Deserialize, Serialize};
use tenure_base::prelude::*;

/// A container and a blob in it, both by Azure's rules (REST: *Naming and referencing containers,
/// blobs, and metadata*).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobName {
    container: String,
    blob: String,
}

/// Maximum characters of a blob's name.
const LONGEST: usize = 1024;

/// Characters that are not encoded in a path: RFC 3986 unreserved characters, and the slash.
const ENCODED: &AsciiSet = &percent::UNRESERVED.remove(b'/');

/// The longest suffix of a side blob.
const LONGEST_SUFFIX: &str = ".candidates";

impl BlobName {
    /// Parses `container/blob`; the blob's own name may hold more slashes.
    ///
    /// # Errors
    /// Every rule that the name breaks, a sentence each.
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

    /// Returns `/container/blob.successor` and the like, percent-encoded.
    pub fn side_blob_path(&self, blob: SideBlob) -> String {
        self.path() + blob.suffix()
    }

    /// Returns the name of that blob for messages.
    pub fn side_blob_name(&self, blob: SideBlob) -> String {
        self.to_string() + blob.suffix()
    }

    /// Returns the blob next to this one with that suffix: `container/blob.SUFFIX`.
    ///
    /// # Errors
    /// Every rule that its name breaks, a sentence each.
    pub fn side_blob(&self, suffix: &str) -> Result<BlobName, Vec<String>> {
        Self::parse(&format!("{self}.{suffix}"))
    }

    /// Returns true if the names of those blobs are short enough for a blob.
    pub fn may_have_side_blobs(&self) -> bool {
        self.blob.chars().count() + LONGEST_SUFFIX.len() <= LONGEST
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
        path.push_str(&percent::encode(part, ENCODED));
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
    // Addresses drop "." and "..", and the service drops a dot at the end.
    if name.split('/').any(|part| part.ends_with('.')) {
        broken_rules.push("no part of a blob's name ends with a dot");
    }
}

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
