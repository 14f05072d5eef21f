//! Where compiled code is kept on disk, and whether it may be believed: it is machine code, and runs
//! as it lies there, with all rights of this process.

use std::io;
use std::path::{Path, PathBuf};
use wasmtime::{Cache, CacheConfig};

/// The directory of the code, in the one that was asked for. Nobody else ever had rights there, also
/// if that one was open to others once.
const CODE: &str = "code";

/// Where code is kept when nothing else is said: `TENURE_CACHE_DIR`, else `tenure` below
/// `XDG_CACHE_HOME` or `~/.cache`. True: somebody named it.
pub(super) fn default_directory() -> Option<(PathBuf, bool)> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(directory) = variable("TENURE_CACHE_DIR") {
        return Some((directory.into(), true));
    }
    let user = variable("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(Path::new(&variable("HOME")?).join(".cache")))?;
    Some((user.join("tenure"), false))
}

/// The cache in `directory`, which is made when it is missing. None when it cannot be, and nobody named it.
///
/// # Errors
///
/// Others could put code of theirs there, or one that was named cannot be made; which directory it is, and what to do.
pub(super) fn open(directory: &Path, is_explicit: bool) -> Result<Option<Cache>, String> {
    let Ok(directory) = std::path::absolute(directory) else { return Ok(None) };
    // Nothing is made where others could take its place.
    let existing = directory.ancestors().find_map(|part| part.canonicalize().ok());
    if let Some(existing) = existing {
        check_trusted(&existing)?;
    }
    let code = match make(&directory.join(CODE)) {
        Ok(code) => code,
        Err(error) if is_explicit => return Err(unusable(&directory, &error)),
        Err(_) => return Ok(None),
    };
    check_private(&code)?;
    code.parent().map_or(Ok(()), check_trusted)?;
    let mut config = CacheConfig::new();
    config.with_directory(&code);
    Ok(Cache::new(config).ok())
}

fn unusable(directory: &Path, error: &io::Error) -> String {
    let directory = directory.display();
    format!(
        "compiled code is not cached: {directory} cannot be used ({error}); set TENURE_CACHE_DIR to a directory that this \
         user can create or write"
    )
}

/// Makes a directory, and those above it that are missing, for nobody else. Its path without links.
fn make(directory: &Path) -> io::Result<PathBuf> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)?;
    directory.canonicalize()
}

/// Whether a directory is this user's, and of nobody else's business.
#[cfg(unix)]
fn check_private(directory: &Path) -> Result<(), String> {
    let (owner, mode) = owner_and_mode(directory)?;
    if owner != rustix::process::geteuid().as_raw() {
        return Err(refusal(directory, "belongs to another user"));
    }
    match mode & 0o077 {
        0 => Ok(()),
        _ => Err(refusal(directory, &format!("is open to other users (mode {mode:04o})"))),
    }
}

/// Whether nobody but this user and root can put something in the place of what lies in a directory,
/// or of a directory above it. In a sticky one, like /tmp, only its owner can.
#[cfg(unix)]
fn check_trusted(directory: &Path) -> Result<(), String> {
    const STICKY: u32 = 0o1000;
    let user = rustix::process::geteuid().as_raw();
    for part in directory.ancestors() {
        let (owner, mode) = owner_and_mode(part)?;
        if owner != user && owner != 0 {
            return Err(refusal(part, "belongs to another user"));
        }
        if mode & 0o022 != 0 && mode & STICKY == 0 {
            return Err(refusal(part, &format!("can be written by other users (mode {mode:04o})")));
        }
    }
    Ok(())
}

/// Owner and mode.
#[cfg(unix)]
fn owner_and_mode(directory: &Path) -> Result<(u32, u32), String> {
    use std::os::unix::fs::MetadataExt as _;
    match std::fs::metadata(directory) {
        Ok(metadata) => Ok((metadata.uid(), metadata.mode() & 0o7777)),
        Err(error) => Err(refusal(directory, &format!("cannot be examined: {error}"))),
    }
}

#[cfg(unix)]
fn refusal(directory: &Path, reason: &str) -> String {
    let directory = directory.display();
    format!(
        "compiled code is not cached: {directory} {reason}, and others who can write there could run any code here; set \
         TENURE_CACHE_DIR to a directory that only this user can write (chmod 700)"
    )
}

/// Rights are not looked at here.
#[cfg(not(unix))]
fn own(_: &Path) -> Result<(), String> {
    Ok(())
}

#[cfg(not(unix))]
fn trusted(_: &Path) -> Result<(), String> {
    Ok(())
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use std::fs::{Permissions, create_dir, read_dir, set_permissions};
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    fn mode(path: &Path, mode: u32) {
        set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn rights(path: &Path) -> u32 {
        path.metadata().unwrap().mode() & 0o777
    }

    #[test]
    fn new_directories_are_private() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("a/b");
        assert!(open(&directory, true).unwrap().is_some());
        assert_eq!((rights(&folder.path().join("a")), rights(&directory)), (0o700, 0o700));
        // A directory that others may look into is no harm: what lies in it is none of theirs.
        mode(&directory, 0o755);
        assert!(open(&directory, true).unwrap().is_some());
        assert_eq!(rights(&directory.join(CODE)), 0o700);
    }

    #[test]
    fn directories_that_others_can_write_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (above, directory) = (folder.path().join("a"), folder.path().join("a/b"));
        create_dir(&above).unwrap();
        create_dir(&directory).unwrap();
        let link = folder.path().join("link");
        symlink(&directory, &link).unwrap();
        for (open_one, rights, directory_to_open) in [
            (&directory, 0o777, &directory),
            (&directory, 0o770, &directory),
            (&above, 0o777, &directory),
            (&above, 0o775, &directory),
            (&above, 0o777, &directory.join("new")),
            (&directory, 0o777, &link),
        ] {
            mode(open_one, rights);
            let reason = open(directory_to_open, true).map(|_| ()).unwrap_err();
            assert!(reason.contains(&format!("{} can be written", open_one.display())), "{reason}");
            assert!(reason.contains(&format!("mode {rights:04o}")), "{reason}");
            mode(open_one, 0o700);
        }
        assert_eq!(read_dir(&directory).unwrap().count(), 0);
        // Others cannot take the place of what is ours in such a one.
        mode(&above, 0o1777);
        assert!(open(&directory, true).unwrap().is_some());
        mode(&directory.join(CODE), 0o750);
        let reason = open(&directory, true).map(|_| ()).unwrap_err();
        assert!(reason.contains("is open to other users (mode 0750)"), "{reason}");
    }

    /// Only root can give something away.
    #[test]
    fn directories_of_other_users_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("a");
        create_dir(&directory).unwrap();
        if !rustix::process::geteuid().is_root() {
            let reason = check_trusted(Path::new("/root")).and(check_private(Path::new("/"))).unwrap_err();
            return assert!(reason.contains("belongs to another user"), "{reason}");
        }
        std::os::unix::fs::chown(&directory, Some(65_534), None).unwrap();
        let reason = open(&directory, true).map(|_| ()).unwrap_err();
        assert!(reason.contains("belongs to another user"), "{reason}");
        assert_eq!(read_dir(&directory).unwrap().count(), 0);
    }

    #[test]
    fn an_unusable_directory_is_an_error_only_if_explicit() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let directory = file.path().join("a");
        assert!(open(&directory, false).unwrap().is_none());
        let reason = open(&directory, true).map(|_| ()).unwrap_err();
        assert!(reason.contains(&format!("{} cannot be used (", directory.display())), "{reason}");
    }
}
