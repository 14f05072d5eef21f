//! Shares of split work, in the library, the program and the shipped component.

mod hindered;
mod kept;
mod moves;
mod processes;
mod rolls;
mod rounds;
