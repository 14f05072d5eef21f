//! Files with secrets that other users of this machine may read.

use crate::complaint::shown;
use std::path::Path;

/// What to tell of a file with a secret, when others may read it: its mode lets them, and that of each
/// directory above it.
#[cfg(unix)]
pub(super) fn warning(file: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;
    const READ: u32 = 0o004;
    const ENTER: u32 = 0o001;
    // Whatever cannot be looked at is told elsewhere.
    let mode = |path: &Path| std::fs::metadata(path).ok().map(|known| known.mode() & 0o7777);
    let there = file.canonicalize().ok()?;
    let own = mode(&there)?;
    let lets = |path: &Path, right| mode(path).is_some_and(|mode| mode & right != 0);
    let reached = there.ancestors().skip(1).all(|directory| lets(directory, ENTER));
    (own & READ != 0 && reached).then(|| {
        format!(
            "every user of this machine may read {}, which holds a secret (mode {own:04o}): chmod it to 600, or to \
             640 for a group that needs it",
            shown(&file.to_string_lossy())
        )
    })
}

#[cfg(not(unix))]
pub(super) fn warning(_: &Path) -> Option<String> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::fs::{Permissions, create_dir, set_permissions, write};
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_secret_is_for_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let mode = |path: &Path, mode| set_permissions(path, Permissions::from_mode(mode)).unwrap();
        mode(folder.path(), 0o711);
        let directory = folder.path().join("d");
        let file = directory.join("token");
        create_dir(&directory).unwrap();
        write(&file, "x").unwrap();
        for (of_directory, of_file, told) in [
            (0o755, 0o644, true),
            (0o755, 0o604, true),
            (0o755, 0o640, false),
            (0o755, 0o600, false),
            (0o700, 0o644, false),
        ] {
            mode(&directory, of_directory);
            mode(&file, of_file);
            let warned = warning(&file);
            assert_eq!(warned.is_some(), told, "{of_directory:o} {of_file:o}");
            assert!(warned.is_none_or(|text| text.contains(&format!("mode {of_file:04o}"))));
        }
        assert_eq!(warning(&directory.join("none")), None);
    }
}
