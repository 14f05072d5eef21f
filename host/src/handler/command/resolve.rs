//! Program lookup before the first turn.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Reason why a program cannot be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotRunnable {
    /// There is no file at that path.
    #[error("there is no such file")]
    Missing,
    /// No directory of `PATH` contains the program.
    #[error("no directory of PATH holds a program of this name")]
    NotOnPath,
    /// The path is not a file, or the file is not executable.
    #[error("this may not be executed")]
    NotExecutable,
    /// `main` does not begin with [`supervisor_main`](crate::supervisor_main).
    #[error("`tenure::supervisor_main()` is not the first statement of this program's `main`")]
    NoSupervisor,
}

/// Returns the path of `program`. A name without a slash is looked up in `path`, and the first
/// executable file wins.
///
/// # Errors
///
/// Fails if there is no such executable file.
pub(super) fn resolve(program: &OsStr, path: Option<&OsStr>) -> Result<PathBuf, NotRunnable> {
    if program.as_encoded_bytes().contains(&b'/') {
        // The command has the same working directory, but an absolute path is clearer in a list of
        // processes.
        let file = std::path::absolute(program).map_err(|_| NotRunnable::Missing)?;
        return check_executable(&file).map(|()| file);
    }
    let mut problem = NotRunnable::NotOnPath;
    for folder in std::env::split_paths(path.unwrap_or_default()) {
        let file = folder.join(program);
        match check_executable(&file) {
            Ok(()) => return std::path::absolute(&file).map_err(|_| NotRunnable::Missing),
            Err(NotRunnable::NotExecutable) if file.is_file() => {
                problem = NotRunnable::NotExecutable;
            }
            Err(_) => {}
        }
    }
    Err(problem)
}

fn check_executable(file: &Path) -> Result<(), NotRunnable> {
    let Ok(metadata) = file.metadata() else { return Err(NotRunnable::Missing) };
    match metadata.is_file() && metadata.permissions().mode() & 0o111 != 0 {
        true => Ok(()),
        false => Err(NotRunnable::NotExecutable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};

    #[test]
    fn a_program_is_looked_up_as_a_shell_does() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (file, mode) in [("first/run", 0o644), ("second/run", 0o755), ("first/data", 0o644)] {
            fs::create_dir_all(at(file).parent().unwrap()).unwrap();
            fs::write(at(file), "").unwrap();
            fs::set_permissions(at(file), Permissions::from_mode(mode)).unwrap();
        }
        let path = std::env::join_paths([at("nowhere"), at("first"), at("second")]).unwrap();
        let found = |name: &str| resolve(OsStr::new(name), Some(&path));
        assert_eq!(found("run"), Ok(at("second/run")));
        assert_eq!(found("data"), Err(NotRunnable::NotExecutable));
        assert_eq!(found("other"), Err(NotRunnable::NotOnPath));
        assert_eq!(resolve(OsStr::new("run"), None), Err(NotRunnable::NotOnPath));
        let direct = |name: &str| resolve(at(name).as_os_str(), None);
        assert_eq!(direct("second/run"), Ok(at("second/run")));
        assert_eq!(direct("first/run"), Err(NotRunnable::NotExecutable));
        assert_eq!(direct("first"), Err(NotRunnable::NotExecutable));
        assert_eq!(direct("third"), Err(NotRunnable::Missing));
    }
}
