//! Memory management, which the standard library usually provides on this target.

#![expect(unsafe_code, reason = "the function by which a host asks for memory")]

use alloc::alloc::{Layout, alloc, realloc};
use core::arch::wasm32::unreachable;
use core::ptr::without_provenance_mut;
use dlmalloc::GlobalDlmalloc;

#[global_allocator]
static MEMORY: GlobalDlmalloc = GlobalDlmalloc;

/// Allocates memory for the values that a host passes in. The canonical ABI names this export, and
/// only the standard library provides it on this target.
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
#[link(name = "c")]
unsafe extern "C" {}
