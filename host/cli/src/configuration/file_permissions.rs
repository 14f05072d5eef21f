//! Files with secrets that other users of this machine may read.

use crate::complaint::redacted;
use std::path::Path;

/// Returns a warning if other users may read a file with a secret: its mode permits it, and they
/// may enter each directory above it.
#[cfg(unix)]
pub(in crate::configuration) fn warning(file: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;
    const READ: u32 = 0o004;
    const ENTER: u32 = 0o001;
    // Other code reports files that cannot be read.
    let mode = |path: &Path| std::fs::metadata(path).ok().map(|known| known.mode() & 0o7777);
    let resolved = file.canonicalize().ok()?;
    let file_mode = mode(&resolved)?;
    let grants = |path: &Path, right| mode(path).is_some_and(|mode| mode & right != 0);
    let is_reachable = resolved.ancestors().skip(1).all(|directory| grants(directory, ENTER));
    (file_mode & READ != 0 && is_reachable).then(|| {
        format!(
            "every user of this machine may read {}, which holds a secret (mode {file_mode:04o}): chmod it to 600, or to \
             640 for a group that needs it",
            redacted(&file.to_string_lossy())
        )
    })
}

#[cfg(not(unix))]
pub(in crate::configuration) fn warning(_: &Path) -> Option<String> {
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
        for (directory_mode, file_mode, expected) in [
            (0o755, 0o644, true),
            (0o755, 0o604, true),
            (0o755, 0o640, false),
            (0o755, 0o600, false),
            (0o700, 0o644, false),
        ] {
            mode(&directory, directory_mode);
            mode(&file, file_mode);
            let warned = warning(&file);
            assert_eq!(warned.is_some(), expected, "{directory_mode:o} {file_mode:o}");
            assert!(warned.is_none_or(|text| text.contains(&format!("mode {file_mode:04o}"))));
        }
        assert_eq!(warning(&directory.join("none")), None);
    }
}
