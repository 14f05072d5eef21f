//! Splits the output of a handler into lines.

/// Maximum bytes of a line. Longer lines are split.
const MAX_LINE: usize = 4096;

type LineCallback = Box<dyn FnMut(String) + Send>;

/// Splits the bytes that are written to it into lines, and passes each line to a callback.
///
/// Invalid UTF-8 is replaced. An unterminated last line is passed when this is dropped.
pub struct Lines {
    on_line: LineCallback,
    line: Vec<u8>,
    /// True if `line` continues a line that was split.
    is_continuation: bool,
}

impl Lines {
    /// Creates a splitter that passes each line to `on_line`.
    pub fn new(on_line: impl FnMut(String) + Send + 'static) -> Self {
        Self { on_line: Box::new(on_line), line: Vec::new(), is_continuation: false }
    }

    /// Takes bytes, which may end in the middle of a line.
    pub fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if byte == b'\n' {
                self.emit_line();
                continue;
            }
            self.line.push(byte);
            // Only now it is certain that the line continues.
            if self.line.len() > MAX_LINE {
                self.emit_part();
            }
        }
    }

    /// Passes the longest possible part of the line, without splitting a character.
    fn emit_part(&mut self) {
        let is_continuation_byte = |at: &usize| self.line[*at] & 0b1100_0000 == 0b1000_0000;
        // A character has at most four bytes.
        let end = (MAX_LINE - 3..=MAX_LINE)
            .rev()
            .find(|at| !is_continuation_byte(at))
            .unwrap_or(MAX_LINE);
        (self.on_line)(String::from_utf8_lossy(&self.line[..end]).into_owned());
        self.line.drain(..end);
        self.is_continuation = true;
    }

    fn emit_line(&mut self) {
        let line = String::from_utf8_lossy(&self.line).trim_end_matches('\r').to_owned();
        self.line.clear();
        // An empty rest of a split line is only its end.
        if !(std::mem::take(&mut self.is_continuation) && line.is_empty()) {
            (self.on_line)(line);
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        if !self.line.is_empty() {
            self.emit_line();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    fn lines_of(chunks: &[&[u8]]) -> Vec<String> {
        let received = Arc::new(Mutex::new(Vec::new()));
        let sink = received.clone();
        let mut lines = Lines::new(move |line| sink.lock().unwrap().push(line));
        for chunk in chunks {
            lines.write(chunk);
        }
        drop(lines);
        Arc::into_inner(received).unwrap().into_inner().unwrap()
    }

    #[test]
    fn lines_are_joined_split_and_ended() {
        assert_eq!(lines_of(&[b"a", b"b\nc\r\n\nd"]), ["ab", "c", "", "d"]);
        assert_eq!(lines_of(&[b"x\n"]), ["x"]);
        assert_eq!(lines_of(&[b"\xff\n"]), ["\u{fffd}"]);
    }

    #[test]
    fn a_long_line_is_cut_and_nothing_is_added_or_lost() {
        let long = |bytes: usize| "x".repeat(bytes);
        for (text, expected) in [
            (long(MAX_LINE + 1), vec![long(MAX_LINE), long(1)]),
            (long(MAX_LINE) + "\n", vec![long(MAX_LINE)]),
            (long(2 * MAX_LINE) + "\r\ny", vec![long(MAX_LINE), long(MAX_LINE), "y".to_owned()]),
            (long(MAX_LINE) + "\n\n", vec![long(MAX_LINE), String::new()]),
            (long(MAX_LINE - 1) + "\ry\n", vec![long(MAX_LINE - 1) + "\r", "y".to_owned()]),
            (long(MAX_LINE) + "\ry\n", vec![long(MAX_LINE), "\ry".to_owned()]),
        ] {
            assert_eq!(lines_of(&[text.as_bytes()]), expected);
        }
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        for character in ["é", "€", "😀"] {
            for before in 0..character.len() {
                let text = "x".repeat(before) + &character.repeat(MAX_LINE);
                let lines = lines_of(&[text.as_bytes()]);
                assert_eq!(lines.concat(), text);
                let full = &lines[..lines.len() - 1];
                assert!(
                    full.iter().all(|line| line.len() > MAX_LINE - 4 && line.len() <= MAX_LINE)
                );
            }
        }
        // No character has that many continuation bytes.
        let lines = lines_of(&[&[0x80; MAX_LINE + 1]]);
        assert_eq!(lines, ["\u{fffd}".repeat(MAX_LINE), "\u{fffd}".to_owned()]);
    }
}
