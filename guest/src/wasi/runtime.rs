//! What the standard library would bring, a third of a component of this size: memory, and the
//! end after a panic.

#![expect(unsafe_code, reason = "the canonical ABI asks for memory through a raw function")]

use alloc::alloc::{Layout, alloc, realloc};
use core::arch::wasm32::unreachable;
use core::panic::PanicInfo;
use core::ptr::without_provenance_mut;

/// Small, and it gives memory back, for hosts that keep an instance.
#[global_allocator]
static MEMORY: rlsf::SmallGlobalTlsf = rlsf::SmallGlobalTlsf::new();

/// A panic is a trap without words: the words, and the place of all that may panic, would be
/// 21 KB. Nothing is meant to panic.
#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    unreachable()
}

/// Where a host gets memory for what it passes in: an export that the canonical ABI names, and that
/// only the standard library brings on this target.
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
    // SAFETY: the canonical ABI promises a power of two in `align`, no more than an address space
    // in the lengths, and that `old` is what this function returned for `old_length` and `align`.
    let place = unsafe {
        match old_length {
            0 => alloc(Layout::from_size_align_unchecked(new_length, align)),
            _ => realloc(old, Layout::from_size_align_unchecked(old_length, align), new_length),
        }
    };
    if place.is_null() { unreachable() } else { place }
}

// `core` calls `memcmp`, which is in the C library of WASI.
#[link(name = "c")]
unsafe extern "C" {}
