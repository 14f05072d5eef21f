//! Functions for fuzzing what the program reads. They panic when a property does not hold.

use crate::settings::complaints_of;
#[cfg(unix)]
use tenure_supervisor::reread;

/// A settings file. Each complaint names its place.
pub fn settings_file(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    for complaint in complaints_of(text) {
        assert!(complaint.source.starts_with("t.toml:"), "{complaint}");
        let shown = complaint.to_string();
        assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "{shown:?}");
    }
}

/// A line between the runner and its supervisors, or the stream of a leader. What is read from a line is the same after it
/// was written and read again.
pub fn messages(data: &[u8]) {
    let _ = tenure_server::watch::accepts_stream(data);
    #[cfg(unix)]
    for line in String::from_utf8_lossy(data).lines() {
        for written in reread(line) {
            let again = reread(written.trim_end());
            assert!(again.contains(&written), "{line:?}: {written:?} is {again:?}");
        }
    }
}
