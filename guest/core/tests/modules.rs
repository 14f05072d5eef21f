//! Modules of the core do not import each other in circles: what imports a module can be read after
//! it, and never has to be read before it.
//!
//! A module here is a child of the crate's root together with its own children. Its arrows are the
//! paths that begin with `super::` or `crate::` in its files, outside of tests and comments; a name
//! that the root exports leads to the module that has it.

#![allow(clippy::expect_used, clippy::panic, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Of each module, the modules that it imports and where.
type Arrows = BTreeMap<String, BTreeMap<String, String>>;

#[test]
fn no_modules_import_each_other_in_a_circle() {
    let arrows = arrows(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert!(arrows["candidate"].contains_key("report"), "no arrows are found any more: {arrows:?}");
    let circles = circles(&arrows);
    for circle in &circles {
        println!("a circle of {} modules:", circle.len());
        for from in circle {
            let within = arrows[from].iter().filter(|(to, _)| circle.contains(*to));
            for (to, file) in within {
                println!("    {from} -> {to}  ({file})");
            }
        }
    }
    assert!(circles.is_empty(), "{circles:?}; move what is shared to a module below both");
}

#[test]
fn paths_are_found_wherever_they_stand() {
    let text = r#"
        use super::{Moment, alpha::{A, B}, beta};
        // super::comment::C
        mod inner {
            use super::Sibling;
            use super::super::gamma::D;
        }
        fn f() { crate::delta::call("super::text::E") }
        #[cfg(test)]
        mod tests {
            use crate::epsilon::F;
        }
    "#;
    // As rustfmt leaves it.
    let text = text.replace("\n        ", "\n");
    let expected = ["Moment", "alpha", "beta", "gamma", "delta"].map(str::to_owned);
    assert_eq!(names_at_the_root(&text, 1), expected);
    assert_eq!(names_at_the_root("use super::super::{eta, theta};", 2), ["eta", "theta"]);
    assert!(names_at_the_root("use super::Parent;", 2).is_empty());
}

#[test]
fn a_circle_is_found_and_a_chain_is_none() {
    let arrows = [("a", "b"), ("b", "c"), ("c", "b"), ("c", "d"), ("d", "e")];
    let mut graph = Arrows::new();
    for (from, to) in arrows {
        graph.entry(from.into()).or_default().insert(to.into(), String::new());
        graph.entry(to.into()).or_default();
    }
    assert_eq!(circles(&graph), [BTreeSet::from(["b".to_owned(), "c".to_owned()])]);
}

/// The groups of modules each of which leads to every other one of its group.
fn circles(arrows: &Arrows) -> Vec<BTreeSet<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        arrows.keys().map(|from| (from, reachable(arrows, from))).collect();
    let mut circles: Vec<BTreeSet<String>> = Vec::new();
    for (from, beyond) in &reached {
        let there_and_back = beyond.iter().filter(|to| reached[*to].contains(from));
        let circle: BTreeSet<String> = there_and_back.map(|to| (*to).clone()).collect();
        if !circle.is_empty() && !circles.contains(&circle) {
            circles.push(circle);
        }
    }
    circles
}

fn reachable<'a>(arrows: &'a Arrows, from: &String) -> BTreeSet<&'a String> {
    let mut found = BTreeSet::new();
    let mut left: Vec<&String> = arrows[from].keys().collect();
    while let Some(module) = left.pop() {
        if found.insert(module) {
            left.extend(arrows[module].keys());
        }
    }
    found
}

fn arrows(src: &Path) -> Arrows {
    let root = fs::read_to_string(src.join("lib.rs")).expect("the root of the crate");
    let exported = exported(&root);
    let mut arrows: Arrows = declared(&root).map(|name| (name.into(), BTreeMap::new())).collect();
    let mut files = Vec::new();
    collect(src, &mut Vec::new(), &mut files);
    for (path, text) in files {
        let [module, ..] = path.as_slice() else { continue };
        let file = format!("{}.rs", path.join("/"));
        for name in names_at_the_root(&text, path.len()) {
            let target = if arrows.contains_key(&name) { &name } else { &exported[&name] };
            if target.is_empty() || target == module {
                continue;
            }
            let from = arrows.get_mut(module).expect("a module of the root");
            from.entry(target.clone()).or_insert_with(|| file.clone());
        }
    }
    arrows
}

/// All files below `directory` but the root and tests, with the paths of their modules.
fn collect(directory: &Path, path: &mut Vec<String>, files: &mut Vec<(Vec<String>, String)>) {
    for entry in fs::read_dir(directory).expect("a directory of the crate") {
        let entry = entry.expect("an entry of the directory").path();
        let name = entry.file_stem().and_then(|name| name.to_str()).expect("a name").to_owned();
        if matches!(name.as_str(), "lib" | "tests") {
            continue;
        }
        let is_parent = name == "mod";
        if !is_parent {
            path.push(name);
        }
        if entry.is_dir() {
            collect(&entry, path, files);
        } else {
            files.push((path.clone(), fs::read_to_string(&entry).expect("a file of the crate")));
        }
        if !is_parent {
            path.pop();
        }
    }
}

/// The modules that the root declares, but tests.
fn declared(root: &str) -> impl Iterator<Item = &str> {
    let declared = root.lines().filter_map(|line| {
        let name = line.strip_prefix("pub ").unwrap_or(line).strip_prefix("mod ")?;
        name.strip_suffix(';')
    });
    declared.filter(|name| *name != "tests")
}

/// Of each name that the root has, the module that it comes from; none for its own.
fn exported(root: &str) -> BTreeMap<String, String> {
    let mut exported = BTreeMap::new();
    for statement in plain(root).split(';') {
        let statement = statement.trim();
        if let Some((_, own)) = statement.rsplit_once("pub type ") {
            exported.insert(first_name(own).to_owned(), String::new());
        }
        let Some((_, path)) = statement.rsplit_once("pub use ") else { continue };
        let (module, names) = path.split_once("::").expect("a path into a module");
        for item in items(names) {
            let name = item.rsplit_once(" as ").map_or(item, |(_, name)| name);
            exported.insert(name.to_owned(), module.to_owned());
        }
    }
    exported
}

/// The first names of all paths in a file that lead to the crate's root. The file's module is `depth`
/// below the root.
fn names_at_the_root(text: &str, depth: usize) -> Vec<String> {
    let mut names = Vec::new();
    let mut inner = false;
    let text = plain(text);
    let mut lines = text.lines();
    let mut statement = String::new();
    while let Some(line) = lines.next() {
        if line == "#[cfg(test)]" {
            let item = lines.next().unwrap_or_default();
            // A module of tests that stands in the file is its last item.
            if item.ends_with('{') {
                break;
            }
            continue;
        }
        if line.contains("mod ") && line.ends_with('{') && !line.starts_with(' ') {
            inner = true;
        }
        if line == "}" {
            inner = false;
        }
        statement.push_str(line.trim());
        statement.push(' ');
        // A list that goes on with the next line.
        if statement.matches('{').count() > statement.matches('}').count()
            && statement.contains("::{")
        {
            continue;
        }
        names.extend(rooted(&statement, depth + usize::from(inner)));
        statement.clear();
    }
    names
}

fn rooted(statement: &str, depth: usize) -> Vec<String> {
    let mut names = Vec::new();
    let mut rest = statement;
    while let Some(at) = [rest.find("super::"), rest.find("crate::")].into_iter().flatten().min() {
        let mut ups = 0;
        rest = &rest[at..];
        if let Some(path) = rest.strip_prefix("crate::") {
            (ups, rest) = (depth, path);
        }
        while let Some(path) = rest.strip_prefix("super::") {
            (ups, rest) = (ups + 1, path);
        }
        if ups == depth {
            names.extend(items(rest).into_iter().map(|item| first_name(item).to_owned()));
        }
    }
    names
}

/// What stands at the start of a path's rest: one item, or those of a list in braces.
fn items(rest: &str) -> Vec<&str> {
    let Some(list) = rest.strip_prefix('{') else {
        let end = rest.find([';', ',', ')']).unwrap_or(rest.len());
        return vec![rest[..end].trim()];
    };
    let (mut depth, mut start, mut items) = (0, 0, Vec::new());
    for (at, letter) in list.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                items.push(list[start..at].trim());
                start = at + 1;
                if letter == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    items.retain(|item| !item.is_empty());
    items
}

fn first_name(path: &str) -> &str {
    let end = path.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(path.len());
    &path[..end]
}

/// The text without comments and without what stands in quotation marks on one line.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for line in text.lines() {
        let line = line.find("//").map_or(line, |at| &line[..at]);
        for (number, part) in line.split('"').enumerate() {
            plain.push_str(if number % 2 == 0 { part } else { "" });
        }
        plain.push('\n');
    }
    plain
}
