//! Plain English: how comments begin, which words name things, and how long the sentences of help and
//! messages are. The rules are in CONTRIBUTING.md, under Habits.

use std::fs;
use std::path::Path;

use proc_macro2::{Delimiter, Group, Literal, TokenStream, TokenTree};
use syn::visit::{self, Visit};

use super::documents::{files, root};

/// Beginnings that hide the subject of a comment.
const OPENINGS: [&str; 20] = [
    "What", "Who", "Whoever", "Whom", "Whose", "Whether", "How", "So long", "So many", "So much",
    "So few", "So far", "As", "Of", "By", "That of", "Those", "One that", "It", "None:",
];

/// Names that say nothing about the value behind them.
const NAMES: [&str; 29] = [
    "told", "tell", "said", "judge", "judged", "seen", "asked", "given", "own", "whose", "of",
    "beside", "look", "course", "fate", "begins", "there", "here", "kept", "held", "Told", "Of",
    "Whose", "Own", "Way", "Kept", "Held", "Word", "Judge",
];

/// More words than a reader keeps in mind at once.
const MAX_WORDS: usize = 30;

#[test]
fn comments_begin_with_their_subject() {
    let sources = sources(&["."], &[".rs", ".wit"]);
    let wrong: Vec<_> = sources.iter().flat_map(|(path, text)| bad_openings(path, text)).collect();
    assert!(sources.len() > 500 && wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn names_are_words_of_the_field() {
    let sources = sources(&["."], &[".rs"]);
    let wrong: Vec<_> = sources.iter().flat_map(|(path, text)| bad_names(path, text)).collect();
    assert!(sources.len() > 500 && wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn sentences_of_messages_are_short() {
    let mut sources = sources(&["guest", "host"], &[".rs"]);
    sources.retain(|(path, _)| !path.contains("/tests/") && !path.ends_with("tests.rs"));
    let wrong: Vec<_> =
        sources.iter().flat_map(|(path, text)| long_sentences(path, text)).collect();
    assert!(sources.len() > 200 && wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_checks_find_what_they_forbid() {
    assert_eq!(
        bad_openings("a.rs", "/// Who leads.\n/// It is one.\nlet a = 1; // fine\n"),
        ["a.rs:1: the comment begins with \"Who\""]
    );
    assert!(bad_openings("a.rs", "/// Asks the leader.\n/// Items of it.\n").is_empty());
    let names = "fn own(&self, given: u8) { let (said, a) = b; c.map(|seen| 1); d.told() }
        struct A { of: u8 } enum B { Kept, Told(u8) }";
    assert_eq!(bad_names("a.rs", names).len(), 7);
    let sentence = "word ".repeat(31);
    assert_eq!(long_sentences("a.rs", &format!("fn a() {{ b!(\"{sentence}\") }}")).len(), 1);
    assert_eq!(long_sentences("a.rs", &format!("/// {sentence}\nfn a() {{}}")).len(), 1);
    assert!(
        long_sentences("a.rs", &format!("fn a() {{ b!(\"One. {}\") }}", "word ".repeat(30)))
            .is_empty()
    );
}

fn sources(folders: &[&str], endings: &[&str]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    folders.iter().for_each(|folder| files(&root().join(folder), endings, &mut found));
    let relative = |path: &Path| path.strip_prefix(root()).unwrap().display().to_string();
    found.iter().map(|path| (relative(path), fs::read_to_string(path).unwrap())).collect()
}

/// Returns a complaint for each comment that begins with one of [`OPENINGS`].
fn bad_openings(path: &str, text: &str) -> Vec<String> {
    let comment = |line: &str| {
        let text = line.trim_start().strip_prefix("//")?;
        Some(text.trim_start_matches(['/', '!']).trim_start().to_owned())
    };
    let mut in_comment = false;
    let mut wrong = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let comment = comment(line);
        if let Some(text) = comment.as_ref().filter(|_| !in_comment) {
            let opens = |opening: &&&str| {
                let rest = text.strip_prefix(**opening);
                rest.is_some_and(|rest| {
                    !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_')
                })
            };
            let opening = OPENINGS.iter().find(opens);
            wrong.extend(
                opening.map(|it| format!("{path}:{number}: the comment begins with {it:?}")),
            );
        }
        in_comment = comment.is_some();
    }
    wrong
}

/// Returns a complaint for each declaration of one of [`NAMES`].
fn bad_names(path: &str, text: &str) -> Vec<String> {
    struct Names(Vec<String>);
    impl Names {
        fn check(&mut self, name: &syn::Ident) {
            let name = name.to_string();
            if NAMES.contains(&name.as_str()) {
                self.0.push(name);
            }
        }
    }
    impl<'a> Visit<'a> for Names {
        fn visit_pat_ident(&mut self, node: &'a syn::PatIdent) {
            self.check(&node.ident);
            visit::visit_pat_ident(self, node);
        }
        fn visit_signature(&mut self, node: &'a syn::Signature) {
            self.check(&node.ident);
            visit::visit_signature(self, node);
        }
        fn visit_field(&mut self, node: &'a syn::Field) {
            node.ident.iter().for_each(|name| self.check(name));
            visit::visit_field(self, node);
        }
        fn visit_variant(&mut self, node: &'a syn::Variant) {
            self.check(&node.ident);
            visit::visit_variant(self, node);
        }
        fn visit_item(&mut self, node: &'a syn::Item) {
            match node {
                syn::Item::Const(item) => self.check(&item.ident),
                syn::Item::Enum(item) => self.check(&item.ident),
                syn::Item::Mod(item) => self.check(&item.ident),
                syn::Item::Static(item) => self.check(&item.ident),
                syn::Item::Struct(item) => self.check(&item.ident),
                syn::Item::Trait(item) => self.check(&item.ident),
                syn::Item::Type(item) => self.check(&item.ident),
                _ => {}
            }
            visit::visit_item(self, node);
        }
    }
    let file = syn::parse_file(text).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut names = Names(Vec::new());
    names.visit_file(&file);
    names.0.iter().map(|name| format!("{path}: `{name}` is no word of the field")).collect()
}

/// Returns a complaint for each sentence of a string or doc comment that has more than [`MAX_WORDS`].
fn long_sentences(path: &str, text: &str) -> Vec<String> {
    let mut paragraphs = vec![String::new()];
    let doc = |line: &str| Some(line.trim_start().strip_prefix("///")?.trim().to_owned());
    for line in text.lines() {
        match doc(line) {
            Some(text) if !text.is_empty() && !text.starts_with(['-', '|', '`']) => {
                let last = paragraphs.last_mut().unwrap();
                last.push(' ');
                last.push_str(&text);
            }
            _ => paragraphs.push(String::new()),
        }
    }
    strings(text.parse().unwrap_or_else(|error| panic!("{path}: {error}")), &mut paragraphs);
    let sentences =
        paragraphs.iter().flat_map(|text| text.split_inclusive(['.', '?', '!', ':', ';', '\n']));
    let long = sentences.filter(|sentence| sentence.split_whitespace().count() > MAX_WORDS);
    long.map(|sentence| format!("{path}: more than {MAX_WORDS} words: {}", sentence.trim()))
        .collect()
}

fn strings(tokens: TokenStream, found: &mut Vec<String>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) if !is_doc(&group) => strings(group.stream(), found),
            TokenTree::Literal(literal) => found.extend(string(&literal)),
            _ => {}
        }
    }
}

fn is_doc(attribute: &Group) -> bool {
    let mut tokens = attribute.stream().into_iter();
    attribute.delimiter() == Delimiter::Bracket
        && tokens.next().is_some_and(|name| name.to_string() == "doc")
}

fn string(literal: &Literal) -> Option<String> {
    syn::parse_str::<syn::LitStr>(&literal.to_string()).ok().map(|string| string.value())
}
