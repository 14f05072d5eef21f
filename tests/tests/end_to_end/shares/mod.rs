//! Shares of split work, in the library, the program and the shipped component.

mod moves;
mod partial_access;
mod processes;
mod rollout;
mod rounds;
mod shares_store;
