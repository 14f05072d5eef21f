//! Standard output and standard error of a guest, line by line.

use bytes::Bytes;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tenure::engine::Lines;
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};

/// Maximum size of one write, in bytes. A larger one traps, because the host holds it in memory.
const MAX_WRITE: usize = 64 * 1024;

/// A stream that passes its [`Lines`] to a function.
#[derive(Clone)]
pub(crate) struct Output(Arc<Mutex<Lines>>);

impl Output {
    pub(crate) fn new(on_line: impl FnMut(String) + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Lines::new(on_line))))
    }

    /// Redirects further output to the destination of `replacement`, which must have no clone.
    pub(super) fn redirect(&self, replacement: Self) {
        if let Ok(lines) = Arc::try_unwrap(replacement.0) {
            *self.lines() = lines.into_inner().unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IsTerminal for Output {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Output {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        // Only WASI 0.3 uses it, which is not linked.
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

impl OutputStream for Output {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        if bytes.len() > MAX_WRITE {
            return Err(StreamError::trap("it wrote more at once than the stream takes"));
        }
        self.lines().write(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(MAX_WRITE)
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for Output {
    async fn ready(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_was_permitted_is_a_trap() {
        let mut output = Output::new(|_| {});
        assert_eq!(output.check_write().unwrap(), MAX_WRITE);
        output.write(vec![b'x'; MAX_WRITE].into()).unwrap();
        let refused = output.write(vec![b'x'; MAX_WRITE + 1].into());
        assert!(matches!(refused, Err(StreamError::Trap(_))), "{refused:?}");
    }
}
