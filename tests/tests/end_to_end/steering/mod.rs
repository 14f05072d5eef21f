//! Operators steer real `tenure run` processes: resign, transfer, pause, resume, break.

mod address;
mod daemon;
mod mistakes;
mod orders;
mod stage;
mod transfers;
