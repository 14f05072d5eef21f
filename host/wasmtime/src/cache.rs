//! The directory of compiled code, and the check of its permissions. Compiled code is machine code
//! and runs with all rights of this process.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use wasmtime::component::Component;
use wasmtime::{Cache, CacheConfig};

/// The subdirectory with the code. It is created for this user only. So other users have put
/// nothing there, even if the directory above was once open to them.
const CODE: &str = "code";

/// Returns the default directory: `TENURE_CACHE_DIR`, else `tenure` below `XDG_CACHE_HOME` or
/// `~/.cache`. The flag is true if `TENURE_CACHE_DIR` names the directory explicitly.
pub(super) fn default_directory() -> Option<(PathBuf, bool)> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(directory) = variable("TENURE_CACHE_DIR") {
        return Some((directory.into(), true));
    }
    let user_cache = variable("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(Path::new(&variable("HOME")?).join(".cache")))?;
    Some((user_cache.join("tenure"), false))
}

/// The cache of an engine. Clones share everything.
#[derive(Clone, Default)]
pub(super) struct CodeCache {
    cache: Option<Cache>,
    /// The reason why there is no cache, unless it is the lack of a default directory.
    problem: Option<Arc<str>>,
    /// The directory, if this user cannot write to it, as in the read-only image of a container.
    read_only: Option<Arc<Path>>,
    /// The number of components that were loaded, whether or not the cache had their code.
    loaded: Arc<AtomicUsize>,
}

impl CodeCache {
    /// Opens the cache in a directory. The flag is true if the directory is explicit.
    pub(super) fn open(directory: Option<(&Path, bool)>) -> Self {
        match directory.map(|(directory, is_explicit)| open(directory, is_explicit)).transpose() {
            Ok(cache) => {
                let cache = cache.flatten();
                let directory = cache.as_ref().map(Cache::directory);
                let read_only = directory.filter(|directory| !is_writable(directory));
                let read_only = read_only.map(|directory| directory.as_path().into());
                Self { cache, read_only, ..Self::default() }
            }
            Err(reason) => Self { problem: Some(reason.into()), ..Self::default() },
        }
    }

    /// Returns the cache for the configuration of an engine.
    pub(super) fn wasmtime(&self) -> Option<Cache> {
        self.cache.clone()
    }

    /// Takes the code of a component from the cache, or compiles the component. `engine` uses this
    /// cache.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be compiled.
    pub(super) fn load(
        &self,
        engine: &wasmtime::Engine,
        binary: &[u8],
    ) -> wasmtime::Result<Component> {
        let component = Component::from_binary(engine, binary)?;
        self.loaded.fetch_add(1, Ordering::Relaxed);
        Ok(component)
    }

    /// Returns the reason why components that were loaded are compiled at each start.
    pub(super) fn problem(&self) -> Option<String> {
        if let Some(problem) = &self.problem {
            return Some(problem.to_string());
        }
        let (cache, directory) = self.cache.as_ref().zip(self.read_only.as_ref())?;
        let loaded = self.loaded.load(Ordering::Relaxed);
        let compiled = loaded.saturating_sub(cache.cache_hits());
        (compiled > 0).then(|| {
            format!(
                "{compiled} of {loaded} components are compiled at each start: {} does not have their \
                 code and cannot be written; run tenure check --offline with the same handlers when \
                 the image is built, or set TENURE_CACHE_DIR to a directory that this user can write",
                directory.display()
            )
        })
    }
}

/// Opens the cache in `directory`, which is created if missing. Returns `None` if that fails and
/// the directory is not explicit.
///
/// # Errors
///
/// Returns an error if other users could write code there, or if an explicit directory cannot be
/// created. The text names the directory and the remedy.
fn open(directory: &Path, is_explicit: bool) -> Result<Option<Cache>, String> {
    let Ok(directory) = std::path::absolute(directory) else { return Ok(None) };
    // No directory is created where other users could replace it.
    let existing = directory.ancestors().find_map(|part| part.canonicalize().ok());
    if let Some(existing) = existing {
        check_trusted(&existing)?;
    }
    let code = match create_private(&directory.join(CODE)) {
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

/// Creates a private directory with its missing parents. Returns its path without links.
fn create_private(directory: &Path) -> io::Result<PathBuf> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)?;
    directory.canonicalize()
}

/// Checks that a directory belongs to this user and is closed to other users.
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

/// Checks that only this user and root can replace a directory and its contents, here and in all
/// directories above. In a sticky directory, like /tmp, only the owner of an entry can replace it.
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

#[cfg(unix)]
fn is_writable(directory: &Path) -> bool {
    rustix::fs::access(directory, rustix::fs::Access::WRITE_OK).is_ok()
}

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
        "compiled code is not cached: {directory} {reason}, and other users who can write there could run any code here; set \
         TENURE_CACHE_DIR to a directory that only this user can write (chmod 700)"
    )
}

#[cfg(not(unix))]
fn is_writable(_: &Path) -> bool {
    true
}

/// Permissions are not checked on this system.
#[cfg(not(unix))]
fn check_private(_: &Path) -> Result<(), String> {
    Ok(())
}

#[cfg(not(unix))]
fn check_trusted(_: &Path) -> Result<(), String> {
    Ok(())
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use std::fs::{Permissions, create_dir, read_dir, set_permissions};
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    fn set_mode(path: &Path, mode: u32) {
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
        // Other users may list the directory, but cannot read its private subdirectory.
        set_mode(&directory, 0o755);
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
            set_mode(open_one, rights);
            let reason = open(directory_to_open, true).map(|_| ()).unwrap_err();
            assert!(reason.contains(&format!("{} can be written", open_one.display())), "{reason}");
            assert!(reason.contains(&format!("mode {rights:04o}")), "{reason}");
            set_mode(open_one, 0o700);
        }
        assert_eq!(read_dir(&directory).unwrap().count(), 0);
        // In a sticky directory, other users cannot replace this user's entries.
        set_mode(&above, 0o1777);
        assert!(open(&directory, true).unwrap().is_some());
        set_mode(&directory.join(CODE), 0o750);
        let reason = open(&directory, true).map(|_| ()).unwrap_err();
        assert!(reason.contains("is open to other users (mode 0750)"), "{reason}");
    }

    /// Only root can change the owner.
    #[test]
    fn directories_of_other_users_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("a");
        create_dir(&directory).unwrap();
        if !rustix::process::geteuid().is_root() {
            let reason =
                check_trusted(Path::new("/root")).and(check_private(Path::new("/"))).unwrap_err();
            return assert!(reason.contains("belongs to another user"), "{reason}");
        }
        std::os::unix::fs::chown(&directory, Some(65_534), None).unwrap();
        let reason = open(&directory, true).map(|_| ()).unwrap_err();
        assert!(reason.contains("belongs to another user"), "{reason}");
        assert_eq!(read_dir(&directory).unwrap().count(), 0);
    }

    #[test]
    fn a_read_only_cache_names_what_it_lacks() {
        const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";
        let folder = tempfile::tempdir().unwrap();
        let load = |read_only: bool, binary: &[u8]| {
            let mut cache = CodeCache::open(Some((folder.path(), true)));
            assert!(cache.read_only.is_none());
            // The test may run as root, who can write to every directory.
            cache.read_only = read_only.then(|| folder.path().into());
            let mut config = wasmtime::Config::new();
            let engine = wasmtime::Engine::new(config.cache(cache.wasmtime())).unwrap();
            cache.load(&engine, binary).unwrap();
            cache.problem()
        };
        assert_eq!(load(false, EMPTY), None, "the code is kept");
        assert_eq!(load(true, EMPTY), None, "the cache has the code");
        // The same with a section that only names something.
        let other = [EMPTY, b"\0\x02\x01x"].concat();
        let problem = load(true, &other).unwrap();
        let directory = folder.path().display();
        assert!(problem.starts_with("1 of 1 components are compiled"), "{problem}");
        assert!(problem.contains(&format!("{directory} does not have")), "{problem}");
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
