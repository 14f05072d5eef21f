//! Memory, as the standard library would have it on this target.

#![expect(unsafe_code, reason = "the function by which a host asks for memory")]

use alloc::alloc::{Layout, alloc, realloc};
use core::arch::wasm32::unreachable;
use core::ptr::without_provenance_mut;
use dlmalloc::GlobalDlmalloc;

#[global_allocator]
static MEMORY: GlobalDlmalloc = GlobalDlmalloc;

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
    // No words: in here nothing of the host's may be called.
    if place.is_null() { unreachable() } else { place }
}

// `core` calls `memcmp`, which is in the C library of WASI.
#[link(name = "c")]
unsafe extern "C" {}
