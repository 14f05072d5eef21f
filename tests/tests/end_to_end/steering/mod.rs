//! Operators give orders to real `tenure run` processes: `transfer`, `trigger`, `break`.

mod address;
mod daemon;
mod mistakes;
mod orders;
mod stage;
mod transfers;
