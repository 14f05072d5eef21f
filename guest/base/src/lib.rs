//! Small utilities that the crates of Tenure share: durations, JSON, texts. They are independent of
//! elections and of the standard library, which would make the components a third larger.

#![deny(missing_docs)]
#![cfg_attr(target_family = "wasm", no_std)]

extern crate alloc;

pub mod duration;
pub mod json;
pub mod text;

/// The part of the `std` prelude that `core` lacks: the component is built without `std`.
pub mod prelude {
    pub use alloc::boxed::Box;
    pub use alloc::string::{String, ToString};
    pub use alloc::vec::Vec;
    pub use alloc::{format, vec};
}
