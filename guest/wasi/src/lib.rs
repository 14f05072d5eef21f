//! The part of WASI that the components of Tenure share: memory, panic messages, and sending a
//! request.
//!
//! The components are built without the standard library, which would be a third of each. This
//! crate replaces the parts that they need. On native targets it is empty.

#![cfg(target_family = "wasm")]
#![deny(missing_docs)]
#![no_std]

extern crate alloc;

mod transport;

pub use transport::{nanos, send};

use alloc::alloc::{Layout, alloc, realloc};
use core::arch::wasm32::unreachable;
use core::fmt::{self, Write};
use core::panic::PanicInfo;
use core::ptr::without_provenance_mut;
use dlmalloc::GlobalDlmalloc;
use wasip2::cli::stderr::get_stderr;
use wasip2::io::streams::OutputStream;

#[global_allocator]
static MEMORY: GlobalDlmalloc = GlobalDlmalloc;

/// Allocates memory for the values that a host passes in. The canonical ABI requires this export,
/// which the standard library would otherwise provide.
#[expect(unsafe_code, reason = "the function by which a host asks for memory")]
#[unsafe(no_mangle)]
unsafe extern "C" fn cabi_realloc(
    old: *mut u8,
    old_length: usize,
    align: usize,
    new_length: usize,
) -> *mut u8 {
    if new_length == 0 {
        return without_provenance_mut(align);
    }
    // SAFETY: the canonical ABI guarantees a power of two in `align` and lengths within the address
    // space. It also guarantees that `old` was returned by this function for `old_length` and
    // `align`.
    let place = unsafe {
        match old_length {
            0 => alloc(Layout::from_size_align_unchecked(new_length, align)),
            _ => realloc(old, Layout::from_size_align_unchecked(old_length, align), new_length),
        }
    };
    // No message: no host function may be called here.
    if place.is_null() { unreachable() } else { place }
}

// `core` calls `memcmp`, which is in the C library of WASI.
#[expect(unsafe_code, reason = "it declares no function")]
#[link(name = "c")]
unsafe extern "C" {}

/// Maximum bytes that a stream accepts in one call.
const MAX_CHUNK: usize = 4096;

/// Writes the message and its place to standard error, which a host adds to its log, and then
/// traps.
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
