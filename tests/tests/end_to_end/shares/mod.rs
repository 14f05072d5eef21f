//! Shares of split work, in the library, the program and the shipped component.

mod moves;
mod processes;
mod rounds;
mod shares_store;
mod partial_access;
mod rollout;
