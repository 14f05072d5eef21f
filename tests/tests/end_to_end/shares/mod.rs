//! Shares of work that is split, by the library, the program and the component that ships.

mod hindered;
mod kept;
mod moves;
mod processes;
mod rolls;
mod rounds;
