//! Work that is no part of this process: an application asks `/leader` or reads `/watch`, and acts by itself while
//! it is told that this candidate leads.
//!
//! Nothing here can stop it. So what it was told is kept: a leadership that is given up, at the end of the process
//! for example, is denied from then on, and goes on until the last instant up to which the application was told
//! that it may act (protocol.md §7.1: the lease is released when the work has stopped).

use super::board::Board;
use std::sync::Arc;
use std::time::Duration;
use tenure::Lease;
use tenure::handler::{BoxFuture, Handler, TurnEnd};
use tenure_clock::Clock;
use tenure_core::Turn;

/// The work of a leader that is an application's: [`Handler`] of a candidate with
/// [`Schedule::WhileLeading`](tenure::settings::Schedule::WhileLeading), whose [`Board`] a [`Server`](super::Server)
/// shows: the board must be told of each report and each event. Its turn ends by itself when the leadership is
/// about to be given up and all that the application was told has run out. Leave the runner's
/// [`grace`](tenure::engine::Runner::grace) as it is: with one that is shorter than a leader may act without a renewal
/// ([`Timings::by_lease`](tenure_core::Timings::by_lease)), the lease is released sooner, and the application must heed a
/// denial within that time.
///
/// Nobody preempts the application, and the candidate must leave no last will: its process may die while the
/// application goes on.
#[derive(Debug)]
pub struct Application<C> {
    board: Arc<Board>,
    clock: C,
}

impl<C: Clock> Application<C> {
    /// Creates the handler of an application that reads `/leader` or `/watch` of `board`.
    pub fn new(board: Arc<Board>, clock: C) -> Self {
        board.begin_application();
        Self { board, clock }
    }

    /// Completes when the leadership is to be given up, and no answer that allows the application to act is in
    /// force any more.
    async fn wait_until_over(&self) {
        let mut changed = self.board.changes();
        loop {
            changed.mark_unchanged();
            let until = self
                .board
                .state()
                .application
                .as_ref()
                .and_then(|allowance| (allowance.winding_down || allowance.leaving).then_some(allowance.expires_at));
            let expired = async {
                match until {
                    Some(until) => self.clock.sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = expired => return,
                // A board that was removed changes no more.
                true = async { changed.changed().await.is_ok() } => {}
            }
        }
    }
}

impl<C: Clock> Handler for Application<C> {
    fn on_tick(&self, turn: Turn, _: Lease) -> BoxFuture<'_, TurnEnd> {
        Box::pin(async move {
            let _permit = ActingPermit::begin(&self.board, turn.term);
            self.wait_until_over().await;
            TurnEnd::Succeeded
        })
    }

    /// As long as it takes: what it was told runs out with the validity of the last renewal.
    fn grace(&self) -> Duration {
        Duration::from_secs(60)
    }
}

/// As long as it lives, the application may be told that it may act.
struct ActingPermit<'b>(&'b Board);

impl<'b> ActingPermit<'b> {
    fn begin(board: &'b Board, term: u64) -> Self {
        board.set_term(Some(term));
        Self(board)
    }
}

impl Drop for ActingPermit<'_> {
    fn drop(&mut self) {
        self.0.set_term(None);
    }
}

#[cfg(test)]
mod tests;
