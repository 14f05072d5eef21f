//! Bytes of a handler as lines.

/// The most bytes of a line. A longer one is cut.
const LINE: usize = 4096;

type Take = Box<dyn FnMut(String) + Send>;

/// Hands each line of what is written to it to a function. Bytes that are not UTF-8 are replaced.
/// The last line needs no end: it is handed over when this is dropped.
pub struct Lines {
    take: Take,
    line: Vec<u8>,
    /// `line` continues one that was cut.
    cut: bool,
}

impl Lines {
    /// Each line is handed to `take`.
    pub fn new(take: impl FnMut(String) + Send + 'static) -> Self {
        Self { take: Box::new(take), line: Vec::new(), cut: false }
    }

    /// Takes bytes that may end in the middle of a line.
    pub fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if byte == b'\n' {
                self.end();
                continue;
            }
            self.line.push(byte);
            // Only now is it known that the line goes on.
            if self.line.len() > LINE {
                self.cut();
            }
        }
    }

    /// Hands over as much as a line may have, without parting a character.
    fn cut(&mut self) {
        let continues = |at: &usize| self.line[*at] & 0b1100_0000 == 0b1000_0000;
        // A character has at most four bytes.
        let at = (LINE - 3..=LINE).rev().find(|at| !continues(at)).unwrap_or(LINE);
        (self.take)(String::from_utf8_lossy(&self.line[..at]).into_owned());
        self.line.drain(..at);
        self.cut = true;
    }

    fn end(&mut self) {
        let line = String::from_utf8_lossy(&self.line).trim_end_matches('\r').to_owned();
        self.line.clear();
        // Nothing but the end of a line that was cut.
        if !(std::mem::take(&mut self.cut) && line.is_empty()) {
            (self.take)(line);
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        if !self.line.is_empty() {
            self.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    fn written(chunks: &[&[u8]]) -> Vec<String> {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = seen.clone();
        let mut lines = Lines::new(move |line| sink.lock().unwrap().push(line));
        for chunk in chunks {
            lines.write(chunk);
        }
        drop(lines);
        Arc::into_inner(seen).unwrap().into_inner().unwrap()
    }

    #[test]
    fn lines_are_joined_split_and_ended() {
        assert_eq!(written(&[b"a", b"b\nc\r\n\nd"]), ["ab", "c", "", "d"]);
        assert_eq!(written(&[b"x\n"]), ["x"]);
        assert_eq!(written(&[b"\xff\n"]), ["\u{fffd}"]);
    }

    #[test]
    fn a_long_line_is_cut_and_nothing_is_added_or_lost() {
        let long = |bytes: usize| "x".repeat(bytes);
        for (text, expected) in [
            (long(LINE + 1), vec![long(LINE), long(1)]),
            (long(LINE) + "\n", vec![long(LINE)]),
            (long(2 * LINE) + "\r\ny", vec![long(LINE), long(LINE), "y".to_owned()]),
            (long(LINE) + "\n\n", vec![long(LINE), String::new()]),
            (long(LINE - 1) + "\ry\n", vec![long(LINE - 1) + "\r", "y".to_owned()]),
            (long(LINE) + "\ry\n", vec![long(LINE), "\ry".to_owned()]),
        ] {
            assert_eq!(written(&[text.as_bytes()]), expected);
        }
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        for character in ["é", "€", "😀"] {
            for before in 0..character.len() {
                let text = "x".repeat(before) + &character.repeat(LINE);
                let lines = written(&[text.as_bytes()]);
                assert_eq!(lines.concat(), text);
                let full = &lines[..lines.len() - 1];
                assert!(full.iter().all(|line| line.len() > LINE - 4 && line.len() <= LINE));
            }
        }
        // No character goes on for so long.
        let lines = written(&[&[0x80; LINE + 1]]);
        assert_eq!(lines, ["\u{fffd}".repeat(LINE), "\u{fffd}".to_owned()]);
    }
}
