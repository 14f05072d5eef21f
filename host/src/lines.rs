//! Bytes of somebody else's as lines.

/// Longer lines are cut into lines of this many bytes.
const LINE: usize = 4096;

type Take = Box<dyn FnMut(String) + Send>;

/// Hands each line of what is written to it to a function. Bytes that are not UTF-8 are replaced.
/// The last line needs no end: it is handed over when this is dropped.
pub(crate) struct Lines {
    take: Take,
    line: Vec<u8>,
}

impl Lines {
    pub(crate) fn new(take: impl FnMut(String) + Send + 'static) -> Self {
        Self { take: Box::new(take), line: Vec::new() }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if byte == b'\n' {
                self.end();
            } else {
                self.line.push(byte);
                if self.line.len() == LINE {
                    self.end();
                }
            }
        }
    }

    fn end(&mut self) {
        let line = String::from_utf8_lossy(&self.line).trim_end_matches('\r').to_owned();
        self.line.clear();
        (self.take)(line);
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
    fn a_long_line_is_cut() {
        let lines = written(&[&[b'x'; LINE + 1]]);
        assert_eq!(lines.iter().map(String::len).collect::<Vec<_>>(), [LINE, 1]);
    }
}
