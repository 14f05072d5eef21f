//! The part of the `std` prelude that `core` lacks: the component is built without `std`.

pub use alloc::boxed::Box;
pub use alloc::string::{String, ToString};
pub use alloc::vec::Vec;
pub use alloc::{format, vec};
