//! The specification and what cites it: `protocol.md §4.3` in a comment.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The numbers of its headings, such as `4` and `4.3`.
fn sections() -> BTreeSet<String> {
    let text = fs::read_to_string(root().join("docs/protocol.md")).unwrap();
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let number = |line: &str| {
        let first = line.trim_start_matches('#').split_whitespace().next()?;
        let number = first.trim_end_matches('.');
        number.starts_with(|c: char| c.is_ascii_digit()).then(|| number.to_owned())
    };
    headings.filter_map(number).collect()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !["target", "node_modules"].contains(&name.as_str()) {
            sources(&path, found);
        } else if name.ends_with(".rs") || name.ends_with(".wit") {
            found.push(path);
        }
    }
}

/// What a source cites, or what stands where a section should. It may go on in the next line.
fn citations(source: &str) -> Vec<Result<String, String>> {
    let marks = |line: &str| line.trim_start().trim_start_matches(['/', '!']).trim().to_owned();
    let text = source.lines().map(marks).collect::<Vec<_>>().join(" ");
    let mut cited = Vec::new();
    for (_, rest) in
        text.match_indices("protocol.md").map(|(at, name)| (at, &text[at + name.len()..]))
    {
        let mut rest = rest.trim_start();
        let before = cited.len();
        while let Some(number) = rest.strip_prefix('§') {
            let end =
                number.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(number.len());
            cited.push(Ok(number[..end].trim_end_matches('.').to_owned()));
            let after = number[end..].trim_start_matches([',', ' ']);
            let after = ["and ", "to "].iter().find_map(|word| after.strip_prefix(word));
            rest = after.unwrap_or(number[end..].trim_start_matches([',', ' ']));
        }
        if cited.len() == before {
            cited.push(Err(rest.chars().take(40).collect()));
        }
    }
    cited
}

#[test]
fn every_citation_leads_to_a_section() {
    let sections = sections();
    let mut found = Vec::new();
    ["guest", "host", "tests/src", "wit"]
        .iter()
        .for_each(|folder| sources(&root().join(folder), &mut found));
    let (mut wrong, mut cited) = (Vec::new(), BTreeSet::new());
    for path in &found {
        for citation in citations(&fs::read_to_string(path).unwrap()) {
            match citation {
                Ok(number) if sections.contains(&number) => _ = cited.insert(number),
                other => wrong.push(format!("{}: {other:?}", path.display())),
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
    // The headings above others say nothing of their own.
    let silent = ["7"];
    let uncited: Vec<_> =
        sections.iter().filter(|s| !cited.contains(*s) && !silent.contains(&s.as_str())).collect();
    assert!(uncited.is_empty(), "no code cites {uncited:?}");
}

#[test]
fn every_invariant_has_its_judge() {
    let text = fs::read_to_string(root().join("docs/protocol.md")).unwrap();
    let invariants: Vec<_> =
        text.lines().filter_map(|line| line.strip_prefix("| I")?.split(' ').next()).collect();
    assert_eq!(invariants.len(), 8);
    let mut judges = Vec::new();
    sources(&root().join("tests/src/simulation/oracle"), &mut judges);
    let heads: Vec<_> = judges.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    for number in invariants {
        let head = format!("//! I{number} (protocol.md §12)");
        assert_eq!(heads.iter().filter(|text| text.starts_with(&head)).count(), 1, "{head}");
    }
}

#[test]
fn a_citation_is_read_to_its_end() {
    let source = "//! See protocol.md §4.1, §4.2 and §5.\n/// Also (protocol.md\n    /// §9); protocol.md, Words.";
    let ok = |number: &str| Ok(number.to_owned());
    let other = Err(", Words.".to_owned());
    assert_eq!(citations(source), [ok("4.1"), ok("4.2"), ok("5"), ok("9"), other]);
}
