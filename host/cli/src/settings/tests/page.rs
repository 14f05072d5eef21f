//! The tables of docs/configuration.md.

use crate::settings::command_line::{first_sentence, range, to_text};
use crate::settings::table::{ACCOUNT, HEADINGS};
use crate::settings::{Kind, Setting};
use std::fmt::Write as _;

/// Marks before and after the tables in the page.
const BEGIN: &str =
    "<!-- tables of host/cli/src/settings/table.rs; CONTRIBUTING.md says how they are written -->";
const END: &str = "<!-- end of the tables -->";

/// Returns all tables, each under its heading.
pub(super) fn tables(table: &[&'static Setting]) -> String {
    let mut text = String::new();
    for heading in HEADINGS {
        // docs/security.md has the variables of credentials.
        let is_row = |setting: &&&Setting| {
            setting.heading == heading && !(heading == ACCOUNT && setting.name.is_empty())
        };
        let rows: Vec<_> = table.iter().filter(is_row).collect();
        let _ = write!(text, "### {heading}\n\n| option, variable | default | range | meaning |\n");
        text += "|---|---|---|---|\n";
        for setting in rows {
            let cells = [names(setting), code(&to_text(setting.default)), allowed(setting)];
            for cell in cells {
                let _ = write!(text, "| {cell}{}", if cell.is_empty() { "" } else { " " });
            }
            let _ = writeln!(text, "| {} |", meaning(setting));
        }
        text.push('\n');
    }
    text
}

/// Returns the option and its variables.
fn names(setting: &Setting) -> String {
    let option = match (setting.name, setting.kind) {
        ("", _) => None,
        (_, Kind::Argument(name)) => Some(format!("`{name}`")),
        (_, Kind::Command) => Some("`-- COMMAND ARGS…`".to_owned()),
        (name, _) => Some(format!("`--{name}`")),
    };
    let variables = setting.variables().map(|name| format!("`{name}`"));
    option.into_iter().chain(variables).collect::<Vec<_>>().join(", ")
}

fn allowed(setting: &Setting) -> String {
    range(setting).map(|range| code(&range)).unwrap_or_default()
}

fn meaning(setting: &Setting) -> String {
    let mut text = String::new();
    if !setting.commands.is_empty() && !setting.commands.contains(&"run") {
        let commands: Vec<_> = setting.commands.iter().map(|name| format!("`{name}`")).collect();
        let _ = write!(text, "Of {}. ", commands.join(", "));
    }
    // Only the help of the option contains the other sentences.
    text += &code(first_sentence(setting.help));
    if !setting.more.is_empty() {
        let _ = write!(text, ". {}", setting.more);
    }
    text
}

/// Formats typed words as code.
fn code(text: &str) -> String {
    let is_typed = |word: &str| {
        let is_code_character =
            |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || "_:/[]=".contains(c);
        word.starts_with("--")
            || word.contains("://")
            || (word.starts_with('/') && word.len() > 1)
            || (word.len() > 2
                && word.contains(['_', ':', '='])
                && word.chars().all(is_code_character))
    };
    let word = |word: &str| {
        let bare = word.trim_matches(['(', ')', ',', ';', '.', '\'']);
        let bare = bare.strip_suffix(':').unwrap_or(bare);
        match is_typed(bare) {
            true => word.replace(bare, &format!("`{bare}`")),
            false => word.to_owned(),
        }
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

mod tests {
    use super::*;
    use crate::settings::table::TABLE;
    use std::fs;
    use std::path::Path;

    /// Rewrites the tables of the page if `REWRITE` is set.
    #[test]
    fn the_page_has_the_tables() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
        let text = fs::read_to_string(&page).unwrap();
        let (before, remainder) = text.split_once(BEGIN).unwrap();
        let (_, after) = remainder.split_once(END).unwrap();
        let expected = format!("{before}{BEGIN}\n\n{}{END}{after}", tables(TABLE));
        if std::env::var_os("REWRITE").is_some() {
            fs::write(&page, &expected).unwrap();
        }
        let written = fs::read_to_string(&page).unwrap();
        assert!(written == expected, "REWRITE=1 cargo test -p tenure-cli the_page writes it anew");
    }

    #[test]
    fn the_first_sentence_ends_at_the_first_full_stop() {
        assert_eq!(first_sentence("At most 2.5s. Not more. See x"), "At most 2.5s");
        assert_eq!(first_sentence("At most 2.5s"), "At most 2.5s");
    }

    #[test]
    fn typed_text_is_code() {
        for (text, written) in [
            ("of --cron, like '0 9'", "of `--cron`, like '0 9'"),
            ("(/healthz), is", "(`/healthz`), is"),
            ("a page (/), UTC", "a page (/), UTC"),
            ("HOST, HOST:PORT or x", "HOST, `HOST:PORT` or x"),
            ("of --handler: a", "of `--handler`: a"),
            ("like http://a:1/", "like `http://a:1/`"),
            ("4/15 of the lease", "4/15 of the lease"),
        ] {
            assert_eq!(code(text), written);
        }
    }
}
