//! Functions for fuzzing what the program reads. They panic when a property does not hold.

use crate::settings::complaints_in;
#[cfg(unix)]
use tenure_supervisor::round_trips;

/// A settings file. Each complaint names its place.
pub fn settings_file(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    for complaint in complaints_in(text) {
        assert!(complaint.source.starts_with("t.toml:"), "{complaint}");
        let message = complaint.to_string();
        assert!(!message.contains(|c: char| c.is_control() && c != '\n'), "{message:?}");
    }
}

/// A line between the runner and its supervisors, or the stream of a leader. What is read from a line is the same after it
/// was written and read again.
pub fn messages(data: &[u8]) {
    let _ = tenure_server::watch::accepts_stream(data);
    #[cfg(unix)]
    for line in String::from_utf8_lossy(data).lines() {
        for written in round_trips(line) {
            let again = round_trips(written.trim_end());
            assert!(again.contains(&written), "{line:?}: {written:?} is {again:?}");
        }
    }
}
