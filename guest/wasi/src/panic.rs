//! Panic handler: writes the message and its place to standard error, which a host adds to its log,
//! and then traps.

use core::arch::wasm32::unreachable;
use core::fmt::{self, Write};
use core::panic::PanicInfo;
use wasip2::cli::stderr::get_stderr;
use wasip2::io::streams::OutputStream;

/// Maximum bytes that a stream accepts at once.
const MAX_CHUNK: usize = 4096;

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    // A failed write is ignored. Nothing is allocated: there may be no memory left.
    let _ = writeln!(Stderr(get_stderr()), "{info}");
    unreachable()
}

struct Stderr(OutputStream);

impl Write for Stderr {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut pieces = text.as_bytes().chunks(MAX_CHUNK);
        pieces.try_for_each(|piece| self.0.blocking_write_and_flush(piece).map_err(|_| fmt::Error))
    }
}
