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
pub(super) fn usual() -> Option<(PathBuf, bool)> {
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
pub(super) fn open(directory: &Path, named: bool) -> Result<Option<Cache>, String> {
    let Ok(directory) = std::path::absolute(directory) else { return Ok(None) };
    // Nothing is made where others could take its place.
    let there = directory.ancestors().find_map(|part| part.canonicalize().ok());
    if let Some(there) = there {
        trusted(&there)?;
    }
    let code = match make(&directory.join(CODE)) {
        Ok(code) => code,
        Err(error) if named => return Err(unusable(&directory, &error)),
        Err(_) => return Ok(None),
    };
    own(&code)?;
    code.parent().map_or(Ok(()), trusted)?;
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
fn own(directory: &Path) -> Result<(), String> {
    let (owner, mode) = facts(directory)?;
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
fn trusted(directory: &Path) -> Result<(), String> {
    const STICKY: u32 = 0o1000;
    let own = rustix::process::geteuid().as_raw();
    for part in directory.ancestors() {
        let (owner, mode) = facts(part)?;
        if owner != own && owner != 0 {
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
fn facts(directory: &Path) -> Result<(u32, u32), String> {
    use std::os::unix::fs::MetadataExt as _;
    match std::fs::metadata(directory) {
        Ok(known) => Ok((known.uid(), known.mode() & 0o7777)),
        Err(error) => Err(refusal(directory, &format!("cannot be examined: {error}"))),
    }
}

#[cfg(unix)]
fn refusal(directory: &Path, why: &str) -> String {
    let directory = directory.display();
    format!(
        "compiled code is not cached: {directory} {why}, and others who can write there could run any code here; set \
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
    fn what_is_made_is_for_this_user_alone() {
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
    fn what_others_can_write_is_refused_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (above, directory) = (folder.path().join("a"), folder.path().join("a/b"));
        create_dir(&above).unwrap();
        create_dir(&directory).unwrap();
        let link = folder.path().join("link");
        symlink(&directory, &link).unwrap();
        for (open_one, rights, asked) in [
            (&directory, 0o777, &directory),
            (&directory, 0o770, &directory),
            (&above, 0o777, &directory),
            (&above, 0o775, &directory),
            (&above, 0o777, &directory.join("new")),
            (&directory, 0o777, &link),
        ] {
            mode(open_one, rights);
            let why = open(asked, true).map(|_| ()).unwrap_err();
            assert!(why.contains(&format!("{} can be written", open_one.display())), "{why}");
            assert!(why.contains(&format!("mode {rights:04o}")), "{why}");
            mode(open_one, 0o700);
        }
        assert_eq!(read_dir(&directory).unwrap().count(), 0);
        // Others cannot take the place of what is ours in such a one.
        mode(&above, 0o1777);
        assert!(open(&directory, true).unwrap().is_some());
        mode(&directory.join(CODE), 0o750);
        let why = open(&directory, true).map(|_| ()).unwrap_err();
        assert!(why.contains("is open to other users (mode 0750)"), "{why}");
    }

    /// Only root can give something away.
    #[test]
    fn what_belongs_to_others_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("a");
        create_dir(&directory).unwrap();
        if !rustix::process::geteuid().is_root() {
            let why = trusted(Path::new("/root")).and(own(Path::new("/"))).unwrap_err();
            return assert!(why.contains("belongs to another user"), "{why}");
        }
        std::os::unix::fs::chown(&directory, Some(65_534), None).unwrap();
        let why = open(&directory, true).map(|_| ()).unwrap_err();
        assert!(why.contains("belongs to another user"), "{why}");
        assert_eq!(read_dir(&directory).unwrap().count(), 0);
    }

    #[test]
    fn what_cannot_be_made_is_gone_without_and_told_where_somebody_named_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let directory = file.path().join("a");
        assert!(open(&directory, false).unwrap().is_none());
        let why = open(&directory, true).map(|_| ()).unwrap_err();
        assert!(why.contains(&format!("{} cannot be used (", directory.display())), "{why}");
    }
}
