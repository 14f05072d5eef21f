//! What the prelude of `std` has beside that of `core`: the component is built without `std`.

pub use alloc::boxed::Box;
pub use alloc::string::{String, ToString};
pub use alloc::vec::Vec;
pub use alloc::{format, vec};
