//! Real `tenure run` processes whose work is a command: what it sees, how its turns end, and that it is
//! dead before anybody else may lead.

mod ends;
mod faults;
mod processes;
mod round;
mod settings;
mod stage;
mod turns;
