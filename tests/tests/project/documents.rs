//! The documents agree with each other and with the program: the specification and its citations
//! (`protocol.md §4.3` in a comment), links, and the commands for users.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Returns the numbers of its headings, such as `4` and `4.3`.
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
    files(folder, &[".rs", ".wit"], found);
}

/// Finds the files of this repository whose names end with one of the suffixes.
pub(crate) fn files(folder: &Path, suffixes: &[&str], found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if !["target", "build", "node_modules", ".git"].contains(&name.as_str()) {
                files(&path, suffixes, found);
            }
        } else if suffixes.iter().any(|suffix| name.ends_with(suffix)) {
            found.push(path);
        }
    }
}

/// Returns the cited sections of a source, or the text in place of a section. A citation may
/// continue on the next line.
fn citations(source: &str) -> Vec<Result<String, String>> {
    let strip_marks =
        |line: &str| line.trim_start().trim_start_matches(['/', '!']).trim().to_owned();
    let text = source.lines().map(strip_marks).collect::<Vec<_>>().join(" ");
    let mut cited = Vec::new();
    for (_, tail) in
        text.match_indices("protocol.md").map(|(at, name)| (at, &text[at + name.len()..]))
    {
        let mut tail = tail.trim_start();
        let before = cited.len();
        while let Some(number) = tail.strip_prefix('§') {
            let end =
                number.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(number.len());
            cited.push(Ok(number[..end].trim_end_matches('.').to_owned()));
            let after = number[end..].trim_start_matches([',', ' ']);
            let after = ["and ", "to "].iter().find_map(|word| after.strip_prefix(word));
            tail = after.unwrap_or(number[end..].trim_start_matches([',', ' ']));
        }
        if cited.len() == before {
            cited.push(Err(tail.chars().take(40).collect()));
        }
    }
    cited
}

#[test]
fn every_citation_leads_to_a_section() {
    let sections = sections();
    let mut found = Vec::new();
    ["guest", "host", "tests/fleet/src", "tests/simulation/src", "tests/src", "wit"]
        .iter()
        .for_each(|folder| sources(&root().join(folder), &mut found));
    let (mut errors, mut cited) = (Vec::new(), BTreeSet::new());
    for path in &found {
        for citation in citations(&fs::read_to_string(path).unwrap()) {
            match citation {
                Ok(number) if sections.contains(&number) => _ = cited.insert(number),
                other => errors.push(format!("{}: {other:?}", path.display())),
            }
        }
    }
    assert_eq!(errors, [""; 0]);
    // A heading that only groups others has no content to cite.
    let uncited_by_design = ["7"];
    let uncited: Vec<_> = sections
        .iter()
        .filter(|s| !cited.contains(*s) && !uncited_by_design.contains(&s.as_str()))
        .collect();
    assert!(uncited.is_empty(), "no code cites {uncited:?}");
}

#[test]
fn every_invariant_has_its_oracle() {
    let text = fs::read_to_string(root().join("docs/protocol.md")).unwrap();
    let invariants: Vec<_> =
        text.lines().filter_map(|line| line.strip_prefix("| I")?.split(' ').next()).collect();
    assert_eq!(invariants.len(), 9);
    let mut oracle_files = Vec::new();
    sources(&root().join("tests/simulation/src/oracle"), &mut oracle_files);
    let heads: Vec<_> = oracle_files.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    for number in invariants {
        let head = format!("//! I{number} (protocol.md §12)");
        assert_eq!(heads.iter().filter(|text| text.starts_with(&head)).count(), 1, "{head}");
    }
}

#[test]
fn citations_over_several_lines_are_read() {
    let source = "//! See protocol.md §4.1, §4.2 and §5.\n/// Also (protocol.md\n    /// §9); protocol.md, Words.";
    let ok = |number: &str| Ok(number.to_owned());
    let other = Err(", Words.".to_owned());
    assert_eq!(citations(source), [ok("4.1"), ok("4.2"), ok("5"), ok("9"), other]);
}

/// Returns every document of this repository, with its text.
fn documents() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    files(&root(), &[".md"], &mut found);
    assert!(found.len() > 10, "{found:?}");
    found.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// Part of a document.
#[derive(Debug, PartialEq)]
enum Part<'a> {
    Line(&'a str),
    /// Fenced block: its info string and its content.
    Fenced(&'a str, String),
}

fn parts(text: &str) -> Vec<Part<'_>> {
    let mut found = Vec::new();
    let mut fenced: Option<(&str, String)> = None;
    for line in text.lines() {
        fenced = match (fenced, line.strip_prefix("```")) {
            (None, None) => {
                found.push(Part::Line(line));
                None
            }
            (None, Some(kind)) => Some((kind, String::new())),
            (Some((kind, content)), None) => Some((kind, content + line + "\n")),
            (Some((kind, content)), Some(_)) => {
                found.push(Part::Fenced(kind, content));
                None
            }
        };
    }
    assert!(fenced.is_none(), "a fence is open");
    found
}

/// Returns the contents of the fences marked `kind`.
fn fenced<'a>(text: &'a str, kind: &str) -> Vec<String> {
    let content_of = |part: Part<'a>| match part {
        Part::Fenced(fence_kind, content) if fence_kind == kind => Some(content),
        _ => None,
    };
    parts(text).into_iter().filter_map(content_of).collect()
}

/// Returns the commands of a console, each on one line and without comments.
fn commands(console: &str) -> Vec<String> {
    let joined = console.replace("\\\n", " ");
    let typed = joined.lines().filter_map(|line| line.strip_prefix("$ "));
    typed.map(|line| line.split(" # ").next().unwrap().trim().to_owned()).collect()
}

/// Returns the text outside of fences and inline code.
fn prose(text: &str) -> String {
    unfenced(text).split('`').step_by(2).collect()
}

fn unfenced(text: &str) -> String {
    let lines = parts(text).into_iter().filter_map(|part| match part {
        Part::Line(line) => Some(line),
        Part::Fenced(..) => None,
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the anchors of the headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let heading = |part: Part<'_>| match part {
        Part::Line(line) if line.starts_with('#') => {
            let words = line.trim_start_matches('#').trim().to_lowercase();
            let allowed_chars = words.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            Some(allowed_chars.map(|c| if c == ' ' { '-' } else { c }).collect())
        }
        _ => None,
    };
    parts(text).into_iter().filter_map(heading).collect()
}

/// Returns the link targets of a document within this repository.
fn links(text: &str) -> Vec<String> {
    let prose = prose(text);
    let targets = prose.split("](").skip(1).filter_map(|tail| tail.split(')').next());
    targets.filter(|to| !to.contains("://")).map(str::to_owned).collect()
}

/// Returns the problem of a link in the document at `from`.
fn broken_link(from: &Path, link: &str) -> Option<String> {
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let to = match file {
        "" => from.to_owned(),
        file => from.parent().unwrap().join(file),
    };
    let report = || Some(format!("{}: {link}", from.display()));
    if !to.exists() {
        return report();
    }
    if !anchor.is_empty() && !anchors(&fs::read_to_string(&to).unwrap()).contains(anchor) {
        return report();
    }
    None
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let mut link_count = 0;
    let mut errors = Vec::new();
    for (path, text) in documents() {
        let found = links(&text);
        link_count += found.len();
        errors.extend(found.iter().filter_map(|link| broken_link(&path, link)));
    }
    assert_eq!(errors, [""; 0]);
    assert!(link_count > 50, "{link_count}");
}

#[test]
fn broken_link_is_detected() {
    let text = "# On `time`, twice\n[a](b.md) `[c](d)` [e\nf](#on-time-twice) [g](https://h.i/)\n```\n[j](k)\n```";
    assert_eq!(links(text), ["b.md", "#on-time-twice"]);
    assert_eq!(anchors(text), ["on-time-twice".to_owned()].into());
    let readme = root().join("README.md");
    for (link, is_wrong) in [
        ("docs/protocol.md#5-holding", false),
        ("docs/protocol.md#5-folding", true),
        ("docs/protocols.md", true),
        ("#licence", false),
        ("#no-licence", true),
    ] {
        assert_eq!(broken_link(&readme, link).is_some(), is_wrong, "{link}");
    }
}

#[test]
fn files_that_are_named_exist() {
    let folders =
        ["benches/", "deploy/", "docs/", "examples/", "guest/", "host/", "tests/", ".ci/"];
    let (mut name_count, mut errors) = (0, Vec::new());
    for (path, text) in documents() {
        for name in unfenced(&text).split('`').skip(1).step_by(2) {
            if folders.iter().any(|folder| name.starts_with(folder)) && !name.contains(' ') {
                name_count += 1;
                if !root().join(name).exists() {
                    errors.push(format!("{}: {name}", path.display()));
                }
            }
        }
    }
    assert_eq!(errors, [""; 0]);
    assert!(name_count > 20, "{name_count}");
}

#[test]
fn the_readme_is_one_page() {
    let lines = read("README.md").lines().count();
    assert!(lines <= 200, "{lines} lines");
}

#[test]
fn the_book_has_every_page_and_the_glossary_few_words() {
    let summary = links(&read("docs/SUMMARY.md"));
    let mut pages = Vec::new();
    files(&root().join("docs"), &[".md"], &mut pages);
    for page in pages {
        let name = page.strip_prefix(root().join("docs")).unwrap().display().to_string();
        assert!(name == "SUMMARY.md" || summary.contains(&name), "{name} is not in the book");
    }
    let glossary = read("docs/glossary.md");
    let words: Vec<_> = glossary.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    let distinct: BTreeSet<_> = words.iter().map(|line| line.split('|').nth(1)).collect();
    assert!((20..=25).contains(&words.len()) && distinct.len() == words.len(), "{words:#?}");
}

/// Returns true if a comment names the check of the commands below it: a test, a manual
/// measurement, or a required account or cluster.
fn names_its_check(comment: &str) -> bool {
    let Some(text) = comment.strip_prefix("<!-- ").and_then(|tail| tail.strip_suffix(" -->"))
    else {
        return false;
    };
    let files: Vec<_> = text
        .split([' ', ',', ';'])
        .filter(|word| ["tests/", "examples/", ".ci/"].iter().any(|start| word.starts_with(start)))
        .collect();
    match text.split_once(": ") {
        Some(("needs", resource)) => resource == "an account" || resource == "a cluster",
        Some(("run by hand", reason)) => !reason.is_empty(),
        Some(("run by" | "built by" | "checked by", _)) => {
            !files.is_empty() && files.iter().all(|file| root().join(file).exists())
        }
        _ => false,
    }
}

#[test]
fn every_console_block_names_its_check() {
    let mut errors = Vec::new();
    let mut consoles = 0;
    for (path, text) in documents() {
        let mut before = "";
        for part in parts(&text) {
            match part {
                Part::Line(line) => before = line,
                Part::Fenced(kind, content) => {
                    consoles += usize::from(kind == "console");
                    if kind == "console" && !names_its_check(before) {
                        errors.push(format!(
                            "{}: {}",
                            path.display(),
                            content.lines().next().unwrap()
                        ));
                    }
                    before = "";
                }
            }
        }
    }
    assert_eq!(errors, [""; 0]);
    assert!(consoles > 15, "{consoles}");
    assert!(names_its_check("<!-- checked by: tests/tests/project/documents.rs -->"));
    assert!(!names_its_check("<!-- checked by: tests/tests/nothing.rs -->"));
    assert!(!names_its_check("<!-- checked by: somebody -->"));
}

/// Returns the help of the program, or of one of its commands.
fn help(command: &[&str]) -> String {
    let program = env!("CARGO_BIN_EXE_tenure-under-test");
    let output = Command::new(program).args(command).arg("--help").output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the names in help lines with this indent: commands, or options with all their names.
fn listed_names(help: &str, indent: usize) -> BTreeSet<String> {
    let lines = help.lines().filter_map(|line| line.strip_prefix(&" ".repeat(indent)));
    let names = |line: &str| {
        let words = line.split_whitespace().map(|word| word.trim_end_matches(',').to_owned());
        match line.starts_with('-') {
            true => words.take_while(|word| word.starts_with('-')).collect::<Vec<_>>(),
            false => words.take(1).collect(),
        }
    };
    lines.filter(|line| !line.starts_with(' ')).flat_map(names).collect()
}

/// Returns the commands of the program.
fn all_commands() -> BTreeSet<String> {
    let help = help(&[]);
    let commands = help.split("Run:").nth(1).unwrap().split("Options:").next().unwrap();
    listed_names(commands, 2)
}

/// Returns the options of a command.
fn options(command: &str) -> BTreeSet<String> {
    let help = help(&[command]);
    let options = help.split("Options:").nth(1).unwrap();
    let mut found = listed_names(options, 6);
    found.extend(listed_names(options, 2));
    found.retain(|word| word.starts_with("--") && *word != "--help");
    found
}

/// Returns the first part of a command that `tenure` does not know.
fn unknown_name(command: &str) -> Option<String> {
    let mut words = command.split_whitespace();
    let command = words.by_ref().skip_while(|word| !word.ends_with("tenure")).nth(1)?;
    if command.starts_with("--") {
        return None;
    }
    if !all_commands().contains(command) {
        return Some(command.to_owned());
    }
    let options = options(command);
    let given_options =
        words.take_while(|word| *word != "--").filter(|word| word.starts_with("--"));
    let mut names = given_options.map(|word| word.split('=').next().unwrap().to_owned());
    names.find(|name| !options.contains(name))
}

#[test]
fn documented_commands_exist() {
    let just = read("justfile");
    let recipe = |name: &str| {
        just.lines()
            .any(|line| line.strip_prefix(name).is_some_and(|tail| tail.starts_with([' ', ':'])))
    };
    let (mut command_count, mut errors) = (0, Vec::new());
    for (path, text) in documents() {
        for command in fenced(&text, "console").iter().flat_map(|console| commands(console)) {
            let words: Vec<_> = command.split_whitespace().collect();
            let program = words.iter().find(|word| !word.contains('=')).copied();
            let bin = words.iter().position(|word| *word == "--bin").map(|at| words[at + 1]);
            let exists = match (program, bin) {
                (Some("tenure"), _) => {
                    command_count += 1;
                    unknown_name(&command).is_none()
                }
                (Some("just"), _) => recipe(words[1]),
                (Some("cargo"), Some(bin)) => {
                    let package =
                        words.iter().position(|word| *word == "-p").map(|at| words[at + 1]);
                    let folder = match package {
                        Some("tenure-simulation") => root().join("tests/simulation/src/bin"),
                        _ => root().join("tests/src/bin"),
                    };
                    folder.join(bin).is_dir() || folder.join(format!("{bin}.rs")).is_file()
                }
                _ => true,
            };
            if !exists {
                errors.push(format!("{}: {command}", path.display()));
            }
        }
    }
    assert_eq!(errors, [""; 0]);
    assert!(command_count > 20, "{command_count}");
    for (command, mistake) in [
        ("tenure status a/b", None),
        ("tenure run --every 5s -- other --no-option", None),
        ("tenure statsu a/b", Some("statsu")),
        ("KEY=x tenure run --evry 5s", Some("--evry")),
        // An option of another command.
        ("tenure status --every 5s", Some("--every")),
    ] {
        assert_eq!(unknown_name(command).as_deref(), mistake, "{command}");
    }
}

/// Covers the options of commands for an election; other commands have no settings.
#[test]
fn the_tables_of_options_are_those_of_the_program() {
    let text = read("docs/configuration.md");
    let named = text.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    // A bare `--` precedes the command that is the work.
    let named = named.filter(|name| name.starts_with("--") && !name.starts_with("-- "));
    let listed: BTreeSet<_> = named.map(str::to_owned).collect();
    assert!(options("run").len() > 30, "{:?}", options("run"));
    // The command `help` has no help of its own.
    let commands = all_commands().into_iter().filter(|name| name != "help");
    let elections = commands.filter(|name| options(name).contains("--connection-string-file"));
    let known: BTreeSet<_> = elections.flat_map(|command| options(&command)).collect();
    assert_eq!(listed, known);
}

/// Returns the first console of the README that starts with `cargo init`, and the first Rust
/// source.
fn readme_handler() -> (Vec<String>, String) {
    let text = read("README.md");
    let consoles = fenced(&text, "console");
    let console = consoles
        .iter()
        .find(|text_of_console| text_of_console.starts_with("$ cargo init"))
        .unwrap();
    (commands(console), fenced(&text, "rust").remove(0))
}

/// Builds a component from an empty folder, with the README's commands and source.
#[test]
fn the_handler_of_the_readme_can_be_built() {
    let (commands, source) = readme_handler();
    let [prepare @ .., build, run] = commands.as_slice() else { panic!("{commands:#?}") };
    assert!(commands.len() <= 5 && run.contains("tenure run"), "{commands:#?}");

    let folder = std::env::temp_dir().join(format!("tenure-newcomer-{}", std::process::id()));
    fs::create_dir(&folder).unwrap();
    let shell = |command: &str| {
        let command = command.replace("~/tenure/", &format!("{}/", root().display()));
        let mut shell = Command::new("sh");
        shell.arg("-ec").arg(&command).current_dir(&folder);
        // Removes variables that cargo sets for tests, which a new user would not have.
        for name in ["CARGO_MANIFEST_DIR", "CARGO_TARGET_DIR", "RUSTFLAGS"] {
            shell.env_remove(name);
        }
        let output = shell.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{command}\n{stderr}");
    };
    prepare.iter().for_each(|command| shell(command));
    fs::write(folder.join("src/lib.rs"), source).unwrap();
    shell(build);
    let handler = run.split("--handler ").nth(1).unwrap();
    let component = fs::read(folder.join(handler)).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    assert!(component.starts_with(b"\0asm"), "{handler}");
}
