//! Tools that are not written in Rust, installed on first use. Lock files of this repository pin
//! them; each has its own folder below `build/`, shared by all test processes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Returns the root of the repository.
#[must_use]
pub fn repository() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().map_or_else(|| tests.to_owned(), Path::to_owned)
}

/// Returns the folder `build/NAME` with the output of `make`. Rebuilds it from scratch if `inputs`,
/// files and folders of the repository, have changed.
///
/// # Errors
/// The folder cannot be built.
pub fn build_if_changed(
    name: &str,
    inputs: &[&str],
    make: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let build = repository().join("build");
    let folder = build.join(name);
    fs::create_dir_all(&build)?;
    let lock = File::create(build.join(format!("{name}.lock")))?;
    lock.lock()?; // Released when the file is closed.
    let mut fingerprint = Vec::new();
    for input in inputs {
        append_contents(&repository().join(input), &mut fingerprint)?;
    }
    let fingerprint_file = build.join(format!("{name}.made-of"));
    if fs::read(&fingerprint_file).is_ok_and(|recorded| recorded == fingerprint) {
        return Ok(folder);
    }
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        _ => fs::create_dir_all(&folder)?,
    }
    make(&folder)?;
    fs::write(fingerprint_file, fingerprint)?;
    Ok(folder)
}

/// Appends the name and contents of a file, or of all files below a folder.
fn append_contents(path: &Path, contents: &mut Vec<u8>) -> Result<()> {
    contents.extend_from_slice(path.as_os_str().as_encoded_bytes());
    if path.is_file() {
        contents.extend(fs::read(path)?);
        return Ok(());
    }
    let mut entries = fs::read_dir(path)
        .with_context(|| format!("{} is missing", path.display()))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    entries.sort();
    entries.iter().try_for_each(|entry| append_contents(entry, contents))
}

/// Runs a command to completion, and returns its output.
///
/// # Errors
/// The command cannot be started or fails; the error contains its output.
pub fn run_command(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("{program} cannot be started"))?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}\n{stdout}{errors}", output.status);
    Ok(stdout)
}

/// Checks that a program is installed.
///
/// # Errors
/// The program is missing; the error contains this advice, in one line.
pub fn require_tool(program: &str, advice: &str) -> Result<()> {
    let result = Command::new(program).arg("--version").stdin(Stdio::null()).output();
    ensure!(
        result.is_ok_and(|output| output.status.success()),
        "these tests need `{program}`, which does not run here: {advice}"
    );
    Ok(())
}

/// Installs the packages of a `package-lock.json` in a folder of the repository.
///
/// # Errors
/// A package cannot be installed.
pub fn npm(name: &str, source: &str) -> Result<PathBuf> {
    let files = [format!("{source}/package.json"), format!("{source}/package-lock.json")];
    build_if_changed(name, &[&files[0], &files[1]], |folder| {
        require_tool("npm", "install Node.js with npm")?;
        for (file, name) in files.iter().zip(["package.json", "package-lock.json"]) {
            fs::copy(repository().join(file), folder.join(name))?;
        }
        let mut npm = Command::new("npm");
        npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(folder);
        run_command(&mut npm).map(drop)
    })
}

/// Installs the packages of a `requirements.txt` of the repository, for use as `PYTHONPATH`.
/// Programs go to its `bin`.
///
/// # Errors
/// A package cannot be installed.
pub fn pip(name: &str, requirements: &str) -> Result<PathBuf> {
    build_if_changed(name, &[requirements], |folder| {
        require_tool("python3", "install Python 3.10 or newer, with pip")?;
        // Installs into a plain folder instead of a virtual environment, which some Pythons cannot
        // create. Systems that manage Python themselves never reject that.
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]);
        pip.args(["--only-binary", ":all:", "--disable-pip-version-check", "--target"]);
        pip.arg(folder).arg("-r").arg(repository().join(requirements));
        run_command(&mut pip).context("pip is needed (Debian: python3-pip)").map(drop)
    })
}

/// Returns a command that runs a script of the repository with the packages that [`pip`] installed.
#[must_use]
pub fn python(script: &str, installed: &Path) -> Command {
    let mut python = Command::new("python3");
    // Writes no byte code next to the script.
    python.arg("-B").arg(repository().join(script)).env("PYTHONPATH", installed);
    python
}
