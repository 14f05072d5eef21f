//! Standard output and standard error of a guest, line by line.

use bytes::Bytes;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};

/// Longer lines are cut into lines of this many bytes.
const LINE: usize = 4096;

/// What the guest may write at a time, in bytes. More is a trap: it is held in memory here.
const PERMIT: usize = 64 * 1024;

type Take = Box<dyn FnMut(String) + Send>;

/// A stream of which each line is handed to a function. Bytes that are not UTF-8 are replaced.
/// The last line needs no end: it is handed over when the stream is dropped.
#[derive(Clone)]
pub(crate) struct Output(Arc<Mutex<Lines>>);

struct Lines {
    take: Take,
    line: Vec<u8>,
}

impl Output {
    pub(crate) fn new(take: impl FnMut(String) + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Lines { take: Box::new(take), line: Vec::new() })))
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lines {
    fn write(&mut self, bytes: &[u8]) {
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

impl IsTerminal for Output {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Output {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        // Only asked for by WASI 0.3, which is not linked.
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

impl OutputStream for Output {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        if bytes.len() > PERMIT {
            return Err(StreamError::trap("it wrote more at once than the stream takes"));
        }
        self.lines().write(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(PERMIT)
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for Output {
    async fn ready(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(chunks: &[&[u8]]) -> Vec<String> {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = seen.clone();
        let mut output = Output::new(move |line| sink.lock().unwrap().push(line));
        for chunk in chunks {
            output.write(Bytes::copy_from_slice(chunk)).unwrap();
        }
        drop(output);
        Arc::into_inner(seen).unwrap().into_inner().unwrap()
    }

    #[test]
    fn lines_are_joined_split_and_ended() {
        assert_eq!(written(&[b"a", b"b\nc\r\n\nd"]), ["ab", "c", "", "d"]);
        assert_eq!(written(&[b"x\n"]), ["x"]);
        assert_eq!(written(&[b"\xff\n"]), ["\u{fffd}"]);
    }

    #[test]
    fn more_than_was_permitted_is_a_trap() {
        let mut output = Output::new(|_| {});
        assert_eq!(output.check_write().unwrap(), PERMIT);
        output.write(vec![b'x'; PERMIT].into()).unwrap();
        let refused = output.write(vec![b'x'; PERMIT + 1].into());
        assert!(matches!(refused, Err(StreamError::Trap(_))), "{refused:?}");
    }

    #[test]
    fn a_long_line_is_cut() {
        let lines = written(&[&[b'x'; LINE + 1]]);
        assert_eq!(lines.iter().map(String::len).collect::<Vec<_>>(), [LINE, 1]);
    }
}
