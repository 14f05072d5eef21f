//! Example handlers, built with the commands of their READMEs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::tools;

/// Language of an example.
#[derive(Clone, Copy, Debug)]
pub enum Language {
    /// Built with the programs of this repository.
    Rust,
    /// Built with componentize-js.
    JavaScript,
    /// Built with componentize-py.
    Python,
}

impl Language {
    /// Returns the component, built if necessary.
    ///
    /// # Errors
    /// The component cannot be built.
    pub fn handler(self) -> Result<PathBuf> {
        let folder = match self {
            Self::Rust => components()?,
            Self::JavaScript => javascript()?,
            Self::Python => python()?,
        };
        Ok(folder.join("report.wasm"))
    }
}

/// Returns the folder in which the build puts the components of this repository.
///
/// # Errors
/// This program is not in cargo's target folder.
pub fn components() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    // target/<profile>/deps/<test>, target/<profile>/<program>
    let components = program.ancestors().skip(1).take(2).map(|folder| folder.join("components"));
    components.into_iter().find(|folder| folder.is_dir()).context("no folder `components`")
}

/// Returns the built folder of the JavaScript example. Its tools are in `node_modules`.
///
/// # Errors
/// The example cannot be built.
pub fn javascript() -> Result<PathBuf> {
    let files = ["README.md", "report.js", "package.json", "package-lock.json", "wit"];
    tools::require_tool("npm", "install Node.js with npm")?;
    build("javascript", &files, 2)
}

fn python() -> Result<PathBuf> {
    let files = ["README.md", "report.py", "post.py", "requirements.txt", "wit"];
    tools::require_tool("python3", "install Python 3.10 or newer, with pip")?;
    build("python", &files, 3)
}

/// Runs the first `count` commands of the example's README in an empty folder.
fn build(language: &str, files: &[&str], count: usize) -> Result<PathBuf> {
    let source = format!("examples/{language}");
    let inputs: Vec<_> = files.iter().map(|file| format!("{source}/{file}")).collect();
    let inputs: Vec<_> = inputs.iter().map(String::as_str).collect();
    tools::build_if_changed(language, &inputs, |folder| {
        for command in commands(language)?.iter().take(count) {
            tools::run_command(shell(folder).arg(command))
                .with_context(|| format!("the README's command `{command}`"))?;
        }
        let component = folder.join("report.wasm");
        ensure!(component.is_file(), "the README's commands do not make {}", component.display());
        Ok(())
    })
}

/// Returns a shell that runs one command in a folder.
#[must_use]
pub fn shell(folder: &Path) -> Command {
    let mut shell = Command::new("sh");
    // Removes the variable that cargo sets for tests, which must not affect the tools.
    shell.arg("-ec").current_dir(folder).env_remove("CARGO_MANIFEST_DIR");
    shell
}

/// Returns the commands of the first console in an example's README. The path of this repository
/// replaces `~/tenure`.
///
/// # Errors
/// The README has no commands.
pub fn commands(language: &str) -> Result<Vec<String>> {
    let repository = tools::repository();
    let readme = fs::read_to_string(repository.join(format!("examples/{language}/README.md")))?;
    let console =
        readme.split("```console\n").nth(1).and_then(|remaining| remaining.split("```").next());
    let repository_prefix = format!("{}/", repository.display());
    let commands: Vec<_> = console
        .context("the README has no console")?
        .replace("\\\n", "")
        .lines()
        .filter_map(|line| line.strip_prefix("$ "))
        .map(|command| command.replace("~/tenure/", &repository_prefix))
        .collect();
    ensure!(!commands.is_empty(), "the README's first console has no commands");
    Ok(commands)
}
