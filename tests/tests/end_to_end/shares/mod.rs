//! Shares of work that is split, by the library and the component that ships.

mod kept;
mod moves;
