//! Real `tenure run` processes with a command as work: its environment, the ends of its turns, and
//! its death before another candidate may lead.

mod faults;
mod processes;
mod round;
mod settings;
mod stage;
mod turn_ends;
mod turns;
