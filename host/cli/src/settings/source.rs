//! The text of the file, and positions in it.

use crate::complaint::{Complaint, redacted};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// One item of a value. A list has several.
#[derive(Clone)]
pub(crate) struct ValueItem {
    pub text: OsString,
    /// The position in the file. Empty for other origins.
    pub place: String,
}

/// The content of the file.
pub(super) struct SettingsFile {
    /// The name as it was given.
    name: String,
    pub text: String,
    /// The directory of the file. Relative paths refer to it.
    pub folder: PathBuf,
    /// Byte offsets of the lines, for the positions in lists with thousands of names.
    lines: Vec<usize>,
}

/// Maximum size in bytes, so that an endless file does no harm.
const MAX_BYTES: usize = 1024 * 1024;

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

impl SettingsFile {
    fn new(name: String, text: String, folder: PathBuf) -> Self {
        let later = text.match_indices('\n').map(|(end, _)| end + 1);
        let lines = std::iter::once(0).chain(later).collect();
        Self { name, text, folder, lines }
    }

    /// Reads the file that the setting `named_by` names.
    pub(super) fn read(path: &Path, named_by: &str) -> Result<Self, Complaint> {
        let name = redacted(&path.to_string_lossy());
        let complaint = |problem: String, advice: &str| {
            Complaint::new(format!("{named_by} {name}"), problem, advice)
        };
        let bytes = read(path).map_err(|error| {
            complaint(
                format!("the file cannot be read: {error}"),
                "name a file that this user may read",
            )
        })?;
        if bytes.len() > MAX_BYTES {
            let advice = "spread the elections over several processes: they are too many for one";
            return Err(complaint("the file is larger than 1 MiB".to_owned(), advice));
        }
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        match String::from_utf8(bytes) {
            // Some editors begin a file with a byte order mark.
            Ok(text) => {
                let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
                Ok(Self::new(name, text, folder))
            }
            Err(error) => {
                let valid_bytes = error.utf8_error().valid_up_to();
                let text = String::from_utf8_lossy(&error.as_bytes()[..valid_bytes]).into_owned();
                let place = Self::new(name, text, folder).place(valid_bytes);
                Err(Complaint::new(place, "this is not UTF-8", "save the file as UTF-8"))
            }
        }
    }

    /// Returns the position of a byte as `FILE:LINE:COLUMN`, counted from 1, with columns in
    /// characters.
    pub(super) fn place(&self, byte: usize) -> String {
        // The first line begins at 0.
        let line = self.lines.partition_point(|start| *start <= byte);
        let before = self.text.get(self.lines[line - 1]..byte).unwrap_or_default();
        self.format_location(line, before.chars().count() + 1)
    }

    /// Formats the position of a line and a column.
    pub(super) fn format_location(&self, line: usize, column: usize) -> String {
        format!("{}:{line}:{column}", self.name)
    }

    /// Creates a file from a text, for tests and fuzzing.
    pub(super) fn from_text(text: &str) -> Self {
        Self::new("t.toml".into(), text.to_owned(), "/etc".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_as_people_count_them() {
        let source = SettingsFile::from_text("a\nüü = 1\n");
        for (byte, place) in
            [(0, "1:1"), (1, "1:2"), (2, "2:1"), (6, "2:3"), (11, "3:1"), (99, "3:1")]
        {
            assert_eq!(source.place(byte), format!("t.toml:{place}"), "{byte}");
        }
    }

    #[test]
    fn invalid_utf8_is_reported_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.toml");
        std::fs::write(&file, b"a = 1\nb = \"\xff\"\n").unwrap();
        let complaint = SettingsFile::read(&file, "--config").err().unwrap();
        assert_eq!(complaint.source, format!("{}:2:6", file.display()));
        let complaint = SettingsFile::read(folder.path(), "TENURE_CONFIG").err().unwrap();
        assert_eq!(complaint.source, format!("TENURE_CONFIG {}", folder.path().display()));
        assert!(complaint.problem.starts_with("the file cannot be read: "), "{complaint:?}");
        std::fs::write(&file, vec![b'#'; MAX_BYTES]).unwrap();
        assert!(SettingsFile::read(&file, "--config").is_ok());
        std::fs::write(&file, vec![b'#'; MAX_BYTES + 1]).unwrap();
        let complaint = SettingsFile::read(&file, "--config").err().unwrap();
        assert_eq!(complaint.problem, "the file is larger than 1 MiB");
    }
}
