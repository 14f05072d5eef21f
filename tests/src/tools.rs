//! Tools that are not written in Rust, installed on first use: pinned by the lock files of this
//! repository, each into a folder of its own below `build/`, once for all test processes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// The root of the repository.
#[must_use]
pub fn repository() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().map_or_else(|| tests.to_owned(), Path::to_owned)
}

/// What `make` puts into the folder `build/NAME`: made when `inputs`, files and folders of the
/// repository, are not those that it was made from, and then from nothing.
///
/// # Errors
/// It cannot be made.
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

/// All that is in a file, or in the files below a folder, after its name.
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

/// Runs a command to its end, and returns what it printed.
///
/// # Errors
/// It cannot be started, or it fails; then with all that it said.
pub fn run_command(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("{program} cannot be started"))?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}\n{stdout}{errors}", output.status);
    Ok(stdout)
}

/// Looks whether a program is there.
///
/// # Errors
/// It is not; then with this advice, in one line.
pub fn require_tool(program: &str, advice: &str) -> Result<()> {
    let result = Command::new(program).arg("--version").stdin(Stdio::null()).output();
    ensure!(
        result.is_ok_and(|output| output.status.success()),
        "these tests need `{program}`, which does not run here: {advice}"
    );
    Ok(())
}

/// Installs what the `package-lock.json` in a folder of the repository names.
///
/// # Errors
/// It cannot be installed.
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

/// Installs what a `requirements.txt` of the repository names, for `PYTHONPATH`; programs go
/// into its `bin`.
///
/// # Errors
/// It cannot be installed.
pub fn pip(name: &str, requirements: &str) -> Result<PathBuf> {
    build_if_changed(name, &[requirements], |folder| {
        require_tool("python3", "install Python 3.10 or newer, with pip")?;
        // Into a folder of its own: it takes no virtual environment, which not every Python can
        // make, and is never refused by a system whose Python is managed by its packages.
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]);
        pip.args(["--only-binary", ":all:", "--disable-pip-version-check", "--target"]);
        pip.arg(folder).arg("-r").arg(repository().join(requirements));
        run_command(&mut pip).context("pip is needed (Debian: python3-pip)").map(drop)
    })
}

/// Python with a script of the repository, and with what [`pip`] installed in a folder.
#[must_use]
pub fn python(script: &str, installed: &Path) -> Command {
    let mut python = Command::new("python3");
    // No byte code beside the script.
    python.arg("-B").arg(repository().join(script)).env("PYTHONPATH", installed);
    python
}
