//! Modules of a crate do not import each other in cycles: a module never depends on one that
//! imports it.
//!
//! A module here is a child of the crate's root together with its own children; the root itself is
//! another one. A child that only declares modules is a folder: each of its children is a module.
//! Its arrows are the paths to the root, by `super::` or `crate::`, in its files except tests. A name that the root imports leads to the module that defines it; one that the
//! root defines leads to the root. A method call has no arrow.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Crates, by folder.
const CRATES: [&str; 17] = [
    "guest",
    "guest/azure",
    "guest/base",
    "guest/core",
    "guest/filter",
    "guest/wasi",
    "guest/webhook",
    "host",
    "host/cli",
    "host/clock",
    "host/demo",
    "host/members",
    "host/server",
    "host/shares",
    "host/store",
    "host/supervisor",
    "host/wasmtime",
];

/// Name of the root among the modules.
const ROOT: &str = "the root";

/// Imported modules of each module, with the place of the import.
type Arrows = BTreeMap<String, BTreeMap<String, String>>;

/// File of a crate.
struct File {
    /// Path of the module, in terms of its name.
    path: Vec<String>,
    /// Number of folders above the file.
    folders: usize,
    /// Depth of its module below the root.
    depth: usize,
    text: String,
}

#[test]
fn no_modules_import_each_other_in_a_circle() {
    let mut wrong = Vec::new();
    for folder in CRATES {
        let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder).join("src");
        let (root, files) = read(&src);
        let arrows = arrows(&root, &files).unwrap_or_else(|unknown| {
            panic!("{folder}: nobody can tell which module these are of: {unknown:?}")
        });
        if folder == "guest/core" {
            assert!(arrows["candidate"].contains_key("report"), "arrows are missing: {arrows:?}");
        }
        for circle in circles(&arrows) {
            println!("{folder} has a circle of {} modules:", circle.len());
            for from in &circle {
                for (to, file) in arrows[from].iter().filter(|(to, _)| circle.contains(*to)) {
                    println!("    {from} -> {to}  ({file})");
                }
            }
            wrong.push((folder, circle));
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}; move what is shared to a module below both");
}

#[test]
fn module_paths_are_found_in_all_positions() {
    let text = r#"
        use super::{Moment, alpha::{A, B}, beta};
        // super::comment::C
        /// super::comment::C
        mod inner {
            use super::Sibling;
            use super::super::gamma::D;
        }
        #[cfg(test)]
        use super::test::G;
        #[serde(with = "super::eta::H")]
        struct S;
        fn f() { let url = "https://a"; crate::delta::call("super::text::E", '"', super::zeta::I) }
        #[cfg(test)]
        mod tests {
            use crate::epsilon::F;
        }
        fn g() { super::theta::call() }
    "#;
    let expected = ["Moment", "alpha", "beta", "delta", "eta", "gamma", "theta", "zeta"];
    assert_eq!(names_at_the_root(text, 1), BTreeSet::from(expected.map(str::to_owned)));
    let names_in =
        |text: &str, depth| names_at_the_root(text, depth).into_iter().collect::<Vec<_>>();
    assert_eq!(names_in("use super::super::{iota, kappa};", 2), ["iota", "kappa"]);
    assert_eq!(names_in("use super::{Parent, super::lambda};", 2), ["lambda"]);
    assert_eq!(names_in("pub(in super::super) fn f() {}", 2), [""; 0]);
    assert_eq!(names_in("use super::*;", 1), ["*"]);
}

#[test]
fn root_names_resolve_to_their_modules() {
    let root = "
        mod a; mod b; mod c;
        #[cfg(test)] mod script;
        pub use b::{B, deep::{C as D}};
        pub use other::E;
        use c::F;
        pub struct Own;
        fn main() { c::run() }
    ";
    let file = |path: &str, text: &str| File {
        path: vec![path.to_owned()],
        folders: 0,
        depth: 1,
        text: text.to_owned(),
    };
    let modules = |found: &Arrows, from: &str| found[from].keys().cloned().collect::<Vec<_>>();
    let test = file("script", "use super::a;");
    let all = file("a", "use super::{D, E, F, Own};");
    let found = arrows(root, &[all, file("b", ""), file("c", "use crate::a;"), test]).unwrap();
    assert_eq!(modules(&found, "a"), ["b", "c", ROOT]);
    assert_eq!(modules(&found, ROOT), ["c"]);
    assert_eq!(circles(&found), [BTreeSet::from(["a", "c", ROOT].map(str::to_owned))]);
    for unknown in ["use super::Missing;", "use super::*;", "use crate::{self as all};"] {
        let files = [file("a", unknown), file("b", ""), file("c", "")];
        assert_eq!(arrows(root, &files).unwrap_err().len(), 1, "{unknown}");
    }
}

#[test]
fn attributes_give_modules_other_files() {
    let file = |path: &[&str], folders| {
        let text = "#[cfg_attr(unix, path = \"b/none.rs\")] mod b;".to_owned();
        File { path: path.iter().map(ToString::to_string).collect(), folders, depth: 1, text }
    };
    let paths =
        |file| attribute_paths(&file).into_iter().map(|(path, depth)| (path.join("/"), depth));
    assert!(paths(file(&["a"], 0)).eq([("b/none".to_owned(), 2)]));
    assert!(paths(file(&["a"], 1)).eq([("a/b/none".to_owned(), 2)]), "of a/mod.rs");
}

#[test]
fn children_of_a_folder_are_modules() {
    let file = |path: &[&str], text: &str| {
        let path: Vec<_> = path.iter().map(ToString::to_string).collect();
        File { folders: 0, depth: path.len(), path, text: text.to_owned() }
    };
    let folder = file(&["a"], "//! Two modules.\n\npub(crate) mod b;\nmod c;\n");
    let one = file(&["a", "b"], "use super::c::C; use crate::d::D;");
    let other = file(&["a", "c"], "use crate::a::b::B;");
    let (root, files) = flatten(
        "mod a;\nmod d;\npub use a::b::B;".to_owned(),
        vec![folder, one, other, file(&["d"], "fn f() { g() }")],
    );
    let found = arrows(&root, &files).unwrap();
    assert_eq!(circles(&found), [BTreeSet::from(["b", "c"].map(str::to_owned))]);
    let (root, files) = flatten(
        "/// Two modules.\nmod a {\n    pub(crate) mod b;\n    mod c;\n}\npub use a::b::B;"
            .to_owned(),
        vec![file(&["a", "b"], "use super::c::C;"), file(&["a", "c"], "use crate::a::b::B;")],
    );
    let found = arrows(&root, &files).unwrap();
    assert_eq!(circles(&found), [BTreeSet::from(["b", "c"].map(str::to_owned))]);
}

#[test]
fn cycle_is_found_and_chain_is_not() {
    let arrows = [("a", "b"), ("b", "c"), ("c", "b"), ("c", "d"), ("d", "e")];
    let mut graph = Arrows::new();
    for (from, to) in arrows {
        graph.entry(from.into()).or_default().insert(to.into(), String::new());
        graph.entry(to.into()).or_default();
    }
    assert_eq!(circles(&graph), [BTreeSet::from(["b".to_owned(), "c".to_owned()])]);
}

/// Returns the groups of modules in which each module leads to every other one.
fn circles(arrows: &Arrows) -> Vec<BTreeSet<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        arrows.keys().map(|from| (from, reachable(arrows, from))).collect();
    let mut circles: Vec<BTreeSet<String>> = Vec::new();
    for (from, beyond) in &reached {
        let mutual = beyond.iter().filter(|to| reached[*to].contains(from));
        let circle: BTreeSet<String> = mutual.map(|to| (*to).clone()).collect();
        if !circle.is_empty() && !circles.contains(&circle) {
            circles.push(circle);
        }
    }
    circles
}

fn reachable<'a>(arrows: &'a Arrows, from: &String) -> BTreeSet<&'a String> {
    let mut found = BTreeSet::new();
    let mut pending: Vec<&String> = arrows[from].keys().collect();
    while let Some(module) = pending.pop() {
        if found.insert(module) {
            pending.extend(arrows[module].keys());
        }
    }
    found
}

/// Returns the arrows of a crate, or the unresolved names with their places.
fn arrows(root: &str, files: &[File]) -> Result<Arrows, Vec<String>> {
    let root = Root::read(root);
    let mut arrows: Arrows =
        root.modules.iter().map(|name| (name.clone(), BTreeMap::new())).collect();
    let imports = root.imports.iter().map(|to| (to.clone(), "lib.rs".to_owned()));
    arrows.insert(ROOT.to_owned(), imports.collect());
    let mut unknown = Vec::new();
    for File { path, depth, text, .. } in
        files.iter().filter(|file| !root.tests.contains(&file.path[0]))
    {
        let file = format!("{}.rs", path.join("/"));
        let Some(module) = arrows.get_mut(&path[0]) else {
            unknown.push(format!("the file {file}"));
            continue;
        };
        for name in names_at_the_root(text, *depth) {
            let target = match root.names.get(&name) {
                _ if root.modules.contains(&name) => &name,
                Some(target) => target,
                None => {
                    unknown.push(format!("{name} in {file}"));
                    continue;
                }
            };
            if !target.is_empty() && *target != path[0] {
                module.entry(target.clone()).or_insert_with(|| file.clone());
            }
        }
    }
    if unknown.is_empty() { Ok(arrows) } else { Err(unknown) }
}

/// Returns the root of a crate, and its other files except tests.
fn read(src: &Path) -> (String, Vec<File>) {
    let text = fs::read_to_string(src.join("lib.rs")).expect("the root of the crate");
    let mut files = Vec::new();
    collect(src, &mut Vec::new(), &mut files);
    for module in Root::read(&text).modules {
        assert!(files.iter().any(|file| file.path[0] == module), "no file of {module} in {src:?}");
    }
    let root = File { path: Vec::new(), folders: 0, depth: 0, text };
    let named: Vec<_> = files.iter().chain([&root]).flat_map(attribute_paths).collect();
    for file in &mut files {
        let other = named.iter().find(|(path, _)| *path == file.path);
        file.depth = other.map_or(file.path.len(), |(_, depth)| *depth);
    }
    flatten(root.text, files)
}

/// Makes the children of each folder children of the root, as the folder itself has no code. A
/// folder is a block in the root, or a file.
fn flatten(mut root: String, mut files: Vec<File>) -> (String, Vec<File>) {
    let mut folders = block_folders(&root);
    for folder in &folders {
        let (before, block) = root.split_once(&format!("mod {folder} {{")).expect("the folder");
        let (declarations, after) = block.split_once('}').expect("the end of the folder");
        root = format!("{before}{declarations}{after}");
    }
    let is_folder = |file: &File| file.path.len() == 1 && declares_only_modules(&file.text);
    for file in files.extract_if(.., |file| is_folder(file)) {
        let [folder] = file.path.try_into().expect("a child of the root");
        root = root.replace(&format!("mod {folder};"), &file.text.replace("//!", "//"));
        folders.push(folder);
    }
    for folder in &folders {
        root = root.replace(&format!("use {folder}::"), "use ");
        for file in &mut files {
            for start in ["crate", "super"] {
                let path = format!("{start}::{folder}::");
                file.text = file.text.replace(&path, &format!("{start}::"));
            }
            if file.path[0] == *folder {
                file.path.remove(0);
                file.depth -= 1;
            }
        }
    }
    (root, files)
}

/// Returns the modules of the root whose block declares only modules.
fn block_folders(root: &str) -> Vec<String> {
    let tokens = tokens(root);
    let folders = tokens.windows(3).filter(|window| {
        let is_folder = |body: &TokenTree| match body {
            TokenTree::Group(body) => declares_only_modules(&body.stream().to_string()),
            _ => false,
        };
        ident(&window[0]) == "mod" && is_folder(&window[2])
    });
    folders.map(|window| ident(&window[1])).collect()
}

fn declares_only_modules(text: &str) -> bool {
    let tokens = tokens(text);
    let modules = tokens.iter().filter(|token| ident(token) == "mod").count();
    let ends = tokens.iter().filter(|token| is_punct(Some(token), ';')).count();
    modules > 0
        && modules == ends
        && tokens.iter().all(|token| {
            !matches!(token,
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
        })
}

/// Returns the files that attributes assign to children of a module, and the depth of these
/// children.
fn attribute_paths(file: &File) -> Vec<(Vec<String>, usize)> {
    let names = file.text.split("path = \"").skip(1).filter_map(|text| text.split_once(".rs\""));
    let folders = &file.path[..file.folders];
    let path = |name: &str| {
        folders.iter().cloned().chain(name.split('/').map(str::to_owned)).collect::<Vec<_>>()
    };
    names.map(|(name, _)| (path(name), file.depth + 1)).collect()
}

/// Collects all files below a folder, ignoring path attributes.
fn collect(directory: &Path, path: &mut Vec<String>, files: &mut Vec<File>) {
    let folders = path.len();
    for entry in fs::read_dir(directory).expect("a directory of the crate") {
        let entry = entry.expect("an entry of the directory").path();
        let name = entry.file_stem().and_then(|name| name.to_str()).expect("a name").to_owned();
        if name == "tests" || folders == 0 && matches!(name.as_str(), "lib" | "main") {
            continue;
        }
        let is_parent = name == "mod";
        if !is_parent {
            path.push(name);
        }
        if entry.is_dir() {
            collect(&entry, path, files);
        } else if entry.extension().is_some_and(|kind| kind == "rs") {
            let text = fs::read_to_string(&entry).expect("a file of the crate");
            files.push(File { path: path.clone(), folders, depth: path.len(), text });
        }
        if !is_parent {
            path.pop();
        }
    }
}

/// Content of a crate's root.
#[derive(Default)]
struct Root {
    modules: BTreeSet<String>,
    /// Modules for tests only.
    tests: BTreeSet<String>,
    /// Module of each other name; empty for names of another crate.
    names: BTreeMap<String, String>,
    /// Modules that the root itself uses.
    imports: BTreeSet<String>,
}

impl Root {
    fn read(text: &str) -> Root {
        let mut root = Root::default();
        let tokens = tokens(text);
        for (number, token) in tokens.iter().enumerate() {
            let next = tokens.get(number + 1);
            match (ident(token).as_str(), next.map(ident)) {
                ("mod", Some(name)) if is_punct(tokens.get(number + 2), ';') => {
                    root.modules.insert(name);
                }
                (
                    "fn" | "struct" | "enum" | "union" | "trait" | "type" | "const" | "static",
                    Some(name),
                ) => {
                    root.names.insert(name, ROOT.to_owned());
                }
                _ => {}
            }
        }
        let all = text.parse::<TokenStream>().expect("Rust").into_iter();
        for pair in all.collect::<Vec<_>>().windows(2) {
            if ident(&pair[0]) == "mod" && !root.modules.contains(&ident(&pair[1])) {
                root.tests.insert(ident(&pair[1]));
            }
        }
        root.uses(&tokens);
        root
    }

    /// Records imports and paths. The root does not use a name that it only exports.
    fn uses(&mut self, tokens: &[TokenTree]) {
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            let end = (at..tokens.len()).find(|end| is_punct(tokens.get(*end), ';'));
            if ident(token) == "use" {
                let end = end.expect("the end of an import");
                let is_exported = match at.checked_sub(1).and_then(|before| tokens.get(before)) {
                    Some(TokenTree::Group(within)) => within.delimiter() == Delimiter::Parenthesis,
                    before => before.is_some_and(|before| ident(before) == "pub"),
                };
                for (path, name) in leaves(&tokens[at + 1..end]) {
                    let first = path.into_iter().find(|part| part != "self" && part != "crate");
                    let target = first.filter(|first| self.modules.contains(first));
                    if !is_exported {
                        self.imports.extend(target.clone());
                    }
                    // The names of a glob import are unknown.
                    if name != "*" {
                        self.names.insert(name, target.unwrap_or_default());
                    }
                }
                at = end;
            } else if let TokenTree::Group(group) = token {
                self.uses(&group.stream().into_iter().collect::<Vec<_>>());
            } else if self.modules.contains(&ident(token)) && starts_path(tokens, at) {
                self.imports.insert(ident(token));
            }
            at += 1;
        }
    }
}

/// Returns true if a path in the root starts here, directly or after `crate::` or `self::`.
fn starts_path(tokens: &[TokenTree], at: usize) -> bool {
    let is_path = is_punct(tokens.get(at + 1), ':') && is_punct(tokens.get(at + 2), ':');
    let before = |places| at.checked_sub(places).and_then(|before| tokens.get(before));
    let follows_crate_or_self =
        || before(3).is_some_and(|word| matches!(ident(word).as_str(), "crate" | "self"));
    is_path && (!is_punct(before(1), ':') || follows_crate_or_self())
}

/// Returns the paths of an import, each with its local name.
fn leaves(tree: &[TokenTree]) -> Vec<(Vec<String>, String)> {
    if let Some(TokenTree::Group(list)) = tree.last() {
        let before: Vec<String> = names(&tree[..tree.len() - 1]);
        let items = items(list.stream());
        let leaves = items.iter().flat_map(|item| leaves(item));
        return leaves.map(|(path, name)| ([before.clone(), path].concat(), name)).collect();
    }
    let mut path = names(tree);
    if is_punct(tree.last(), '*') {
        path.push("*".to_owned());
    }
    let name = path.last().cloned().unwrap_or_default();
    vec![(path, name)]
}

fn names(tokens: &[TokenTree]) -> Vec<String> {
    tokens.iter().map(ident).filter(|name| !name.is_empty()).collect()
}

/// Splits a list at its commas.
fn items(list: TokenStream) -> Vec<Vec<TokenTree>> {
    let list: Vec<TokenTree> = list.into_iter().collect();
    let items = list.split(|token| is_punct(Some(token), ','));
    items.filter(|item| !item.is_empty()).map(<[_]>::to_vec).collect()
}

/// Returns the first names of all paths in a file that lead to the crate's root. `depth` is the
/// depth of the file's module below the root.
fn names_at_the_root(text: &str, depth: usize) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    collect_names(&tokens(text), depth, &mut found);
    found
}

fn collect_names(tokens: &[TokenTree], depth: usize, found: &mut BTreeSet<String>) {
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        match token {
            TokenTree::Ident(word) if word == "super" || word == "crate" => {
                follow(&tokens[at..], 0, depth, found);
                // Stops at the target of the path: a list is followed separately.
                let is_part = |token: &TokenTree| {
                    matches!(ident(token).as_str(), "super" | "crate") || is_punct(Some(token), ':')
                };
                at += tokens[at..].iter().take_while(|token| is_part(token)).count();
                if !is_punct(tokens.get(at - 1), ':') {
                    continue;
                }
            }
            TokenTree::Group(group) => {
                let inner = module(tokens, at);
                let is_attribute = group.delimiter() == Delimiter::Bracket
                    && at.checked_sub(1).is_some_and(|before| is_punct(tokens.get(before), '#'));
                let stream =
                    if is_attribute { attribute_tokens(group.stream()) } else { group.stream() };
                collect_names(&stripped(stream), depth + usize::from(inner), found);
            }
            _ => {}
        }
        at += 1;
    }
}

/// Returns true if the group at this position is the body of a module.
fn module(tokens: &[TokenTree], at: usize) -> bool {
    at >= 2 && ident(&tokens[at - 2]) == "mod" && !ident(&tokens[at - 1]).is_empty()
}

/// Returns the tokens of an attribute, including those in its strings, such as the path of a
/// function.
fn attribute_tokens(attribute: TokenStream) -> TokenStream {
    let mut words = attribute.clone().into_iter().peekable();
    if words.peek().is_some_and(|word| ident(word) == "doc") {
        return TokenStream::new();
    }
    let text = |token: TokenTree| match token {
        TokenTree::Literal(literal) => {
            literal.to_string().trim_matches('"').parse().unwrap_or_default()
        }
        TokenTree::Group(group) => attribute_tokens(group.stream()),
        other => TokenStream::from(other),
    };
    words.flat_map(text).collect()
}

/// Follows a path that starts here, `levels_up` modules up.
fn follow(path: &[TokenTree], levels_up: usize, depth: usize, found: &mut BTreeSet<String>) {
    match path {
        [TokenTree::Ident(word), colon, _, tail @ ..]
            if (word == "super" || word == "crate") && is_punct(Some(colon), ':') =>
        {
            follow(tail, if word == "crate" { depth } else { levels_up + 1 }, depth, found);
        }
        [TokenTree::Group(list), ..] => {
            for item in items(list.stream()) {
                follow(&item, levels_up, depth, found);
            }
        }
        [first, ..] if levels_up == depth => {
            found.insert(if is_punct(Some(first), '*') { "*".to_owned() } else { ident(first) });
        }
        _ => {}
    }
}

/// Returns the tokens of a file without comments and test code.
fn tokens(text: &str) -> Vec<TokenTree> {
    stripped(text.parse().expect("Rust"))
}

fn stripped(stream: TokenStream) -> Vec<TokenTree> {
    let mut remaining = Vec::new();
    let mut tokens = stream.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let is_test = is_punct(Some(&token), '#')
            && tokens.peek().is_some_and(|next| next.to_string().replace(' ', "") == "[cfg(test)]");
        if !is_test {
            remaining.push(token);
            continue;
        }
        // Skips to the end of the item or field.
        for token in tokens.by_ref() {
            let is_body = |group: &proc_macro2::Group| group.delimiter() == Delimiter::Brace;
            match &token {
                TokenTree::Group(group) if is_body(group) => break,
                TokenTree::Punct(mark) if matches!(mark.as_char(), ';' | ',') => break,
                _ => {}
            }
        }
    }
    remaining
}

fn is_punct(token: Option<&TokenTree>, mark: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == mark)
}

fn ident(token: &TokenTree) -> String {
    match token {
        TokenTree::Ident(ident) => ident.to_string(),
        _ => String::new(),
    }
}
