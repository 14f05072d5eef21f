//! What the standard library would bring, a third of a component of this size: memory, and the
//! end after a panic.

#![expect(
    unsafe_code,
    reason = "an allocator, and the raw function by which a host asks for memory"
)]

use alloc::alloc::{GlobalAlloc, Layout, alloc, realloc};
use core::arch::wasm32::{memory_grow, memory_size, unreachable};
use core::cell::Cell;
use core::panic::PanicInfo;
use core::ptr::{
    copy_nonoverlapping, null_mut, with_exposed_provenance_mut, without_provenance_mut,
};

#[global_allocator]
static MEMORY: Heap = Heap { next: Cell::new(0), live: Cell::new(0) };

/// Memory for one call: handed out in a row, and taken back all at once when the last piece is
/// given back, since nothing outlives a call. What grew last can grow on and be given back at once.
struct Heap {
    /// Where the free memory begins; 0 before the first use.
    next: Cell<usize>,
    /// Pieces handed out.
    live: Cell<usize>,
}

// SAFETY: there is one thread.
unsafe impl Sync for Heap {}

// The linker's: where static data ends.
unsafe extern "C" {
    static __heap_base: u8;
}

impl Heap {
    /// Makes the memory end at `end` or later.
    fn reach(&self, end: usize) -> bool {
        const PAGE: usize = 64 * 1024;
        let missing = end.saturating_sub(memory_size::<0>() * PAGE);
        missing == 0 || memory_grow::<0>(missing.div_ceil(PAGE)) != usize::MAX
    }
}

// SAFETY: pieces lie between `__heap_base` and the end of memory, one after the other.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if self.live.get() == 0 {
            self.next.set((&raw const __heap_base).addr());
        }
        let start = self.next.get().next_multiple_of(layout.align());
        let Some(end) = start.checked_add(layout.size()).filter(|&end| self.reach(end)) else {
            return null_mut();
        };
        self.next.set(end);
        self.live.set(self.live.get() + 1);
        with_exposed_provenance_mut(start)
    }

    // In one place: it is called in very many.
    #[inline(never)]
    unsafe fn dealloc(&self, piece: *mut u8, layout: Layout) {
        self.live.set(self.live.get() - 1);
        if piece.addr() + layout.size() == self.next.get() {
            self.next.set(piece.addr());
        }
    }

    unsafe fn realloc(&self, piece: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let last = piece.addr() + layout.size() == self.next.get();
        if let Some(end) = piece.addr().checked_add(size)
            && last
            && self.reach(end)
        {
            self.next.set(end);
            return piece;
        }
        // SAFETY: as the caller promises; old and new piece are apart.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                copy_nonoverlapping(piece, new, layout.size().min(size));
                self.dealloc(piece, layout);
            }
            new
        }
    }
}

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
