//! `tenure completions` and `tenure man`: the command line for shells and as manual pages.

use super::args::{self, CompletionsArguments, ManArguments};
use super::settings::table::TABLE;
use super::settings::{Kind, Setting};
use crate::output::{CommandResult, VERSION, fail, print};
use clap::builder::PossibleValuesParser;
use clap::{Arg, Command, ValueHint};
use clap_complete::Shell;
use clap_mangen::Man;
use std::path::Path;
use std::process::ExitCode;
use std::{fs, io};

pub(super) fn completions(arguments: &CompletionsArguments) -> CommandResult {
    print(&script(arguments.shell, TABLE));
    Ok(ExitCode::SUCCESS)
}

pub(super) fn man(arguments: &ManArguments) -> CommandResult {
    match &arguments.directory {
        None => print(&page(&visible_program(TABLE))),
        Some(directory) => write_all(directory).map_err(|error| {
            let directory = directory.display();
            fail(format_args!("the pages cannot be written to {directory}: {error}"))
        })?,
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn script(shell: Shell, table: &[&'static Setting]) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut with_hints(table), "tenure", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Returns the program with hints about values. Without a hint, shells offer files.
fn with_hints(table: &[&'static Setting]) -> Command {
    visible_program(table)
        .mut_subcommands(|command| command.mut_args(|argument| hint(argument, table)))
}

fn hint(argument: Arg, table: &[&'static Setting]) -> Arg {
    if !argument.get_action().takes_values() {
        return argument;
    }
    let setting = table.iter().find(|setting| argument.get_long() == Some(setting.name));
    // The program validates these values itself, so clap has no list of them.
    if let Some(Kind::OneOf(words) | Kind::Rule(words)) = setting.map(|setting| setting.kind) {
        return argument.value_parser(PossibleValuesParser::new(words));
    }
    let value_name =
        argument.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
    let hint = match value_name.as_deref().unwrap_or_default() {
        name if name.starts_with("FILE") || name.ends_with(".wasm") => ValueHint::FilePath,
        "DIRECTORY" => ValueHint::DirPath,
        "COMMAND" if argument.is_positional() => ValueHint::CommandWithArguments,
        "COMMAND" => ValueHint::CommandString,
        "URL" => ValueHint::Url,
        "HOST" => ValueHint::Hostname,
        _ => ValueHint::Other,
    };
    argument.value_hint(hint)
}

fn write_all(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let mut program = visible_program(TABLE);
    // Sets the names of the commands to those of their pages.
    program.build();
    for command in std::iter::once(&program).chain(program.get_subcommands()) {
        let name = command.get_display_name().unwrap_or_else(|| command.get_name());
        fs::write(directory.join(format!("{name}.1")), page(command))?;
    }
    Ok(())
}

/// Renders a manual page of section 1.
pub(super) fn page(command: &Command) -> String {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let page = Man::new(command.clone())
        .title(name.to_uppercase())
        .date(" ")
        .source(concat!("tenure ", env!("CARGO_PKG_VERSION")))
        .manual("Tenure");
    let mut text = Vec::new();
    // Writing into memory cannot fail.
    let _ = page.render(&mut text);
    with_notes(&String::from_utf8_lossy(&text))
}

/// Renames the section after the options to its standard name. Keeps indented lines as they are:
/// they are examples.
fn with_notes(page: &str) -> String {
    let mut text = String::new();
    let (mut notes, mut indented) = (false, false);
    for line in page.lines() {
        notes = if line.starts_with(".SH") { line == ".SH EXTRA" } else { notes };
        let example = notes && line.starts_with("  ");
        if example != indented {
            text.push_str(if example { ".nf\n" } else { ".fi\n" });
            indented = example;
        }
        text.push_str(if line == ".SH EXTRA" { ".SH NOTES" } else { line });
        text.push('\n');
    }
    text.chars().map(roff_character).collect()
}

/// Escapes other characters than ASCII, since not every formatter reads UTF-8.
fn roff_character(c: char) -> String {
    match c.is_ascii() {
        true => c.to_string(),
        false => format!("\\[u{:04X}]", u32::from(c)),
    }
}

/// Returns the program without hidden commands.
fn visible_program(table: &[&'static Setting]) -> Command {
    let all = args::program(table);
    let shown = all.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    Command::new("tenure")
        .version(VERSION)
        .about(all.get_about().cloned().unwrap_or_default())
        .after_long_help(all.get_after_long_help().cloned().unwrap_or_default())
        .subcommand_required(all.is_subcommand_required_set())
        .disable_help_subcommand(true)
        .subcommands(shown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum as _;

    #[test]
    fn completions_exist_for_every_shell_without_hidden_options() {
        for shell in Shell::value_variants() {
            let script = script(*shell, TABLE);
            assert!(script.contains("connection-string-file"), "{shell}");
            for hidden in ["supervise", "supervised-by"] {
                assert!(!script.contains(hidden), "{shell}: {hidden}");
            }
        }
    }

    /// Returns the completions of bash after an option of `tenure run`.
    fn offered(option: &str) -> String {
        let script = script(Shell::Bash, TABLE);
        let run = script.split("tenure__subcmd__run)").nth(1).unwrap_or_else(|| panic!("{script}"));
        let after = run.split(&format!("--{option})")).nth(1).unwrap_or_else(|| panic!("{run}"));
        after.split(";;").next().unwrap().to_owned()
    }

    #[test]
    fn files_are_offered_where_files_are_meant() {
        for (option, files) in [
            ("delivery", false),
            ("missed", false),
            ("lease", false),
            ("log", false),
            ("handler", true),
            ("ca-file", true),
        ] {
            assert_eq!(offered(option).contains("compgen -f"), files, "{option}");
        }
        assert!(offered("delivery").contains("at-most-once at-least-once"));
    }

    #[test]
    fn each_command_has_a_page() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("man1");
        write_all(&directory).unwrap();
        let mut names: Vec<_> = fs::read_dir(&directory)
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        let commands = args::program(TABLE);
        let shown = commands.get_subcommands().filter(|command| !command.is_hide_set());
        let mut expected: Vec<_> = shown.map(|c| format!("tenure-{}.1", c.get_name())).collect();
        expected.push("tenure.1".to_owned());
        expected.sort();
        assert_eq!(names, expected);
        let run = fs::read_to_string(directory.join("tenure-run.1")).unwrap();
        assert!(run.contains("\\fBtenure run\\fR") && run.contains(".TH TENURE-RUN"), "{run}");
    }

    #[test]
    fn examples_stay_as_they_are() {
        let page = ".SH EXTRA\nText…\n  one\n  two\nText\n.SH VERSION\n  x\n";
        let expected = ".SH NOTES\nText\\[u2026]\n.nf\n  one\n  two\n.fi\nText\n.SH VERSION\n  x\n";
        assert_eq!(with_notes(page), expected);
    }
}
