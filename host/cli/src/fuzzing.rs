//! Functions for fuzzing the parsers of the program. They panic if a property does not hold.

use crate::settings::complaints_in;
#[cfg(unix)]
use tenure_supervisor::round_trips;

/// Parses a settings file, and checks that each complaint names its place.
pub fn settings_file(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    for complaint in complaints_in(text) {
        assert!(complaint.source.starts_with("t.toml:"), "{complaint}");
        let message = complaint.to_string();
        assert!(!message.contains(|c: char| c.is_control() && c != '\n'), "{message:?}");
    }
}

/// Parses messages between the runner and its supervisors, and the stream of a leader. Checks that
/// a parsed line stays the same when it is written and parsed again.
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
