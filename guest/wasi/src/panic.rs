//! The end of a component that panics: its words and their place go to standard error, which a host puts
//! into its log, and then it traps.

use core::arch::wasm32::unreachable;
use core::fmt::{self, Write};
use core::panic::PanicInfo;
use wasip2::cli::stderr::get_stderr;
use wasip2::io::streams::OutputStream;

/// As much a stream takes at once.
const PIECE: usize = 4096;

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    // Nobody reading it changes nothing. Nothing is allocated: there may be no memory left.
    let _ = writeln!(Words(get_stderr()), "{info}");
    unreachable()
}

struct Words(OutputStream);

impl Write for Words {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut pieces = text.as_bytes().chunks(PIECE);
        pieces.try_for_each(|piece| self.0.blocking_write_and_flush(piece).map_err(|_| fmt::Error))
    }
}
