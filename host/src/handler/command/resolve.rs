//! Where a program is, looked up before anything begins.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a program cannot be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotRunnable {
    /// No such file at that path.
    #[error("there is no such file")]
    Missing,
    /// No directory of PATH holds it.
    #[error("no directory of PATH holds a program of this name")]
    NotOnPath,
    /// It is no file, or one without the permission to run it.
    #[error("this may not be executed")]
    NotExecutable,
    /// `main` does not begin with [`supervisor_main`](crate::supervisor_main).
    #[error("`tenure::supervisor_main()` is not the first statement of this program's `main`")]
    NoSupervisor,
}

/// The file that `program` stands for: itself when it has a slash, else the first one of that name
/// in a directory of `path` that may be run.
///
/// # Errors
///
/// When there is none.
pub(super) fn resolve(program: &OsStr, path: Option<&OsStr>) -> Result<PathBuf, NotRunnable> {
    if program.as_encoded_bytes().contains(&b'/') {
        // The working directory is the command's too, but a path that is whole says more in a list
        // of processes.
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
